import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { doctor } from '../../../dev/doctor.ts';
import { commandLine, isAlive, stopProcess, waitGone } from '../../../dev/process.ts';
import { findStack, type StackState, startStack, stopStack } from '../../../dev/stack.ts';
import { serverDirectory } from '../../support/stack.ts';

const BIN_DIR = resolve('.holdfast', 'bin');
let dir: string;
const started: StackState[] = [];

beforeEach(() => {
  vi.stubEnv('DATABASE_URL', undefined); // The servers must be our own, to be killed.
  vi.stubEnv('TEMPORAL_ADDRESS', undefined);
  dir = serverDirectory();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const { children } of started.splice(0)) {
    await Promise.all(children.map(({ id }) => stopProcess(id, 'SIGKILL')));
  }
  rmSync(dir, { recursive: true });
});

interface Holder {
  readonly process: ChildProcess;
  readonly state: StackState;
  readonly log: () => string;
}

async function hold(...extra: string[]): Promise<Holder> {
  const script = join(import.meta.dirname, 'hold-stack.ts');
  const child = spawn(process.execPath, [script, dir, BIN_DIR, ...extra], { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const state = JSON.parse(line) as StackState;
    started.push(state);
    return { process: child, state, log: () => log };
  }
  throw new Error(`the stack did not start: ${log}`);
}

async function allGone(state: StackState): Promise<boolean[]> {
  return Promise.all(state.children.map(({ id }) => waitGone(id, 15_000)));
}

test('the servers of a process that is killed by SIGKILL end too', async () => {
  const { process: holder, state } = await hold();
  holder.kill('SIGKILL');
  expect(await allGone(state)).toEqual([true, true]);
  expect({ running: findStack(dir), file: existsSync(join(dir, 'stack.json')) }).toEqual({ running: null, file: true });
});

test('the servers of a process that dies of an uncaught error end too', async () => {
  const { state } = await hold('throw');
  expect(await allGone(state)).toEqual([true, true]);
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s stops the servers in order and removes the state file',
  async (name) => {
    const { process: holder, state } = await hold();
    const code = new Promise((done) => holder.once('exit', done));
    holder.kill(name);
    expect({ code: await code, gone: await allGone(state), file: existsSync(join(dir, 'stack.json')) }).toEqual({
      code: 0,
      gone: [true, true],
      file: false,
    });
  },
);

test.runIf(existsSync('/proc/self/cmdline'))(
  'servers whose guards were killed as well are stopped by the next start, which finds the data',
  async () => {
    const { process: holder, state } = await hold();
    for (const { id } of state.children) killGuardOf(id.pid);
    holder.kill('SIGKILL');
    await waitGone(state.owner, 15_000);
    expect(state.children.map(({ id }) => isAlive(id))).toEqual([true, true]);
    const report = await doctor(dir);
    const left = report.lines.find((line) => line.topic === 'stack');

    const lines: string[] = [];
    const options = { dir, binDir: BIN_DIR, ui: false, fastUnsafe: true, log: (line: string) => lines.push(line) };
    const stack = await startStack(options);
    await stopStack(stack);
    expect({
      left: left?.state,
      gone: await allGone(state),
      samePassword: stack.postgres.url === state.postgres?.url,
    }).toEqual({
      left: 'fault',
      gone: [true, true],
      samePassword: true,
    });
    expect(lines.filter((line) => line.includes('left behind')).sort()).toEqual(
      state.children
        .map(({ name, id }) => `stack: stopping ${name} (pid ${id.pid}), left behind by a dead process`)
        .sort(),
    );
  },
);

test('a second stack in the same directory is refused and harms nothing', async () => {
  const { process: holder, state } = await hold();
  await expect(startStack({ dir, binDir: BIN_DIR, ui: false })).rejects.toMatchObject({
    code: 'stack_unavailable',
    message: `a stack runs in ${dir} already, started by pid ${state.owner.pid}`,
  });
  expect({ found: findStack(dir), alive: state.children.map(({ id }) => isAlive(id)) }).toEqual({
    found: state,
    alive: [true, true],
  });
  holder.kill('SIGTERM');
  await allGone(state);
});

/** The guard is the shell whose last arguments are the pid it guards and the signal. */
function killGuardOf(pid: number): void {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const guard = processes.find((name) => (commandLine(Number(name)) ?? '').includes(`holdfast-guard ${pid} `));
  process.kill(Number(guard), 'SIGKILL');
}
