import type { Attention, EffectId } from '../../effects/effect.ts';
import { type ColumnValue, rowStatement } from './rows.ts';
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

const ANSWER = {
  tenant: 'text',
  run_id: 'text',
  call_id: 'text',
  nonce: 'uuid',
  result: 'text',
  result_info: 'text',
  provider_ref: 'text',
  attention: 'text',
  sent_late: 'boolean',
} as const;

const CONFIRM = rowStatement(
  ANSWER,
  0,
  (rows) => `
  UPDATE holdfast.effects e
  SET status = 'CONFIRMED', settled_at = clock_timestamp(), settled_by = 'holder', result = c.result,
    result_info = c.result_info::jsonb, provider_ref = c.provider_ref, attention = c.attention,
    sent_late = e.sent_late OR c.sent_late
  FROM ${rows}
  WHERE e.tenant = c.tenant AND e.run_id = c.run_id AND e.call_id = c.call_id
    AND e.nonce = c.nonce AND e.status = (SELECT 'DISPATCHED')
  RETURNING e.nonce`,
);

/**
 * The healthy second move: by nonce, one update, no event (the row's own columns tell it).
 * The nonces of those whose row moved. A nonce names one claim, so it implies the fence.
 */
export async function settleConfirmed(sql: HotSql, settlements: readonly Settlement[]): Promise<ReadonlySet<string>> {
  const rows = await CONFIRM.run(sql, [], settlements.map(answerRow));
  return new Set(rows.map((row) => row.nonce as string));
}

function answerRow(s: Settlement): Readonly<Record<keyof typeof ANSWER, ColumnValue>> {
  return {
    tenant: s.id.tenant,
    run_id: s.id.run,
    call_id: s.id.call,
    nonce: s.nonce,
    result: s.result,
    result_info: s.resultInfo === null ? null : JSON.stringify(s.resultInfo),
    provider_ref: s.providerRef,
    attention: s.attention,
    sent_late: s.sentLate,
  };
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
