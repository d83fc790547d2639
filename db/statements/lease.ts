import type { HotSql } from './types.ts';

/** Opens the lease of one process start. */
export async function openLease(sql: HotSql, lease: { processId: string; ttlMs: number; info: object }): Promise<void> {
  await sql`
    INSERT INTO holdfast.processes (process_id, ttl_ms, info)
    VALUES (${lease.processId}, ${lease.ttlMs}, ${JSON.stringify(lease.info)}::text::jsonb)`;
}

/** One beat. False: this process was fenced (or its row is gone) and has to take a new id. */
export async function beat(sql: HotSql, processId: string): Promise<boolean> {
  const rows = await sql`
    UPDATE holdfast.processes SET beat_at = clock_timestamp()
    WHERE process_id = ${processId} AND fenced_at IS NULL AND ended_at IS NULL`;
  return rows.count === 1;
}

/** Ends a lease at shutdown, after its flights are settled. */
export async function endLease(sql: HotSql, processId: string): Promise<void> {
  await sql`UPDATE holdfast.processes SET ended_at = clock_timestamp() WHERE process_id = ${processId} AND ended_at IS NULL`;
}

/**
 * Fences every lapsed lease (or `only` that one). FOR UPDATE waits for claims that hold the lease
 * row FOR KEY SHARE; their rows are then seen by {@link releaseFencedClaims}, a second statement
 * with a new snapshot (PROTOCOL 4.2). Idempotent.
 *
 * @param untilMs - database clock: after this nothing is fenced. A statement that waited with a frozen Postgres would
 * otherwise fence all those who could not beat meanwhile (4.3). Null: no limit.
 */
export async function fenceLapsed(
  sql: HotSql,
  only: string | null = null,
  untilMs: number | null = null,
): Promise<string[]> {
  const rows = await sql`
    WITH lapsed AS MATERIALIZED (
      SELECT process_id FROM holdfast.processes
      WHERE fenced_at IS NULL AND ended_at IS NULL AND (${only}::uuid IS NULL OR process_id = ${only}::uuid)
        AND beat_at < clock_timestamp() - ttl_ms * interval '1 millisecond'
        AND (${untilMs}::float8 IS NULL OR clock_timestamp() < to_timestamp(${untilMs}::float8 / 1000))
      FOR UPDATE)
    UPDATE holdfast.processes p SET fenced_at = clock_timestamp()
    FROM lapsed WHERE p.process_id = lapsed.process_id
      AND p.beat_at < clock_timestamp() - p.ttl_ms * interval '1 millisecond'
    RETURNING p.process_id`;
  return rows.map((row) => row.process_id as string);
}

export interface ReleasedClaim {
  readonly tenant: string;
  readonly run: string;
  readonly call: string;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: string;
}

/**
 * Moves claims of fenced and ended processes to UNKNOWN, with events; at most `limit` in one
 * statement, to be called until it returns fewer. Reads claims through `effects_claims`, driven by
 * the few processes that are fenced or ended.
 */
export async function releaseFencedClaims(sql: HotSql, actor: string, limit: number): Promise<ReleasedClaim[]> {
  return release(
    sql,
    actor,
    sql`
      SELECT e.tenant, e.run_id, e.call_id, e.nonce, 'the lease of its holder lapsed' AS why
      FROM holdfast.processes p JOIN holdfast.effects e ON e.process_id = p.process_id AND e.status = 'DISPATCHED'
      WHERE p.fenced_at IS NOT NULL OR p.ended_at IS NOT NULL
      LIMIT ${limit} FOR UPDATE OF e SKIP LOCKED`,
    'fencer',
  );
}

/** Moves claims past their deadline, or naming no known process, to UNKNOWN (PROTOCOL 4.2). Same bounds. */
export async function releaseOverdueClaims(sql: HotSql, actor: string, limit: number): Promise<ReleasedClaim[]> {
  return release(
    sql,
    actor,
    sql`
      SELECT e.tenant, e.run_id, e.call_id, e.nonce, 'past its deadline without an answer' AS why
      FROM holdfast.effects e
      WHERE e.status = 'DISPATCHED' AND (e.deadline_at < clock_timestamp()
        OR NOT EXISTS (SELECT FROM holdfast.processes p WHERE p.process_id = e.process_id))
      LIMIT ${limit} FOR UPDATE OF e SKIP LOCKED`,
    'sweep',
  );
}

async function release(
  sql: HotSql,
  actor: string,
  stale: ReturnType<HotSql>,
  kind: 'fencer' | 'sweep',
): Promise<ReleasedClaim[]> {
  const rows = await sql`
    WITH stale AS MATERIALIZED (${stale}),
    moved AS (
      UPDATE holdfast.effects e
      SET status = 'UNKNOWN', next_look_at = clock_timestamp(), reason = stale.why
      FROM stale
      WHERE e.tenant = stale.tenant AND e.run_id = stale.run_id AND e.call_id = stale.call_id
        AND e.nonce = stale.nonce AND e.status = 'DISPATCHED'
      RETURNING e.tenant, e.run_id, e.call_id, e.tool, e.version, e.effect_class, e.fence, stale.why),
    logged AS (
      INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, reason)
      SELECT tenant, run_id, call_id, ${kind === 'fencer' ? 'fenced' : 'overdue'}::text, 'DISPATCHED', 'UNKNOWN', fence,
        ${actor}::text, why FROM moved)
    SELECT * FROM moved`;
  return rows.map((row) => ({
    tenant: row.tenant as string,
    run: row.run_id as string,
    call: row.call_id as string,
    tool: row.tool as string,
    version: row.version as string,
    effectClass: row.effect_class as string,
  }));
}

/** Removes leases that ended or were fenced an hour ago and that no claim names. */
export async function purgeLeases(sql: HotSql): Promise<number> {
  const rows = await sql`
    DELETE FROM holdfast.processes p
    WHERE coalesce(p.ended_at, p.fenced_at) < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM holdfast.effects e WHERE e.process_id = p.process_id AND e.status = 'DISPATCHED')`;
  return rows.count;
}
