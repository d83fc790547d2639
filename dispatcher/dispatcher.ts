import { randomUUID } from 'node:crypto';
import type { Digest } from '../contracts/contract.ts';
import { digestBytes } from '../contracts/digest.ts';
import { effectiveClass } from '../contracts/effective-class.ts';
import { STATEMENT_TIMEOUT_MS } from '../db/connect.ts';
import { appendEvent, type EffectRow, readEffect, recordRefusal, type Settlement } from '../db/statements/index.ts';
import { type Call, type EffectId, effectIdText, type Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { Bulkhead } from './bulkhead.ts';
import { admissionOf, ClaimInDoubt, claim, openTwin, whyNotClaimed } from './claim.ts';
import { monotonicMs, sleep, wallMs } from './clock.ts';
import { debugPoint } from './debug-point.ts';
import type { DispatcherDeps } from './deps.ts';
import { FleetLease } from './lease.ts';
import { stateBefore } from './look.ts';
import { outcomeOf } from './outcome.ts';
import { type CallHashes, hashCall, type Prepared, type Problem, prepare } from './prepare.ts';
import { type HeldClaim, sendClaimed } from './send.ts';
import { writeSettlement } from './settle.ts';

/** Tries for an admission whose refusal nobody can explain (a twin settled meanwhile, a rotation under way). */
const ADMISSION_TRIES = 3;
const FOLLOW_MIN_MS = 20;
const FOLLOW_MAX_MS = 250;

interface Flight {
  readonly hashes: CallHashes;
  readonly call: Pick<Call, 'tool' | 'version' | 'digest'>;
  readonly outcome: Promise<Outcome>;
}

/** A claim whose holder could not learn whether it was recorded: to be withdrawn when the ledger answers. */
interface Abandoned {
  readonly settlement: Settlement;
  readonly untilMs: number;
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
  readonly #abandoned = new Map<string, Abandoned>();
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
    const known = this.#flights.get(key);
    if (known !== undefined) {
      // The flight stands for the row it is about to make, and decides like it (PROTOCOL 2.1).
      if (!sameCall(call, hashes, known.call, known.hashes)) throw callIdReused(call);
      return known.outcome;
    }
    const outcome = this.#fly(call, hashes).finally(() => this.#flights.delete(key));
    this.#flights.set(key, { hashes, call, outcome });
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
      id: held.id,
      nonce: held.nonce,
      to: 'UNKNOWN',
      result: null,
      resultInfo: null,
      providerRef: null,
      reasonCode: null,
      reason: 'the worker was shut down before the answer came',
      attention: null,
      sentLate: false,
      lookInMs: 0,
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
      if (error instanceof ClaimInDoubt) this.#abandon(held);
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
    return this.#refuse(p.call, p, { recorded: true, error: why, contract: p.contract });
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

  async #settledByOthers(row: EffectRow, held: HeldClaim): Promise<Outcome> {
    if (row.status === 'UNKNOWN') this.#unresolved(held);
    const outcome = outcomeOf(row, this.deps.codec);
    return outcome ?? this.#followOpen(row);
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
  async #refuse(call: Call, hashes: CallHashes, problem: Problem): Promise<Outcome> {
    const row = await this.#read(call);
    if (row !== undefined) return this.#follow(row, call, hashes);
    const { error, contract } = problem;
    if (!problem.recorded) throw error;
    this.deps.events.refused?.(call.tool, error.code);
    const digest = contract?.digest ?? (call.digest as Digest | undefined);
    await this.deps.ledger.run('record refusal', () =>
      recordRefusal(this.deps.ledger.sql, {
        id: call,
        tool: call.tool,
        version: call.version,
        contractDigest: digest === undefined ? Buffer.alloc(0) : digestBytes(digest),
        effectClass: contract === null ? null : effectiveClass(contract),
        provider: contract?.execution.provider ?? null,
        argsHash: hashes.argsHash,
        code: error.code,
        message: error.message,
        by: 'admission',
        actor: this.lease.processId,
      }),
    );
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
    if (!sameAsRow(call, hashes, row)) throw callIdReused(call);
    if (row.status === 'DISPATCHED') return this.#followOpen(row);
    if (row.status === 'UNKNOWN') this.#unresolvedRow(row);
    const outcome = outcomeOf(row, this.deps.codec);
    if (outcome === undefined) throw new HoldfastError('internal', `status ${row.status} has no outcome`);
    return outcome;
  }

  /** In flight elsewhere: wait for its holder's answer until the claim's deadline (PROTOCOL 3.4). */
  async #followOpen(first: EffectRow): Promise<Outcome> {
    let row = first;
    for (let waitMs = FOLLOW_MIN_MS; ; waitMs = Math.min(2 * waitMs, FOLLOW_MAX_MS)) {
      const outcome = outcomeOf(row, this.deps.codec);
      if (outcome !== undefined) {
        if (row.status === 'UNKNOWN') this.#unresolvedRow(row);
        return outcome;
      }
      if (this.#closing) throw new HoldfastError('busy', 'this process is shutting down');
      // Past the deadline, or with a lapsed lease, the fencer or the sweep moves it to UNKNOWN.
      await sleep(waitMs);
      row = (await this.#read(row.id)) ?? row;
    }
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

  #unresolvedRow(row: EffectRow): void {
    this.deps.events.unresolved({
      id: row.id,
      tool: row.tool,
      version: row.version,
      effectClass: row.effectClass ?? 'UNKNOWN',
    });
  }

  /** Withdraws a claim in doubt as soon as the ledger answers (PROTOCOL 3.3): provably nothing was sent. */
  #abandon(held: HeldClaim): void {
    // Past two statement limits the insert can no longer commit, so "no row" is final.
    const untilMs = monotonicMs() + 3 * STATEMENT_TIMEOUT_MS;
    const settlement: Settlement = {
      id: held.id,
      nonce: held.nonce,
      to: 'NOT_APPLIED',
      result: null,
      resultInfo: null,
      providerRef: null,
      reasonCode: 'withdrawn',
      reason: 'the ledger did not answer in time; nothing was sent',
      attention: null,
      sentLate: false,
      lookInMs: 0,
      actor: this.lease.processId,
    };
    this.#abandoned.set(held.nonce, { settlement, untilMs });
    void this.#withdraw(held.nonce);
  }

  async #withdraw(nonce: string): Promise<void> {
    for (let seen = false; !seen && !this.#closing; ) {
      const abandoned = this.#abandoned.get(nonce);
      if (abandoned === undefined) return;
      await writeSettlement(this.deps, abandoned.settlement).catch(() => undefined);
      const row = await this.#read(abandoned.settlement.id).catch(() => undefined);
      seen = row !== undefined || monotonicMs() > abandoned.untilMs;
      if (!seen) await sleep(500);
    }
    this.#abandoned.delete(nonce);
  }

  #read(id: EffectId): Promise<EffectRow | undefined> {
    return this.deps.ledger.run('read', () => readEffect(this.deps.ledger.sql, id));
  }
}

