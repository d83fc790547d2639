import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startTemporal, type TemporalHandle, temporalRoads } from '../../dev/temporal.ts';
import { serverDirectory } from '../support/stack.ts';
import { booksOf, readBooks } from './support/auditor.ts';
import { crashContracts, QUICK } from './support/contracts.ts';
import { eventsOf, openWorld, until, type World } from './support/world.ts';

/** Nothing lapses by itself while Temporal is away. */
const CONTRACTS = crashContracts({ ...QUICK, timeout: '60s' });
/** The activities' heartbeat time-out is 10 s, and a workflow task's is 10 s too. */
const LONGER_THAN_EVERY_TIMEOUT_MS = 13_000;

let dir: string;
let temporal: TemporalHandle;
let world: World;
beforeEach(async () => {
  dir = serverDirectory();
  temporal = await startTemporal({ dataDir: join(dir, 'temporal'), roads: temporalRoads({}) });
  world = await openWorld({
    temporal: { address: temporal.address, namespace: temporal.namespace, dies: true },
    contracts: CONTRACTS,
  });
});
afterEach(async () => {
  await world.close();
  await temporal.stop();
  rmSync(dir, { recursive: true });
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test.each([
  ['at once', 0],
  ['after longer than every time-out', LONGER_THAN_EVERY_TIMEOUT_MS],
])(
  'calls in mid-flight when Temporal is killed and started again %s go out once and hear the truth',
  async (_, awayMs) => {
    await world.worker(['dispatch', 'providers', 'reconcile']);
    const activity = world.call('NON_RETRYABLE', 'by-activity');
    const workflow = world.call('UNKNOWN', 'by-workflow');
    await world.billing.faults({ mode: 'accept_then_hang', times: 2 });
    const handle = await world.callMany([activity], 'activity');
    const dispatching = world.holdfast.dispatch({ ...workflow, waitMs: 120_000 });
    await world.billing.untilWaiting(2);

    await temporal.kill();
    await pause(awayMs / 2);
    await world.billing.release();
    const written = await until('the holder writes its answers without Temporal', async () => {
      const rows = await Promise.all([world.row('by-activity'), world.row('by-workflow')]);
      return rows.every((row) => row?.status === 'CONFIRMED') ? rows : undefined;
    });
    expect(written.map((row) => [row?.settledBy, row?.sends])).toEqual([
      ['holder', 1],
      ['holder', 1],
    ]);
    await pause(awayMs / 2);
    await temporal.restart();

    expect(await handle.result()).toMatchObject([{ status: 'CONFIRMED', settledBy: 'holder' }]);
    expect(await dispatching).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    const books = readBooks(world.billing.store);
    expect([booksOf(books, 'NON_RETRYABLE', 'by-activity', ''), booksOf(books, 'UNKNOWN', 'by-workflow', '')]).toEqual([
      { sends: 1, artefacts: 1, keys: 1 },
      { sends: 1, artefacts: 1, keys: 1 },
    ]);
  },
);

test('a worker that dies while Temporal is away leaves an effect that the sweep reconciles once it is back', async () => {
  const [holder] = await Promise.all([world.worker(['dispatch', 'providers']), world.worker(['reconcile'])]);
  await world.billing.faults({ mode: 'accept_then_hang', times: 1 });
  void holder.dispatch([world.call('NON_RETRYABLE', 'orphan')], 60_000).catch(() => undefined);
  await world.billing.untilWaiting(1);
  await temporal.kill();
  await holder.signal('SIGKILL');
  await until('it is fenced without Temporal', async () => (await world.row('orphan'))?.status === 'UNKNOWN');
  // What the fencer could not start is lost by now.
  await pause(3_000);
  await temporal.restart();
  const row = await until(
    'evidence settles it',
    async () => {
      const seen = await world.row('orphan');
      return seen?.status === 'CONFIRMED' ? seen : undefined;
    },
    60_000,
  );
  expect({ settledBy: row.settledBy, sends: row.sends, events: await eventsOf(world, 'orphan') }).toEqual({
    settledBy: 'evidence',
    sends: 1,
    events: ['fenced', 'evidence'],
  });
});

test('a call made while Temporal is away is refused with a clear error in the lane that needs it, and goes through in the one that does not', async () => {
  const host = await world.worker(['dispatch', 'providers', 'reconcile']);
  await temporal.kill();
  await expect(
    world.holdfast.dispatch({ ...world.call('NON_RETRYABLE', 'by-workflow'), waitMs: 5_000 }),
  ).rejects.toMatchObject({
    code: 'temporal_unreachable',
    retryable: true,
  });
  expect(await host.dispatch([world.call('NON_RETRYABLE', 'direct')], 10_000)).toMatchObject([
    { outcome: { status: 'CONFIRMED' } },
  ]);
  await temporal.restart();
  expect(
    await world.holdfast.dispatch({ ...world.call('NON_RETRYABLE', 'by-workflow'), waitMs: 30_000 }),
  ).toMatchObject({
    status: 'CONFIRMED',
  });
  expect(booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'by-workflow', '').sends).toBe(1);
});
