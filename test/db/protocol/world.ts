import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { contractFromSource } from '../../../contracts/contract-file.ts';
import { digestBytes, sha256Bytes } from '../../../contracts/digest.ts';
import { effectiveClass } from '../../../contracts/effective-class.ts';
import { connect, type Ledger, type LedgerConnection, type LedgerOptions } from '../../../db/connect.ts';
import { putCredential } from '../../../db/credentials.ts';
import { publishContract } from '../../../db/registry.ts';
import {
  type Admission,
  admit,
  type EffectRow,
  type HotSql,
  openLease,
  readEffect,
  type Settlement,
  settleConfirmed,
} from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import type { EffectId } from '../../../effects/effect.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';

/** A database of one test file's own, with a tenant, a credential and contracts. */
export interface World {
  readonly database: FreshDatabase;
  /** As workers have it: role holdfast_app. */
  readonly ledger: Ledger;
  /** The owner of the schema: arranges what the rules forbid to everybody else. */
  readonly admin: postgres.Sql;
  /** A ledger of its own (another process, as it were), closed with the world. */
  newLedger(options?: LedgerOptions, url?: string): Ledger;
  /** One connection on which BEGIN and COMMIT may stand, closed with the world. */
  connection(): LedgerConnection['sql'];
  /** Publishes and gives the contract. */
  publish(source: JsonObject): Promise<Contract>;
  /** A lease of a process that does not exist, so nobody beats it. */
  lease(ttlMs?: number): Promise<string>;
  row(id: EffectId): Promise<EffectRow>;
  /** Kinds and moves of the effect's events, oldest first. */
  events(id: EffectId): Promise<{ kind: string; from: string | null; to: string | null; fence: number }[]>;
  /** Resolves once `count` statements wait for a lock. */
  untilBlocked(count?: number): Promise<void>;
  close(): Promise<void>;
}

export const TENANT = 'acme';

/** One admission in a statement of its own: true when it has the claim. */
export async function admitOne(sql: HotSql, a: Admission): Promise<boolean> {
  return (await admit(sql, [a])).has(a.nonce);
}

/** One settlement in a statement of its own: true when the row moved. */
export async function confirmOne(sql: HotSql, s: Settlement): Promise<boolean> {
  return (await settleConfirmed(sql, [s])).has(s.nonce);
}

export async function openWorld(): Promise<World> {
  const database = await freshDatabase();
  const ledger = connect(database.url);
  const admin = postgres(database.url, { max: 4, onnotice: () => {} });
  const ledgers: Ledger[] = [ledger];
  const connections: LedgerConnection[] = [];
  await putTenant(ledger, { tenant: TENANT });
  await putCredential(ledger, { name: 'writer', version: 'v1', account: 'acct-1', grants: ['**'] });
  return {
    database,
    ledger,
    admin,
    newLedger(options, url = database.url) {
      const other = connect(url, options);
      ledgers.push(other);
      return other;
    },
    connection() {
      const connection = ledger.fresh();
      connections.push(connection);
      return connection.sql;
    },
    async publish(source) {
      const contract = contractFromSource(source);
      await publishContract(ledger, contract, 'test');
      return contract;
    },
    async lease(ttlMs = 60_000) {
      const processId = randomUUID();
      await openLease(ledger.sql, { processId, ttlMs, info: {} });
      return processId;
    },
    async row(id) {
      const row = await readEffect(ledger.sql, id);
      if (row === undefined) throw new Error(`no row for ${id.run}:${id.call}`);
      return row;
    },
    async events(id) {
      const rows = await admin`
        SELECT kind, from_status, to_status, fence FROM holdfast.effect_events
        WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call} ORDER BY id`;
      return rows.map((row) => ({ kind: row.kind, from: row.from_status, to: row.to_status, fence: row.fence }));
    },
    async untilBlocked(count = 1) {
      for (let tries = 0; ; tries += 1) {
        const [row] = await admin`
          SELECT count(*)::int AS waiting FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock'`;
        if (row?.waiting >= count) return;
        if (tries > 400) throw new Error(`${row?.waiting} of ${count} statements wait for a lock`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    async close() {
      await Promise.all(connections.map((connection) => connection.close()));
      await Promise.all(ledgers.map((each) => each.close()));
      await admin.end({ timeout: 1 });
      await database.drop();
    },
  };
}

/** The PURE contract with which orders are found by key. */
export const findOrder = (change: JsonObject = {}): JsonObject => ({
  tool: 'shop.find',
  version: '1.0.0',
  owner: 'shop',
  selection: { description: 'Finds the order of a key.' },
  parameters: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
  execution: {
    provider: 'shop',
    effect: 'PURE',
    credential: 'writer',
    timeout: '2s',
    http: { method: 'GET', path: '/orders', query: { key: '{args.key}' } },
  },
  ...change,
});

/** The evidence rule of {@link order}: by key, absence proves. */
export const byKey = (find: Contract, change: JsonObject = {}): JsonObject => ({
  call: `${find.tool}@${find.version}#${find.digest}`,
  by: 'key',
  with: { key: '{effect_key}' },
  found: { status: 200, where: { '/order/key': '{effect_key}' } },
  absent: { status: 404, where: { '/error': 'not_found' } },
  equals: { '/order/item': '{args.item}' },
  reference: '/order/id',
  absence: 'proves',
  lag: '10ms',
  retention: '1h',
  ...change,
});

/** A contract that orders something; NON_RETRYABLE unless changed. `change` goes into `execution`. */
export const order = (change: JsonObject = {}, top: JsonObject = {}): JsonObject => ({
  tool: 'shop.order',
  version: '1.0.0',
  owner: 'shop',
  selection: { description: 'Orders an item.' },
  parameters: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
  execution: {
    provider: 'shop',
    effect: 'NON_RETRYABLE',
    credential: 'writer',
    timeout: '2s',
    send_by: '2s',
    in_flight_max: '100ms',
    http: { method: 'POST', path: '/orders', body: '{args}' },
    idempotency: { send_as: 'header Idempotency-Key' },
    answers: [
      { status: [400, 404, 422], means: 'refused' },
      { status: 201, means: 'applied', ref: '/order/id' },
    ],
    ...change,
  },
  ...top,
});

let calls = 0;
/** An id that no other test has. */
export const newId = (change: Partial<EffectId> = {}): EffectId => {
  calls += 1;
  return { tenant: TENANT, run: 'run', call: `call-${calls}`, ...change };
};

/** An admission as the dispatcher would make it, for the tests of the statements themselves. */
export function admission(contract: Contract, processId: string, change: Partial<Admission> = {}): Admission {
  const id = change.id ?? newId();
  const args = JSON.stringify({ item: `${id.run}/${id.call}` });
  const { execution } = contract;
  return {
    id,
    tool: contract.tool,
    version: contract.version,
    contractDigest: digestBytes(contract.digest),
    effectClass: effectiveClass(contract),
    provider: execution.provider,
    effectKey: `key-${id.run}-${id.call}`,
    capabilities: [],
    credential: 'writer',
    credentialVersion: 'v1',
    account: 'acct-1',
    argsHash: sha256Bytes(args),
    requestHash: sha256Bytes(`request ${args}`),
    args,
    stateBefore: null,
    twinGuard: true,
    resources: [],
    processId,
    nonce: randomUUID(),
    sendByMs: 5_000,
    deadlineMs: 10_000,
    inFlightMaxMs: 5_000,
    notAfter: null,
    ...change,
  };
}
