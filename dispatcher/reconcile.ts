import type { Contract } from '../contracts/contract.ts';
import { constraintOf } from '../db/errors.ts';
import {
  type EffectRow,
  isReplayLost,
  type Look,
  type Move,
  move,
  type NextLook,
  planLook,
  readKeptAnswers,
  recordLook,
  recordVerdict,
} from '../db/statements/index.ts';
import type { Attention, EffectId } from '../effects/effect.ts';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { type JudgeFacts, judge, settleAtMs, type Verdict } from '../effects/judge.ts';
import { transition } from '../effects/transition.ts';
import { debugPoint } from './debug-point.ts';
import type { Dispatcher } from './dispatcher.ts';
import { type LookResult, look } from './look.ts';
import { scopeOf } from './prepare.ts';
import { recordedArgs, resendEffect, resendWindow } from './resend.ts';
import { existingRow } from './row.ts';
import { encodeResult } from './send.ts';

/** Looks at an effect that nobody can settle by looking are only a check-in. */
const PARKED_MS = 15_000;
const EXPIRED_MS = 3_600_000;
/** Past a planned moment, so that clocks which differ a little do not make the look too early. */
const AFTER_MS = 20;

/**
 * One step of the reconciliation of one effect: takes kept late answers, looks, judges, settles, sends again
 * where the class allows it, or plans the next look. Idempotent; safe to run twice at once, since each move
 * names the status and fence it judged. Returns the row as it is afterwards.
 * Throws `effect_not_found` and `ledger_unreachable`.
 */
export async function gatherEvidence(dispatcher: Dispatcher, id: EffectId, actor: string): Promise<EffectRow> {
  const row = await existingRow(dispatcher.deps.ledger, id);
  if (row.status !== 'UNKNOWN') return row;
  try {
    await step(dispatcher, row, actor);
  } catch (error) {
    if (!isHoldfastError(error) || error.code === 'ledger_unreachable' || error.code === 'internal') throw error;
    // Pinned or parked (rule 5): this process cannot serve the recorded contract, and says so.
    await plan(dispatcher, row, { inMs: PARKED_MS, attention: 'PARKED', reason: `${error.code}: ${error.message}` });
  }
  return existingRow(dispatcher.deps.ledger, id);
}

async function step(dispatcher: Dispatcher, row: EffectRow, actor: string): Promise<void> {
  const contract = await dispatcher.deps.registry.byDigest(row.contractDigest);
  if (contract === undefined) {
    throw new HoldfastError('contract_parked', `${row.tool}@${row.version} cannot be loaded by its digest`);
  }
  if (await takeKeptAnswer(dispatcher, row, actor)) return;
  if (row.effectClass === 'PURE') return repeatPure(dispatcher, row, contract, actor);
  const { ledger } = dispatcher.deps;
  const replayLost =
    row.effectClass === 'REPLAYABLE' && (await ledger.run('read recovery', () => isReplayLost(ledger.sql, row.id)));
  const window = replayLost ? undefined : resendWindow(contract, row);
  const matter: Matter = { dispatcher, row, contract, window, actor };
  // The look is written with the plan for the next one; a re-send overrides the plan.
  const verdict = await lookAndJudge(matter);
  if (verdict === 'moved') return;
  if (verdict === undefined) await plan(dispatcher, row, nextLook(matter, undefined));
  if (mayResend(matter, verdict)) await resendEffect(dispatcher, row, contract);
}

/** One effect under reconciliation. */
interface Matter {
  readonly dispatcher: Dispatcher;
  readonly row: EffectRow;
  readonly contract: Contract;
  /** When it may be sent again, by class and time. */
  readonly window: { readonly fromMs: number; readonly untilMs: number } | undefined;
  readonly actor: string;
}

/** A re-send comes only after the provider was not seen to have something else under this key. */
function mayResend({ row, window }: Matter, verdict: Verdict | undefined): boolean {
  return (
    window !== undefined && row.nowMs >= window.fromMs && row.nowMs < window.untilMs && verdict?.kind !== 'CONFLICT'
  );
}

