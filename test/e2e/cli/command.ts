import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MAIN = join(import.meta.dirname, '../../../cli/main.ts');
const READY_WITHIN_MS = 60_000;
/** Would point the command at somebody's own servers. */
const FOREIGN = ['DATABASE_URL', 'TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE', 'HOLDFAST_CONFIG'];

/** What one run of the shipped command left behind. */
export interface Ran {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The shipped command in an empty directory of its own: no configuration and no stack but what a test names. */
export interface Shipped {
  readonly dir: string;
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ran>;
  /** Starts `holdfast worker` and waits until it polls. */
  worker(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<{ stop(): Promise<Ran> }>;
  remove(): void;
}

export function shippedCommand(dir = mkdtempSync(join(tmpdir(), 'hf-cli-'))): Shipped {
  const start = (args: readonly string[], env: Readonly<Record<string, string>>) => {
    const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.includes(name)));
    return spawn(process.execPath, [MAIN, ...args], {
      cwd: dir,
      env: { ...clean, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  };
  return {
    dir,
    run: (args, env = {}) => collect(start(args, env)).ended,
    async worker(args, env = {}) {
      const child = start(['worker', '--json', ...args], env);
      const { ended, firstLine } = collect(child);
      await firstLine;
      return {
        async stop() {
          child.kill('SIGTERM');
          return ended;
        },
      };
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

function collect(child: ChildProcess): { readonly ended: Promise<Ran>; readonly firstLine: Promise<void> } {
  let [stdout, stderr] = ['', ''];
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const firstLine = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no line on standard output; ${stderr}`)), READY_WITHIN_MS);
    child.stdout?.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
      if (stdout.includes('\n')) resolve();
    });
    child.once('close', (code) => reject(new Error(`ended with ${code}; ${stderr}`)));
    child.once('close', () => clearTimeout(timer));
  });
  firstLine.catch(() => undefined);
  const ended = new Promise<Ran>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ exit: code ?? -1, stdout, stderr }));
  });
  return { ended, firstLine };
}

/** The parts of the one error on standard error. Throws when there is anything else there, such as a stack trace. */
export function errorIn({ stderr }: Ran): { code: string; message: string; place: string | null; next: string } {
  const match = /^error ([a-z_]+): ((?:.+\n)(?: {2}(?!at |next: ).+\n)*)(?: {2}at (.+)\n)? {2}next: (.+)\n$/.exec(
    stderr,
  );
  if (match === null) throw new Error(`not one clear error: ${stderr}`);
  const [, code = '', message = '', place, next = ''] = match;
  return { code, message: message.trimEnd(), place: place ?? null, next };
}
