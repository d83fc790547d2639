import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { DebugPoint } from '../../dispatcher/debug-point.ts';
import type { Call } from '../../effects/effect.ts';
import type { Heard, Notice, Order } from './worker-main.ts';

/** A named point at which a worker process stops, dies or hangs. See `dispatcher/debug-point.ts`. */
export interface ArmedPoint {
  readonly point: DebugPoint;
  readonly action: 'SIGKILL' | 'SIGSTOP' | 'hang';
  /** The action happens when this many effects have reached the point. Default 1. */
  readonly after?: number;
  readonly callPrefix?: string;
}

export interface FleetProcessOptions {
  /** `holdfast.yaml`, as an object. */
  readonly config: object;
  readonly armed?: ArmedPoint;
  /** From {@link bundleTestWorkflows}; default: Holdfast's own workflows. */
  readonly bundle?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** One worker process of the fleet under test. */
export interface FleetProcess {
  readonly pid: number;
  /** The id of its lease. */
  readonly processId: string;
  /** How it ended; resolves when it is gone. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** Call ids that reached the armed point, in order. */
  reached(): string[];
  /** Everything it printed. */
  log(): string;
  /** SIGKILL resolves when it is gone, other signals at once. */
  signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  /** The direct lane inside that process; rejects when it dies first. */
  dispatch(calls: readonly Call[], waitMs?: number): Promise<readonly Heard[]>;
  /** The orderly end; does nothing when it is gone. */
  stop(): Promise<void>;
}

const MAIN = join(import.meta.dirname, 'worker-main.ts');
const READY_WITHIN_MS = 60_000;
/** Tests name their servers in the configuration; the environment of whoever runs them must not win over it. */
const FOREIGN = /^(DATABASE_URL|TEMPORAL_|HOLDFAST_)/;

/** Starts one process of the fleet; resolves when it polls. */
export async function startFleetProcess(options: FleetProcessOptions): Promise<FleetProcess> {
  const dir = mkdtempSync(join(tmpdir(), 'hf-worker-'));
  const configFile = join(dir, 'holdfast.yaml');
  const pointLog = join(dir, 'point.log');
  writeFileSync(configFile, JSON.stringify(options.config));
  const inherited = Object.entries(process.env).filter(([name]) => !FOREIGN.test(name));
  const armed = options.armed === undefined ? undefined : JSON.stringify({ ...options.armed, log: pointLog });
  const args = [MAIN, configFile, ...(options.bundle === undefined ? [] : [options.bundle])];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      ...Object.fromEntries(inherited),
      ...(armed === undefined ? {} : { HOLDFAST_DEBUG_POINT: armed }),
      ...options.env,
    },
  });
  let log = '';
  const keep = (chunk: Buffer) => {
    log += String(chunk);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const ready = await untilReady(child, exited, () => log);
  return {
    pid: ready.pid,
    processId: ready.processId,
    exited,
    reached: () => linesOf(pointLog),
    log: () => log,
    async signal(name) {
      child.kill(name);
      if (name === 'SIGKILL') await exited;
    },
    dispatch: dispatcherOf(child, exited),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGCONT');
        tell(child, { kind: 'stop' });
        const giveUp = setTimeout(() => child.kill('SIGKILL'), 15_000);
        await exited;
        clearTimeout(giveUp);
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** One line per effect: `<point> <call id>`. */
function linesOf(file: string): string[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => line.slice(line.indexOf(' ') + 1));
}

function untilReady(
  child: ChildProcess,
  exited: Promise<unknown>,
  log: () => string,
): Promise<Extract<Notice, { kind: 'ready' }>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`the worker was not ready in time: ${log()}`));
    }, READY_WITHIN_MS);
    child.once('message', (notice: Notice) => {
      clearTimeout(timer);
      if (notice.kind === 'ready') resolve(notice);
    });
    void exited.then(() => {
      clearTimeout(timer);
      reject(new Error(`the worker ended before it was ready: ${log()}`));
    });
  });
}

function dispatcherOf(child: ChildProcess, exited: Promise<unknown>): FleetProcess['dispatch'] {
  let orders = 0;
  return (calls, waitMs = 0) =>
    new Promise((resolve, reject) => {
      orders += 1;
      const id = orders;
      const hear = (notice: Notice) => {
        if (notice.kind !== 'outcomes' || notice.id !== id) return;
        child.off('message', hear);
        resolve(notice.outcomes);
      };
      child.on('message', hear);
      void exited.then(() => reject(new Error('the host process died')));
      tell(child, { kind: 'dispatch', id, calls, waitMs });
    });
}

/** Sends an order; a process that is just dying is no error of the test. */
function tell(child: ChildProcess, order: Order): void {
  if (child.connected) child.send(order, () => {});
}

let bundling: Promise<string> | undefined;

/** A file with the workflows of `test/support/workflows`, built once per test process. */
export function bundleTestWorkflows(): Promise<string> {
  bundling ??= buildBundle();
  return bundling;
}

async function buildBundle(): Promise<string> {
  const quiet = () => {};
  const bundle = await bundleWorkflowCode({
    workflowsPath: join(import.meta.dirname, 'workflows', 'index.ts'),
    logger: { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: console.error },
  });
  const dir = mkdtempSync(join(tmpdir(), 'hf-bundle-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, 'workflows.js');
  writeFileSync(file, bundle.code);
  return file;
}
