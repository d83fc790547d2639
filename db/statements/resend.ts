import type { EffectId } from '../../effects/effect.ts';
import type { HotSql } from './types.ts';

/** A new claim on an UNKNOWN effect (PROTOCOL 3.6). */
export interface Resend {
  readonly id: EffectId;
  /** The fence that was read; the move makes it fence + 1. */
  readonly fence: number;
  readonly contractDigest: Buffer;
  readonly requestHash: Buffer;
  readonly account: string | null;
  readonly credentialVersion: string | null;
  readonly processId: string;
  readonly nonce: string;
  readonly sendByMs: number;
  readonly deadlineMs: number;
  /** `concurrent: safe`, or PURE: earlier sends need not be over. */
  readonly concurrentSafe: boolean;
  /** IDEMPOTENT: how long after the first claim the provider still knows the key; null = no window (PURE, REPLAYABLE). */
  readonly keyWindowMs: number | null;
  readonly actor: string;
}

/**
 * True for a row `e` that stood open when the ledger was recovered (PROTOCOL 2.7): a later writer of its resource may have
 * been forgotten, so a replay would undo what that one wrote.
 */
const wasRecovered = (sql: HotSql) => sql`EXISTS (
  SELECT FROM holdfast.effect_events v
  WHERE v.tenant = e.tenant AND v.run_id = e.run_id AND v.call_id = e.call_id AND v.kind = 'recovered')`;

/** Whether this effect may never be replayed any more, for whoever plans a re-send; the statement checks it again. */
export async function isReplayLost(sql: HotSql, id: EffectId): Promise<boolean> {
  const rows = await sql`
    SELECT FROM holdfast.effects e
    WHERE e.tenant = ${id.tenant} AND e.run_id = ${id.run} AND e.call_id = ${id.call}
      AND e.effect_class = 'REPLAYABLE' AND ${wasRecovered(sql)}`;
  return rows.length === 1;
}

/**
 * Moves UNKNOWN → DISPATCHED and claims, in one autocommit statement with every condition of
 * PROTOCOL 3.6 in its WHERE. True when this process may send now. NON_RETRYABLE and UNKNOWN never
 * match, whatever the caller says; the trigger `effects_legal_move` repeats it.
 */
export async function resend(sql: HotSql, r: Resend): Promise<boolean> {
  const rows = await sql`
    WITH lease AS MATERIALIZED (
      SELECT process_id FROM holdfast.processes
      WHERE process_id = ${r.processId}::uuid AND fenced_at IS NULL AND ended_at IS NULL FOR KEY SHARE),
    before AS (
      SELECT nonce, process_id, send_by_at FROM holdfast.effects
      WHERE tenant = ${r.id.tenant} AND run_id = ${r.id.run} AND call_id = ${r.id.call}),
    moved AS (
      UPDATE holdfast.effects e
      SET status = 'DISPATCHED', fence = e.fence + 1, sends = e.sends + 1, process_id = lease.process_id,
        nonce = ${r.nonce}::uuid, claimed_at = clock.now, credential_version = ${r.credentialVersion}::text,
        send_by_at = greatest(e.send_by_at, clock.now + ${r.sendByMs}::float8 * interval '1 millisecond'),
        deadline_at = clock.now + ${r.deadlineMs}::float8 * interval '1 millisecond', next_look_at = NULL
      FROM lease, (SELECT clock_timestamp() AS now OFFSET 0) clock
      WHERE e.tenant = ${r.id.tenant} AND e.run_id = ${r.id.run} AND e.call_id = ${r.id.call}
        AND e.status = 'UNKNOWN' AND e.fence = ${r.fence}
        AND e.effect_class IN ('PURE', 'IDEMPOTENT', 'REPLAYABLE')
        AND e.contract_digest = ${r.contractDigest} AND e.request_hash = ${r.requestHash}
        AND e.account IS NOT DISTINCT FROM ${r.account}::text
        AND (${r.concurrentSafe} OR clock.now > e.send_by_at + e.in_flight_max_ms * interval '1 millisecond')
        AND (${r.keyWindowMs}::float8 IS NULL OR clock.now
          + (${r.sendByMs}::float8 + e.in_flight_max_ms) * interval '1 millisecond'
          < e.recorded_at + ${r.keyWindowMs}::float8 * interval '1 millisecond')
        AND (e.effect_class <> 'IDEMPOTENT' OR ${r.keyWindowMs}::float8 IS NOT NULL)
        AND NOT (e.effect_class = 'REPLAYABLE' AND ${wasRecovered(sql)})
      RETURNING e.tenant, e.run_id, e.call_id, e.fence, e.sends)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, data)
    SELECT moved.tenant, moved.run_id, moved.call_id, 'resent', 'UNKNOWN', 'DISPATCHED', moved.fence, ${r.actor}::text,
      jsonb_build_object('sends', moved.sends, 'before', jsonb_build_object(
        'nonce', before.nonce, 'process', before.process_id, 'sendByAt', before.send_by_at))
    FROM moved, before RETURNING id`;
  return rows.length === 1;
}
