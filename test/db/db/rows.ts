import { randomUUID } from 'node:crypto';
import type { Sql } from 'postgres';
import type { EffectStatus } from '../../../effects/effect.ts';

/** Columns of holdfast.effects, by their names in the database. */
export type EffectColumns = Record<string, unknown>;

/** A row as admission writes it: claimed, class IDEMPOTENT. */
export function claimed(over: EffectColumns = {}): EffectColumns {
  const now = new Date('2026-11-30T12:00:00.000Z');
  const call = randomUUID();
  return {
    recorded_at: now,
    claimed_at: now,
    send_by_at: new Date(now.getTime() + 5_000),
    deadline_at: new Date(now.getTime() + 30_000),
    process_id: randomUUID(),
    nonce: randomUUID(),
    fence: 1,
    sends: 1,
    in_flight_max_ms: 60_000,
    status: 'DISPATCHED',
    tenant: 'acme',
    run_id: 'run-1',
    call_id: call,
    tool: 'billing.send_invoice',
    version: '1.0.0',
    contract_digest: Buffer.alloc(32, 1),
    effect_class: 'IDEMPOTENT',
    provider: 'billing',
    effect_key: `key-${call}`,
    account: 'main',
    args_hash: Buffer.alloc(32, 2),
    request_hash: Buffer.alloc(32, 3),
    args: '{"amount":5}',
    ...over,
  };
}

/** A row as a refusal writes it: nothing was claimed or sent. */
export function refused(over: EffectColumns = {}): EffectColumns {
  const { recorded_at, tenant, run_id, call_id, tool, version, contract_digest, args_hash } = claimed();
  return {
    recorded_at,
    settled_at: recorded_at,
    fence: 0,
    sends: 0,
    status: 'NOT_APPLIED',
    tenant,
    run_id,
    call_id,
    tool,
    version,
    contract_digest,
    args_hash,
    reason_code: 'tenant_suspended',
    settled_by: 'admission',
    ...over,
  };
}

export async function insertEffect(sql: Sql, columns: EffectColumns): Promise<EffectColumns> {
  await sql`INSERT INTO holdfast.effects ${sql(columns)}`;
  return columns;
}

/** Changes columns of a row, as no statement of ours would. */
export async function changeEffect(sql: Sql, row: EffectColumns, change: EffectColumns): Promise<void> {
  const { tenant, run_id, call_id } = row as Record<string, string>;
  await sql`UPDATE holdfast.effects SET ${sql(change)}
    WHERE tenant = ${tenant as string} AND run_id = ${run_id as string} AND call_id = ${call_id as string}`;
}

/** Columns that go with a status. */
const WITH_STATUS: Record<EffectStatus, EffectColumns> = {
  DISPATCHED: {},
  UNKNOWN: { next_look_at: new Date('2026-11-30T12:01:00.000Z') },
  CONFIRMED: { settled_by: 'holder', settled_at: new Date('2026-11-30T12:00:02.000Z'), result: '{"id":"inv-1"}' },
  NOT_APPLIED: {
    settled_by: 'holder',
    settled_at: new Date('2026-11-30T12:00:02.000Z'),
    reason_code: 'refused_by_provider',
  },
};

/** A claimed row that has gone on to `status` by a legal move. */
export async function effectIn(sql: Sql, status: EffectStatus, over: EffectColumns = {}): Promise<EffectColumns> {
  const row = await insertEffect(sql, claimed(over));
  const change = { ...WITH_STATUS[status], status };
  if (status !== 'DISPATCHED') await changeEffect(sql, row, change);
  return { ...row, ...change };
}

export async function appendEvent(sql: Sql, row: EffectColumns, event: EffectColumns): Promise<void> {
  const { tenant, run_id, call_id } = row;
  await sql`INSERT INTO holdfast.effect_events ${sql({ tenant, run_id, call_id, fence: 1, actor: 'test', ...event } as EffectColumns)}`;
}

/** A process row whose last beat is `beatAgeMs` old. */
export async function insertProcess(sql: Sql, over: EffectColumns & { beatAgeMs?: number } = {}): Promise<string> {
  const { beatAgeMs = 0, ...columns } = over;
  const process_id = randomUUID();
  await sql`INSERT INTO holdfast.processes ${sql({ process_id, ttl_ms: 3_000, info: {}, ...columns } as EffectColumns)}`;
  await sql`UPDATE holdfast.processes SET beat_at = clock_timestamp() - ${beatAgeMs}::float8 * interval '1 millisecond'
    WHERE process_id = ${process_id}`;
  return process_id;
}
