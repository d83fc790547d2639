import type { Client } from '@temporalio/client';
import type { DispatchRequest, Holdfast } from '../client/index.ts';
import { invoiceOf } from './plain.ts';
import { type Contender, interleave, type Ratios } from './rounds.ts';
import { plainTwoCommits, QUEUES, type Stage, TENANT, TOOL } from './stage.ts';
import type { heldMany, plainMany, plainOnce } from './workflows.ts';

export const IN_FLIGHT = [1, 8, 32] as const;
export type ByFlight = Readonly<Record<`${(typeof IN_FLIGHT)[number]}`, Ratios>>;
/** Calls in a row inside one workflow. */
export const ROW = 20;

/** Calls of each contender in one round: long enough for a median, short enough for many rounds. */
const WORKFLOW_CALLS = { 1: 12, 8: 48, 32: 96 } as const;
const DIRECT_CALLS = { 1: 200, 8: 480, 32: 960 } as const;
/** Room for the highest call number of one plan. */
const STRIDE = 1_000_000;

/** A call through Holdfast that has to be confirmed, or the figure would mean nothing. */
export function held(holdfast: Holdfast, lane: 'workflow' | 'direct', run: string, digest: string): Contender {
  return async (n) => {
    const request: DispatchRequest = {
      tenant: TENANT,
      run,
      call: `c${n}`,
      ...TOOL,
      digest,
      args: { ...invoiceOf(n) },
      lane,
    };
    const outcome = await holdfast.dispatch(request);
    if (outcome.status !== 'CONFIRMED') throw new Error(`${run} c${n}: ${JSON.stringify(outcome)}`);
  };
}

function plain(client: Client, taskQueue: string, run: string, eager: boolean): Contender {
  return (n) =>
    client.workflow.execute<typeof plainOnce>('plainOnce', {
      workflowId: `plain-${run}-${n}`,
      taskQueue,
      args: [invoiceOf(n)],
      ...(eager ? { requestEagerStart: true } : {}),
    });
}

/** `workflow` lane against a workflow with one plain activity; each worker in a process of its own. */
export function workflowLane(stage: Stage, digest: string, budgetMs: number): Promise<ByFlight> {
  return eachFlight(WORKFLOW_CALLS, budgetMs, (inFlight) => [
    held(stage.holdfast, 'workflow', `own-${inFlight}`, digest),
    plain(stage.client, QUEUES.ownPlain, `own-${inFlight}`, false),
  ]);
}

/**
 * The same with both workers in the caller's process, which is where Holdfast starts eagerly. The baseline is the
 * workflow that people write, without eager start; `eagerBaseline` gives it that as well.
 */
export function workflowLaneHere(
  stage: Stage,
  digest: string,
  budgetMs: number,
  eagerBaseline: boolean,
): Promise<ByFlight> {
  const name = eagerBaseline ? 'both' : 'here';
  return eachFlight(WORKFLOW_CALLS, budgetMs, (inFlight) => [
    held(stage.holdfastHere, 'workflow', `${name}-${inFlight}`, digest),
    plain(stage.clientHere, QUEUES.herePlain, `${name}-${inFlight}`, eagerBaseline),
  ]);
}

/** `direct` lane against the bare call between an insert and an update. */
export async function directLane(stage: Stage, digest: string, budgetMs: number): Promise<ByFlight> {
  const bare = plainTwoCommits(stage.postgresUrl, stage.providerUrl);
  try {
    return await eachFlight(DIRECT_CALLS, budgetMs, (inFlight) => [
      held(stage.holdfastHere, 'direct', `direct-${inFlight}`, digest),
      (n) => bare.run(`direct-${inFlight}-${n}`, invoiceOf(n)),
    ]);
  } finally {
    await bare.close();
  }
}

/** Inside a workflow: calls in a row by the `local` lane against plain activities. Times are those of a whole row. */
export function localLane(stage: Stage, digest: string, budgetMs: number): Promise<Ratios> {
  const row = (n: number) => Array.from({ length: ROW }, (_, i) => invoiceOf(n * ROW + i));
  const { workflow } = stage.client;
  return interleave(
    (n) =>
      workflow.execute<typeof heldMany>('heldMany', {
        workflowId: `held-row-${n}`,
        taskQueue: QUEUES.own,
        args: [row(n), { ...TOOL, digest }],
      }),
    (n) =>
      workflow.execute<typeof plainMany>('plainMany', {
        workflowId: `plain-row-${n}`,
        taskQueue: QUEUES.ownPlain,
        args: [row(n)],
      }),
    { inFlight: 1, calls: 1, budgetMs },
  );
}

/** Mean history events per effect, counted on finished workflows of each kind. */
export async function historyEvents(stage: Stage): Promise<{ workflowLane: number; localLane: number; plain: number }> {
  const mean = async (ids: readonly string[], effects: number): Promise<number> => {
    const counts = await Promise.all(ids.map((id) => eventCount(stage.client, id)));
    return counts.reduce((sum, count) => sum + count, 0) / (ids.length * effects);
  };
  const numbers = Array.from({ length: 16 }, (_, n) => n);
  return {
    workflowLane: await mean(
      numbers.map((n) => `call:${TENANT}:own-1:c${n}`),
      1,
    ),
    localLane: await mean(['held-row-0', 'held-row-1', 'held-row-2'], ROW),
    plain: await mean(
      numbers.map((n) => `plain-own-1-${n}`),
      1,
    ),
  };
}

async function eventCount(client: Client, workflowId: string): Promise<number> {
  const history = await client.workflow.getHandle(workflowId).fetchHistory();
  return history.events?.length ?? 0;
}

async function eachFlight(
  calls: Readonly<Record<(typeof IN_FLIGHT)[number], number>>,
  budgetMs: number,
  contenders: (inFlight: number) => readonly [Contender, Contender],
): Promise<ByFlight> {
  const found: Partial<Record<`${(typeof IN_FLIGHT)[number]}`, Ratios>> = {};
  for (const [index, inFlight] of IN_FLIGHT.entries()) {
    const [ours, theirs] = contenders(inFlight);
    const base = index * STRIDE;
    found[`${inFlight}`] = await interleave(
      (n) => ours(n + base),
      (n) => theirs(n + base),
      { inFlight, calls: calls[inFlight], budgetMs },
    );
  }
  return found as ByFlight;
}
