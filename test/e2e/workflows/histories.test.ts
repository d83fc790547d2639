import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Fleet } from '../../../workers/fleet.ts';
import { checkNowSignal, decideUpdate } from '../../../workflows/reconcile-effect.ts';
import { until } from '../../crash/support/world.ts';
import { bundleTestWorkflows } from '../../support/fleet.ts';
import { type House, openHouse, SLOW_PACE, stuckCall, userWorkflow } from '../support/house.ts';

/**
 * Histories of today's code, replayed by today's code. With HOLDFAST_RECORD_HISTORIES=1 they are also written to
 * `test/histories/`, where the replay tests keep them for the code of tomorrow: record once per release, and
 * whenever a workflow issues other commands.
 */
const RECORD = process.env['HOLDFAST_RECORD_HISTORIES'] === '1';
const DIRECTORY = join(import.meta.dirname, '../../histories');

let house: House;
let fleet: Fleet;

beforeAll(async () => {
  house = await openHouse();
  fleet = await house.fleet();
});

afterAll(() => house?.close());

async function keep(name: string, workflowId: string, { of = house } = {}): Promise<void> {
  const history = await of.temporal.workflow.getHandle(workflowId).fetchHistory();
  const codePath = await bundleTestWorkflows();
  await Worker.runReplayHistory({ workflowBundle: { codePath } }, history, workflowId);
  if (!RECORD) return;
  mkdirSync(DIRECTORY, { recursive: true });
  writeFileSync(join(DIRECTORY, `${name}.json`), `${JSON.stringify(JSON.parse(historyToJSON(history)))}\n`);
}

test('a call of the lane workflow', async () => {
  const call = house.call('NON_RETRYABLE', 'history-call');
  expect((await house.holdfast.dispatch(call)).status).toBe('CONFIRMED');
  await keep('dispatch-call-local', `call:${call.tenant}:${call.run}:${call.call}`);
});

test('a call of the lane workflow that is too long for its local step, with large arguments', async () => {
  const slow = await openHouse({ pace: SLOW_PACE });
  try {
    await slow.fleet();
    const call = slow.call('NON_RETRYABLE', 'history-long', { payee: 'p'.repeat(10_000) });
    expect((await slow.holdfast.dispatch(call)).status).toBe('CONFIRMED');
    await keep('dispatch-call-handed-over', `call:${call.tenant}:${call.run}:${call.call}`, { of: slow });
  } finally {
    await slow.close();
  }
});

test('a call of the lane workflow that no worker of its provider takes', async () => {
  const slow = await openHouse({ pace: SLOW_PACE, settings: { queue_wait_ms: 1_000 } });
  try {
    await slow.fleet({ roles: ['dispatch'] });
    const call = slow.call('NON_RETRYABLE', 'history-not-taken');
    expect((await slow.holdfast.dispatch(call)).status).toBe('NOT_APPLIED');
    await keep('dispatch-call-withdrawn', `call:${call.tenant}:${call.run}:${call.call}`, { of: slow });
  } finally {
    await slow.close();
  }
});

test('calls of a user\u2019s workflow by both lanes', async () => {
  const local = await userWorkflow(house, [house.call('PURE', 'h-1'), house.call('IDEMPOTENT', 'h-2')]);
  await local.result();
  await keep('user-workflow-local', local.workflowId);
  const calls = [house.call('IDEMPOTENT', 'h-3')];
  const activity = await userWorkflow(house, calls, { lane: 'activity' });
  await activity.result();
  await keep('user-workflow-activity', activity.workflowId);
});

test('a reconciliation that is looked at and decided by hand', async () => {
  const { call, reconciliation } = await stuckCall(house, fleet, 'history-decided');
  await reconciliation.signal(checkNowSignal);
  await reconciliation.executeUpdate(decideUpdate, {
    args: [
      {
        decisionId: 'h-1',
        ruling: 'confirm',
        actor: 'ann',
        reason: 'seen at the bank',
        expected: { status: 'UNKNOWN', fence: 1 },
      },
    ],
  });
  await reconciliation.result();
  await keep('reconcile-effect-decided', `effect:${call.tenant}:${call.run}:${call.call}`);
});

test('a reconciliation that evidence settles', async () => {
  const { call, reconciliation } = await stuckCall(house, fleet, 'history-evidence');
  await house.billing.clearFaults();
  await reconciliation.signal(checkNowSignal);
  expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
  await keep('reconcile-effect-evidence', `effect:${call.tenant}:${call.run}:${call.call}`);
});

test('a reconciliation that goes on in a new run because its history is long', async () => {
  const { call, reconciliation } = await stuckCall(house, fleet, 'history-continued');
  const { runId: first, workflowId } = { ...(await reconciliation.describe()) };
  // Four megabytes: the server suggests continue-as-new, and the next look ends the run.
  for (let i = 0; i < 5; i += 1) await reconciliation.signal('decide', { padding: 'x'.repeat(1_000_000) });
  await until('a new run goes on', async () => (await reconciliation.describe()).runId !== first);
  await house.billing.clearFaults();
  await reconciliation.signal(checkNowSignal);
  expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
  expect(await house.sends(call)).toBe(1);
  // The first run is too large to be fetched at once, let alone kept.
  await keep('reconcile-effect-continued', workflowId);
});

test('a sweep', async () => {
  const swept = await house.temporal.workflow.start('sweep', {
    workflowId: 'history-sweep',
    taskQueue: 'holdfast-reconcile',
  });
  await swept.result();
  await keep('sweep', 'history-sweep');
});
