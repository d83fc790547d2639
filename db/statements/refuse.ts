import type { EffectId } from '../../effects/effect.ts';
import type { HotSql } from './types.ts';

/** A final "not sent" that nothing may contradict later (PROTOCOL 2.4). */
export interface RecordedRefusal {
  readonly id: EffectId;
  readonly tool: string;
  readonly version: string;
  /** The digest the call named or resolved to; empty when neither. */
  readonly contractDigest: Buffer;
  readonly effectClass: string | null;
  readonly provider: string | null;
  readonly argsHash: Buffer;
  readonly code: string;
  readonly message: string;
  readonly by: 'admission' | 'withdrawal';
  readonly actor: string;
}

/**
 * Inserts the refusal as the call's row. True when it is now the row; false when a row was there
 * already, which then decides (read it in a second statement).
 */
export async function recordRefusal(sql: HotSql, r: RecordedRefusal): Promise<boolean> {
  const rows = await sql`
    WITH refused AS (
      INSERT INTO holdfast.effects (recorded_at, settled_at, fence, sends, status, tenant, run_id, call_id, tool, version,
        contract_digest, effect_class, provider, args_hash, reason_code, reason, settled_by)
      SELECT now, now, 0, 0, 'NOT_APPLIED', ${r.id.tenant}::text, ${r.id.run}::text, ${r.id.call}::text, ${r.tool}::text,
        ${r.version}::text, ${r.contractDigest}::bytea, ${r.effectClass}::text, ${r.provider}::text, ${r.argsHash}::bytea,
        ${r.code}::text, ${r.message}::text, ${r.by}::text
      FROM (SELECT clock_timestamp() AS now OFFSET 0) clock
      ON CONFLICT DO NOTHING
      RETURNING tenant, run_id, call_id)
    INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, to_status, fence, actor, reason, data)
    SELECT tenant, run_id, call_id, 'refused', 'NOT_APPLIED', 0, ${r.actor}::text, ${r.message}::text,
      jsonb_build_object('code', ${r.code}::text)
    FROM refused
    RETURNING id`;
  return rows.length === 1;
}
