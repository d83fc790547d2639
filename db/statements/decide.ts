import type { EffectId, EffectStatus } from '../../effects/effect.ts';
import { type Move, moveCtes } from './move.ts';
import type { HotSql } from './types.ts';

/** What a named person rules about one effect. */
export interface Decision {
  readonly id: EffectId;
  /** Unique per tenant; a repeat gets the first answer. */
  readonly decisionId: string;
  readonly ruling: 'confirm' | 'not_applied';
  readonly actor: string;
  readonly source: string;
  readonly reason: string;
  readonly expected: { readonly status: EffectStatus; readonly fence: number };
  readonly force: boolean;
  readonly correction: boolean;
}

export interface DecisionRecord extends Decision {
  readonly applied: boolean;
  readonly refusal: string | null;
}

/** The first answer given under this decision id. */
export async function readDecision(
  sql: HotSql,
  tenant: string,
  decisionId: string,
): Promise<DecisionRecord | undefined> {
  const [row] = await sql`SELECT * FROM holdfast.decisions WHERE tenant = ${tenant} AND decision_id = ${decisionId}`;
  if (row === undefined) return undefined;
  return {
    id: { tenant: row.tenant as string, run: row.run_id as string, call: row.call_id as string },
    decisionId: row.decision_id as string,
    ruling: row.ruling as Decision['ruling'],
    actor: row.actor as string,
    source: row.source as string,
    reason: row.reason as string,
    expected: { status: row.expected_status as EffectStatus, fence: row.expected_fence as number },
    force: row.force as boolean,
    correction: row.correction as boolean,
    applied: row.applied as boolean,
    refusal: row.refusal as string | null,
  };
}

/**
 * Applies a decision: the move, its event and the decision's row in one statement, guarded by the
 * expected (status, fence) and by the decision id being new. True when it moved the row.
 * A racing repeat of the same id loses on the row's lock, changes nothing, and then reads the first answer.
 */
export async function applyDecision(sql: HotSql, d: Decision, m: Move): Promise<boolean> {
  const isNew = sql`NOT EXISTS (SELECT FROM holdfast.decisions WHERE tenant = ${d.id.tenant} AND decision_id = ${d.decisionId})`;
  const rows = await sql`
    WITH ${moveCtes(sql, m, isNew)},
    ruled AS (
      INSERT INTO holdfast.decisions (tenant, decision_id, run_id, call_id, ruling, actor, source, reason,
        expected_status, expected_fence, force, correction, applied)
      SELECT tenant, ${d.decisionId}::text, run_id, call_id, ${d.ruling}::text, ${d.actor}::text, ${d.source}::text,
        ${d.reason}::text, ${d.expected.status}::text, ${d.expected.fence}::int, ${d.force}::boolean,
        ${d.correction}::boolean, true
      FROM moved)
    SELECT 1 FROM moved`;
  return rows.length === 1;
}

/** Records a decision that was refused, with its event. False when that decision id is answered already. */
export async function refuseDecision(sql: HotSql, d: Decision, refusal: string): Promise<boolean> {
  const rows = await sql`
    WITH ruled AS (
      INSERT INTO holdfast.decisions (tenant, decision_id, run_id, call_id, ruling, actor, source, reason,
        expected_status, expected_fence, force, correction, applied, refusal)
      VALUES (${d.id.tenant}::text, ${d.decisionId}::text, ${d.id.run}::text, ${d.id.call}::text, ${d.ruling}::text,
        ${d.actor}::text, ${d.source}::text, ${d.reason}::text, ${d.expected.status}::text, ${d.expected.fence}::int,
        ${d.force}::boolean, ${d.correction}::boolean, false, ${refusal}::text)
      ON CONFLICT DO NOTHING
      RETURNING tenant, run_id, call_id, expected_fence)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason, data)
    SELECT tenant, run_id, call_id, 'decision_refused', expected_fence, ${d.actor}::text, ${refusal}::text,
      jsonb_build_object('decisionId', ${d.decisionId}::text, 'ruling', ${d.ruling}::text)
    FROM ruled RETURNING id`;
  return rows.length === 1;
}
