import type { Contract } from '../contracts/contract.ts';
import type { Ledger } from '../db/connect.ts';
import { constraintOf } from '../db/errors.ts';
import {
  applyDecision,
  type Decision,
  type EffectRow,
  fenceLapsed,
  type Move,
  readDecision,
  refuseDecision,
  releaseFencedClaims,
} from '../db/statements/index.ts';
import { type EffectStatus, effectIdText, isIdPart } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { checkHumanTexts } from '../effects/human-text.ts';
import { transition } from '../effects/transition.ts';
import { sleep } from './clock.ts';
import { existingRow } from './row.ts';

/** What deciding needs: the ledger alone, so that it works with the whole fleet and Temporal down. */
export interface DecideDeps {
  readonly ledger: Ledger;
  /** The recorded contract, for its evidence lag; undefined when it cannot be loaded. */
  readonly contract: (digest: Buffer) => Promise<Contract | undefined>;
  readonly clockMarginMs: number;
}

/** A person's ruling; the actor is self-declared. */
export interface DecisionRequest extends Decision {
  /** For `confirm`: what the provider is known to have answered, as stored text. */
  readonly result?: string;
}

/** The answer to a decision; a repeated decision id gets the first one again. */
export interface DecisionAnswer {
  readonly effectId: string;
  readonly decisionId: string;
  readonly applied: boolean;
  readonly repeated: boolean;
  /** Why it was refused. */
  readonly refusal: string | null;
  /** The effect as it is now. */
  readonly status: EffectStatus;
  readonly fence: number;
}

const RELEASE_LIMIT = 200;

/**
 * Applies a named person's ruling, or records why not. Idempotent per (tenant, decision id).
 * On a DISPATCHED row with a living holder it is refused; a lapsed holder is watched for one ttl and fenced first.
 * Throws `bad_input` for a malformed decision, `effect_not_found`, `ledger_unreachable`.
 */
export async function decide(deps: DecideDeps, d: DecisionRequest): Promise<DecisionAnswer> {
  checkDecision(d);
  const { ledger } = deps;
  const first = await firstAnswer(deps, d);
  if (first !== undefined) return first;
  let row = await existingRow(deps.ledger, d.id);
  let expected = d.expected;
  if (row.status === 'DISPATCHED' && !row.holderAlive && (await fenceHolder(deps, row))) {
    const after = await existingRow(deps.ledger, d.id);
    // The person decided about this very claim; fencing moved it, not its fence.
    if (expected.status === 'DISPATCHED' && expected.fence === after.fence)
      expected = { status: after.status, fence: after.fence };
    row = after;
  }
  const refusal = await whyRefused(deps, d, row, expected);
  if (refusal !== null) return refuse(deps, d, refusal);
  const moved = await ledger
    .run('apply decision', () => applyDecision(ledger.sql, { ...d, expected }, moveOf(d, row, expected)))
    .catch(refusedBy);
  // The same id decides about another effect at this moment: its answer is there now.
  if (moved === 'decisions_tenant_decision_id_pk') return decide(deps, d);
  if (moved === 'effects_one_artefact') {
    return refuse(deps, d, `artefact ${row.providerRef} already confirms another effect`);
  }
  if (moved === true) return answer(deps, d, true, null);
  const now = await existingRow(deps.ledger, d.id);
  return refuse(deps, d, `the effect moved meanwhile: it is ${now.status} with fence ${now.fence}`);
}

/** What was answered under this decision id. Throws `bad_input` when that was about another effect. */
async function firstAnswer(deps: DecideDeps, d: DecisionRequest): Promise<DecisionAnswer | undefined> {
  const { ledger } = deps;
  const prior = await ledger.run('read decision', () => readDecision(ledger.sql, d.id.tenant, d.decisionId));
  if (prior === undefined) return undefined;
  if (effectIdText(prior.id) !== effectIdText(d.id)) {
    throw new HoldfastError('bad_input', `decision id ${d.decisionId} belongs to ${effectIdText(prior.id)}`, {
      place: '/decisionId',
    });
  }
  return { ...(await answer(deps, d, prior.applied, prior.refusal)), repeated: true };
}

const UNIQUE = ['decisions_tenant_decision_id_pk', 'effects_one_artefact'];

/** Which of the two unique rules refused it; any other error goes on. */
function refusedBy(error: unknown): string {
  const constraint = constraintOf(error);
  if (constraint === undefined || !UNIQUE.includes(constraint)) throw error;
  return constraint;
}

function checkDecision(d: DecisionRequest): void {
  if (!isIdPart(d.decisionId))
    throw new HoldfastError('bad_input', 'the decision id is malformed', { place: '/decisionId' });
  checkHumanTexts('a decision', d, '/');
}

