import { constraintOf } from '../db/errors.ts';
import {
  appendEvent,
  type EffectRow,
  flagConflict,
  keepLateFacts,
  move,
  readEffect,
  type Settlement,
  settleTroubled,
} from '../db/statements/index.ts';
import { isHoldfastError } from '../effects/errors.ts';
import { transition } from '../effects/transition.ts';
import { sleep } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 1000;

/**
 * Writes a holder's answer, however long the ledger is away: the answer is in this process only, so it
 * is tried until it is written (PROTOCOL 3.3, crash point "Postgres gone while sending"). Resolves with
 * `undefined` when the row moved as asked, or with the row as it is when something else had settled it.
 */
export async function writeSettlement(
  deps: DispatcherDeps,
  settlement: Settlement,
  attempt: { onRetry?: (error: unknown) => void } = {},
): Promise<EffectRow | undefined> {
  let wanted: Settlement & { readonly bare?: true } = settlement;
  for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(2 * waitMs, RETRY_MAX_MS)) {
    try {
      const other = await tryOnce(deps, wanted);
      // What was written is not what the caller holds in its hands: the row tells it.
      return other === undefined && wanted !== settlement ? await readRow(deps, wanted) : other;
    } catch (error) {
      if (constraintOf(error) === 'effects_one_artefact') {
        // Another effect was confirmed by this artefact already: this answer is no proof (PROTOCOL 6.5).
        wanted = oneArtefact(wanted);
        continue;
      }
      if (!isHoldfastError(error)) throw error;
      if (error.code !== 'ledger_unreachable') {
        // The ledger will never take these words of the provider; what they mean must not be lost with them.
        if (wanted.bare === true) throw error;
        wanted = bare(wanted);
        continue;
      }
      attempt.onRetry?.(error);
      await sleep(waitMs);
    }
  }
}

/** The same answer without the provider's own words. */
function bare(s: Settlement): Settlement & { readonly bare: true } {
  return {
    ...s,
    bare: true,
    result: null,
    resultInfo: s.to === 'CONFIRMED' ? { truncated: true } : null,
    providerRef: null,
    reason: s.reason === null ? null : 'the provider answered in words that the ledger does not take',
  };
}

/** The same answer, no longer as proof: its artefact already confirms another effect. */
function oneArtefact(settlement: Settlement): Settlement {
  return {
    ...settlement,
    to: 'UNKNOWN',
    result: null,
    providerRef: null,
    attention: 'CONFLICT',
    reason: `the provider answered with artefact ${settlement.providerRef ?? ''}, which confirms another effect`,
  };
}

async function tryOnce(deps: DispatcherDeps, s: Settlement): Promise<EffectRow | undefined> {
  const { ledger } = deps;
  const moved =
    s.to === 'CONFIRMED'
      ? await ledger.hot.confirm(s)
      : await ledger.run('settle', () => settleTroubled(ledger.sql, s));
  if (moved) return undefined;
  const row = await readRow(deps, s);
  if (row === undefined) return undefined;
  // Given up as UNKNOWN meanwhile, the row may lack what only the holder has seen.
  if (hasNews(s, row)) await ledger.run('keep late facts', () => keepLateFacts(ledger.sql, s));
  // Written by an attempt whose reply was lost: same outcome, same nonce, and not by somebody else's proof.
  const mine = row.nonce === s.nonce && row.status === s.to && (row.settledBy === null || row.settledBy === 'holder');
  if (mine) return undefined;
  await ledger.run('keep late answer', () => keepLateAnswer(deps, s, row));
  return readRow(deps, s);
}

function readRow({ ledger }: DispatcherDeps, s: Settlement): Promise<EffectRow | undefined> {
  return ledger.run('read after settle', () => readEffect(ledger.sql, s.id));
}

/** Facts that no status tells: bytes that left late, the provider's reference, an artefact that is not this effect's. */
function hasNews(s: Settlement, row: EffectRow): boolean {
  const reference =
    s.to === 'UNKNOWN' && s.providerRef !== null && row.status === 'UNKNOWN' && row.providerRef === null;
  return (s.sentLate && !row.sentLate) || reference || (s.attention !== null && row.attention !== s.attention);
}

/** A holder's answer that comes after its claim was given up (rules 4 and 10; PROTOCOL 7). */
async function keepLateAnswer(deps: DispatcherDeps, s: Settlement, row: EffectRow): Promise<void> {
  const { sql } = deps.ledger;
  if (s.to === 'UNKNOWN') return;
  const facts = {
    sends: row.sends,
    pure: row.effectClass === 'PURE',
    refused: s.reasonCode === 'refused_by_provider',
    notSent: s.reasonCode !== 'refused_by_provider',
  };
  const event = { id: s.id, fence: row.fence, actor: s.actor, reason: s.reason };
  const data = { to: s.to, nonce: s.nonce, code: s.reasonCode, result: s.result, providerRef: s.providerRef };
  if (row.status === s.to) {
    await appendEvent(sql, { ...event, kind: 'late_answer_agrees', data: { to: s.to, nonce: s.nonce } });
    return;
  }
  if (row.status === 'DISPATCHED') {
    // Another claim is in flight; the reconciliation takes this answer as proof if that one brings none.
    await appendEvent(sql, { ...event, kind: 'late_answer_kept', data });
    return;
  }
  if (s.to === 'NOT_APPLIED' && row.nonce !== s.nonce) {
    // "Not sent" and "refused" speak for this claim alone; the row's claim is another one, and may have been applied.
    await appendEvent(sql, { ...event, kind: 'late_answer_kept', data });
    return;
  }
  const verdict = transition(row.status, s.to, 'late_answer', facts);
  if (!verdict.allowed) {
    const contradicts = row.status === 'CONFIRMED';
    await (contradicts ? flagConflict : appendEvent)(sql, {
      ...event,
      kind: 'late_answer_kept',
      data: { ...data, refusedBecause: verdict.why },
    });
    return;
  }
  const moved = await move(sql, {
    id: s.id,
    expect: { status: row.status, fence: row.fence },
    to: s.to,
    settledBy: 'late_answer',
    result: s.result,
    resultInfo: s.resultInfo,
    providerRef: s.providerRef,
    reasonCode: s.reasonCode,
    reason: s.reason,
    attention: verdict.attention,
    event: { kind: 'late_answer', actor: s.actor, data: { nonce: s.nonce } },
  });
  // Lost a race with evidence or a decision: judge the row as it is now.
  if (!moved) {
    const again = await readEffect(sql, s.id);
    if (again !== undefined) await keepLateAnswer(deps, s, again);
  }
}
