import type { EffectClass } from '../../contracts/contract.ts';
import type { EffectId } from '../../effects/effect.ts';
import type { HotSql } from './types.ts';

/** Everything the row has to name before a byte leaves (rule 1). */
export interface Admission {
  readonly id: EffectId;
  readonly tool: string;
  readonly version: string;
  readonly contractDigest: Buffer;
  readonly effectClass: EffectClass;
  readonly provider: string;
  readonly effectKey: string;
  readonly capabilities: readonly string[];
  readonly credential: string | null;
  readonly credentialVersion: string | null;
  readonly account: string | null;
  readonly argsHash: Buffer;
  readonly requestHash: Buffer;
  readonly args: string | null;
  readonly stateBefore: string | null;
  readonly twinGuard: boolean;
  readonly resources: readonly string[];
  readonly processId: string;
  readonly nonce: string;
  readonly sendByMs: number;
  /** From claim to the moment the holder has certainly given up: send-by + timeout + margin. */
  readonly deadlineMs: number;
  readonly inFlightMaxMs: number;
  readonly notAfter: string | null;
}

/**
 * Record and claim in one autocommit statement (PROTOCOL 2.2). True when this call inserted the row
 * and so holds the claim; false says nothing yet: read the row in a **second** statement (2.3).
 *
 * Locks the process's own lease row FOR KEY SHARE, so that a fencer (FOR UPDATE) waits for claims
 * under way and later ones see the fence; the beat (FOR NO KEY UPDATE) is not blocked. Reads contract
 * and credential by primary key without locks: FOR SHARE there cost 20 to 60 % throughput.
 */
export async function admit(sql: HotSql, a: Admission): Promise<boolean> {
  const insert = sql`
    INSERT INTO holdfast.effects (
      recorded_at, claimed_at, send_by_at, deadline_at, process_id, nonce, fence, sends, in_flight_max_ms, twin_guard,
      status, tenant, run_id, call_id, tool, version, contract_digest, effect_class, provider, effect_key, capabilities,
      credential, credential_version, account, args_hash, request_hash, args, state_before)
    SELECT
      clock.now, clock.now,
      clock.now + ${a.sendByMs}::float8 * interval '1 millisecond',
      clock.now + ${a.deadlineMs}::float8 * interval '1 millisecond',
      ${a.processId}::uuid, ${a.nonce}::uuid, 1, 1, ${a.inFlightMaxMs}::bigint, ${a.twinGuard}::boolean,
      'DISPATCHED', ${a.id.tenant}::text, ${a.id.run}::text, ${a.id.call}::text, ${a.tool}::text, ${a.version}::text,
      contract.digest, ${a.effectClass}::text, ${a.provider}::text, ${a.effectKey}::text,
      ${a.capabilities as string[]}::text[], ${a.credential}::text, ${a.credentialVersion}::text, ${a.account}::text,
      ${a.argsHash}::bytea, ${a.requestHash}::bytea, ${a.args}::text, ${a.stateBefore}::text
    FROM (SELECT process_id FROM holdfast.processes
          WHERE process_id = ${a.processId}::uuid AND fenced_at IS NULL AND ended_at IS NULL FOR KEY SHARE) lease,
         (SELECT clock_timestamp() AS now OFFSET 0) clock,
         holdfast.contracts contract,
         holdfast.tenants tenant
    WHERE contract.digest = ${a.contractDigest}::bytea AND contract.state = 'live'
      AND tenant.tenant = ${a.id.tenant}::text AND tenant.state = 'active'
      AND (${a.credential}::text IS NULL OR EXISTS (
        SELECT FROM holdfast.credentials c
        WHERE c.name = ${a.credential}::text AND c.version = ${a.credentialVersion}::text AND c.current))
      AND (${a.notAfter}::timestamptz IS NULL OR clock.now < ${a.notAfter}::timestamptz)
    ON CONFLICT DO NOTHING`;
  if (a.resources.length === 0) return (await insert).count === 1;
  await dropFinishedHolds(sql, a);
  // A held resource raises a unique violation and takes the whole statement back, the effect included.
  const rows = await sql`
    WITH effect AS (${insert} RETURNING 1),
    hold AS (
      INSERT INTO holdfast.resource_holds (tenant, provider, resource, run_id, call_id)
      SELECT ${a.id.tenant}::text, ${a.provider}::text, r, ${a.id.run}::text, ${a.id.call}::text
      FROM effect, unnest(${a.resources as string[]}::text[]) AS r)
    SELECT 1 FROM effect`;
  return rows.length === 1;
}

/** A hold ends at the later of settled and last send-by + in-flight limit (PROTOCOL 3.7). */
async function dropFinishedHolds(sql: HotSql, a: Admission): Promise<void> {
  await sql`
    DELETE FROM holdfast.resource_holds h
    USING holdfast.effects e
    WHERE h.tenant = ${a.id.tenant} AND h.provider = ${a.provider} AND h.resource = ANY(${a.resources as string[]}::text[])
      AND e.tenant = h.tenant AND e.run_id = h.run_id AND e.call_id = h.call_id
      AND e.status IN ('CONFIRMED', 'NOT_APPLIED')
      AND clock_timestamp() > e.send_by_at + e.in_flight_max_ms * interval '1 millisecond'`;
}
