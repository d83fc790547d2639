import type { WorkflowHandle } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Call, Outcome } from '../../../effects/effect.ts';
import { until } from '../../crash/support/world.ts';
import { type House, openHouse, SLOW_PACE, TENANT, userWorkflow } from '../support/house.ts';

/** Whatever an operator makes Temporal do while the provider holds the request: it is sent once, and the truth comes out. */
let house: House;

beforeAll(async () => {
  house = await openHouse({ pace: SLOW_PACE });
  await house.fleet();
});

afterAll(() => house?.close());

const QUEUE = 'holdfast-provider-billing';
/** `PendingActivityState` of Temporal's API. */
const STARTED = 2;
const PAUSED = [4, 5]; // paused, and asked to pause while an attempt runs
/** The server's own words: `dispatchEffect` is what runs the call. */
const TYPE = 'dispatchEffect';

/** A call of a user's workflow, by the activity lane, whose request the provider holds after it has paid. */
async function heldByUser(name: string) {
  const call = await held(name);
  const handle = await userWorkflow(house, [call], { lane: 'activity', taskQueue: QUEUE });
  await untilSent(call);
  return { call, handle };
}

/** The same by the lane `workflow`: its local step hands the long call over to an activity. */
async function heldByDispatchCall(name: string) {
  const call = await held(name);
  const dispatched = house.holdfast.dispatch({ ...call, waitMs: 60_000 });
  dispatched.catch(() => undefined);
  await untilSent(call);
  const handle = house.temporal.workflow.getHandle(`call:${TENANT}:${house.run}:${name}`);
  return { call, handle };
}

async function held(name: string): Promise<Call> {
  const call = house.call('NON_RETRYABLE', name);
  const match = { '/body/payee': name };
  await house.billing.clearFaults();
  await house.billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_hang', match });
  return call;
}

async function untilSent(call: Call): Promise<void> {
  await until('the provider holds the request', async () => (await house.sends(call)) === 1);
}

async function pending(handle: WorkflowHandle) {
  const { raw } = await handle.describe();
  return (raw.pendingActivities ?? []).find(({ activityType }) => activityType?.name === TYPE);
}

/** Every act of an operator names the execution and the activity's type. */
const target = (handle: WorkflowHandle) => ({
  namespace: house.namespace,
  execution: { workflowId: handle.workflowId },
  type: TYPE,
});

/** Makes the server give up the attempt that runs: it heartbeats every 2 s, and now has to every 500 ms. */
async function loseAttempt(handle: WorkflowHandle): Promise<void> {
  await house.temporal.workflowService.updateActivityOptions({
    ...target(handle),
    activityOptions: { heartbeatTimeout: msToTs(500) },
    updateMask: { paths: ['heartbeat_timeout'] },
  });
}

/** Pauses an activity while its first flight is in the air. */
async function pauseInFlight(handle: WorkflowHandle): Promise<void> {
  await house.temporal.workflowService.pauseActivity({ ...target(handle), identity: 'ann', reason: 'to see' });
  await untilState(handle, ...PAUSED);
}

async function untilState(handle: WorkflowHandle, ...states: number[]): Promise<void> {
  await until(`the activity is in state ${states.join(' or ')}`, async () =>
    states.includes((await pending(handle))?.state ?? 0),
  );
}

/** When the attempt that runs was started; undefined between attempts. */
async function startOf(handle: WorkflowHandle): Promise<string | undefined> {
  const activity = await pending(handle);
  return activity?.state === STARTED ? JSON.stringify(activity.lastStartedTime) : undefined;
}

async function untilAttempt(handle: WorkflowHandle, attempt: number): Promise<void> {
  await until(`attempt ${attempt} runs`, async () => ((await pending(handle))?.attempt ?? 0) >= attempt, 40_000);
}

async function trueEnd(call: Call, handle: WorkflowHandle): Promise<void> {
  expect(await house.sends(call)).toBe(1);
  await house.billing.release();
  expect(outcomeIn(await handle.result())).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
  expect(await house.sends(call)).toBe(1);
}

/** `callMany` gives outcomes, `dispatchCall` one with its hash. */
function outcomeIn(result: unknown): Outcome | undefined {
  return Array.isArray(result) ? (result as Outcome[])[0] : (result as { outcome: Outcome }).outcome;
}

