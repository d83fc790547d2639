import { randomUUID } from 'node:crypto';
import { appendEvent, type EffectRow, readEffect, type Settlement } from '../db/statements/index.ts';
import { type Call, type EffectId, effectIdText, type Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { withdrawAbandoned } from './abandoned.ts';
import { Bulkhead } from './bulkhead.ts';
import { admissionOf, ClaimInDoubt, claim, openTwin, whyNotClaimed } from './claim.ts';
import { monotonicMs, sleep, wallMs } from './clock.ts';
import { debugPoint } from './debug-point.ts';
import type { DispatcherDeps } from './deps.ts';
import { followRow } from './follow.ts';
import { FleetLease } from './lease.ts';
import { stateBefore } from './look.ts';
import { outcomeOf } from './outcome.ts';
import { type CallHashes, hashCall, type Prepared, type Problem, prepare } from './prepare.ts';
import { driftOf, recordRefused } from './refuse.ts';
import { callIdReused, isSameCall, type Named, namedBy } from './same-call.ts';
import { type HeldClaim, NOTHING, sendClaimed } from './send.ts';
import { writeSettlement } from './settle.ts';

/** Tries for an admission whose refusal nobody can explain (a twin settled meanwhile, a rotation under way). */
const ADMISSION_TRIES = 3;

interface Flight {
  readonly named: Named;
  readonly outcome: Promise<Outcome>;
}

/**
 * The hot path of one process. Flights belong to the process, not to whoever waits for them (PROTOCOL 3.4):
 * a caller that goes away aborts neither send nor settle, and a second caller joins.
 */
export class Dispatcher {
  readonly deps: DispatcherDeps;
  readonly lease: FleetLease;
  readonly #bulkhead: Bulkhead;
  readonly #flights = new Map<string, Flight>();
  /** Claims held right now, by nonce: what shutdown has to settle. */
  readonly #held = new Map<string, HeldClaim>();
  #keptAnswers = 0;
  #keptBytes = 0;
  #closing = false;

  private constructor(deps: DispatcherDeps, lease: FleetLease) {
    this.deps = deps;
    this.lease = lease;
    this.#bulkhead = new Bulkhead(deps.settings.slotsPerProvider);
  }

  /** Opens the lease and is ready. Throws `ledger_unreachable`. */
  static async start(deps: DispatcherDeps, info: object = {}): Promise<Dispatcher> {
    const lease = await FleetLease.start(
      deps.ledger,
      deps.settings,
      { pid: process.pid, ...info },
      deps.events.unresolved,
    );
    return new Dispatcher(deps, lease);
  }

  /** Flights under way, answers kept for the ledger. */
  load(): { flights: number; keptAnswers: number } {
    return { flights: this.#flights.size, keptAnswers: this.#keptAnswers };
  }

  /**
   * Pins, records, sends once and settles one call, or continues from what its row says. Idempotent per
   * call id. Resolves with the outcome; an UNKNOWN outcome has its reconciliation started.
   * Throws HoldfastError for a malformed call, `call_id_reused`, `busy`, or a part that is away: nothing
   * was sent then, or the row knows it, and the same call id is safe to repeat.
   *
   * @param hashes - of this very call, where the caller has them already
   */
  async dispatch(call: Call, hashes: CallHashes = hashCall(call)): Promise<Outcome> {
    const key = effectIdText(call);
    const named = namedBy(call, hashes.argsHash);
    const known = this.#flights.get(key);
    if (known !== undefined) {
      // The flight stands for the row it is about to make, and decides like it (PROTOCOL 2.1).
      if (!isSameCall(named, known.named)) throw callIdReused(call);
      return known.outcome;
    }
    const outcome = this.#fly(call, hashes).finally(() => this.#flights.delete(key));
    this.#flights.set(key, { named, outcome });
    return outcome;
  }

  /** True when this process has the adapter and a free slot: the local lane may take the call. */
  canTake(provider: string): boolean {
    if (this.#closing || !this.deps.providers.has(provider)) return false;
    if (!this.#bulkhead.tryTake(provider)) return false;
    this.#bulkhead.release(provider);
    return true;
  }

  /** Stops claiming, waits for answers up to `shutdownMs`, settles the rest UNKNOWN, ends the lease (PROTOCOL 3.5). */
  async stop(): Promise<void> {
    this.#closing = true;
    const flights = [...this.#flights.values()].map((flight) => flight.outcome.catch(() => undefined));
    await Promise.race([Promise.all(flights), sleep(this.deps.settings.shutdownMs)]);
    const rest = [...this.#held.values()].map((held) => this.#giveUp(held));
    await Promise.race([Promise.all(rest), sleep(this.deps.settings.giveUpMs)]);
    await this.lease.stop();
  }

  /** Answers that the ledger does not take are bounded in count and bytes; past that nothing new is claimed (PROTOCOL 3.5). */
  #keepsTooMuch(): boolean {
    const { keptAnswersMax, keptBytesMax } = this.deps.settings;
    return this.#keptAnswers >= keptAnswersMax || this.#keptBytes >= keptBytesMax;
  }

  async #giveUp(held: HeldClaim): Promise<void> {
    await writeSettlement(this.deps, {
      ...NOTHING,
      id: held.id,
      nonce: held.nonce,
      to: 'UNKNOWN',
      reason: 'the worker was shut down before the answer came',
      actor: this.lease.processId,
    });
    this.#unresolved(held);
  }

  async #fly(call: Call, hashes: CallHashes): Promise<Outcome> {
    for (let attempt = 1; ; attempt += 1) {
      const prepared = await prepare(this.deps, call, hashes);
      if ('error' in prepared) {
        // What the cache knew of the policy may be old: a refusal is final, so it is made on fresh knowledge only.
        const stale = attempt === 1 && prepared.error.code === 'credential_policy_changed';
        if (!stale) return this.#refuse(call, hashes, prepared);
        this.deps.registry.forgetPolicy();
        continue;
      }
      const result = await this.#tryClaimed(prepared, attempt);
      if (result !== 'again') return result;
    }
  }

  async #tryClaimed(p: Prepared, attempt: number): Promise<Outcome | 'again'> {
    const name = p.contract.execution.provider;
    if (this.#closing || this.#keepsTooMuch() || !this.#bulkhead.tryTake(name)) {
      return this.#rowOrThrow(
        p,
        new HoldfastError('busy', `no free slot for provider ${name} in this process`, { place: name }),
      );
    }
    try {
      const live = await p.provider.verify(p.contract, p.secret);
      const drift = driftOf(p, live);
      if (drift !== undefined)
        return await this.#refuse(p.call, p, { recorded: true, error: drift, contract: p.contract });
      return await this.#claimAndSend(p, attempt);
    } finally {
      this.#bulkhead.release(name);
    }
  }

  async #claimAndSend(p: Prepared, attempt: number): Promise<Outcome | 'again'> {
    const nonce = randomUUID();
    const before = await stateBefore(this.deps, p);
    const admission = await admissionOf(this.deps, p, { processId: this.lease.processId, nonce }, before);
    await debugPoint('before_record', p.call.call);
    const claimIssuedMs = monotonicMs();
    const claimIssuedWallMs = wallMs();
    const held: HeldClaim = {
      id: admission.id,
      contract: p.contract,
      effectClass: p.effectClass,
      provider: p.provider,
      request: p.request,
      effectKey: admission.effectKey as HeldClaim['effectKey'],
      secret: p.secret,
      nonce,
      processId: admission.processId,
      sends: 1,
      claimIssuedMs,
      claimIssuedWallMs,
    };
    let result: Awaited<ReturnType<typeof claim>>;
    try {
      result = await claim(this.deps, admission, claimIssuedMs + admission.sendByMs);
    } catch (error) {
      // The claim may yet be in the ledger: it must not stay there as if somebody held it.
      if (error instanceof ClaimInDoubt) void withdrawAbandoned(this.deps, held, this.#isClosing);
      throw error;
    }
    switch (result.kind) {
      case 'mine':
        if (p.call.override !== undefined) await this.#noteOverride(p, admission.id);
        return this.sendAndSettle(held);
      case 'row':
        return this.#follow(result.row, p.call, p);
      case 'held':
      case 'none':
        return this.#unclaimed(p, admission, result.kind, attempt);
    }
  }

  /** The claim changed no row and there is none: say why as a row, or try again when the reason is gone. */
  async #unclaimed(
    p: Prepared,
    admission: Awaited<ReturnType<typeof admissionOf>>,
    kind: 'held' | 'none',
    attempt: number,
  ): Promise<Outcome | 'again'> {
    const why = kind === 'held' ? await openTwin(this.deps, admission) : await whyNotClaimed(this.deps, admission);
    if (why === undefined || why.code === 'process_fenced') {
      if (attempt >= ADMISSION_TRIES)
        throw why ?? new HoldfastError('busy', 'the call could not be claimed; its row keeps changing');
      if (why !== undefined && this.lease.processId === admission.processId) await this.lease.renew();
      return 'again';
    }
    if (why.code === 'credential_policy_changed' && attempt === 1) {
      // The cached policy was old; the current one may do.
      this.deps.registry.forgetPolicy();
      return 'again';
    }
    return this.#refuse(p.call, p, { recorded: true, error: why, contract: p.contract }, true);
  }

  /** Sends a held claim, writes the answer, and says the outcome. Shared with the re-send of a reconciliation. */
  async sendAndSettle(held: HeldClaim): Promise<Outcome> {
    this.#held.set(held.nonce, held);
    let keptBytes: number | undefined;
    try {
      await debugPoint('claimed', held.id.call);
      const settlement = await sendClaimed(this.deps, this.lease, held);
      const other = await writeSettlement(this.deps, settlement, {
        onRetry: () => {
          if (keptBytes !== undefined) return;
          keptBytes = Buffer.byteLength(settlement.result ?? '');
          this.#keptAnswers += 1;
          this.#keptBytes += keptBytes;
        },
      });
      await debugPoint('settled', held.id.call);
      if (other !== undefined) return this.#settledByOthers(other, held);
      this.deps.events.settled?.(
        held.contract.tool,
        held.effectClass,
        settlement.to,
        monotonicMs() - held.claimIssuedMs,
      );
      if (settlement.to === 'UNKNOWN') this.#unresolved(held);
      return this.#outcomeOf(held, settlement);
    } finally {
      if (keptBytes !== undefined) {
        this.#keptAnswers -= 1;
        this.#keptBytes -= keptBytes;
      }
      this.#held.delete(held.nonce);
    }
  }

  #settledByOthers(row: EffectRow, held: HeldClaim): Promise<Outcome> {
    // A row of this very effect, so what it names is what was held.
    if (row.status === 'UNKNOWN') this.#unresolved(held);
    return followRow(this.deps, row, this.#isClosing);
  }

  #outcomeOf(held: HeldClaim, s: Settlement): Outcome {
    const row: Pick<EffectRow, 'id' | 'status' | 'tool' | 'version' | 'effectClass'> & Partial<EffectRow> = {
      id: held.id,
      status: s.to,
      tool: held.contract.tool,
      version: held.contract.version,
      effectClass: held.effectClass,
      result: s.result,
      resultInfo: s.resultInfo,
      reasonCode: s.reasonCode,
      reason: s.reason,
      attention: s.attention,
      settledBy: 'holder',
      nextLookAtMs: wallMs() + s.lookInMs,
    };
    const outcome = outcomeOf(row as EffectRow, this.deps.codec);
    if (outcome === undefined) throw new HoldfastError('internal', `a settlement to ${s.to} has no outcome`);
    return outcome;
  }

  /** An existing row decides before the refusal does (PROTOCOL 2.1); a refusal that may change becomes a row (2.4). */
  async #refuse(call: Call, hashes: CallHashes, problem: Problem, asked = false): Promise<Outcome> {
    const row = await this.#read(call);
    if (row !== undefined) return this.#follow(row, call, hashes);
    await recordRefused(this.deps, this.lease.processId, call, hashes.argsHash, problem, asked);
    const decided = await this.#read(call);
    if (decided === undefined) throw new HoldfastError('internal', 'a recorded refusal has no row');
    return this.#follow(decided, call, hashes);
  }

  async #rowOrThrow(p: Prepared, error: HoldfastError): Promise<Outcome> {
    const row = await this.#read(p.call);
    if (row === undefined) throw error;
    return this.#follow(row, p.call, p);
  }

  /** Continues from what an existing row says. */
  async #follow(row: EffectRow, call: Call, hashes: CallHashes): Promise<Outcome> {
    if (!isSameCall(namedBy(call, hashes.argsHash), row)) throw callIdReused(call);
    return followRow(this.deps, row, this.#isClosing);
  }

  async #noteOverride(p: Prepared, id: EffectId): Promise<void> {
    const { override } = p.call;
    if (override === undefined) return;
    await this.deps.ledger.run('note override', () =>
      appendEvent(this.deps.ledger.sql, {
        id,
        kind: 'override',
        fence: 1,
        actor: override.actor,
        reason: override.reason,
        data: {},
      }),
    );
  }

  #unresolved(held: HeldClaim): void {
    this.deps.events.unresolved({
      id: held.id,
      tool: held.contract.tool,
      version: held.contract.version,
      effectClass: held.effectClass,
    });
  }

  readonly #isClosing = (): boolean => this.#closing;

  #read(id: EffectId): Promise<EffectRow | undefined> {
    return this.deps.ledger.run('read', () => readEffect(this.deps.ledger.sql, id));
  }
}
