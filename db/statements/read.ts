import type { EffectClass } from '../../contracts/contract.ts';
import type { Attention, EffectId, EffectKey, EffectStatus, SettledBy } from '../../effects/effect.ts';
import type { EffectRow, HotSql, ResultInfo } from './types.ts';

/** Reads one effect by primary key, with the state of its holder's lease and the database clock. */
export async function readEffect(sql: HotSql, id: EffectId): Promise<EffectRow | undefined> {
  const [row] = await sql`
    SELECT e.*, (extract(epoch FROM e.recorded_at) * 1000)::float8 AS recorded_ms,
      (extract(epoch FROM e.claimed_at) * 1000)::float8 AS claimed_ms,
      (extract(epoch FROM e.send_by_at) * 1000)::float8 AS send_by_ms,
      (extract(epoch FROM e.deadline_at) * 1000)::float8 AS deadline_ms,
      (extract(epoch FROM e.next_look_at) * 1000)::float8 AS next_look_ms,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms,
      coalesce(p.fenced_at IS NULL AND p.ended_at IS NULL
        AND p.beat_at > clock_timestamp() - p.ttl_ms * interval '1 millisecond', false) AS holder_alive
    FROM holdfast.effects e LEFT JOIN holdfast.processes p ON p.process_id = e.process_id
    WHERE e.tenant = ${id.tenant} AND e.run_id = ${id.run} AND e.call_id = ${id.call}`;
  return row === undefined ? undefined : toEffectRow(row);
}

/** The open effect that keeps a twin or another writer out, for the refusal's text. */
export async function readOpenTwin(
  sql: HotSql,
  twin: { tenant: string; tool: string; argsHash: Buffer; provider: string; resources: readonly string[] },
): Promise<EffectId | undefined> {
  const [row] = await sql`
    SELECT run_id, call_id FROM holdfast.effects
    WHERE tenant = ${twin.tenant} AND tool = ${twin.tool} AND args_hash = ${twin.argsHash}
      AND status IN ('DISPATCHED', 'UNKNOWN') AND twin_guard
    UNION ALL
    SELECT run_id, call_id FROM holdfast.resource_holds
    WHERE tenant = ${twin.tenant} AND provider = ${twin.provider} AND resource = ANY(${twin.resources as string[]}::text[])
    LIMIT 1`;
  return row === undefined
    ? undefined
    : { tenant: twin.tenant, run: row.run_id as string, call: row.call_id as string };
}

/** Why an admission may have changed no row: the states that its statement looked at, read anew. */
export interface AdmissionState {
  readonly contractState: string | null;
  readonly tenantState: string | null;
  readonly credentialCurrent: boolean;
  readonly leaseAlive: boolean;
  readonly notAfterPassed: boolean;
}

/** Reads those states in one statement. */
export async function readAdmissionState(
  sql: HotSql,
  a: {
    contractDigest: Buffer;
    tenant: string;
    credential: string | null;
    credentialVersion: string | null;
    processId: string;
    notAfter: string | null;
  },
): Promise<AdmissionState> {
  const [row] = await sql`
    SELECT (SELECT state FROM holdfast.contracts WHERE digest = ${a.contractDigest}) AS contract_state,
      (SELECT state FROM holdfast.tenants WHERE tenant = ${a.tenant}) AS tenant_state,
      (${a.credential}::text IS NULL OR EXISTS (SELECT FROM holdfast.credentials
        WHERE name = ${a.credential}::text AND version = ${a.credentialVersion}::text AND current)) AS credential_current,
      EXISTS (SELECT FROM holdfast.processes
        WHERE process_id = ${a.processId}::uuid AND fenced_at IS NULL AND ended_at IS NULL) AS lease_alive,
      coalesce(${a.notAfter}::timestamptz <= clock_timestamp(), false) AS not_after_passed`;
  if (row === undefined) throw new Error('a SELECT without FROM gave no row');
  return {
    contractState: row.contract_state as string | null,
    tenantState: row.tenant_state as string | null,
    credentialCurrent: row.credential_current as boolean,
    leaseAlive: row.lease_alive as boolean,
    notAfterPassed: row.not_after_passed as boolean,
  };
}

/** The body of arguments stored apart; undefined when it has expired. */
export async function readPayload(sql: HotSql, tenant: string, hash: Buffer): Promise<string | undefined> {
  const [row] = await sql`SELECT body FROM holdfast.payloads WHERE tenant = ${tenant} AND hash = ${hash}`;
  return row?.body as string | undefined;
}

/** Stores arguments above 8 KiB before the claim (PROTOCOL 8.3). Idempotent. */
export async function storePayload(sql: HotSql, tenant: string, hash: Buffer, body: string): Promise<void> {
  await sql`INSERT INTO holdfast.payloads (tenant, hash, body) VALUES (${tenant}, ${hash}, ${body}) ON CONFLICT DO NOTHING`;
}

function toEffectRow(row: Record<string, unknown>): EffectRow {
  return {
    id: { tenant: row.tenant as string, run: row.run_id as string, call: row.call_id as string },
    status: row.status as EffectStatus,
    fence: row.fence as number,
    sends: row.sends as number,
    looks: row.looks as number,
    nonce: row.nonce as string | null,
    processId: row.process_id as string | null,
    holderAlive: row.holder_alive as boolean,
    tool: row.tool as string,
    version: row.version as string,
    contractDigest: row.contract_digest as Buffer,
    effectClass: row.effect_class as EffectClass | null,
    provider: row.provider as string | null,
    effectKey: row.effect_key as EffectKey | null,
    credential: row.credential as string | null,
    credentialVersion: row.credential_version as string | null,
    account: row.account as string | null,
    argsHash: row.args_hash as Buffer,
    requestHash: row.request_hash as Buffer | null,
    args: row.args as string | null,
    stateBefore: row.state_before as string | null,
    providerRef: row.provider_ref as string | null,
    result: row.result as string | null,
    resultInfo: row.result_info as ResultInfo | null,
    reasonCode: row.reason_code as string | null,
    reason: row.reason as string | null,
    settledBy: row.settled_by as SettledBy | null,
    attention: row.attention as Attention | null,
    sentLate: row.sent_late as boolean,
    recordedAtMs: row.recorded_ms as number,
    claimedAtMs: row.claimed_ms as number | null,
    sendByAtMs: row.send_by_ms as number | null,
    deadlineAtMs: row.deadline_ms as number | null,
    nextLookAtMs: row.next_look_ms as number | null,
    inFlightMaxMs: Number(row.in_flight_max_ms ?? 0),
    nowMs: row.now_ms as number,
  };
}