function driftOf(p: Prepared, live: Awaited<ReturnType<Prepared['provider']['verify']>>): HoldfastError | undefined {
  const tool = `${p.contract.tool}@${p.contract.version}`;
  switch (live.kind) {
    case 'same':
    case 'not_checked':
      return undefined;
    case 'drifted':
    case 'gone':
      return new HoldfastError('tool_schema_drift', `${tool}: the live tool is not the pinned one: ${live.why}`);
    case 'unreachable':
      return new HoldfastError('live_definition_unverified', `${tool}: ${live.why}`);
  }
}

function sameCall(call: Call, hashes: CallHashes, other: Flight['call'], otherHashes: CallHashes): boolean {
  return (
    call.tool === other.tool &&
    call.version === other.version &&
    (call.digest === undefined || other.digest === undefined || call.digest === other.digest) &&
    hashes.argsHash.equals(otherHashes.argsHash)
  );
}

function sameAsRow(call: Call, hashes: CallHashes, row: EffectRow): boolean {
  return (
    call.tool === row.tool &&
    call.version === row.version &&
    hashes.argsHash.equals(row.argsHash) &&
    (call.digest === undefined || digestBytes(call.digest as Digest).equals(row.contractDigest))
  );
}

function callIdReused(call: Call): HoldfastError {
  return new HoldfastError(
    'call_id_reused',
    `${effectIdText(call)} already names a call with another contract or other arguments`,
    {
      place: '/call',
    },
  );
}
