import { randomUUID } from 'node:crypto';
import { type Client, WorkflowIdConflictPolicy, WorkflowIdReusePolicy } from '@temporalio/client';
import { type PayloadCodec, passThrough } from '../db/codec.ts';
import type { Ledger } from '../db/connect.ts';
import { RegistryCache } from '../db/contract-cache.ts';
import { type EffectDetails, type EffectFilter, type EffectPage, listEffects, showEffect } from '../db/queries.ts';
import { type EffectRow, readEffect } from '../db/statements/index.ts';
import { storeArguments } from '../dispatcher/call-input.ts';
import { type DecisionAnswer, type DecisionRequest, decide } from '../dispatcher/decide.ts';
import type { Dispatcher } from '../dispatcher/dispatcher.ts';
import { outcomeOf } from '../dispatcher/outcome.ts';
import { awaitOutcome } from '../dispatcher/outcome-wait.ts';
import { type CallHashes, hashCall } from '../dispatcher/prepare.ts';
import { existingRow } from '../dispatcher/row.ts';
import { callIdReused, isSameCall, namedBy } from '../dispatcher/same-call.ts';
import { DEFAULT_SETTINGS, type DispatcherSettings } from '../dispatcher/settings.ts';
import { withdrawCall } from '../dispatcher/withdraw.ts';
import { type Call, type EffectId, effectIdText, type Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { dispatchCall } from '../workflows/dispatch-call.ts';
import { taskQueues } from '../workflows/queues.ts';
import { Reconciliations } from './reconciliations.ts';
import { endedByOperator, translateTemporal } from './temporal-errors.ts';

export interface HoldfastOptions {
  readonly ledger: Ledger;
  /** For the `workflow` lane and for starting reconciliations; without it only the `direct` lane and the ledger serve. */
  readonly temporal?: Client;
  /** For the `direct` lane, and for eager starts: the dispatcher of this very process. */
  readonly dispatcher?: Dispatcher;
  /** True when this process hosts a worker of the dispatch queue on the same connection. */
  readonly hostsWorker?: boolean;
  readonly queuePrefix?: string;
  readonly codec?: PayloadCodec;
  readonly settings?: DispatcherSettings;
}

/** A call and how it is wanted. The lane changes cost, never the guarantee. */
export interface DispatchRequest extends Call {
  /** Default `workflow`: goes on when this process is gone. `direct`: in this process's own dispatcher. */
  readonly lane?: 'workflow' | 'direct';
  /** Milliseconds to wait for an outcome that is not UNKNOWN. Default 30000. */
  readonly waitMs?: number;
}

/** What {@link Holdfast.decide} takes; ids, actor and source are the caller's own words. */
export type DecideRequest = Omit<DecisionRequest, 'decisionId' | 'force' | 'correction' | 'result' | 'expected'> &
  Partial<Pick<DecisionRequest, 'decisionId' | 'force' | 'correction' | 'expected'>> & { readonly result?: unknown };

const WAIT_DEFAULT_MS = 30_000;
const WATCH_MS = 1_000;
/** Temporal gets this long to take a call, however short its caller wants to wait: a busy one answers well within it. */
const TAKE_MIN_MS = 5_000;

/** The lanes from outside a workflow, decisions and queries. Safe to share; holds no state of its own. */
export class Holdfast {
  readonly #options: HoldfastOptions;
  readonly #registry: RegistryCache;
  readonly #codec: PayloadCodec;
  readonly #settings: DispatcherSettings;
  readonly #reconciliations: Reconciliations | undefined;

  constructor(options: HoldfastOptions) {
    this.#options = options;
    this.#registry = new RegistryCache(options.ledger);
    this.#codec = options.codec ?? passThrough;
    this.#settings = options.settings ?? DEFAULT_SETTINGS;
    this.#reconciliations =
      options.temporal === undefined
        ? undefined
        : new Reconciliations(options.temporal, taskQueues(options.queuePrefix).reconcile);
  }

  /**
   * Dispatches one call and waits for its outcome. Idempotent per call id: a repeat gets the recorded outcome,
   * or joins. Resolves with CONFIRMED, NOT_APPLIED (also for refusals, with their code) or UNKNOWN.
   * Throws HoldfastError for malformed calls, `call_id_reused`, `busy`, `ledger_unreachable`, `temporal_unreachable`.
   * The last one comes within about `waitMs` (5 s where that is less). The call may have been taken all the same: the same call
   * id is safe to repeat, in any lane.
   */
  async dispatch(request: DispatchRequest): Promise<Outcome> {
    const { lane = 'workflow', waitMs = WAIT_DEFAULT_MS, ...call } = request;
    const hashes = hashCall(call);
    const until = performance.now() + waitMs;
    const way = lane === 'direct' ? this.#direct : this.#byWorkflow;
    const outcome = await way.call(this, call, hashes, waitMs);
    const leftMs = until - performance.now();
    // Once the wait is over there may be no row yet: then what was heard stands. A timer may fire a millisecond early.
    if (outcome.status !== 'UNKNOWN' || outcome.effectClass === null || leftMs <= 1) return outcome;
    return this.outcome(call, leftMs);
  }

  async #direct(call: Call, hashes: CallHashes, waitMs: number): Promise<Outcome> {
    const { dispatcher } = this.#options;
    if (dispatcher === undefined) {
      throw new HoldfastError('bad_input', 'the direct lane needs a dispatcher in this process', { place: '/lane' });
    }
    return within(waitMs, dispatcher.dispatch(call, hashes), () => this.#notYet(call, hashes.argsHash));
  }

  async #byWorkflow(call: Call, hashes: CallHashes, waitMs: number): Promise<Outcome> {
    const client = this.#temporal();
    const until = performance.now() + waitMs;
    const { argsHash } = hashes;
    const deps = {
      ledger: this.#options.ledger,
      registry: this.#registry,
      codec: this.#codec,
      settings: this.#settings,
    };
    const argsRef = await storeArguments(deps, call, hashes);
    const { args: _args, ...rest } = call;
    const input = argsRef === undefined ? call : { ...rest, argsRef };
    try {
      const handle = await taken(client, waitMs, () =>
        client.workflow.start<typeof dispatchCall>('dispatchCall', {
          workflowId: `call:${call.tenant}:${call.run}:${call.call}`,
          taskQueue: taskQueues(this.#options.queuePrefix).dispatch,
          args: [{ call: input }],
          // The ledger answers a repeat, so a closed run is no obstacle, and a running one is joined.
          workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
          workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
          ...(this.#options.hostsWorker ? { requestEagerStart: true } : {}),
        }),
      );
      const watch = new AbortController();
      try {
        // Ended with the wait: a poll left behind outlives the caller's connection, and its retry then throws past every await.
        const answered = client.withAbortSignal(watch.signal, () => handle.result());
        const first = Promise.race([answered, this.#watchLedger(call, argsHash, watch.signal)]);
        const leftMs = Math.max(1, until - performance.now());
        const result = await within(leftMs, first, () => undefined);
        if (result === undefined) return await this.#notYet(call, argsHash);
        const { outcome } = result;
        const own =
          result.argsHash === argsHash.toString('hex') &&
          outcome.tool === call.tool &&
          outcome.version === call.version;
        if (!own) throw callIdReused(call);
        return outcome;
      } finally {
        watch.abort();
      }
    } catch (error) {
      // The row tells what became of the call, not the workflow (rule 6).
      if (endedByOperator(error)) return this.#notYet(call, argsHash);
      throw translateTemporal(error);
    }
  }

  /**
   * The outcome as soon as the ledger has it: after a crash that is seconds before Temporal notices the dead worker.
   * Begins when a healthy call would be over, so that one costs nothing.
   */
  async #watchLedger(call: Call, argsHash: Buffer, signal: AbortSignal): ReturnType<typeof dispatchCall> {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
      if (signal.aborted) return new Promise(() => undefined);
      // The ledger may be away for a moment; the workflow's own answer is waited for all the same.
      const row = await this.#row(call).catch(() => undefined);
      const outcome = row === undefined ? undefined : outcomeOf(row, this.#codec);
      if (row !== undefined && outcome !== undefined && outcome.status !== 'UNKNOWN') {
        if (!isSameCall(namedBy(call, argsHash), row)) throw callIdReused(call);
        return { outcome, argsHash: argsHash.toString('hex') };
      }
    }
  }

  /** The wait is over and the call goes on: tell what the ledger knows. */
  async #notYet(call: Call, argsHash: Buffer): Promise<Outcome> {
    const row = await this.#row(call);
    if (row !== undefined && !isSameCall(namedBy(call, argsHash), row)) throw callIdReused(call);
    if (row !== undefined) return this.outcome(call, 0);
    return {
      status: 'UNKNOWN',
      effectId: effectIdText(call),
      tool: call.tool,
      version: call.version,
      effectClass: null,
      message: `under way, but not recorded yet; repeat with the same call id to hear its outcome, effect id ${effectIdText(call)}`,
      attention: null,
      nextLookAt: null,
    };
  }

  /** Waits up to `waitMs` for an effect to be settled. Throws `effect_not_found`. */
  async outcome(id: EffectId, waitMs = 0): Promise<Outcome> {
    return awaitOutcome({ ledger: this.#options.ledger, codec: this.#codec }, id, waitMs);
  }

  /**
   * Makes a final "not sent" of a call that nobody recorded yet, or says what its row says (PROTOCOL 2.4).
   * A caller that gives up asks this first, and only then tells its user.
   */
  async withdraw(call: Call, actor: string): Promise<Outcome> {
    const { argsHash } = hashCall(call);
    const { ledger } = this.#options;
    return withdrawCall({ ledger, registry: this.#registry, codec: this.#codec }, call, argsHash, {
      code: 'withdrawn',
      message: 'the call was withdrawn before anything was sent',
      actor,
    });
  }

  /** One effect with its whole history. Throws `effect_not_found`. */
  effect(id: EffectId, options: { payloads?: boolean } = {}): Promise<EffectDetails> {
    return showEffect(this.#options.ledger, id, options.payloads ? this.#codec : undefined);
  }

  effects(filter: EffectFilter = {}): Promise<EffectPage> {
    return listEffects(this.#options.ledger, filter);
  }

  /**
   * Rules by hand. Recorded in the ledger at once, also with the fleet and Temporal down; a running
   * reconciliation is told afterwards. Without `expected` the current version of the effect is taken.
   */
  async decide(request: DecideRequest): Promise<DecisionAnswer> {
    const row = await existingRow(this.#options.ledger, request.id);
    const { result, ...rest } = request;
    const encoded =
      result === undefined ? {} : { result: this.#codec.encode(JSON.stringify(result), { tenant: request.id.tenant }) };
    const { ledger } = this.#options;
    const answer = await decide(
      { ledger, contract: (digest) => this.#registry.byDigest(digest), clockMarginMs: this.#settings.clockMarginMs },
      {
        decisionId: randomUUID(),
        force: false,
        correction: false,
        expected: { status: row.status, fence: row.fence },
        ...rest,
        ...encoded,
      },
    );
    // Only so that the workflow closes soon; the decision stands without it.
    await this.checkNow(request.id).catch(() => undefined);
    return answer;
  }

  /** Asks for a look now: starts the reconciliation where none runs. Throws `effect_not_found`, `temporal_unreachable`. */
  async checkNow(id: EffectId): Promise<void> {
    const row = await this.#row(id);
    if (row === undefined)
      throw new HoldfastError('effect_not_found', `the ledger has no ${effectIdText(id)}`, { place: effectIdText(id) });
    try {
      const { tool, version, effectClass } = row;
      const effect = { id, tool, version, effectClass: effectClass ?? 'UNKNOWN' };
      await taken(this.#temporal(), 0, async () => this.#reconciliations?.nudge(effect));
    } catch (error) {
      throw translateTemporal(error);
    }
  }

  /** The digest of a published version, to be pinned by a caller. Throws `tool_contract_not_found`. */
  async pin(tool: string, version: string): Promise<{ tool: string; version: string; digest: string }> {
    const contract = await this.#registry.resolve({ tool, version });
    return { tool, version, digest: contract.digest };
  }

  #row(id: EffectId): Promise<EffectRow | undefined> {
    const { ledger } = this.#options;
    return ledger.run('read', () => readEffect(ledger.sql, id));
  }

  #temporal(): Client {
    const { temporal } = this.#options;
    if (temporal === undefined)
      throw new HoldfastError('temporal_unreachable', 'this client has no connection to Temporal');
    return temporal;
  }
}

/**
 * A request that Temporal has to take within `waitMs`, or within {@link TAKE_MIN_MS} if that is longer; the client by itself
 * would try for some 20 s. It is ended by a deadline and not by a race: a try that is left behind starts the call after it
 * was refused, or throws past every await once its connection is closed. The client looks at the deadline only with its
 * next try, and waits about as long before that as it has tried so far, at most 6 s: so the deadline comes earlier.
 */
function taken<T>(client: Client, waitMs: number, ask: () => Promise<T>): Promise<T> {
  const ms = Math.max(waitMs, TAKE_MIN_MS);
  return client.withDeadline(Date.now() + Math.max(0.6 * ms, ms - 6_000), ask);
}

/** `work`, or what `late` says after `ms`; the work itself goes on. */
async function within<T, L>(ms: number, work: Promise<T>, late: () => L | Promise<L>): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), ms);
  });
  try {
    const first = await Promise.race([work.then((value) => ({ value })), timeout]);
    return first === 'late' ? await late() : first.value;
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}
