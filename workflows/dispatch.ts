import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  patched,
  proxyActivities,
  proxyLocalActivities,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { CallInput, DispatchActivities, DispatchResult } from '../activities/types.ts';
import type { JsonObject } from '../contracts/contract.ts';
import type { Outcome } from '../effects/effect.ts';

/** A local call, any wait included, stays below 0.8 of the default workflow-task time-out of 10 s (PROTOCOL 8.2). */
const LOCAL_WAIT_MS = 7_000;
/** An activity may be tried again for as long as it takes: the ledger is the gate, so a retry never sends twice. */
const HEARTBEAT_MS = 10_000;
/** Long enough for a deployment or an outage of a provider's workers; past it the call gets a clear end. */
const QUEUE_WAIT_MS = 900_000;
const QUEUE_WAIT_MIN_MS = 1_000;

const { dispatchLocal, withdrawUnserved } = proxyLocalActivities<DispatchActivities>({
  startToCloseTimeout: LOCAL_WAIT_MS + 1_000,
  retry: { initialInterval: 100, maximumInterval: 5_000 },
  // A retry that would wait longer than a workflow task goes on as a timer in history.
  localRetryThreshold: 1_000,
});

/** What one call of a workflow may choose. None of it changes the guarantee. */
export interface DispatchOptions {
  /** `local` (default): a local activity, which itself hands longer calls to the activity lane. `activity`: at once. */
  readonly lane?: 'local' | 'activity';
  /** With lane `activity`: the queue of the provider; default the workflow's own. */
  readonly taskQueue?: string;
  /**
   * With lane `activity`: milliseconds that the call waits there for a worker before it is withdrawn, and NOT_APPLIED with
   * `provider_not_served`. Default 900000. A call with `notAfter` waits no longer than that.
   */
  readonly queueWaitMs?: number;
  /** Milliseconds to wait for a settled outcome when it is UNKNOWN. Default 0. */
  readonly waitMs?: number;
}

/**
 * Dispatches one call from inside a workflow. Not cancellable: a cancelled workflow hears the true outcome
 * (or UNKNOWN), never "cancelled", for a call that may have been sent (rule 6).
 */
export function dispatchFromWorkflow(call: CallInput, options: DispatchOptions = {}): Promise<DispatchResult> {
  return CancellationScope.nonCancellable(() => dispatched(call, options));
}

// Few functions on purpose: the SDK takes a stack trace, source maps included, for each promise of a workflow, and a
// promise less is some 0.1 ms of processor time less for each call.
async function dispatched(call: CallInput, options: DispatchOptions): Promise<DispatchResult> {
  const result = await (options.lane === 'activity' ? viaQueue(call, options) : viaLocal(call));
  const { waitMs = 0 } = options;
  if (result.outcome.status !== 'UNKNOWN' || waitMs <= 0) return result;
  const { awaitOutcome } = proxyActivities<DispatchActivities>({
    startToCloseTimeout: waitMs + 30_000,
    heartbeatTimeout: HEARTBEAT_MS,
    allowEagerDispatch: false,
    retry: { maximumAttempts: 20 },
  });
  return { ...result, outcome: await awaitOutcome({ id: idOf(call), waitMs }) };
}

function viaLocal(call: CallInput): Promise<DispatchResult> {
  return dispatchLocal({ call, waitMs: LOCAL_WAIT_MS }).then((step) => {
    if (step.use === 'outcome') return { outcome: step.outcome, argsHash: step.argsHash };
    const { args: _stored, ...rest } = call;
    const slim = step.argsRef === undefined ? call : ({ ...rest, argsRef: step.argsRef } as CallInput);
    return viaQueue(slim, step);
  });
}

interface Queue {
  readonly taskQueue?: string;
  readonly timeoutMs?: number;
  readonly queueWaitMs?: number;
}

/** The activity lane. A call that nobody takes from the queue is withdrawn: its row decides whether it was never sent. */
async function viaQueue(call: CallInput, queue: Queue): Promise<DispatchResult> {
  const { taskQueue = workflowInfo().taskQueue, queueWaitMs = QUEUE_WAIT_MS } = queue;
  const leftMs = Date.parse(call.notAfter ?? '') - Date.now();
  const waitedMs = Math.max(QUEUE_WAIT_MIN_MS, Number.isNaN(leftMs) ? queueWaitMs : Math.min(queueWaitMs, leftMs));
  try {
    return await viaActivity(call, queue, waitedMs);
  } catch (error) {
    // Only here, since nothing else of the healthy path has changed and a patch costs two events.
    if (!wasNotTaken(error) || !patched('holdfast/withdraw-unserved')) throw error;
    return await withdrawUnserved({ call, taskQueue, waitedMs });
  }
}

function wasNotTaken(error: unknown): boolean {
  if (!(error instanceof ActivityFailure) || !(error.cause instanceof TimeoutFailure)) return false;
  return error.cause.timeoutType === 'SCHEDULE_TO_START';
}

function viaActivity(
  call: CallInput,
  { taskQueue, timeoutMs }: Queue,
  scheduleToStartTimeout: number,
): Promise<DispatchResult> {
  const { dispatchEffect } = proxyActivities<DispatchActivities>({
    ...(taskQueue === undefined ? {} : { taskQueue }),
    scheduleToStartTimeout,
    // The claim's own deadline ends the waiting; this bounds a worker that lost its mind.
    startToCloseTimeout: (timeoutMs ?? 3_600_000) + 120_000,
    heartbeatTimeout: HEARTBEAT_MS,
    // An eager task may be handed to a worker that cannot run it, and times out for no reason (temporalio/sdk-typescript#1326).
    allowEagerDispatch: false,
    retry: { initialInterval: 200, maximumInterval: 10_000 },
  });
  return dispatchEffect({ call });
}

const idOf = (call: CallInput) => ({ tenant: call.tenant, run: call.run, call: call.call });

/** One call, as a user's workflow names it. The call id has no default: it has to stay the same when code moves. */
export interface WorkflowCall {
  readonly call: string;
  readonly tool: string;
  readonly version: string;
  readonly digest?: string;
  readonly args: JsonObject;
  readonly override?: { readonly actor: string; readonly reason: string };
  readonly notAfter?: string;
}

/**
 * The client for a user's own Temporal workflow. The worker that runs it registers the activities of
 * `holdfast/worker`.
 *
 * @example
 * const holdfast = holdfastFor({ tenant: 'acme', run: workflowInfo().workflowId });
 * const outcome = await holdfast.dispatch({ call: 'invoice-1', tool: 'billing.send_invoice', version: '1.0.0', args });
 */
export function holdfastFor(session: { readonly tenant: string; readonly run: string }) {
  return {
    async dispatch(call: WorkflowCall, options: DispatchOptions = {}): Promise<Outcome> {
      const { outcome } = await dispatchFromWorkflow({ ...session, ...call }, options);
      return outcome;
    },
    /** Like `dispatch`, but throws `ApplicationFailure` (type = the code) unless CONFIRMED. */
    async dispatchConfirmed(call: WorkflowCall, options: DispatchOptions = {}) {
      const { outcome } = await dispatchFromWorkflow({ ...session, ...call }, options);
      if (outcome.status === 'CONFIRMED') return outcome;
      throw outcome.status === 'UNKNOWN'
        ? ApplicationFailure.nonRetryable(outcome.message, 'outcome_unknown', outcome)
        : ApplicationFailure.nonRetryable(outcome.reason.message, outcome.reason.code, outcome);
    },
  };
}
