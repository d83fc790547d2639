import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { temporal } from '@temporalio/proto';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDispatchActivities } from '../../../activities/dispatch-activities.ts';
import type { Holdfast } from '../../../client/holdfast.ts';
import type { Call, Outcome } from '../../../effects/effect.ts';
import type { Fleet } from '../../../workers/fleet.ts';
import { type House, openHouse, TENANT, userWorkflow } from '../support/house.ts';

type History = temporal.api.history.v1.IHistory;

let house: House;
let fleet: Fleet;
let host: Holdfast;

beforeAll(async () => {
  house = await openHouse();
  fleet = await house.fleet();
  host = house.hostOf(fleet);
});

afterAll(() => house?.close());

const kinds = (history: History) => (history.events ?? []).map((event) => Object.keys(event).find(isAttributes) ?? '');
const isAttributes = (key: string) => key.endsWith('EventAttributes');

test('a call of the lane workflow costs six events of history', async () => {
  const call = house.call('NON_RETRYABLE', 'six-events');
  await house.holdfast.dispatch(call);
  const history = await handleOf(call).fetchHistory();
  expect(kinds(history)).toEqual([
    'workflowExecutionStartedEventAttributes',
    'workflowTaskScheduledEventAttributes',
    'workflowTaskStartedEventAttributes',
    'workflowTaskCompletedEventAttributes',
    'markerRecordedEventAttributes',
    'workflowExecutionCompletedEventAttributes',
  ]);
});

test('a process that hosts a worker starts its own calls eagerly', async () => {
  const call = house.call('NON_RETRYABLE', 'eager');
  const outcome = await host.dispatch(call);
  const { events } = await handleOf(call).fetchHistory();
  const started = events?.[0]?.workflowExecutionStartedEventAttributes;
  expect({ status: outcome.status, eager: started?.eagerExecutionAccepted }).toEqual({
    status: 'CONFIRMED',
    eager: true,
  });
});

test('arguments and results above 8 KiB are not in the history of their workflow', async () => {
  const call = house.call('NON_RETRYABLE', 'large', { payee: 'p'.repeat(40_000) });
  await house.holdfast.dispatch(call);
  const { events } = await handleOf(call).fetchHistory();
  expect(JSON.stringify(events).length).toBeLessThan(16_000);
});

test('a caller that is killed is not missed: its call goes on', async () => {
  const call = house.call('NON_RETRYABLE', 'caller-gone');
  await house.billing.faults({
    route: 'POST /v1/payments',
    mode: 'accept_then_hang',
    match: { '/body/payee': call.call },
  });
  const { url, address, namespace } = house;
  const caller = spawn(
    process.execPath,
    [join(import.meta.dirname, 'caller.ts'), JSON.stringify({ url, address, namespace, call })],
    { stdio: 'ignore' },
  );
  const gone = new Promise((resolve) => caller.once('exit', (_code, signal) => resolve(signal)));
  await house.billing.untilWaiting(1, 20_000);
  caller.kill('SIGKILL');
  expect(await gone).toBe('SIGKILL');
  await house.billing.release();
  const { outcome } = (await handleOf(call).result()) as { outcome: Outcome };
  expect({ status: outcome.status, sends: await house.sends(call) }).toEqual({ status: 'CONFIRMED', sends: 1 });
  await house.billing.clearFaults();
});

describe("in a user's workflow", () => {
  test('waitMs waits until an UNKNOWN effect is settled by evidence', async () => {
    const call = house.call('NON_RETRYABLE', 'waits');
    await house.billing.faults({
      route: 'POST /v1/payments',
      mode: 'accept_then_close',
      times: 1,
      match: { '/body/payee': call.call },
    });
    const handle = await userWorkflow(house, [call], { waitMs: 20_000 });
    const [outcome] = (await handle.result()) as Outcome[];
    expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence' });
    expect(await house.sends(call)).toBe(1);
    await house.billing.clearFaults();
  });

  test.each(['local', 'activity'] as const)(
    'a cancelled workflow hears the true outcome of a call in flight, never "cancelled" (case 7): lane %s',
    async (lane) => {
      const call = house.call('NON_RETRYABLE', `cancelled-${lane}`);
      await house.billing.faults({
        route: 'POST /v1/payments',
        mode: 'accept_then_hang',
        match: { '/body/payee': call.call },
      });
      const handle = await userWorkflow(house, [call], { lane });
      await house.billing.untilWaiting(1, 20_000);
      await handle.cancel();
      await house.billing.release();
      const [outcome] = (await handle.result()) as Outcome[];
      expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
      expect(kinds(await handle.fetchHistory())).toContain('workflowExecutionCancelRequestedEventAttributes');
      expect(await house.sends(call)).toBe(1);
      await house.billing.clearFaults();
    },
  );

  test('a cancelled workflow hears UNKNOWN where nobody can tell (case 7)', async () => {
    const call = house.call('NON_RETRYABLE', 'cancelled-unknown');
    await house.billing.faults(
      { route: 'POST /v1/payments', mode: 'accept_then_hang', match: { '/body/payee': call.call } },
      { route: 'GET /v1/payments', mode: 'status', match: { '/query/reference': house.keyOf(call) } },
    );
    const handle = await userWorkflow(house, [call]);
    await house.billing.untilWaiting(1, 20_000);
    await handle.cancel();
    const [outcome] = (await handle.result()) as Outcome[];
    expect(outcome).toMatchObject({ status: 'UNKNOWN' });
    expect(await house.sends(call)).toBe(1);
    await house.billing.release();
    await house.billing.clearFaults();
  });

  test('a workflow task that fails 50 times right after a local call sends once (case 8)', async () => {
    const call = house.call('NON_RETRYABLE', 'stumbles');
    const handle = await userWorkflow(house, [call], {}, { type: 'stumble', taskTimeout: '1s' });
    const fallen = async () =>
      kinds(await handle.fetchHistory()).filter((kind) => /^workflowTask(Failed|TimedOut)E/.test(kind)).length;
    for (let falls = 0; falls < 50; falls = await fallen()) {
      await handle.signal('fallAgain');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await handle.signal('getUp');
    const [outcome] = (await handle.result()) as Outcome[];
    expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(await house.sends(call)).toBe(1);
  });
});

describe('an activity task', () => {
  test('that a worker took and lost before it recorded anything is dispatched again and sent once (case 3)', async () => {
    const call = house.call('NON_RETRYABLE', 'lost-task');
    const taskQueue = 'lossy';
    const handle = await userWorkflow(house, [call], { lane: 'activity', taskQueue });
    // What a worker does that dies with the task in its hands: it takes it and is never heard of again.
    const { connection, workflowService } = house.temporal;
    const taken = await connection.withDeadline(Date.now() + 20_000, () =>
      workflowService.pollActivityTaskQueue({
        namespace: house.namespace,
        taskQueue: { name: taskQueue },
        identity: 'a worker that dies',
      }),
    );
    expect(taken.activityType?.name).toBe('dispatchEffect');
    expect(await house.row(call.call)).toBeUndefined();
    const worker = await Worker.create({
      connection: fleet.temporal.connection,
      namespace: house.namespace,
      taskQueue,
      activities: createDispatchActivities({ dispatcher: fleet.dispatcher, providerQueue: () => taskQueue }),
    });
    const [outcome] = await worker.runUntil(handle.result() as Promise<Outcome[]>);
    expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(await house.sends(call)).toBe(1);
  });
});

function handleOf(call: Call) {
  return house.temporal.workflow.getHandle(`call:${TENANT}:${call.run}:${call.call}`);
}
