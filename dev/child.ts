import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { identify, isAlive, type ProcessId, signal, stopProcess } from './process.ts';

/** How a server process is started. */
export interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Standard output and error go here; the file is begun anew at each start, so that it cannot grow for ever. */
  readonly logFile: string;
  /** What asks this program for an orderly end. */
  readonly stopSignal: NodeJS.Signals;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Only root may set them: run as this user. */
  readonly uid?: number;
  readonly gid?: number;
}

/** A running server process that does not outlive this one. */
export interface Child {
  readonly id: ProcessId;
  /** Null while it runs; afterwards how it ended, in words. */
  ended(): string | null;
  /** The orderly end; SIGKILL after `graceMs`, default 10000. */
  stop(graceMs?: number): Promise<void>;
  /** SIGKILL, and waits until the process is gone. */
  kill(): Promise<void>;
}

/**
 * Waits for its standard input to end, which happens when this process ends in whatever way, SIGKILL included, and then
 * stops the server by pid. A line on the input means that the server is gone and there is nothing to do.
 */
const GUARD = `read -r _ && exit 0
kill -s "$2" "$1" 2>/dev/null || exit 0
n=0
while [ $n -lt 100 ] && kill -0 "$1" 2>/dev/null; do
  if read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" = Z ]; then exit 0; fi
  sleep 0.1; n=$((n+1))
done
[ $n -lt 100 ] || kill -s KILL "$1" 2>/dev/null`;

const living = new Set<{ readonly id: ProcessId; readonly stopSignal: NodeJS.Signals }>();
process.on('exit', () => {
  for (const child of living) signal(child.id, child.stopSignal);
});

/**
 * Starts a server process in a process group of its own, so that Ctrl-C reaches only us and we stop it in order.
 *
 * @throws Error when the program cannot be started at all.
 */
export async function startChild(options: ChildOptions): Promise<Child> {
  const log = openSync(options.logFile, 'w', 0o600);
  const proc = spawn(options.command, [...options.args], {
    stdio: ['ignore', log, log],
    detached: true,
    cwd: options.cwd,
    env: options.env,
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.gid === undefined ? {} : { gid: options.gid }),
  });
  closeSync(log);
  let ended: string | null = null;
  const exited = new Promise<void>((resolve) => {
    proc.once('exit', (code, sig) => {
      ended = sig === null ? `exit code ${code}` : `signal ${sig}`;
      resolve();
    });
  });
  await new Promise<void>((resolve, reject) => {
    proc.once('spawn', resolve);
    proc.once('error', reject);
  });
  const pid = proc.pid as number;
  const id = identify(pid) ?? { pid, born: 'gone' };
  const entry = { id, stopSignal: options.stopSignal };
  living.add(entry);
  const guard = startGuard(id, options.stopSignal);
  void exited.then(() => {
    living.delete(entry);
    dismiss(guard);
  });
  // The servers must not keep a script alive that forgot them; they end with it.
  proc.unref();

  return {
    id,
    ended: () => ended,
    async stop(graceMs = 10_000) {
      if (ended === null) await stopProcess(id, options.stopSignal, graceMs);
      await untilReaped(exited, proc);
    },
    async kill() {
      if (ended === null) await stopProcess(id, 'SIGKILL');
      await untilReaped(exited, proc);
    },
  };
}

/** The last lines of a log, joined, for an error message. */
export function tailOf(logFile: string, lines = 3): string {
  try {
    return readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-lines).join(' | ');
  } catch {
    return '(no log)';
  }
}

function startGuard(id: ProcessId, stopSignal: NodeJS.Signals): ChildProcess | null {
  if (process.platform === 'win32' || !isAlive(id)) return null;
  const args = ['-c', GUARD, 'holdfast-guard', String(id.pid), stopSignal.replace(/^SIG/, '')];
  const guard = spawn('sh', args, { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: '/' });
  guard.on('error', () => {}); // No sh: the next start cleans up by the state file.
  guard.stdin?.on('error', () => {});
  guard.unref();
  if (guard.stdin !== null && 'unref' in guard.stdin) (guard.stdin as unknown as { unref(): void }).unref();
  return guard;
}

function dismiss(guard: ChildProcess | null): void {
  guard?.stdin?.end('\n');
}

async function untilReaped(exited: Promise<void>, proc: ChildProcess): Promise<void> {
  proc.ref();
  await exited;
}
