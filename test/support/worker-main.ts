/**
 * One process of the fleet for tests: `node worker-main.ts CONFIG [BUNDLE]`. Tells its parent `ready`, and takes two
 * orders over the IPC channel: `dispatch` (the direct lane, as a host program would use it) and `stop`.
 */
import { join } from 'node:path';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { Holdfast } from '../../client/holdfast.ts';
import type { Call, Outcome } from '../../effects/effect.ts';
import { isHoldfastError } from '../../effects/errors.ts';
import { loadConfig } from '../../workers/config.ts';
import { Fleet } from '../../workers/fleet.ts';

/** What the parent may ask. */
export type Order =
  | { readonly kind: 'dispatch'; readonly id: number; readonly calls: readonly Call[]; readonly waitMs: number }
  | { readonly kind: 'stop' };

/** What the process tells. */
export type Notice =
  | { readonly kind: 'ready'; readonly pid: number; readonly processId: string }
  | { readonly kind: 'outcomes'; readonly id: number; readonly outcomes: readonly Heard[] };

/** What a caller of the direct lane heard: an outcome, or the error's code. */
export type Heard = { readonly outcome: Outcome } | { readonly error: string; readonly message: string };

const [configFile, bundle] = process.argv.slice(2) as [string, string?];
Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
const fleet = await Fleet.open(loadConfig(configFile), {
  cacheDir: join(import.meta.dirname, '../../.holdfast/cache'),
  ...(bundle === undefined ? {} : { workflowBundle: { codePath: bundle } }),
});
const holdfast = new Holdfast({ ledger: fleet.ledger, temporal: fleet.temporal.client, dispatcher: fleet.dispatcher });
const tell = (notice: Notice) => process.send?.(notice);

process.on('message', (order: Order) => {
  if (order.kind === 'stop') void fleet.stop().finally(() => process.disconnect?.());
  else void dispatchAll(order);
});
// The parent is gone, however it went: nothing may stay behind.
process.on('disconnect', () => process.exit(0));

async function dispatchAll({ id, calls, waitMs }: Extract<Order, { kind: 'dispatch' }>): Promise<void> {
  const outcomes = await Promise.all(
    calls.map(async (call): Promise<Heard> => {
      try {
        return { outcome: await holdfast.dispatch({ ...call, lane: 'direct', waitMs }) };
      } catch (error) {
        if (!isHoldfastError(error)) throw error;
        return { error: error.code, message: error.message };
      }
    }),
  );
  tell({ kind: 'outcomes', id, outcomes });
}

const running = fleet.run();
tell({ kind: 'ready', pid: process.pid, processId: fleet.dispatcher.lease.processId });
await running;
