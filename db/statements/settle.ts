import type { Attention, EffectId } from '../../effects/effect.ts';
import type { HotSql, ResultInfo } from './types.ts';

/** What the holder of a claim writes about its answer. */
export interface Settlement {
  readonly id: EffectId;
  readonly nonce: string;
  readonly to: 'CONFIRMED' | 'NOT_APPLIED' | 'UNKNOWN';
  readonly result: string | null;
  readonly resultInfo: ResultInfo | null;
  readonly providerRef: string | null;
  readonly reasonCode: string | null;
  readonly reason: string | null;
  readonly attention: Attention | null;
  readonly sentLate: boolean;
  /** UNKNOWN: from now until the first look. */
  readonly lookInMs: number;
  /** The process that writes, for the event. */
  readonly actor: string;
}

/**
 * The healthy second move: by nonce, one update, no event (the row's own columns tell it).
 * True when the row moved. The nonce names one claim, so it implies the fence.
 */
export async function settleConfirmed(sql: HotSql, s: Settlement): Promise<boolean> {
  const moved = await sql`
    UPDATE holdfast.effects
    SET status = 'CONFIRMED', settled_at = clock_timestamp(), settled_by = 'holder', result = ${s.result}::text,
      result_info = ${s.resultInfo === null ? null : JSON.stringify(s.resultInfo)}::text::jsonb,
      provider_ref = ${s.providerRef}::text, attention = ${s.attention}::text, sent_late = ${s.sentLate}
    WHERE tenant = ${s.id.tenant} AND run_id = ${s.id.run} AND call_id = ${s.id.call}
      AND nonce = ${s.nonce}::uuid AND status = 'DISPATCHED'`;
  return moved.count === 1;
}

/** The holder's troubled move, NOT_APPLIED or UNKNOWN, with its event in the same statement. */
export async function settleTroubled(sql: HotSql, s: Settlement): Promise<boolean> {
  const rows = await sql`
    WITH moved AS (
      UPDATE holdfast.effects
      SET status = ${s.to}::text,
        settled_at = CASE WHEN ${s.to}::text = 'UNKNOWN' THEN NULL ELSE clock_timestamp() END,
        settled_by = CASE WHEN ${s.to}::text = 'UNKNOWN' THEN NULL ELSE 'holder' END,
        next_look_at = CASE WHEN ${s.to}::text = 'UNKNOWN'
          THEN clock_timestamp() + ${s.lookInMs}::float8 * interval '1 millisecond' END,
        result = ${s.result}::text,
        result_info = ${s.resultInfo === null ? null : JSON.stringify(s.resultInfo)}::text::jsonb,
        provider_ref = coalesce(${s.providerRef}::text, provider_ref),
        reason_code = ${s.reasonCode}::text, reason = ${s.reason}::text, attention = ${s.attention}::text,
        sent_late = sent_late OR ${s.sentLate},
        send_by_at = CASE WHEN ${s.sentLate} THEN greatest(send_by_at, clock_timestamp()) ELSE send_by_at END
      WHERE tenant = ${s.id.tenant} AND run_id = ${s.id.run} AND call_id = ${s.id.call}
        AND nonce = ${s.nonce}::uuid AND status = 'DISPATCHED'
        AND (${s.to}::text <> 'NOT_APPLIED' OR sends = 1 OR effect_class = 'PURE')
      RETURNING tenant, run_id, call_id, fence)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, reason, data)
    SELECT tenant, run_id, call_id, 'settled', 'DISPATCHED', ${s.to}::text, fence, ${s.actor}::text, ${s.reason}::text,
      jsonb_build_object('code', ${s.reasonCode}::text, 'sentLate', ${s.sentLate}::boolean)
    FROM moved RETURNING id`;
  return rows.length === 1;
}
