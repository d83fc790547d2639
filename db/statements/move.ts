import type { Attention, EffectId, EffectStatus, SettledBy } from '../../effects/effect.ts';
import type { Settlement } from './settle.ts';
import type { HotSql, ResultInfo } from './types.ts';

/** A move that is not the holder's own: by evidence, late answer, decision, or a PURE call given up. */
export interface Move {
  readonly id: EffectId;
  /** What was judged; both stand in the WHERE (PROTOCOL 6.4). */
  readonly expect: { readonly status: EffectStatus; readonly fence: number };
  readonly to: 'CONFIRMED' | 'NOT_APPLIED';
  readonly settledBy: SettledBy;
  readonly result: string | null;
  readonly resultInfo: ResultInfo | null;
  readonly providerRef: string | null;
  readonly reasonCode: string | null;
  readonly reason: string | null;
  readonly attention: Attention | null;
  readonly event: { readonly kind: string; readonly actor: string; readonly data?: object };
}

/**
 * The UPDATE of a move and its event as CTEs `moved` and `logged`, for the statements that carry more. A healthy settle has
 * no event, so a move that overrules a settled row keeps in its own what it takes the place of (rule 10).
 */
export function moveCtes(sql: HotSql, m: Move, extraCondition = sql`true`) {
  return sql`
    before AS (
      SELECT settled_at, settled_by FROM holdfast.effects
      WHERE tenant = ${m.id.tenant} AND run_id = ${m.id.run} AND call_id = ${m.id.call}),
    moved AS (
      UPDATE holdfast.effects
      SET status = ${m.to}::text, settled_at = clock_timestamp(), settled_by = ${m.settledBy}::text, next_look_at = NULL,
        result = coalesce(${m.result}::text, result),
        result_info = coalesce(${m.resultInfo === null ? null : JSON.stringify(m.resultInfo)}::text::jsonb, result_info),
        provider_ref = coalesce(${m.providerRef}::text, provider_ref),
        reason_code = ${m.reasonCode}::text, reason = ${m.reason}::text, attention = ${m.attention}::text
      WHERE tenant = ${m.id.tenant} AND run_id = ${m.id.run} AND call_id = ${m.id.call}
        AND status = ${m.expect.status}::text AND fence = ${m.expect.fence}
        AND NOT (${m.to}::text = 'NOT_APPLIED' AND ${m.settledBy}::text = 'evidence' AND sent_late)
        AND ${extraCondition}
      RETURNING tenant, run_id, call_id, fence),
    logged AS (
      INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, reason, data)
      SELECT tenant, run_id, call_id, ${m.event.kind}::text, ${m.expect.status}::text, ${m.to}::text, fence,
        ${m.event.actor}::text, ${m.reason}::text,
        ${JSON.stringify(m.event.data ?? {})}::text::jsonb || CASE WHEN before.settled_at IS NULL THEN '{}'::jsonb
          ELSE jsonb_build_object('before', jsonb_build_object(
            'settledAt', before.settled_at, 'settledBy', before.settled_by)) END
      FROM moved, before)`;
}

/** Makes one such move with its event. True when the row moved. */
export async function move(sql: HotSql, m: Move): Promise<boolean> {
  const rows = await sql`WITH ${moveCtes(sql, m)} SELECT 1 FROM moved`;
  return rows.length === 1;
}

export interface EventNote {
  readonly id: EffectId;
  readonly kind: string;
  readonly fence: number;
  readonly actor: string;
  readonly reason: string | null;
  readonly data: object;
}

/** Appends an event that moves nothing: a late answer kept, a refused decision, a parked look. */
export async function appendEvent(sql: HotSql, e: EventNote): Promise<void> {
  await sql`
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason, data)
    VALUES (${e.id.tenant}, ${e.id.run}, ${e.id.call}, ${e.kind}, ${e.fence}, ${e.actor}, ${e.reason},
      ${JSON.stringify(e.data)}::text::jsonb)`;
}

/** Keeps a truth that contradicts a settled row, and calls a person (rule 10). Moves no status. */
export async function flagConflict(sql: HotSql, e: EventNote): Promise<void> {
  await sql`
    WITH flagged AS (
      UPDATE holdfast.effects SET attention = 'CONFLICT'
      WHERE tenant = ${e.id.tenant} AND run_id = ${e.id.run} AND call_id = ${e.id.call})
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason, data)
    VALUES (${e.id.tenant}, ${e.id.run}, ${e.id.call}, ${e.kind}, ${e.fence}::int, ${e.actor}, ${e.reason}::text,
      ${JSON.stringify(e.data)}::text::jsonb)`;
}

/**
 * Marks that bytes left after send-by (PROTOCOL 3.2), whatever the row's status is by now. The in-flight time of a
 * re-send counts from now: that is when they left.
 */
export async function markSentLate(sql: HotSql, id: EffectId, actor: string): Promise<void> {
  await sql`
    WITH marked AS (
      UPDATE holdfast.effects SET sent_late = true, send_by_at = greatest(send_by_at, clock_timestamp())
      WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call} AND NOT sent_late
      RETURNING tenant, run_id, call_id, fence)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor)
    SELECT tenant, run_id, call_id, 'sent_late', fence, ${actor}::text FROM marked`;
}

/**
 * Keeps what a holder saw though its answer settles nothing and its claim was given up meanwhile: that bytes left late,
 * the provider's reference (first one wins, and the look that needs it comes at once), a conflict. Moves no status.
 * A verdict of absence that late bytes contradict calls a person (rule 10).
 */
export async function keepLateFacts(sql: HotSql, s: LateFacts): Promise<void> {
  await sql`
    WITH kept AS (
      UPDATE holdfast.effects
      SET sent_late = sent_late OR ${s.sentLate},
        send_by_at = CASE WHEN ${s.sentLate} THEN greatest(send_by_at, clock_timestamp()) ELSE send_by_at END,
        provider_ref = CASE WHEN status = 'UNKNOWN' THEN coalesce(provider_ref, ${s.providerRef}::text) ELSE provider_ref END,
        next_look_at = CASE WHEN status = 'UNKNOWN' AND provider_ref IS NULL AND ${s.providerRef}::text IS NOT NULL
          THEN clock_timestamp() ELSE next_look_at END,
        attention = CASE WHEN ${s.sentLate} AND status = 'NOT_APPLIED' AND settled_by = 'evidence' THEN 'CONFLICT'
          ELSE coalesce(${s.attention}::text, attention) END
      WHERE tenant = ${s.id.tenant} AND run_id = ${s.id.run} AND call_id = ${s.id.call}
      RETURNING tenant, run_id, call_id, fence)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason, data)
    SELECT tenant, run_id, call_id, 'late_facts_kept', fence, ${s.actor}::text, ${s.reason}::text,
      jsonb_build_object('nonce', ${s.nonce}::text, 'providerRef', ${s.providerRef}::text, 'sentLate', ${s.sentLate}::boolean)
    FROM kept`;
}

type LateFacts = Pick<Settlement, 'id' | 'nonce' | 'providerRef' | 'sentLate' | 'attention' | 'reason' | 'actor'>;

/** A holder's answer kept while another claim was open, newest first; proof for a later reconciliation (rule 4). */
export async function readKeptAnswers(
  sql: HotSql,
  id: EffectId,
): Promise<{ fence: number; data: Record<string, unknown> }[]> {
  const rows = await sql`
    SELECT fence, data FROM holdfast.effect_events
    WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call} AND kind = 'late_answer_kept'
    ORDER BY id DESC LIMIT 20`;
  return rows.map((row) => ({ fence: row.fence as number, data: row.data as Record<string, unknown> }));
}