/** A holder's own answer, kept while another claim was open, is proof (rule 4). */
async function takeKeptAnswer(dispatcher: Dispatcher, row: EffectRow, actor: string): Promise<boolean> {
  const { ledger } = dispatcher.deps;
  const kept = await ledger.run('read kept answers', () => readKeptAnswers(ledger.sql, row.id));
  const applied = kept.find(({ data }) => data.to === 'CONFIRMED');
  if (applied === undefined) return false;
  const taking = ledger.run('take kept answer', () =>
    move(ledger.sql, {
      ...moveOf(row, 'CONFIRMED', actor),
      settledBy: 'late_answer',
      result: (applied.data.result as string | null) ?? null,
      providerRef: (applied.data.providerRef as string | null) ?? null,
      event: { kind: 'late_answer', actor, data: { nonce: applied.data.nonce, kept: true } },
    }),
  );
  return taking.catch((error) => {
    // Its artefact confirms another effect by now, so it proves nothing: the look goes on.
    if (constraintOf(error) === 'effects_one_artefact') return false;
    throw error;
  });
}

/** PURE applies nothing: send again, or give up as not applied. */
async function repeatPure(dispatcher: Dispatcher, row: EffectRow, contract: Contract, actor: string): Promise<void> {
  const { ledger, settings } = dispatcher.deps;
  if (row.sends < settings.pureSendsMax) {
    if ((await resendEffect(dispatcher, row, contract)) === undefined) {
      await plan(dispatcher, row, { inMs: settings.lookMinMs, attention: null, reason: null });
    }
    return;
  }
  await ledger.run('give up PURE', () =>
    move(ledger.sql, {
      ...moveOf(row, 'NOT_APPLIED', actor),
      settledBy: 'pure',
      reasonCode: 'pure_no_answer',
      reason: `no answer in ${row.sends} sends; a PURE call applies nothing`,
      event: { kind: 'pure_given_up', actor, data: { sends: row.sends } },
    }),
  );
}

async function lookAndJudge(matter: Matter): Promise<Verdict | 'moved' | undefined> {
  const { dispatcher, row, contract } = matter;
  const { deps } = dispatcher;
  const rule = contract.execution.evidence;
  if (rule === undefined) return undefined;
  const facts: Omit<JudgeFacts, 'askedAtMs'> = {
    rule,
    inFlightMaxMs: row.inFlightMaxMs,
    firstClaimedAtMs: row.recordedAtMs,
    sendByMaxAtMs: row.sendByAtMs ?? row.recordedAtMs,
    sentLate: row.sentLate,
    clockMarginMs: deps.settings.clockMarginMs,
  };
  if (row.attention === 'EXPIRED') return { kind: 'INCONCLUSIVE', why: row.reason ?? 'expired', expired: true };
  const scope = { ...scopeOf(deps, contract, row.id, await recordedArgs(deps, row)), ref: row.providerRef };
  await debugPoint('before_look', row.id.call);
  const seen = await look(deps, rule, {
    contract,
    scope,
    account: row.account,
    settleAtMs: settleAtMs(facts),
    differedBefore: row.stateBefore === 'different',
  });
  await debugPoint('looked', row.id.call);
  const verdict = judge(seen.observation, { ...facts, askedAtMs: seen.askedAtMs });
  deps.events.verdict?.(contract.tool, verdict.kind);
  const moved = await settleBy(matter, verdict, seen);
  await debugPoint('verdict_written', row.id.call);
  return moved ? 'moved' : verdict;
}

