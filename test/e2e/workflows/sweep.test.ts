import { type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fleet } from '../../../workers/fleet.ts';
import { until } from '../../crash/support/world.ts';
import { freshNamespace } from '../../support/stack.ts';
import { type House, openHouse, stuckCall } from '../support/house.ts';

let house: House;
let fleet: Fleet;

beforeAll(async () => {
  house = await openHouse();
  fleet = await house.fleet();
});

afterAll(() => house?.close());

/** The state of the newest run; undefined when there is none. */
async function stateOf(handle: WorkflowHandle): Promise<{ runId: string; status: string } | undefined> {
  try {
    const { runId, status } = await handle.describe();
    return { runId, status: status.name };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

describe('the sweep', () => {
  test('runs on a Schedule that every fleet finds or makes', async () => {
    const { spec, policies, action } = await house.temporal.schedule.getHandle('holdfast-sweep').describe();
    expect({ intervals: spec.intervals, overlap: policies.overlap, type: action.workflowType }).toEqual({
      intervals: [{ every: 1000, offset: undefined }],
      overlap: 'SKIP',
      type: 'sweep',
    });
    const second = await house.fleet({ roles: ['reconcile'] });
    await second.stop();
  });

  test.each([
    ['terminated', (handle: WorkflowHandle) => handle.terminate('by an operator')],
    ['cancelled', (handle: WorkflowHandle) => handle.cancel()],
  ])('starts a reconciliation again that an operator has %s, without a send (case 21)', async (how, act) => {
    const { call, reconciliation } = await stuckCall(house, fleet, `swept-${how}`);
    const first = await stateOf(reconciliation);
    await act(reconciliation);
    const next = await until(
      'the sweep starts it again',
      async () => {
        const now = await stateOf(reconciliation);
        return now?.runId !== first?.runId && now;
      },
      60_000,
    );
    expect(next?.status).toBe('RUNNING');
    await house.billing.clearFaults();
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await house.sends(call)).toBe(1);
  });

  test('leaves a reconciliation alone that lives', async () => {
    const { call, reconciliation } = await stuckCall(house, fleet, 'left-alone');
    const first = await stateOf(reconciliation);
    const sweeps = async () =>
      (await house.temporal.schedule.getHandle('holdfast-sweep').describe()).info.numActionsTaken;
    const before = await sweeps();
    await until('three more sweeps ran', async () => (await sweeps()) >= before + 3);
    expect(await stateOf(reconciliation)).toEqual(first);
    await house.billing.clearFaults();
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await house.sends(call)).toBe(1);
  });

  test('starts them all again when Temporal has lost its data', async () => {
    const names = ['lost-1', 'lost-2', 'lost-3'];
    const stuck = [];
    for (const name of names) stuck.push(await stuckCall(house, fleet, name));
    await fleet.stop();
    await house.billing.clearFaults();
    const { namespace } = await freshNamespace();
    const reborn = await house.fleet({ namespace });
    await until(
      'all are settled',
      async () => {
        const rows = await Promise.all(names.map((name) => house.row(name)));
        return rows.every((row) => row?.status === 'CONFIRMED');
      },
      60_000,
    );
    const results = await Promise.all(
      stuck.map(({ reconciliation }) => reborn.temporal.client.workflow.getHandle(reconciliation.workflowId).result()),
    );
    expect(results).toEqual(names.map(() => ({ status: 'CONFIRMED' })));
    expect(await Promise.all(stuck.map(({ call }) => house.sends(call)))).toEqual([1, 1, 1]);
  });
});
