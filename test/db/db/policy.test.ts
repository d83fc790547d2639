import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type Ledger } from '../../../db/connect.ts';
import { currentCredential, listCredentials, putCredential } from '../../../db/credentials.ts';
import { checkDeployment } from '../../../db/deployment.ts';
import { checkDurability } from '../../../db/durability.ts';
import { getTenant, listTenants, putTenant } from '../../../db/tenants.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';

let database: FreshDatabase;
let ledger: Ledger;

beforeAll(async () => {
  database = await freshDatabase();
  ledger = connect(database.url, { connectionsMax: 2, coldConnectionsMax: 8 });
});
afterAll(async () => {
  await ledger.close();
  await database.drop();
});

describe('credentials', () => {
  const v1 = { name: 'billing-writer', version: 'v1', account: 'main', grants: ['b:*', 'a:*', 'b:*'] };
  const v2 = { ...v1, version: 'v2', grants: ['a:*'] };

  test('a new version becomes the current one', async () => {
    const first = { ...v1, grants: ['a:*', 'b:*'], createdAt: expect.any(Date) };
    expect(await putCredential(ledger, v1)).toEqual({ ...first, current: true, created: true });
    expect(await putCredential(ledger, v2)).toMatchObject({ version: 'v2', current: true, created: true });
    expect(await currentCredential(ledger, 'billing-writer')).toMatchObject({ version: 'v2' });
    expect((await listCredentials(ledger, { name: 'billing-writer' }))[0]).toEqual({ ...first, current: false });
  });

  test('an identical repeat changes nothing, also of a version that is not current any more', async () => {
    expect(await putCredential(ledger, v2)).toMatchObject({ created: false, current: true });
    expect(await putCredential(ledger, { ...v1, grants: ['b:*', 'a:*'] })).toMatchObject({
      created: false,
      current: false,
    });
    expect(await currentCredential(ledger, 'billing-writer')).toMatchObject({ version: 'v2' });
  });

  test.each([
    ['account', { ...v2, account: 'other' }],
    ['grants', { ...v2, grants: ['a:*', 'c:*'] }],
  ])('a version never changes its %s', async (_, put) => {
    await expect(putCredential(ledger, put)).rejects.toMatchObject({
      code: 'bad_input',
      message: 'version "v2" of credential "billing-writer" exists with another account or other grants',
    });
    expect(await currentCredential(ledger, 'billing-writer')).toMatchObject({ account: 'main', grants: ['a:*'] });
  });

  test('8 racing versions of a new name leave exactly one current', async () => {
    const versions = Array.from({ length: 8 }, (_, index) => `r${index}`);
    await Promise.all(versions.map((version) => putCredential(ledger, { ...v1, name: 'raced', version })));
    const rows = await listCredentials(ledger, { name: 'raced' });
    expect(rows.map((row) => row.version)).toEqual(versions);
    expect(rows.filter((row) => row.current)).toHaveLength(1);
  });

  test('lists page by page', async () => {
    const first = await listCredentials(ledger, { limit: 2 });
    const rest = await listCredentials(ledger, { after: first[1] as (typeof first)[0], limit: 2 });
    expect([...first, ...rest].map((row) => `${row.name}/${row.version}`)).toEqual([
      'billing-writer/v1',
      'billing-writer/v2',
      'raced/r0',
      'raced/r1',
    ]);
  });

  test.each([
    ['name', { ...v1, name: 'a b' }],
    ['version', { ...v1, version: '' }],
    ['account', { ...v1, account: '' }],
    ['grants', { ...v1, grants: [''] }],
  ])('a malformed %s is refused and named', async (place, put) => {
    await expect(putCredential(ledger, put)).rejects.toMatchObject({ code: 'bad_input', place });
  });
});

describe('tenants', () => {
  test('are created with defaults, and change only in what is given', async () => {
    const acme = { tenant: 'acme', state: 'active', payloadBytesMax: 1_048_576, createdAt: expect.any(Date) };
    expect(await putTenant(ledger, { tenant: 'acme' })).toEqual({ ...acme, created: true });
    expect(await putTenant(ledger, { tenant: 'acme', payloadBytesMax: 2_048 })).toEqual({
      ...acme,
      payloadBytesMax: 2_048,
      created: false,
    });
    expect(await putTenant(ledger, { tenant: 'acme', state: 'suspended' })).toMatchObject({
      state: 'suspended',
      payloadBytesMax: 2_048,
    });
    expect(await putTenant(ledger, { tenant: 'acme' })).toMatchObject({ state: 'suspended', created: false });
    expect(await getTenant(ledger, 'acme')).toEqual({ ...acme, state: 'suspended', payloadBytesMax: 2_048 });
  });

  test('one that is not there is refused with what to do', async () => {
    await expect(getTenant(ledger, 'nobody')).rejects.toMatchObject({
      code: 'tenant_unknown',
      next: 'create it: holdfast tenant put nobody',
    });
  });

  test('are listed by name, page by page', async () => {
    await putTenant(ledger, { tenant: 'beta' });
    await putTenant(ledger, { tenant: 'gamma' });
    const names = async (page: object) => (await listTenants(ledger, page)).map((row) => row.tenant);
    expect([await names({ limit: 2 }), await names({ after: 'beta' })]).toEqual([['acme', 'beta'], ['gamma']]);
  });

  test.each([
    ['bad_id', { tenant: 'a:b' }],
    ['bad_input', { tenant: 'a', payloadBytesMax: 10 }],
    ['bad_input', { tenant: 'a', payloadBytesMax: 1.5 }],
    ['bad_input', { tenant: 'a', state: 'gone' as never }],
  ])('malformed values are refused as %s: %j', async (code, put) => {
    await expect(putTenant(ledger, put)).rejects.toMatchObject({ code });
  });
});

describe('start-up checks', () => {
  test('the first deployment id is written, also when raced, and another one is refused', async () => {
    const answers = await Promise.all(
      ['prod', 'staging', 'prod', 'staging'].map((id) => checkDeployment(ledger, id).catch((error) => error.code)),
    );
    const winner = answers[0] === undefined ? 'prod' : 'staging';
    const loser = winner === 'prod' ? 'staging' : 'prod';
    expect(answers.filter((answer) => answer === 'deployment_mismatch')).toHaveLength(2);
    await checkDeployment(ledger, winner);
    await expect(checkDeployment(ledger, loser)).rejects.toMatchObject({
      code: 'deployment_mismatch',
      message: `the database belongs to deployment "${winner}", the configuration says "${loser}"`,
    });
    await expect(checkDeployment(ledger, 'a b')).rejects.toMatchObject({ code: 'bad_config', place: 'deployment' });
  });

  test('a session without synchronous_commit is refused, unless tests allow it', async () => {
    const owner = connect(database.url, { role: null, connectionsMax: 1 });
    const name = new URL(database.url).pathname.slice(1);
    await owner.sql.unsafe(`ALTER DATABASE ${name} SET synchronous_commit = off`);
    const unsafe = connect(database.url, { connectionsMax: 1 });
    try {
      await expect(checkDurability(unsafe)).rejects.toMatchObject({
        code: 'unsafe_durability',
        message: expect.stringContaining('synchronous_commit=off'),
      });
      expect(await checkDurability(unsafe, true)).toContain('synchronous_commit=off');
    } finally {
      await owner.close();
      await unsafe.close();
    }
  });
});
