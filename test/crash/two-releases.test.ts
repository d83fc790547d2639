import { afterEach, beforeEach, expect, test } from 'vitest';
import { booksOf, readBooks } from './support/auditor.ts';
import { openWorld, until, type World } from './support/world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

test.each(['local', 'workflow'] as const)(
  'a call of lane %s that a worker without the provider picks up is handed to the one that has it, and sent once (case 9)',
  async (lane) => {
    await world.worker(['dispatch', 'providers'], { without: 'billing' });
    const call = world.call('NON_RETRYABLE', 'handed-over');
    const outcome =
      lane === 'local'
        ? (await world.callMany([call], 'local')).result().then(([first]) => first)
        : world.holdfast.dispatch({ ...call, waitMs: 60_000 });
    // Nobody who could send is up yet: nothing is recorded, and nothing is lost.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await world.row('handed-over')).toBeUndefined();
    await world.worker(['dispatch', 'providers']);
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'handed-over', '')).toEqual({
      sends: 1,
      artefacts: 1,
      keys: 1,
    });
  },
);

test('the direct lane of a host without the provider refuses without a row, and the same call id serves elsewhere', async () => {
  const [lacking, having] = await Promise.all([
    world.worker(['dispatch', 'providers'], { without: 'billing' }),
    world.worker(['dispatch', 'providers']),
  ]);
  const call = world.call('NON_RETRYABLE', 'elsewhere');
  expect(await lacking.dispatch([call], 5_000)).toMatchObject([{ error: 'provider_not_here' }]);
  expect(await world.row('elsewhere')).toBeUndefined();
  expect(await having.dispatch([call], 5_000)).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
});

test('an effect that a worker without the provider reconciles is parked, and settled by evidence once one with it looks (case 9)', async () => {
  const [holder, lacking] = await Promise.all([
    world.worker(['dispatch', 'providers']),
    world.worker(['reconcile'], { without: 'billing' }),
  ]);
  await world.billing.faults({ mode: 'accept_then_hang', times: 1 });
  void holder.dispatch([world.call('NON_RETRYABLE', 'parked')], 60_000).catch(() => undefined);
  await world.billing.untilWaiting(1);
  await holder.signal('SIGKILL');
  const parked = await until('it is parked', async () => {
    const row = await world.row('parked');
    return row?.attention === 'PARKED' ? row : undefined;
  });
  expect({ status: parked.status, reason: parked.reason }).toEqual({
    status: 'UNKNOWN',
    reason: 'provider_not_here: no provider billing is configured in this process',
  });
  await world.worker(['reconcile']);
  // Both poll one queue; whoever lacks the provider may be asked first again, and parks it again.
  const settled = await until(
    'evidence settles it',
    async () => {
      await world.holdfast.checkNow(parked.id);
      await new Promise((resolve) => setTimeout(resolve, 500));
      const row = await world.row('parked');
      return row?.status === 'CONFIRMED' ? row : undefined;
    },
    60_000,
  );
  expect({ settledBy: settled.settledBy, attention: settled.attention, sends: settled.sends }).toEqual({
    settledBy: 'evidence',
    attention: null,
    sends: 1,
  });
  expect(lacking.log()).toBe('');
});
