import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Call } from '../../../effects/effect.ts';
import { until } from '../../crash/support/world.ts';
import type { failAtFirst } from '../../support/workflows/fail-at-first.ts';
import { type House, openHouse, TENANT } from '../support/house.ts';

/** Whatever makes Temporal run a finished workflow's code again, its calls are not made again (case 2). */
let house: House;

beforeAll(async () => {
  house = await openHouse();
  await house.fleet();
});

afterAll(() => house?.close());

const QUEUE = 'holdfast-provider-billing';

test.each(['local', 'activity'] as const)(
  'effect key and row survive a workflow’s retries, continue-as-new, reset and new run: one send (case 2): lane %s',
  async (lane) => {
    const call = house.call('NON_RETRYABLE', `runs-${lane}`);
    const first = await start(call, lane);
    const outcomes = await first.result();
    expect(outcomes).toMatchObject([{ status: 'CONFIRMED', settledBy: 'holder' }]);
    const row = await rowOf(call);
    // Two attempts that failed, the third, and the run in which that went on.
    expect((await runsOf(first, 4)).sort()).toEqual(['COMPLETED', 'CONTINUED_AS_NEW', 'FAILED', 'FAILED']);

    const reset = await resetToStart(first);
    expect(await reset.result()).toEqual(outcomes);
    const again = await start(call, lane);
    expect(await again.result()).toEqual(outcomes);
    // The last run once more, and then all four.
    await runsOf(first, 4 + 1 + 4);

    expect(await rowOf(call)).toEqual(row);
    expect(row.effectKey).toBe(house.keyOf(call));
    expect(await house.sends(call)).toBe(1);
  },
);

function start(call: Call, lane: 'local' | 'activity') {
  return house.temporal.workflow.start<typeof failAtFirst>('failAtFirst', {
    workflowId: `agent-${house.run}-${call.call}`,
    taskQueue: 'holdfast',
    retry: { initialInterval: '100ms', maximumAttempts: 3 },
    args: [
      {
        tenant: TENANT,
        run: house.run,
        calls: [call],
        options: lane === 'local' ? { lane } : { lane, taskQueue: QUEUE },
      },
    ],
  });
}

/** What a second send, claim or settlement would change. */
async function rowOf({ call }: Call) {
  const row = await house.row(call);
  if (row === undefined) throw new Error(`${call} has no row`);
  const { effectKey, nonce, fence, sends, recordedAtMs, status, settledBy, result, providerRef } = row;
  return { effectKey, nonce, fence, sends, recordedAtMs, status, settledBy, result, providerRef };
}

/** The statuses of all runs under the workflow's id, once the server lists so many: its list comes a little later. */
function runsOf({ workflowId }: WorkflowHandle, count: number): Promise<string[]> {
  return until(`${count} runs are listed`, async () => {
    const statuses: string[] = [];
    const query = `WorkflowId = "${workflowId}"`;
    for await (const { status } of house.temporal.workflow.list({ query })) statuses.push(status.name);
    return statuses.length === count && !statuses.includes('RUNNING') && statuses;
  });
}

/** What an operator does in the UI: the newest run begins again at its first workflow task. */
async function resetToStart({ workflowId }: WorkflowHandle): Promise<WorkflowHandle<typeof failAtFirst>> {
  const { runId } = await house.temporal.workflow.getHandle(workflowId).describe();
  const { events } = await house.temporal.workflow.getHandle(workflowId, runId).fetchHistory();
  const completed = events?.find((event) => event.workflowTaskCompletedEventAttributes);
  const { runId: resetRunId } = await house.temporal.workflowService.resetWorkflowExecution({
    namespace: house.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'by an operator',
    workflowTaskFinishEventId: completed?.eventId ?? null,
    requestId: randomUUID(),
  });
  return house.temporal.workflow.getHandle(workflowId, resetRunId);
}