describe.each([
  ['a user’s workflow', heldByUser],
  ['dispatchCall', heldByDispatchCall],
])('in %s, with the request in flight,', (who, start) => {
  const named = (act: string) => `${act}-${who === 'dispatchCall' ? 'call' : 'user'}`;

  test('an attempt that the server gives up is run again and joins the flight', async () => {
    const { call, handle } = await start(named('attempts'));
    await loseAttempt(handle);
    await untilAttempt(handle, 3);
    await trueEnd(call, handle);
  });

  test('the activity paused, unpaused and run again sends once', async () => {
    const { call, handle } = await start(named('pause'));
    await pauseInFlight(handle);
    await house.temporal.workflowService.unpauseActivity({ ...target(handle), identity: 'ann' });
    // The server lets the attempt go on that it had told to pause; make it run another one beside it.
    await loseAttempt(handle);
    await untilAttempt(handle, 2);
    await trueEnd(call, handle);
  });

  test('the activity paused, reset and run again sends once', async () => {
    const { call, handle } = await start(named('pause-reset'));
    await pauseInFlight(handle);
    await house.temporal.workflowService.resetActivity({ ...target(handle), identity: 'ann' });
    const first = await startOf(handle);
    await loseAttempt(handle);
    await until('another attempt runs', async () => {
      const now = await startOf(handle);
      return now !== undefined && now !== first;
    });
    await trueEnd(call, handle);
  });

  test('attempts raised, then reset to 1 while it runs, send once', async () => {
    const { call, handle } = await start(named('reset'));
    await house.temporal.workflowService.updateActivityOptions({
      ...target(handle),
      activityOptions: { retryPolicy: { maximumAttempts: 100 }, heartbeatTimeout: msToTs(500) },
      updateMask: { paths: ['retry_policy.maximum_attempts', 'heartbeat_timeout'] },
    });
    await untilAttempt(handle, 2);
    await house.temporal.workflowService.resetActivity({ ...target(handle), identity: 'ann', resetHeartbeat: true });
    await until('it is attempt 1 or 2 again', async () => ((await pending(handle))?.attempt ?? 9) <= 2);
    await trueEnd(call, handle);
  });

  test('the workflow reset to its first task sends once', async () => {
    const { call, handle } = await start(named('workflow-reset'));
    const before = (await handle.describe()).runId;
    const { events } = await handle.fetchHistory();
    const completed = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    await house.temporal.workflowService.resetWorkflowExecution({
      namespace: house.namespace,
      workflowExecution: { workflowId: handle.workflowId, runId: before },
      reason: 'by an operator',
      workflowTaskFinishEventId: completed?.eventId ?? null,
      requestId: `reset-${call.call}`,
    });
    const reset = house.temporal.workflow.getHandle(handle.workflowId);
    expect((await reset.describe()).runId).not.toBe(before);
    await until('the new run waits for the call', async () => (await pending(reset)) !== undefined);
    await trueEnd(call, reset);
  });

  test('the workflow terminated and started again under its id sends once', async () => {
    const { call, handle } = await start(named('again'));
    await handle.terminate('by an operator');
    const again = await startLike(handle, handle.workflowId);
    await until('the new run waits for the call', async () => (await pending(again)) !== undefined);
    await trueEnd(call, again);
  });

  test('"start workflow like this one" beside it sends once', async () => {
    const { call, handle } = await start(named('like'));
    const like = await startLike(handle, `${handle.workflowId}-like`);
    await until('the other run waits for the call', async () => (await pending(like)) !== undefined);
    await trueEnd(call, handle);
    expect(outcomeIn(await like.result())).toEqual(outcomeIn(await handle.result()));
  });
});

/** What the UI does: the same type, queue and input. */
async function startLike(handle: WorkflowHandle, workflowId: string): Promise<WorkflowHandle> {
  const { events } = await handle.fetchHistory();
  const started = events?.[0]?.workflowExecutionStartedEventAttributes;
  await house.temporal.workflowService.startWorkflowExecution({
    namespace: house.namespace,
    workflowId,
    workflowType: started?.workflowType ?? null,
    taskQueue: { name: started?.taskQueue?.name ?? '' },
    input: started?.input ?? null,
    requestId: `like-${workflowId}`,
  });
  return house.temporal.workflow.getHandle(workflowId);
}

describe('a local call in flight', () => {
  test('whose workflow is terminated and started again, and started beside it, is sent once', async () => {
    const quick = await openHouse();
    try {
      await quick.fleet();
      const call = quick.call('NON_RETRYABLE', 'local');
      await quick.billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_hang' });
      const first = await userWorkflow(quick, [call], { lane: 'local' });
      await quick.billing.untilWaiting(1, 20_000);
      await first.terminate('by an operator');
      const again = await userWorkflow(quick, [call], { lane: 'local' });
      const beside = await userWorkflow(quick, [call], { lane: 'local' }, { id: 'beside' });
      await until('both runs have begun', async () => {
        const both = await Promise.all([again, beside].map((one) => one.fetchHistory()));
        return both.every(({ events }) => (events?.length ?? 0) >= 3);
      });
      await quick.billing.release();
      const outcomes = await Promise.all([again.result(), beside.result()]);
      expect(outcomes.map(outcomeIn)).toMatchObject([{ status: 'CONFIRMED' }, { status: 'CONFIRMED' }]);
      expect(await quick.sends(call)).toBe(1);
    } finally {
      await quick.close();
    }
  });
});
