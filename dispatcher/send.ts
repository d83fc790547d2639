import { canonicalJson } from '../contracts/canonical-json.ts';
import type { Contract, EffectClass, JsonValue } from '../contracts/contract.ts';
import { markSentLate, type Settlement } from '../db/statements/index.ts';
import type { Answer, ProviderAnswer } from '../effects/answer.ts';
import type { EffectId, EffectKey } from '../effects/effect.ts';
import { readAnswer } from '../effects/read-answer.ts';
import { transition } from '../effects/transition.ts';
import type { ProviderAdapter, RenderedRequest, Secret } from '../providers/provider.ts';
import { monotonicMs, wallMs } from './clock.ts';
import { debugPoint } from './debug-point.ts';
import type { DispatcherDeps } from './deps.ts';
import type { FleetLease } from './lease.ts';

/** A claim held by this process, ready to be sent once. */
export interface HeldClaim {
  readonly id: EffectId;
  readonly contract: Contract;
  readonly effectClass: EffectClass;
  readonly provider: ProviderAdapter;
  readonly request: RenderedRequest;
  readonly effectKey: EffectKey;
  readonly secret: Secret | null;
  readonly nonce: string;
  /** The lease that the claim names. */
  readonly processId: string;
  /** Claims so far, this one included. */
  readonly sends: number;
  /** Monotonic and wall clock, read **before** the claim statement was issued (PROTOCOL 3.1). */
  readonly claimIssuedMs: number;
  readonly claimIssuedWallMs: number;
}

/** Sends a held claim once and says what to write about the answer. Never throws. */
export async function sendClaimed(deps: DispatcherDeps, lease: FleetLease, claim: HeldClaim): Promise<Settlement> {
  const { execution } = claim.contract;
  const late = () =>
    monotonicMs() - claim.claimIssuedMs >= execution.sendByMs ||
    wallMs() - claim.claimIssuedWallMs >= execution.sendByMs;
  let woke = false;
  let sentLate = false;
  let marked: Promise<void> | undefined;
  await debugPoint('before_first_byte', claim.id.call);
  deps.events.sent?.(claim.contract.tool);
  // The claim may have taken all the time there is: then the provider is not even connected to, let alone blamed.
  woke = late();
  if (woke) return settlementOf(deps, claim, { kind: 'not_sent', why: 'late' }, woke, lease.processId);
  const answer = await claim.provider.send({
    contract: claim.contract,
    request: claim.request,
    effectKey: claim.effectKey,
    secret: claim.secret,
    timeoutMs: execution.timeoutMs,
    connectWithinMs: Math.max(0, execution.sendByMs - (monotonicMs() - claim.claimIssuedMs)),
    gate: () => {
      // A process that was fenced meanwhile has a new lease; the old one's claims stay silent.
      woke = late() || !lease.isFresh() || lease.processId !== claim.processId;
      return woke ? 'late' : 'go';
    },
    wrote: () => {
      // PROTOCOL 3.2: read both clocks again; a pause between check and write makes absence prove nothing.
      sentLate = late();
      // At once: should this process die now, nobody else would know. If the ledger is away, the settlement carries it.
      if (sentLate) {
        const { ledger } = deps;
        marked = ledger
          .run('mark sent late', () => markSentLate(ledger.sql, claim.id, lease.processId))
          .catch(() => {});
      }
      void debugPoint('written', claim.id.call);
      return sentLate ? 'drop' : 'keep';
    },
  });
  await debugPoint('answered', claim.id.call);
  await marked;
  return { ...settlementFor(deps, claim, answer, woke, lease.processId), sentLate };
}

/** An answer that cannot be read or encoded is one that says nothing: never a reason to leave a claim without a settlement. */
function settlementFor(
  deps: DispatcherDeps,
  claim: HeldClaim,
  answer: ProviderAnswer,
  woke: boolean,
  actor: string,
): Settlement {
  try {
    return settlementOf(deps, claim, readAnswer(claim.contract, answer), woke, actor);
  } catch {
    const why = 'the provider answered, and its answer could not be read';
    return settlementOf(deps, claim, { kind: 'no_answer', why }, woke, actor);
  }
}

/** A settlement that says nothing yet. */
export const NOTHING = {
  result: null,
  resultInfo: null,
  providerRef: null,
  reasonCode: null,
  reason: null,
  attention: null,
  sentLate: false,
  lookInMs: 0,
} as const;

function settlementOf(
  deps: DispatcherDeps,
  claim: HeldClaim,
  answer: Answer,
  woke: boolean,
  actor: string,
): Settlement {
  const base = { ...NOTHING, id: claim.id, nonce: claim.nonce, actor };
  switch (answer.kind) {
    case 'applied':
    case 'applied_partly':
      return {
        ...base,
        to: 'CONFIRMED',
        result: encodeResult(deps, claim.id.tenant, answer.result),
        resultInfo: infoOf(answer),
        providerRef: answer.reference,
      };
    case 'accepted':
      return {
        ...base,
        to: 'UNKNOWN',
        providerRef: answer.reference,
        reason: 'the provider accepted it and works on it',
      };
    case 'refused':
      return definite(claim, base, 'refused_by_provider', refusalText(answer), { refused: true });
    case 'not_sent':
      return woke
        ? definite(claim, base, 'sent_too_late', 'the worker woke after its send-by time and stayed silent', {
            notSent: true,
          })
        : definite(claim, base, 'not_sent', answer.why, { notSent: true });
    case 'no_answer':
      return { ...base, to: 'UNKNOWN', reason: answer.why, providerRef: answer.reference ?? null };
  }
}

/** The provider's words; its own code first, where it has one. */
function refusalText({ code, message }: Extract<Answer, { kind: 'refused' }>): string {
  return code === 'refused_by_provider' ? message : `${code}: ${message}`;
}

/** NOT_APPLIED where the table of moves allows it; else an earlier send may have been applied. */
function definite(
  claim: HeldClaim,
  base: Omit<Settlement, 'to'>,
  code: string,
  reason: string,
  facts: { refused?: boolean; notSent?: boolean },
): Settlement {
  const verdict = transition('DISPATCHED', 'NOT_APPLIED', 'holder', {
    sends: claim.sends,
    pure: claim.effectClass === 'PURE',
    ...facts,
  });
  return verdict.allowed
    ? { ...base, to: 'NOT_APPLIED', reasonCode: code, reason }
    : { ...base, to: 'UNKNOWN', reason };
}

/** A result as the ledger keeps it. */
export function encodeResult(deps: DispatcherDeps, tenant: string, result: JsonValue): string {
  return deps.codec.encode(canonicalJson(result), { tenant });
}

function infoOf(answer: Extract<Answer, { kind: 'applied' | 'applied_partly' }>): Settlement['resultInfo'] {
  const info = {
    ...(answer.resultTruncated ? { truncated: true } : {}),
    ...(answer.returnsMismatch
      ? { returnsMismatch: answer.returnsMismatch.map((p) => `${p.pointer} ${p.message}`) }
      : {}),
    ...(answer.kind === 'applied_partly' ? { parts: answer.parts } : {}),
  };
  return Object.keys(info).length === 0 ? null : info;
}
