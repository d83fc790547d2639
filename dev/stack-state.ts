import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { HoldfastError } from '../effects/errors.ts';
import { isAlive, type ProcessId, stopProcess } from './process.ts';
import type { Log } from './roads.ts';

const processId = z.strictObject({ pid: z.number().int().positive(), born: z.string() });

const stackState = z.strictObject({
  /** The process that started the stack and stops it. */
  owner: processId,
  /** ISO 8601. */
  startedAt: z.string(),
  /** Server processes, recorded as soon as they live. */
  children: z.array(z.strictObject({ name: z.enum(['postgres', 'temporal']), id: processId })),
  /** Null until it answers. The URL holds a password: the file is readable by its owner only. */
  postgres: z.strictObject({ url: z.string(), road: z.string(), version: z.string() }).nullable(),
  temporal: z
    .strictObject({
      address: z.string(),
      namespace: z.string(),
      uiUrl: z.string().nullable(),
      road: z.string(),
      version: z.string(),
    })
    .nullable(),
});

/** What `.holdfast/stack.json` says about a running stack. */
export type StackState = z.infer<typeof stackState>;

export const STOP_SIGNALS = { postgres: 'SIGINT', temporal: 'SIGTERM' } as const;

/** `.holdfast` below the working directory. */
export function defaultStackDir(): string {
  return resolve('.holdfast');
}

function stateFile(dir: string): string {
  return join(dir, 'stack.json');
}

/** The stack that runs in `dir`, or null. A file left behind by a process that is gone is no stack. */
export function findStack(dir = defaultStackDir()): StackState | null {
  const state = readState(dir);
  return state !== null && isAlive(state.owner) ? state : null;
}

/** What the file says, whether its owner lives or not; null when there is none or it is no such file. */
export function readState(dir: string): StackState | null {
  try {
    return stackState.parse(JSON.parse(readFileSync(stateFile(dir), 'utf8')));
  } catch {
    return null;
  }
}

/**
 * Makes this process the owner of the stack in `dir`. Servers that a dead owner left behind are stopped first.
 *
 * @throws HoldfastError `stack_unavailable` when a living process owns it.
 */
export async function claimStack(dir: string, state: StackState, log: Log): Promise<void> {
  mkdirSync(dir, { recursive: true });
  for (let attempt = 0; attempt < 3; attempt += 1) {
    if (createWhole(dir, state)) return;
    const found = readState(dir);
    if (found !== null && isAlive(found.owner)) throw alreadyRuns(dir, found);
    if (found !== null) await stopLeftBehind(found, log);
    // Another process may have claimed it while we were stopping servers; its file must stay.
    if (JSON.stringify(readState(dir)) === JSON.stringify(found)) rmSync(stateFile(dir), { force: true });
  }
  throw new HoldfastError('stack_unavailable', `several processes start a stack in ${dir} at once`, { place: dir });
}

/** Creates the file with its whole content or not at all; false when there is one. */
function createWhole(dir: string, state: StackState): boolean {
  const whole = writeBeside(dir, state);
  try {
    linkSync(whole, stateFile(dir));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(whole, { force: true });
  }
}

/** Replaces the file in one step. */
export function writeState(dir: string, state: StackState): void {
  renameSync(writeBeside(dir, state), stateFile(dir));
}

function writeBeside(dir: string, state: StackState): string {
  const file = `${stateFile(dir)}.${process.pid}`;
  writeFileSync(file, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  return file;
}

/** Removes the file when this owner still holds it. */
export function releaseStack(dir: string, owner: ProcessId): void {
  const found = readState(dir);
  if (found?.owner.pid === owner.pid && found.owner.born === owner.born) rmSync(stateFile(dir), { force: true });
}

async function stopLeftBehind(state: StackState, log: Log): Promise<void> {
  const alive = state.children.filter((child) => isAlive(child.id));
  for (const child of alive) log(`stack: stopping ${child.name} (pid ${child.id.pid}), left behind by a dead process`);
  await Promise.all(alive.map((child) => stopProcess(child.id, STOP_SIGNALS[child.name])));
}

function alreadyRuns(dir: string, state: StackState): HoldfastError {
  return new HoldfastError('stack_unavailable', `a stack runs in ${dir} already, started by pid ${state.owner.pid}`, {
    place: dir,
    next: 'use that one, stop it, or name another directory',
  });
}
