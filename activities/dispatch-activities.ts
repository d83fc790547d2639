import { heartbeat } from '@temporalio/activity';
import { loadCall, storeArguments } from '../dispatcher/call-input.ts';
import type { Dispatcher } from '../dispatcher/dispatcher.ts';
import { awaitOutcome } from '../dispatcher/outcome-wait.ts';
import { type CallHashes, hashCall } from '../dispatcher/prepare.ts';
import { withdrawCall } from '../dispatcher/withdraw.ts';
import type { Call } from '../effects/effect.ts';
import { asFailure } from './failure.ts';
import type { DispatchActivities, LocalStep } from './types.ts';

const HEARTBEAT_EVERY_MS = 2_000;

/** What the activities of a worker need. */
export interface DispatchActivityOptions {
  readonly dispatcher: Dispatcher;
  /** Queue of the activity lane for a provider. */
  readonly providerQueue: (provider: string) => string;
  /** Calls declared to take longer than this go by the activity lane. Default 5000. */
  readonly localTimeoutMaxMs?: number;
}

/** The dispatcher as activities, a thin line each. */
export function createDispatchActivities(options: DispatchActivityOptions): DispatchActivities {
  const { dispatcher, providerQueue, localTimeoutMaxMs = 5_000 } = options;
  return {
    dispatchLocal: ({ call: input, waitMs }) =>
      asFailure(async () => {
        const call = await loadCall(dispatcher.deps, input);
        const hashes = hashCall(call);
        const elsewhere = await whoElse(dispatcher, call, providerQueue, localTimeoutMaxMs);
        if (elsewhere !== undefined) return withReference(dispatcher, call, hashes, elsewhere);
        const outcome = await within(waitMs, dispatcher.dispatch(call, hashes));
        if (outcome !== undefined) return { use: 'outcome', outcome, argsHash: hashes.argsHash.toString('hex') };
        // Somebody else's flight takes longer than a workflow task may: wait for it in an activity.
        return withReference(dispatcher, call, hashes, {
          taskQueue: await queueOf(dispatcher, call, providerQueue),
          timeoutMs: localTimeoutMaxMs,
        });
      }),

    dispatchEffect: ({ call: input }) =>
      asFailure(() =>
        beating(async () => {
          const call = await loadCall(dispatcher.deps, input);
          const hashes = hashCall(call);
          const outcome = await dispatcher.dispatch(call, hashes);
          return { outcome, argsHash: hashes.argsHash.toString('hex') };
        }),
      ),

    withdrawUnserved: ({ call: input, taskQueue, waitedMs }) =>
      asFailure(async () => {
        const call = await loadCall(dispatcher.deps, input);
        const { argsHash } = hashCall(call);
        const outcome = await withdrawCall(dispatcher.deps, call, argsHash, {
          code: 'provider_not_served',
          message: `no worker took the call from the queue ${taskQueue} within ${Math.round(waitedMs / 1000)} s; nothing was sent`,
          actor: dispatcher.lease.processId,
        });
        return { outcome, argsHash: argsHash.toString('hex') };
      }),

    awaitOutcome: ({ id, waitMs }) => asFailure(() => beating(() => awaitOutcome(dispatcher.deps, id, waitMs))),
  };
}

interface Elsewhere {
  readonly taskQueue: string;
  readonly timeoutMs: number;
}

/**
 * Where a call goes that this local step should not take: declared too long, no adapter or no free slot here.
 * A contract that cannot be resolved is not "elsewhere": the dispatcher refuses it properly.
 */
async function whoElse(
  dispatcher: Dispatcher,
  call: Call,
  providerQueue: (provider: string) => string,
  localTimeoutMaxMs: number,
): Promise<Elsewhere | undefined> {
  const contract = await dispatcher.deps.registry.resolve(call).catch(() => undefined);
  if (contract === undefined) return undefined;
  const { provider, timeoutMs } = contract.execution;
  if (timeoutMs <= localTimeoutMaxMs && dispatcher.canTake(provider)) return undefined;
  return { taskQueue: providerQueue(provider), timeoutMs };
}

async function queueOf(
  dispatcher: Dispatcher,
  call: Call,
  providerQueue: (provider: string) => string,
): Promise<string> {
  return providerQueue((await dispatcher.deps.registry.resolve(call)).execution.provider);
}

/** Large arguments are stored first and travel by reference (PROTOCOL 8.3). */
async function withReference(
  dispatcher: Dispatcher,
  call: Call,
  hashes: CallHashes,
  elsewhere: Elsewhere,
): Promise<LocalStep> {
  const argsRef = await storeArguments(dispatcher.deps, call, hashes);
  const { queueWaitMs } = dispatcher.deps.settings;
  return { use: 'activity', ...elsewhere, queueWaitMs, ...(argsRef === undefined ? {} : { argsRef }) };
}

/** `undefined` when it takes longer; the flight itself goes on (PROTOCOL 3.4). */
async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}

/** Heartbeats while it works. A cancellation is not looked at: it would abort neither send nor settle. */
export async function beating<T>(work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => heartbeat(), HEARTBEAT_EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
