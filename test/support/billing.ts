import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FaultRule } from '../../examples/billing-provider/faults.ts';
import type { AuditLine } from '../../examples/billing-provider/store.ts';

export interface BillingOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Default: a directory of its own, removed by `stop`. */
  readonly store?: string;
  readonly token?: string;
  readonly windowMs?: number;
}

export interface Billing {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly store: string;
  /** The provider's own books: every request it saw, in order. */
  audit(key?: string): Promise<AuditLine[]>;
  /** Adds rules; the first that fits decides. */
  faults(...rules: FaultRule[]): Promise<void>;
  clearFaults(): Promise<void>;
  /** Requests that presently hang, by route. */
  waiting(): Promise<{ total: number; routes: Record<string, number> }>;
  /** Resolves once at least `count` requests hang. Throws after `withinMs` (default 10,000). */
  untilWaiting(count: number, withinMs?: number): Promise<void>;
  /** Lets hanging requests go on; returns how many. */
  release(filter?: { route?: string; key?: string }): Promise<number>;
  kill(signal: NodeJS.Signals): Promise<void>;
  stop(): Promise<void>;
}

const SERVER = join(import.meta.dirname, '../../examples/billing-provider/server.ts');
const READY_WITHIN_MS = 10_000;

/** Starts the example billing provider as a process of its own. */
export async function startBilling(options: BillingOptions = {}): Promise<Billing> {
  const own = options.store === undefined ? mkdtempSync(join(tmpdir(), 'hf-billing-')) : undefined;
  const store = options.store ?? own ?? '';
  const args = ['--port', String(options.port ?? 0), '--store', store];
  if (options.token !== undefined) args.push('--token', options.token);
  if (options.windowMs !== undefined) args.push('--window-ms', String(options.windowMs));
  const child = spawn(process.execPath, [SERVER, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await readyPort(child);
  const url = `http://127.0.0.1:${port}`;

  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(url + path, { method, ...(body !== undefined && { body: JSON.stringify(body) }) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const kill = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  };
  const waiting = () => ask<{ total: number; routes: Record<string, number> }>('GET', '/_waiting');
  return {
    url,
    port,
    pid: child.pid ?? 0,
    store,
    audit: async (key) => {
      const query = key === undefined ? '' : `?key=${encodeURIComponent(key)}`;
      return (await ask<{ requests: AuditLine[] }>('GET', `/_audit${query}`)).requests;
    },
    faults: async (...rules) => void (await ask('POST', '/_faults', rules)),
    clearFaults: async () => void (await ask('DELETE', '/_faults')),
    waiting,
    untilWaiting: async (count, withinMs = 10_000) => {
      const until = Date.now() + withinMs;
      while ((await waiting()).total < count) {
        if (Date.now() > until) throw new Error(`fewer than ${count} requests hang after ${withinMs} ms`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    release: async (filter = {}) => (await ask<{ released: number }>('POST', '/_release', filter)).released,
    kill,
    stop: async () => {
      await kill('SIGTERM');
      if (own !== undefined) rmSync(own, { recursive: true, force: true });
    },
  };
}

function readyPort(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the billing provider did not come up in time')), READY_WITHIN_MS);
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.includes('\n')) return;
      clearTimeout(timer);
      resolve((JSON.parse(text.slice(0, text.indexOf('\n'))) as { port: number }).port);
    });
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`the billing provider ended with code ${code}`));
    });
  });
}