/** Writes the look, and its move when the verdict makes one. */
async function settleBy(matter: Matter, verdict: Verdict, seen: LookResult): Promise<boolean> {
  const { dispatcher, row, window, actor } = matter;
  const { deps } = dispatcher;
  const written: Look = {
    id: row.id,
    fence: row.fence,
    askedAtMs: seen.askedAtMs,
    verdict: verdict.kind,
    why: 'why' in verdict ? verdict.why : null,
    observed: deps.codec.encode(JSON.stringify(seen.observation), { tenant: row.id.tenant }),
    actor,
  };
  const to = verdict.kind === 'CONFIRMED' ? 'CONFIRMED' : verdict.kind === 'ABSENT_SETTLED' ? 'NOT_APPLIED' : undefined;
  // What never happened and may still be sent again is still wanted.
  const stillWanted = to === 'NOT_APPLIED' && window !== undefined && row.nowMs < window.untilMs;
  const facts = { sends: row.sends, sentLate: row.sentLate };
  if (to === undefined || stillWanted || !transition('UNKNOWN', to, 'evidence', facts).allowed) {
    await deps.ledger.run('record look', () => recordLook(deps.ledger.sql, written, nextLook(matter, verdict)));
    return false;
  }
  const m: Move = {
    ...moveOf(row, to, actor),
    settledBy: 'evidence',
    ...(to === 'CONFIRMED'
      ? { result: encodeResult(deps, row.id.tenant, seen.result), providerRef: seen.reference }
      : { reasonCode: 'proven_absent', reason: 'the provider showed that it never happened' }),
    event: { kind: 'evidence', actor, data: { verdict: verdict.kind, askedAtMs: seen.askedAtMs } },
  };
  try {
    return await deps.ledger.run('record verdict', () => recordVerdict(deps.ledger.sql, written, m));
  } catch (error) {
    if (constraintOf(error) !== 'effects_one_artefact') throw error;
    const why = `artefact ${seen.reference} already confirms another effect`;
    await deps.ledger.run('record look', () =>
      recordLook(
        deps.ledger.sql,
        { ...written, verdict: 'CONFLICT', why },
        { inMs: deps.settings.lookMaxMs, attention: 'CONFLICT', reason: why },
      ),
    );
    return true;
  }
}

function nextLook(matter: Matter, verdict: Verdict | undefined): NextLook {
  const { row, window } = matter;
  const { settings } = matter.dispatcher.deps;
  const backoffMs = Math.min(settings.lookMinMs * 2 ** Math.min(row.looks, 20), settings.lookMaxMs);
  const moments: number[] = [];
  if (verdict?.kind === 'ABSENT_TOO_EARLY') moments.push(verdict.settleAtMs);
  if (window !== undefined && window.fromMs < window.untilMs) moments.push(window.fromMs);
  const until = moments.map((at) => at - row.nowMs + AFTER_MS).filter((ms) => ms > 0);
  const { attention, reason } = alarm(matter, verdict);
  if (attention === 'EXPIRED') return { inMs: EXPIRED_MS, attention, reason };
  return { inMs: Math.max(AFTER_MS, Math.min(backoffMs, ...until)), attention, reason };
}

/** Whether a person is to be called, and what is known. */
function alarm(
  { dispatcher, row, contract, window }: Matter,
  verdict: Verdict | undefined,
): { attention: Attention | null; reason: string | null } {
  const willResend = window !== undefined && row.nowMs < window.untilMs;
  switch (verdict?.kind) {
    case undefined:
      return willResend
        ? { attention: null, reason: 'no clear answer; it is sent again with the same key once earlier sends are over' }
        : {
            attention: 'NEEDS_DECISION',
            reason: 'no clear answer, and the contract names no evidence: only a person can settle it',
          };
    case 'CONFLICT':
      return { attention: 'CONFLICT', reason: verdict.why };
    case 'ABSENT_TOO_EARLY':
      return { attention: null, reason: 'not there yet; it is too early for that to prove anything' };
    case 'INCONCLUSIVE': {
      if (verdict.expired) return { attention: 'EXPIRED', reason: verdict.why };
      const suggests = contract.execution.evidence?.absence !== 'proves' && verdict.why.startsWith('absent');
      const tired = row.looks + 1 >= dispatcher.deps.settings.attentionAfterLooks;
      return { attention: !willResend && (suggests || tired) ? 'NEEDS_DECISION' : null, reason: verdict.why };
    }
    default:
      return { attention: row.attention, reason: row.reason };
  }
}

async function plan(dispatcher: Dispatcher, row: EffectRow, next: NextLook): Promise<void> {
  const { ledger } = dispatcher.deps;
  await ledger.run('plan look', () => planLook(ledger.sql, row.id, row.fence, next));
}

function moveOf(row: EffectRow, to: Move['to'], actor: string): Move {
  return {
    id: row.id,
    expect: { status: row.status, fence: row.fence },
    to,
    settledBy: 'evidence',
    result: null,
    resultInfo: null,
    providerRef: null,
    reasonCode: null,
    reason: null,
    attention: null,
    event: { kind: 'evidence', actor },
  };
}
