import { effectiveClass } from '../contracts/effective-class.ts';
import { type OpenRecovery, recordForgotten } from '../db/forgotten.ts';
import { readEffect } from '../db/statements/index.ts';
import { type JudgeFacts, judge, settleAtMs, type Verdict } from '../effects/judge.ts';
import { pinnedOf } from './claim.ts';
import { wallMs } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import type { look as Look } from './look.ts';
import { mayBeForgotten, type Prepared } from './prepare.ts';

/**
 * Before a claim, while a recovery of the ledger is open (PROTOCOL 2.7): a call without a row may have been sent all the same.
 * Returns where the claim may go on: the provider proves that it has nothing under this key, or a row is there and
 * decides; what the provider shows is recorded first, so that it is never sent again.
 * Throws `recovery_open` where nothing is proven (yet). In the healthy case this is one cached answer, "none".
 */
export async function askAboutForgotten(deps: DispatcherDeps, p: Prepared, look: typeof Look): Promise<void> {
  const recovery = await deps.registry.recovery();
  if (recovery === undefined || cannotHarm(deps, p, recovery)) return;
  const { ledger } = deps;
  if ((await ledger.run('read', () => readEffect(ledger.sql, p.call))) !== undefined) return;
  const verdict = await ask(deps, p, recovery, look);
  switch (verdict.kind) {
    case 'ABSENT_SETTLED':
      return;
    case 'CONFIRMED':
    case 'CONFLICT':
      return record(deps, p, recovery);
    case 'ABSENT_TOO_EARLY':
    case 'INCONCLUSIVE': {
      const why = verdict.kind === 'INCONCLUSIVE' ? verdict.why : 'it is too early for absence to prove anything';
      throw mayBeForgotten(p.call, why);
    }
  }
}

/** PURE applies nothing; an IDEMPOTENT call is recognised by its key for as long as the provider certainly knows it. */
function cannotHarm({ settings }: DispatcherDeps, { contract }: Prepared, { sinceMs }: OpenRecovery): boolean {
  const { idempotency, sendByMs, inFlightMaxMs } = contract.execution;
  switch (effectiveClass(contract)) {
    case 'PURE':
      return true;
    case 'IDEMPOTENT':
      return wallMs() + settings.clockMarginMs + sendByMs + inFlightMaxMs < sinceMs + (idempotency?.windowMs ?? 0);
    default:
      return false;
  }
}

async function ask(
  deps: DispatcherDeps,
  { contract, scope, credential }: Prepared,
  recovery: OpenRecovery,
  look: typeof Look,
): Promise<Verdict> {
  const rule = contract.execution.evidence;
  if (rule === undefined) return { kind: 'INCONCLUSIVE', why: 'its contract names no evidence' };
  const facts: Omit<JudgeFacts, 'askedAtMs'> = {
    rule,
    inFlightMaxMs: contract.execution.inFlightMaxMs,
    // What was forgotten was claimed after `since`, and left before the recovery.
    firstClaimedAtMs: recovery.sinceMs,
    sendByMaxAtMs: recovery.recoveredAtMs,
    sentLate: false,
    clockMarginMs: deps.settings.clockMarginMs,
  };
  const seen = await look(deps, rule, {
    contract,
    scope: { ...scope, ref: null },
    account: credential?.account ?? null,
    settleAtMs: settleAtMs(facts),
    differedBefore: false,
  });
  return judge(seen.observation, { ...facts, askedAtMs: seen.askedAtMs });
}

async function record(deps: DispatcherDeps, p: Prepared, recovery: OpenRecovery): Promise<void> {
  await recordForgotten(deps.ledger, {
    ...(await pinnedOf(deps, p)),
    // The provider shows it: whether an equal call is open besides does not matter any more.
    twinGuard: false,
    recovery,
    actor: 'recovery',
    reason: 'the provider shows it, though the recovered ledger had forgotten it',
  });
}
