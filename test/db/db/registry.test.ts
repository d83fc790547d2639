import { eq, sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canonicalJson } from '../../../contracts/canonical-json.ts';
import type { Contract } from '../../../contracts/contract.ts';
import { digestBytes } from '../../../contracts/digest.ts';
import { connect, type Ledger } from '../../../db/connect.ts';
import { ContractCache, RegistryCache } from '../../../db/contract-cache.ts';
import { putCredential } from '../../../db/credentials.ts';
import {
  contractByDigest,
  listContracts,
  publishContract,
  resolveContract,
  showContract,
} from '../../../db/registry.ts';
import { contracts } from '../../../db/schema.ts';
import { putTenant } from '../../../db/tenants.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';
import { findInvoice, sendInvoice } from './contracts.ts';

let database: FreshDatabase;
let ledger: Ledger;
let owner: Ledger;
const look = findInvoice();
const send = sendInvoice(look);

beforeAll(async () => {
  database = await freshDatabase();
  ledger = connect(database.url, { connectionsMax: 2 });
  owner = connect(database.url, { connectionsMax: 1, role: null });
});
afterAll(async () => {
  await ledger.close();
  await owner.close();
  await database.drop();
});

const other = `sha256/v1:${'0'.repeat(64)}`;

describe('publishing', () => {
  test('refuses evidence that is not published yet', async () => {
    await expect(publishContract(ledger, send, 'ann')).rejects.toMatchObject({
      code: 'tool_contract_not_found',
      message: 'the evidence call billing.find_invoice@1.0.0 is not published',
      place: '/execution/evidence/call',
    });
  });

  test('is idempotent: the same content again is there already', async () => {
    const entry = {
      tool: 'billing.find_invoice',
      version: '1.0.0',
      digest: look.digest,
      owner: 'billing-platform',
      effectClass: 'PURE',
      provider: 'billing',
      state: 'live',
      publishedBy: 'ann',
      publishedAt: expect.any(Date),
    };
    expect(await publishContract(ledger, look, 'ann')).toEqual({ ...entry, created: true });
    expect(await publishContract(ledger, look, 'bob')).toEqual({ ...entry, created: false });
    expect(await publishContract(ledger, send, 'ann')).toMatchObject({ created: true, effectClass: 'IDEMPOTENT' });
  });

  test('refuses another content under the same version, naming both digests', async () => {
    const changed = findInvoice({ owner: 'somebody-else' });
    await expect(publishContract(ledger, changed, 'ann')).rejects.toMatchObject({
      code: 'tool_schema_drift',
      message: `billing.find_invoice@1.0.0 is published with digest ${look.digest}, not ${changed.digest}`,
      next: 'publish the change as a new version',
    });
  });

  test('raced by 8, one of two contents wins and everybody with it hears so', async () => {
    const contents = ['one', 'two'].map((name) => findInvoice({ version: '7.0.0', owner: name }));
    const racers = Array.from({ length: 8 }, (_, index) => contents[index % 2] as Contract);
    const answers = await Promise.all(
      racers.map((contract) =>
        publishContract(ledger, contract, 'ann').then(
          ({ created, digest }) => ({ created, digest }),
          (error) => error.code,
        ),
      ),
    );
    const winner = answers.find((answer) => answer.created)?.digest;
    expect(answers.filter((answer) => answer.created)).toHaveLength(1);
    expect(answers).toEqual(
      racers.map(({ digest }, index) =>
        digest === winner ? { created: answers[index].created, digest } : 'tool_schema_drift',
      ),
    );
  });

  test('refuses evidence with another digest than the published one', async () => {
    const unpublished = findInvoice({ owner: 'somebody-else' });
    await expect(publishContract(ledger, sendInvoice(unpublished, { version: '2.0.0' }), 'ann')).rejects.toMatchObject({
      code: 'tool_schema_drift',
      place: '/execution/evidence/call',
    });
  });

  test('refuses evidence by a call that is not PURE', async () => {
    const write = findInvoice({ version: '3.0.0' }, { effect: 'NON_RETRYABLE' });
    await publishContract(ledger, write, 'ann');
    await expect(publishContract(ledger, sendInvoice(write, { version: '3.0.0' }), 'ann')).rejects.toMatchObject({
      code: 'bad_contract',
      message: 'the evidence call billing.find_invoice@3.0.0 is NON_RETRYABLE, not PURE',
    });
  });
});