/**
 * Fences a holder whose lease has lapsed. A lapse counts only for an observer that has watched one ttl
 * (PROTOCOL 4.3): right after a restart of Postgres nobody has beaten yet.
 */
async function fenceHolder(deps: DecideDeps, row: EffectRow): Promise<boolean> {
  const { ledger } = deps;
  if (row.processId === null) return false;
  const processId = row.processId;
  const [lease] = await ledger.run(
    'read lease',
    () => ledger.sql`SELECT ttl_ms FROM holdfast.processes WHERE process_id = ${processId}`,
  );
  await sleep((lease?.ttl_ms as number | undefined) ?? 0);
  await ledger.run('fence', () => fenceLapsed(ledger.sql, processId));
  for (let released = RELEASE_LIMIT; released === RELEASE_LIMIT; ) {
    released = (await ledger.run('release claims', () => releaseFencedClaims(ledger.sql, 'decision', RELEASE_LIMIT)))
      .length;
  }
  return true;
}

async function whyRefused(
  deps: DecideDeps,
  d: DecisionRequest,
  row: EffectRow,
  expected: { status: EffectStatus; fence: number },
): Promise<string | null> {
  if (row.status !== expected.status || row.fence !== expected.fence) {
    return `expected ${expected.status} with fence ${expected.fence}, but the effect is ${row.status} with fence ${row.fence}`;
  }
  const to = d.ruling === 'confirm' ? 'CONFIRMED' : 'NOT_APPLIED';
  if (row.sends === 0 && to === 'CONFIRMED') return 'it was never claimed, so nothing was ever sent';
  const facts = { sends: row.sends, correction: d.correction, leaseAlive: row.holderAlive };
  // A claim goes through UNKNOWN first; what forbids that is the reason worth telling.
  const first = row.status === 'DISPATCHED' ? transition('DISPATCHED', 'UNKNOWN', 'decision', facts) : undefined;
  const verdict = first?.allowed === false ? first : transition(row.status, to, 'decision', facts);
  if (!verdict.allowed) return verdict.why;
  if (row.status !== 'UNKNOWN' || to !== 'NOT_APPLIED' || d.force) return null;
  const settleAt = await earliestNotApplied(deps, row);
  if (row.nowMs >= settleAt) return null;
  return `the request may still take effect until ${new Date(settleAt).toISOString()}; "not applied" before that has to be forced (--force, or force: true)`;
}

/** PROTOCOL 6.3's settle_at, with lag 0 where the contract cannot be loaded or asks for no evidence. */
async function earliestNotApplied(deps: DecideDeps, row: EffectRow): Promise<number> {
  const contract = await deps.contract(row.contractDigest).catch(() => undefined);
  const lagMs = contract?.execution.evidence?.lagMs ?? 0;
  return (row.sendByAtMs ?? row.recordedAtMs) + row.inFlightMaxMs + lagMs + deps.clockMarginMs;
}

function moveOf(d: DecisionRequest, row: EffectRow, expected: { status: EffectStatus; fence: number }): Move {
  const confirmed = d.ruling === 'confirm';
  return {
    id: d.id,
    expect: expected,
    to: confirmed ? 'CONFIRMED' : 'NOT_APPLIED',
    settledBy: 'decision',
    result: d.result ?? null,
    resultInfo: null,
    providerRef: null,
    reasonCode: confirmed ? null : 'decided_not_applied',
    reason: d.reason,
    attention: row.status === 'CONFIRMED' ? 'CONFLICT' : null,
    event: {
      kind: 'decision',
      actor: d.actor,
      data: { decisionId: d.decisionId, source: d.source, force: d.force, correction: d.correction },
    },
  };
}

async function refuse(deps: DecideDeps, d: DecisionRequest, refusal: string): Promise<DecisionAnswer> {
  const { ledger } = deps;
  const first = await ledger.run('refuse decision', () => refuseDecision(ledger.sql, d, refusal));
  if (first) return answer(deps, d, false, refusal);
  // A racing repeat of the same decision was answered first.
  const prior = await firstAnswer(deps, d);
  if (prior === undefined) throw new HoldfastError('internal', 'a decision that is answered already has no row');
  return prior;
}

async function answer(
  deps: DecideDeps,
  d: DecisionRequest,
  applied: boolean,
  refusal: string | null,
): Promise<DecisionAnswer> {
  const row = await existingRow(deps.ledger, d.id);
  return {
    effectId: effectIdText(d.id),
    decisionId: d.decisionId,
    applied,
    repeated: false,
    refusal,
    status: row.status,
    fence: row.fence,
  };
}
