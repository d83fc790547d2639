import type { Attention, EffectId } from '../../effects/effect.ts';
import { type Move, moveCtes } from './move.ts';
import type { HotSql } from './types.ts';

/** The database clock in milliseconds: what `asked_at` is read from, before a look starts (PROTOCOL 6.3). */
export async function readClock(sql: HotSql): Promise<number> {
  const [row] = await sql`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms`;
  if (row === undefined) throw new Error('a SELECT without FROM gave no row');
  return row.now_ms as number;
}

/** One look at the provider, as written to the evidence table. */
export interface Look {
  readonly id: EffectId;
  readonly fence: number;
  readonly askedAtMs: number;
  readonly verdict: string;
  readonly why: string | null;
  readonly observed: string | null;
  readonly actor: string;
}

/** The evidence and the verdict's move in one statement. True when the row moved. */
export async function recordVerdict(sql: HotSql, look: Look, m: Move): Promise<boolean> {
  const rows = await sql`WITH ${moveCtes(sql, m)}, seen AS (${insertLook(sql, look)}) SELECT 1 FROM moved`;
  return rows.length === 1;
}

/** Plans the next look of an effect that stays UNKNOWN; never moves (status, fence). */
export interface NextLook {
  readonly inMs: number;
  readonly attention: Attention | null;
  readonly reason: string | null;
}

/** The evidence of a look that moved nothing, and the plan for the next. True while the effect was still as judged. */
export async function recordLook(sql: HotSql, look: Look, next: NextLook): Promise<boolean> {
  const rows = await sql`
    WITH seen AS (${insertLook(sql, look)}), planned AS (${planUpdate(sql, look.id, look.fence, next)})
    SELECT 1 FROM planned`;
  return rows.length === 1;
}

/** Plans the next look without one having been made (parked, no evidence rule, waiting for a window); counts as one for the backoff. */
export async function planLook(sql: HotSql, id: EffectId, fence: number, next: NextLook): Promise<boolean> {
  return (await planUpdate(sql, id, fence, next)).length === 1;
}

function insertLook(sql: HotSql, look: Look) {
  return sql`
    INSERT INTO holdfast.evidence (tenant, run_id, call_id, asked_at, fence, verdict, why, observed, actor)
    VALUES (${look.id.tenant}::text, ${look.id.run}::text, ${look.id.call}::text,
      to_timestamp(${look.askedAtMs}::float8 / 1000), ${look.fence}::int, ${look.verdict}::text, ${look.why}::text,
      ${look.observed}::text, ${look.actor}::text)`;
}

function planUpdate(sql: HotSql, id: EffectId, fence: number, next: NextLook) {
  return sql`
    UPDATE holdfast.effects
    SET next_look_at = clock_timestamp() + ${next.inMs}::float8 * interval '1 millisecond', looks = looks + 1,
      attention = ${next.attention}::text, reason = coalesce(${next.reason}::text, reason)
    WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call}
      AND status = 'UNKNOWN' AND fence = ${fence}::int
    RETURNING 1`;
}

export interface DueEffect {
  readonly id: EffectId;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: string;
}

/**
 * UNKNOWN effects whose planned look is overdue by `graceMs`: their reconciliation is missing or
 * stuck. Pushes the plan by `pushMs`, so that a row is handed out once per push (index `effects_due`).
 */
export async function takeOverdueLooks(
  sql: HotSql,
  take: { graceMs: number; pushMs: number; limit: number },
): Promise<DueEffect[]> {
  const rows = await sql`
    WITH due AS MATERIALIZED (
      SELECT tenant, run_id, call_id, fence FROM holdfast.effects
      WHERE status = 'UNKNOWN' AND next_look_at < clock_timestamp() - ${take.graceMs}::float8 * interval '1 millisecond'
      ORDER BY next_look_at LIMIT ${take.limit} FOR UPDATE SKIP LOCKED)
    UPDATE holdfast.effects e
    SET next_look_at = clock_timestamp() + ${take.pushMs}::float8 * interval '1 millisecond'
    FROM due
    WHERE e.tenant = due.tenant AND e.run_id = due.run_id AND e.call_id = due.call_id AND e.status = 'UNKNOWN' AND e.fence = due.fence
    RETURNING e.tenant, e.run_id, e.call_id, e.tool, e.version, e.effect_class`;
  return rows.map((row) => ({
    id: { tenant: row.tenant as string, run: row.run_id as string, call: row.call_id as string },
    tool: row.tool as string,
    version: row.version as string,
    effectClass: row.effect_class as string,
  }));
}

/** The newest looks at an effect, newest first; without what was observed. */
export async function recentLooks(
  sql: HotSql,
  id: EffectId,
  limit: number,
): Promise<{ at: string; verdict: string; why: string | null }[]> {
  const rows = await sql`
    SELECT asked_at, verdict, why FROM holdfast.evidence
    WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call} ORDER BY id DESC LIMIT ${limit}`;
  return rows.map((row) => ({
    at: (row.asked_at as Date).toISOString(),
    verdict: row.verdict as string,
    why: row.why as string | null,
  }));
}
