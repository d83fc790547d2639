import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Call } from '../../../effects/effect.ts';
import type { Fleet } from '../../../workers/fleet.ts';
import { until } from '../../crash/support/world.ts';
import { type House, openHouse, SLOW_PACE, TENANT, userWorkflow } from '../support/house.ts';

/** Calls declared too long for the local lane, and a fleet in which nobody polls the queue of their provider. */
let house: House;
const fleets: Fleet[] = [];

beforeAll(async () => {
  house = await openHouse({ pace: SLOW_PACE });
});
afterEach(async () => {
  await Promise.all(fleets.splice(0).map((fleet) => fleet.stop()));
});
afterAll(() => house?.close());

async function fleet(roles: ('dispatch' | 'providers')[], queueWaitMs = 1_000): Promise<Fleet> {
  const started = await house.fleet({ roles, settings: { queue_wait_ms: queueWaitMs } });
  fleets.push(started);
  return started;
}

const QUEUE = 'holdfast-provider-billing';
const withdrawn = (call: Call) => ({
  status: 'NOT_APPLIED',
  effectId: `effect:${TENANT}:${house.run}:${call.call}`,
  tool: call.tool,
  version: call.version,
  effectClass: 'NON_RETRYABLE',
  reason: {
    code: 'provider_not_served',
    message: `no worker took the call from the queue ${QUEUE} within 1 s; nothing was sent`,
  },
  settledBy: 'withdrawal',
});

test('a call that no worker of its provider takes is withdrawn, and is final for its call id', async () => {
  await fleet(['dispatch']);
  const call = house.call('NON_RETRYABLE', 'nobody');
  expect(await house.holdfast.dispatch(call)).toEqual(withdrawn(call));
  await fleet(['providers']);
  expect(await house.holdfast.dispatch(call)).toEqual(withdrawn(call));
  expect(await house.sends(call)).toBe(0);
});

test('the same from a workflow that names the queue itself', async () => {
  await fleet(['dispatch']);
  const call = house.call('NON_RETRYABLE', 'nobody-by-activity');
  const handle = await userWorkflow(house, [call], { lane: 'activity', taskQueue: QUEUE, queueWaitMs: 1_000 });
  expect(await handle.result()).toEqual([withdrawn(call)]);
});

test('a call with notAfter waits no longer than that', async () => {
  await fleet(['dispatch'], 3_600_000);
  const notAfter = new Date(Date.now() + 1_500).toISOString();
  const call = { ...house.call('NON_RETRYABLE', 'not-after'), notAfter };
  expect(await house.holdfast.dispatch(call)).toMatchObject({
    status: 'NOT_APPLIED',
    reason: { code: 'provider_not_served' },
  });
});

test('a worker that comes in time takes it', async () => {
  await fleet(['dispatch'], 600_000);
  const call = house.call('NON_RETRYABLE', 'in-time');
  expect(await house.holdfast.dispatch({ ...call, waitMs: 500 })).toMatchObject({ status: 'UNKNOWN' });
  await fleet(['providers']);
  expect(await house.holdfast.dispatch(call)).toMatchObject({ status: 'CONFIRMED' });
  expect(await house.sends(call)).toBe(1);
});

test('the row decides: a call that was sent meanwhile by another lane is not called withdrawn', async () => {
  const host = house.hostOf(await fleet(['dispatch'], 4_000));
  const call = house.call('NON_RETRYABLE', 'sent-meanwhile');
  const handle = house.temporal.workflow.getHandle(`call:${TENANT}:${house.run}:${call.call}`);
  await house.holdfast.dispatch({ ...call, waitMs: 1 });
  await until('it waits in the queue', async () => {
    const { raw } = await handle.describe();
    return (raw.pendingActivities?.length ?? 0) > 0;
  });
  expect(await host.dispatch({ ...call, lane: 'direct' })).toMatchObject({ status: 'CONFIRMED' });
  expect(await handle.result()).toMatchObject({ outcome: { status: 'CONFIRMED', settledBy: 'holder' } });
  expect(await house.sends(call)).toBe(1);
});
