import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { type PostgresHandle, startPostgres } from './postgres.ts';
import { identify, type ProcessId } from './process.ts';
import type { Log } from './roads.ts';
import { claimStack, defaultStackDir, releaseStack, type StackState, writeState } from './stack-state.ts';
import { startTemporal, type TemporalHandle } from './temporal.ts';

export { defaultStackDir, findStack, type StackState } from './stack-state.ts';

/** A running Postgres and Temporal. */
export interface Stack {
  readonly dir: string;
  readonly owner: ProcessId;
  readonly postgres: PostgresHandle;
  readonly temporal: TemporalHandle;
}

export interface StackOptions {
  /** Holds data, logs, the fetched CLI and the state file. Default `.holdfast` below the working directory. */
  readonly dir?: string;
  /** Whether Temporal's web UI runs too. Default true. */
  readonly ui?: boolean;
  /** fsync off, only for tests. Default false. */
  readonly fastUnsafe?: boolean;
  /** Temporal namespace. Default `default`, or TEMPORAL_NAMESPACE. */
  readonly namespace?: string;
  /** Default `bin` in `dir`. */
  readonly binDir?: string;
  readonly log?: Log;
}

/**
 * Starts Postgres and Temporal side by side and records them in `<dir>/stack.json`, where `holdfast doctor` and the
 * other commands find them ({@link findStack}). The servers end with this process, however it ends.
 *
 * @throws HoldfastError `stack_unavailable` when one of them cannot be started (the other one is stopped again), or when
 * a stack runs there already.
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const dir = resolve(options.dir ?? defaultStackDir());
  const log = options.log ?? (() => {});
  const owner = identify(process.pid) as ProcessId;
  let state: StackState = { owner, startedAt: new Date().toISOString(), children: [], postgres: null, temporal: null };
  await claimStack(dir, state, log);
  const record = (change: Partial<StackState>) => {
    state = { ...state, ...change };
    writeState(dir, state);
  };
  const spawned = (name: 'postgres' | 'temporal') => (id: ProcessId) =>
    record({ children: [...state.children.filter((child) => child.name !== name), { name, id }] });

  const ports = readPorts(dir);
  const [postgres, temporal] = await Promise.allSettled([
    startPostgres({
      dataDir: join(dir, 'postgres'),
      log,
      fastUnsafe: options.fastUnsafe ?? false,
      onSpawn: spawned('postgres'),
      ...(ports.postgres === undefined ? {} : { port: ports.postgres }),
    }),
    startTemporal({
      dataDir: join(dir, 'temporal'),
      log,
      ui: options.ui ?? true,
      binDir: options.binDir ?? join(dir, 'bin'),
      onSpawn: spawned('temporal'),
      ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
      ...(ports.temporal === undefined ? {} : { port: ports.temporal }),
      ...(ports.ui === undefined ? {} : { uiPort: ports.ui }),
    }),
  ]);
  if (postgres.status === 'rejected' || temporal.status === 'rejected') {
    await Promise.all([postgres, temporal].map((one) => (one.status === 'fulfilled' ? one.value.stop() : undefined)));
    releaseStack(dir, owner);
    throw postgres.status === 'rejected' ? postgres.reason : (temporal as PromiseRejectedResult).reason;
  }
  const stack = { dir, owner, postgres: postgres.value, temporal: temporal.value };
  record(describe(stack));
  keepPorts(stack);
  return stack;
}

/** Stops what {@link startStack} started, side by side, and removes the state file. Idempotent. */
export async function stopStack(stack: Stack): Promise<void> {
  await Promise.all([stack.postgres.stop(), stack.temporal.stop()]);
  releaseStack(stack.dir, stack.owner);
}

/** Resolves with the first SIGINT, SIGTERM or SIGHUP; a second one then ends the process at once, servers included. */
export function untilSignal(): Promise<NodeJS.Signals> {
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  return new Promise((done) => {
    const onSignal = (name: NodeJS.Signals) => {
      for (const other of names) process.off(other, onSignal);
      clearInterval(alive);
      done(name);
    };
    // A waiting promise alone does not keep Node running.
    const alive = setInterval(() => {}, 1 << 30);
    for (const name of names) process.on(name, onSignal);
  });
}

function describe({ postgres, temporal }: Stack): Partial<StackState> {
  return {
    postgres: { url: postgres.url, road: postgres.road, version: postgres.version },
    temporal: {
      address: temporal.address,
      namespace: temporal.namespace,
      uiUrl: temporal.uiUrl,
      road: temporal.road,
      version: temporal.version,
    },
  };
}

const portNumbers = z.object({
  postgres: z.number().int().optional(),
  temporal: z.number().int().optional(),
  ui: z.number().int().optional(),
});

/** The ports of the last start: a worker in another terminal and a bookmark of the UI stay right where that is possible. */
function readPorts(dir: string): z.infer<typeof portNumbers> {
  try {
    return portNumbers.parse(JSON.parse(readFileSync(join(dir, 'ports.json'), 'utf8')));
  } catch {
    return {};
  }
}

function keepPorts({ dir, postgres, temporal }: Stack): void {
  const ports = {
    ...(postgres.pid === null ? {} : { postgres: portOf(postgres.url) }),
    ...(temporal.pid === null ? {} : { temporal: portOf(`tcp://${temporal.address}`) }),
    ...(temporal.uiUrl === null ? {} : { ui: portOf(temporal.uiUrl) }),
  };
  writeFileSync(join(dir, 'ports.json'), `${JSON.stringify({ ...readPorts(dir), ...ports })}\n`);
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}
