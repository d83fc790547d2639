import { afterEach, beforeEach, expect, test } from 'vitest';
import { Metrics } from '../../workers/metrics.ts';
import { booksOf, readBooks } from './support/auditor.ts';
import { eventsOf, openWorld, until, type World } from './support/world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

/** What an alarm reads. */
async function gauge(name: string): Promise<number> {
  const text = await new Metrics().scrape(world.ledger);
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

test('an activity that is stuck without any error is seen by its age, and the sweep finds its row (case 4)', async () => {
  const [holder] = await Promise.all([
    // It beats, it heartbeats, and it does nothing any more.
    world.worker(['dispatch', 'providers'], { armed: { point: 'claimed', action: 'hang' } }),
    world.worker(['reconcile']),
  ]);
  const handle = await world.callMany([world.call('NON_RETRYABLE', 'stuck')], 'activity');
  await until('it hangs', async () => holder.reached().length === 1);
  const first = await gauge('holdfast_oldest_open_seconds{status="DISPATCHED"}');
  await until('its age grows', async () => {
    const age = await gauge('holdfast_oldest_open_seconds{status="DISPATCHED"}');
    return age > first + 1;
  });
  expect(await gauge('holdfast_lapsed_claims')).toBe(0);

  const settled = await until('the sweep has it asked about, and absence proves', async () => {
    const row = await world.row('stuck');
    return row?.status === 'NOT_APPLIED' ? row : undefined;
  });
  expect({ reason: settled.reasonCode, by: settled.settledBy, sends: settled.sends }).toEqual({
    reason: 'proven_absent',
    by: 'evidence',
    sends: 1,
  });
  expect(await eventsOf(world, 'stuck')).toEqual(['overdue', 'evidence']);
  expect(await gauge('holdfast_oldest_open_seconds{status="DISPATCHED"}')).toBe(0);
  // Nobody else had noticed: its process lives, its lease beats, and Temporal waits for it.
  const { pendingActivities } = (await handle.describe()).raw;
  expect(pendingActivities?.map(({ attempt, lastFailure }) => [attempt, lastFailure ?? null])).toEqual([[1, null]]);
  expect(booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'stuck', '')).toEqual({
    sends: 0,
    artefacts: 0,
    keys: 0,
  });
  await holder.signal('SIGKILL');
});
