import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { HoldfastError } from '../effects/errors.ts';
import { type Child, startChild, tailOf } from './child.ts';
import { isAlive, type ProcessId, stopProcess } from './process.ts';

/** A process of the demo that said that it is ready. */
export interface DemoProcess {
  readonly name: string;
  readonly pid: number;
  /** What it said when it was ready: one JSON object. */
  readonly ready: Readonly<Record<string, unknown>>;
  readonly logFile: string;
  /** SIGKILL, as a machine that dies. */
  kill(): Promise<void>;
}

const processList = z.array(z.strictObject({ name: z.string(), pid: z.int().positive(), born: z.string() }));

const READY_WITHIN_MS = 60_000;
const STOP_GRACE_MS = 8_000;
const POLL_MS = 50;

/**
 * The processes of one demo: written down as soon as they live, so that the next demo can stop what a killed one
 * left behind, and ended with this process however it ends.
 */
export class DemoChildren {
  readonly #dir: string;
  readonly #children = new Map<string, Child>();
  #closed = false;

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(join(dir, 'logs'), { recursive: true });
  }

  /** Starts a script on this very Node and waits for its ready line. Throws `stack_unavailable` with the log's end. */
  async start(
    name: string,
    script: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<DemoProcess> {
    const logFile = join(this.#dir, 'logs', `${name}.log`);
    const child = await startChild({
      command: process.execPath,
      args: [script, ...args],
      logFile,
      stopSignal: 'SIGTERM',
      env: { ...process.env, ...env },
      cwd: process.cwd(),
    });
    this.#children.set(name, child);
    this.#write();
    if (this.#closed) await child.kill();
    const ready = await readyLine(name, child, logFile);
    return { name, pid: child.id.pid, ready, logFile, kill: () => child.kill() };
  }

  /** The name of the process with that pid; undefined when it is none of ours. */
  nameOf(pid: number): string | undefined {
    for (const [name, child] of this.#children) if (child.id.pid === pid) return name;
    return undefined;
  }

  /** Kills the named process without asking. */
  async kill(name: string): Promise<void> {
    await this.#children.get(name)?.kill();
  }

  /** Ends all in order: workers finish and end their leases, then the provider goes. */
  async stop(): Promise<void> {
    this.#closed = true;
    const workers = [...this.#children].filter(([name]) => name !== 'provider');
    await Promise.all(workers.map(([, child]) => child.stop(STOP_GRACE_MS)));
    await this.#children.get('provider')?.stop(STOP_GRACE_MS);
    this.#write();
  }

  #write(): void {
    const living = [...this.#children].filter(([, child]) => child.ended() === null);
    const list = living.map(([name, { id }]) => ({ name, ...id }));
    const file = listFile(this.#dir);
    writeFileSync(`${file}.new`, `${JSON.stringify(list)}\n`);
    renameSync(`${file}.new`, file);
  }
}

function listFile(dir: string): string {
  return join(dir, 'processes.json');
}

/** Stops processes that a killed demo left in `dir`. Returns their names. */
export async function stopLeftovers(dir: string): Promise<string[]> {
  let list: (ProcessId & { name: string })[];
  try {
    list = processList.parse(JSON.parse(readFileSync(listFile(dir), 'utf8')));
  } catch {
    return [];
  }
  const alive = list.filter(isAlive);
  await Promise.all(alive.map((id) => stopProcess(id, 'SIGTERM', STOP_GRACE_MS)));
  return alive.map(({ name }) => name);
}

async function readyLine(name: string, child: Child, logFile: string): Promise<Record<string, unknown>> {
  const until = performance.now() + READY_WITHIN_MS;
  while (child.ended() === null && performance.now() < until) {
    const line = readFileSync(logFile, 'utf8')
      .split('\n')
      .slice(0, -1)
      .find((text) => text.startsWith('{'));
    if (line !== undefined) return JSON.parse(line) as Record<string, unknown>;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new HoldfastError('stack_unavailable', `${name} did not come up: ${child.ended() ?? 'it says nothing'}`, {
    place: logFile,
    next: `read its log: ${tailOf(logFile, 2)}`,
  });
}