describe('resolving', () => {
  test('gives back the very contract, with its state', async () => {
    const query = { tool: send.tool, version: send.version };
    expect(await resolveContract(ledger, query)).toEqual({ contract: send, state: 'live' });
    expect(await resolveContract(ledger, { ...query, digest: send.digest })).toEqual({ contract: send, state: 'live' });
    expect(await contractByDigest(ledger, send.digest)).toEqual(send);
    expect(await showContract(ledger, query)).toMatchObject({
      contract: send,
      digests: send.digests,
      publishedBy: 'ann',
    });
  });

  test('refuses another digest, naming both', async () => {
    await expect(
      resolveContract(ledger, { tool: send.tool, version: send.version, digest: other }),
    ).rejects.toMatchObject({
      code: 'tool_schema_drift',
      message: `billing.send_invoice@1.0.0 is published with digest ${send.digest}, not ${other}`,
    });
  });

  test('names the versions that are there when one is not', async () => {
    await expect(resolveContract(ledger, { tool: send.tool, version: '9.9.9' })).rejects.toMatchObject({
      code: 'tool_contract_not_found',
      message: 'billing.send_invoice has no version 9.9.9; newest first: 1.0.0',
    });
  });

  test('names the nearest tool when the name is not there', async () => {
    await expect(resolveContract(ledger, { tool: 'billing.send_invoce', version: '1.0.0' })).rejects.toMatchObject({
      code: 'tool_contract_not_found',
      message: 'no contract of billing.send_invoce is published; did you mean billing.send_invoice?',
    });
  });

  test('says undefined for a digest that is not published', async () => {
    expect(await contractByDigest(ledger, Buffer.alloc(32))).toBeUndefined();
  });

  test('lists by tool and version, page by page', async () => {
    const names = (entries: { tool: string; version: string }[]) =>
      entries.map((entry) => `${entry.tool}@${entry.version}`);
    const all = names(await listContracts(ledger));
    expect(all).toEqual([
      'billing.find_invoice@1.0.0',
      'billing.find_invoice@3.0.0',
      'billing.find_invoice@7.0.0',
      'billing.send_invoice@1.0.0',
    ]);
    const first = await listContracts(ledger, { limit: 3 });
    expect(names([...first, ...(await listContracts(ledger, { after: first[2] as (typeof first)[0] }))])).toEqual(all);
    expect(names(await listContracts(ledger, { tool: send.tool }))).toEqual(['billing.send_invoice@1.0.0']);
    await expect(listContracts(ledger, { limit: 0 })).rejects.toMatchObject({ code: 'bad_input', place: 'limit' });
  });
});

describe('a row that was changed behind our back is not believed', () => {
  /** As an owner who switches the guard off would do it. */
  async function tamper(contract: Contract, source: string): Promise<void> {
    await owner.db.transaction(async (tx) => {
      await tx.execute(sql`ALTER TABLE holdfast.contracts DISABLE TRIGGER contracts_immutable`);
      await tx
        .update(contracts)
        .set({ source })
        .where(eq(contracts.digest, digestBytes(contract.digest)));
      await tx.execute(sql`ALTER TABLE holdfast.contracts ENABLE TRIGGER contracts_immutable`);
    });
  }

  test.each([
    ['other content', canonicalJson({ ...look.source, owner: 'mallory' })],
    ['no contract', '{"tool":"billing.find_invoice"}'],
    ['no JSON', 'nonsense'],
  ])('%s', async (_, source) => {
    await tamper(look, source);
    const refused = { code: 'contract_parked', place: look.digest };
    await expect(resolveContract(ledger, look)).rejects.toMatchObject(refused);
    await expect(contractByDigest(ledger, look.digest)).rejects.toMatchObject(refused);
    await tamper(look, canonicalJson(look.source));
    expect((await resolveContract(ledger, look)).contract).toEqual(look);
  });
});

describe('the cache', () => {
  test('keeps contracts for good, and "not found" not at all', async () => {
    const cache = new ContractCache(ledger);
    const late = findInvoice({ version: '5.0.0' });
    await expect(cache.resolve(late)).rejects.toMatchObject({ code: 'tool_contract_not_found' });
    expect(await cache.byDigest(digestBytes(late.digest))).toBeUndefined();
    await publishContract(ledger, late, 'ann');
    const first = await cache.resolve(late);
    expect(first).toEqual(late);
    expect(await cache.resolve({ tool: late.tool, version: late.version })).toBe(first);
    expect(await cache.byDigest(digestBytes(late.digest))).toBe(first);
    await expect(cache.resolve({ ...late, digest: other })).rejects.toMatchObject({ code: 'tool_schema_drift' });
  });

  test('drops the contract unused for longest', async () => {
    const cache = new ContractCache(ledger, { contractsMax: 2 });
    const v1 = await cache.resolve({ tool: look.tool, version: '1.0.0' });
    await cache.resolve({ tool: look.tool, version: '3.0.0' });
    await cache.resolve({ tool: look.tool, version: '1.0.0' });
    await cache.resolve({ tool: look.tool, version: '5.0.0' });
    expect(cache.size).toBe(2);
    expect(await cache.resolve({ tool: look.tool, version: '1.0.0' })).toBe(v1);
  });

  test('keeps the current credential until policy is forgotten', async () => {
    const registry = new RegistryCache(ledger);
    const put = (version: string) =>
      putCredential(ledger, { name: 'writer', version, account: 'main', grants: ['invoice:write:*'] });
    expect(await registry.currentCredential('writer')).toBeUndefined();
    await put('1');
    expect(await registry.currentCredential('writer')).toMatchObject({ version: '1' });
    await put('2');
    expect(await registry.currentCredential('writer')).toMatchObject({ version: '1' });
    registry.forgetPolicy();
    expect(await registry.currentCredential('writer')).toMatchObject({ version: '2' });
  });

  test("knows a tenant's limit, and tenants that do not exist", async () => {
    const registry = new RegistryCache(ledger);
    expect(await registry.payloadBytesMax('acme')).toBeUndefined();
    await putTenant(ledger, { tenant: 'acme', payloadBytesMax: 4_096 });
    expect(await registry.payloadBytesMax('acme')).toBe(4_096);
  });
});
