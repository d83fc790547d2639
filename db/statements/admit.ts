import type { EffectClass } from '../../contracts/contract.ts';
import type { EffectId } from '../../effects/effect.ts';
import { type ColumnValue, rowStatement } from './rows.ts';
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

const CLAIM = {
  tenant: 'text',
  run_id: 'text',
  call_id: 'text',
  tool: 'text',
  version: 'text',
  contract_digest: 'bytea',
  effect_class: 'text',
  provider: 'text',
  effect_key: 'text',
  capabilities: 'text[]',
  credential: 'text',
  credential_version: 'text',
  account: 'text',
  args_hash: 'bytea',
  request_hash: 'bytea',
  args: 'text',
  state_before: 'text',
  twin_guard: 'boolean',
  process_id: 'uuid',
  nonce: 'uuid',
  send_by_ms: 'float8',
  deadline_ms: 'float8',
  in_flight_max_ms: 'bigint',
  not_after: 'timestamptz',
} as const;

// Contract, tenant and credential are read as plain look-ups by their primary keys: never joined, so that no plan scans them.
const INSERT = (rows: string): string => `
  INSERT INTO holdfast.effects (
    recorded_at, claimed_at, send_by_at, deadline_at, process_id, nonce, fence, sends, in_flight_max_ms, twin_guard,
    status, tenant, run_id, call_id, tool, version, contract_digest, effect_class, provider, effect_key, capabilities,
    credential, credential_version, account, args_hash, request_hash, args, state_before)
  SELECT
    clock.now, clock.now,
    clock.now + c.send_by_ms * interval '1 millisecond',
    clock.now + c.deadline_ms * interval '1 millisecond',
    c.process_id, c.nonce, 1, 1, c.in_flight_max_ms, c.twin_guard,
    'DISPATCHED', c.tenant, c.run_id, c.call_id, c.tool, c.version, c.contract_digest, c.effect_class, c.provider,
    c.effect_key, c.capabilities, c.credential, c.credential_version, c.account, c.args_hash, c.request_hash, c.args,
    c.state_before
  FROM (SELECT clock_timestamp() AS now OFFSET 0) clock, lease, ${rows}
  WHERE lease.process_id = c.process_id
    AND (SELECT state FROM holdfast.contracts WHERE digest = c.contract_digest) = 'live'
    AND (SELECT state FROM holdfast.tenants t WHERE t.tenant = c.tenant) = 'active'
    AND (c.credential IS NULL OR (
      SELECT k.current FROM holdfast.credentials k WHERE k.name = c.credential AND k.version = c.credential_version))
    AND (c.not_after IS NULL OR clock.now < c.not_after)
  ON CONFLICT DO NOTHING
  RETURNING nonce`;

const LEASE = `
  lease AS MATERIALIZED (
    SELECT process_id FROM holdfast.processes
    WHERE process_id = ANY($1::uuid[]) AND fenced_at IS NULL AND ended_at IS NULL FOR KEY SHARE)`;

const ADMIT = rowStatement(CLAIM, 1, (rows) => `WITH ${LEASE} ${INSERT(rows)}`);

const ADMIT_HOLDING = rowStatement(
  CLAIM,
  2,
  (rows) => `
  WITH ${LEASE},
  effect AS (${INSERT(rows)}, tenant, provider, run_id, call_id),
  hold AS (
    INSERT INTO holdfast.resource_holds (tenant, provider, resource, run_id, call_id)
    SELECT tenant, provider, r, run_id, call_id FROM effect, unnest($2::text[]) AS r)
  SELECT nonce FROM effect`,
);

/**
 * Record and claim in one autocommit statement (PROTOCOL 2.2). The nonces of those admissions whose row this call
 * inserted, and which so hold their claims; the absence of one says nothing yet: read its row in a **second** statement
 * (2.3). Admissions that meet may share a statement and its commit; each is still claimed by its own row, or not at all.
 *
 * Locks the process's own lease row FOR KEY SHARE, so that a fencer (FOR UPDATE) waits for claims
 * under way and later ones see the fence; the beat (FOR NO KEY UPDATE) is not blocked. Reads contract
 * and credential by primary key without locks: FOR SHARE there cost 20 to 60 % throughput.
 *
 * An admission with resources has to come alone: a held resource raises a unique violation and takes the whole
 * statement back.
 */
export async function admit(sql: HotSql, admissions: readonly Admission[]): Promise<ReadonlySet<string>> {
  const processes = [...new Set(admissions.map((a) => a.processId))];
  const [first] = admissions;
  const holding = first !== undefined && first.resources.length > 0;
  if (holding) await dropFinishedHolds(sql, first);
  const rows = holding
    ? await ADMIT_HOLDING.run(sql, [processes, first.resources], [claimRow(first)])
    : await ADMIT.run(sql, [processes], admissions.map(claimRow));
  return new Set(rows.map((row) => row.nonce as string));
}

function claimRow(a: Admission): Readonly<Record<keyof typeof CLAIM, ColumnValue>> {
  return {
    tenant: a.id.tenant,
    run_id: a.id.run,
    call_id: a.id.call,
    tool: a.tool,
    version: a.version,
    contract_digest: a.contractDigest,
    effect_class: a.effectClass,
    provider: a.provider,
    effect_key: a.effectKey,
    capabilities: a.capabilities,
    credential: a.credential,
    credential_version: a.credentialVersion,
    account: a.account,
    args_hash: a.argsHash,
    request_hash: a.requestHash,
    args: a.args,
    state_before: a.stateBefore,
    twin_guard: a.twinGuard,
    process_id: a.processId,
    nonce: a.nonce,
    send_by_ms: a.sendByMs,
    deadline_ms: a.deadlineMs,
    in_flight_max_ms: a.inFlightMaxMs,
    not_after: a.notAfter,
  };
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
