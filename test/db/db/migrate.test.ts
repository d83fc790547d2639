import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { connect, type Ledger } from '../../../db/connect.ts';
import { MIGRATIONS_DIR, migrate } from '../../../db/migrate.ts';
import * as schema from '../../../db/schema.ts';
import { checkSchema, SCHEMA_VERSIONS, schemaVersion } from '../../../db/schema-version.ts';
import { putTenant } from '../../../db/tenants.ts';
import { emptyDatabase, type FreshDatabase, freshDatabase } from '../../support/stack.ts';
import { effectIn } from './rows.ts';
import { dumpSchema } from './schema-dump.ts';

const opened: { close?(): Promise<void>; drop?(): Promise<void> }[] = [];
const dirs: string[] = [];

async function empty(): Promise<FreshDatabase> {
  const database = await emptyDatabase();
  opened.unshift(database);
  return database;
}

function open(url: string): Ledger {
  const ledger = connect(url, { connectionsMax: 2 });
  opened.unshift({ close: () => ledger.close() });
  return ledger;
}

afterEach(async () => {
  const closing = opened.splice(0);
  for (const item of closing) await item.close?.();
  for (const item of closing) await item.drop?.();
});
afterAll(async () => {
  for (const dir of dirs) await rm(dir, { recursive: true });
});

interface Journal {
  entries: { idx: number; version: string; when: number; tag: string; breakpoints: boolean }[];
}

/** The migrations in a folder of the test's own, changed by `edit`. */
async function migrationsWith(edit: (dir: string, journal: Journal) => Promise<void> | void): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'holdfast-migrations-'));
  dirs.push(dir);
  await cp(MIGRATIONS_DIR, dir, { recursive: true });
  const path = join(dir, 'meta/_journal.json');
  const journal = JSON.parse(await readFile(path, 'utf8')) as Journal;
  await edit(dir, journal);
  await writeFile(path, JSON.stringify(journal));
  return dir;
}

/** One more migration at the end, as the next release would bring it. */
function oneMore(statement: string, whenAfterMs = 1_000) {
  return async (dir: string, journal: Journal) => {
    const when = Math.max(...journal.entries.map((entry) => entry.when)) + whenAfterMs;
    const idx = journal.entries.length;
    journal.entries.push({ idx, version: '7', when, tag: 'next_release', breakpoints: true });
    await writeFile(join(dir, 'next_release.sql'), statement);
  };
}

const ALL = ['0000_ledger', '0001_guards'];

test('an empty database gets every migration, a migrated one none', async () => {
  const { url } = await empty();
  expect(await migrate(url)).toEqual({ applied: ALL, version: 2, ahead: 0 });
  expect(await migrate(url)).toEqual({ applied: [], version: 2, ahead: 0 });
});

test.each([4, 20])('%i racing migrators apply each migration once', async (racers) => {
  const { url } = await empty();
  const results = await Promise.all(Array.from({ length: racers }, () => migrate(url)));
  const applied = results.map((result) => result.applied).filter((tags) => tags.length > 0);
  expect(applied).toEqual([ALL]);
  expect(await schemaVersion(open(url))).toBe(2);
});

test('two databases of one server are migrated at the same time, though roles are shared', async () => {
  const [one, two] = [await empty(), await empty()];
  const results = await Promise.all([migrate(one.url), migrate(two.url)]);
  expect(results.map((result) => result.applied)).toEqual([ALL, ALL]);
});

test('an edited migration is refused and named', async () => {
  const { url } = await empty();
  await migrate(url);
  const dir = await migrationsWith(async (folder) => {
    const path = join(folder, '0001_guards.sql');
    await writeFile(path, `${await readFile(path, 'utf8')}\n-- one more word`);
  });
  await expect(migrate(url, { dir })).rejects.toMatchObject({
    code: 'bad_config',
    place: '0001_guards.sql',
    message: 'a migration was edited after this database applied it',
  });
});

test('a migration that came late, below the newest applied one, is refused and named', async () => {
  const { url } = await empty();
  await migrate(url);
  const dir = await migrationsWith(async (folder, journal) => {
    const when = (journal.entries[0]?.when ?? 0) + 1;
    journal.entries.splice(1, 0, { idx: 1, version: '7', when, tag: 'late', breakpoints: true });
    await writeFile(join(folder, 'late.sql'), 'CREATE TABLE holdfast.late (id int)');
  });
  await expect(migrate(url, { dir })).rejects.toMatchObject({ code: 'bad_config', place: 'late.sql' });
});

test('a journal that is out of order is refused before anything is touched', async () => {
  const { url } = await empty();
  const dir = await migrationsWith(oneMore('SELECT 1', -60_000_000));
  await expect(migrate(url, { dir })).rejects.toMatchObject({ code: 'bad_config', place: `${dir}/next_release.sql` });
  expect(await schemaVersion(open(url))).toBe(0);
});

test('a migration of the journal without a file is refused', async () => {
  const { url } = await empty();
  const dir = await migrationsWith((folder) => rm(join(folder, '0001_guards.sql')));
  await expect(migrate(url, { dir })).rejects.toMatchObject({ code: 'bad_config', place: `${dir}/0001_guards.sql` });
});

test('a migration that fails leaves nothing behind, and can be run again', async () => {
  const { url } = await empty();
  const broken = await migrationsWith(oneMore('CREATE TABLE holdfast.half (id int); SELECT 1 / 0'));
  await expect(migrate(url, { dir: broken })).rejects.toMatchObject({ code: 'ledger_refused', place: 'migrate' });
  expect(await migrate(url)).toEqual({ applied: ALL, version: 2, ahead: 0 });
});

describe('two releases side by side', () => {
  const NEXT = `ALTER TABLE holdfast.tenants ADD COLUMN plan text NOT NULL DEFAULT 'free';
    --> statement-breakpoint
    ALTER TABLE holdfast.effects ADD COLUMN region text;
    --> statement-breakpoint
    CREATE TABLE holdfast.plans (plan text PRIMARY KEY)`;

  test('this release works on the schema of the next, and says how far ahead it is', async () => {
    const { url } = await empty();
    const old = open(url);
    await migrate(url);
    await putTenant(old, { tenant: 'before' });
    await migrate(url, { dir: await migrationsWith(oneMore(NEXT)) });
    expect(await migrate(url)).toEqual({ applied: [], version: 3, ahead: 1 });
    expect(await checkSchema(old)).toBe(3);
    // On the connections that were open, with statements prepared against the former shape, and on new ones.
    for (const ledger of [old, open(url)]) {
      expect(await putTenant(ledger, { tenant: 'before' })).toMatchObject({ created: false, state: 'active' });
      await effectIn(ledger.sql, 'CONFIRMED');
    }
    const rows =
      await old.sql`SELECT status, region, (SELECT plan FROM holdfast.tenants) AS plan FROM holdfast.effects`;
    expect([...rows]).toEqual(Array(2).fill({ status: 'CONFIRMED', region: null, plan: 'free' }));
  });

  test('a schema beyond the range of a release is refused, with what to do', async () => {
    const { url } = await empty();
    await migrate(url, { dir: await migrationsWith(oneMore(NEXT)) });
    await expect(checkSchema(open(url), { min: 1, max: 2 })).rejects.toMatchObject({
      code: 'schema_version_unsupported',
      message: 'the database has schema version 3; this release serves 1 to 2',
      next: 'deploy a newer release: this one is too old',
    });
  });

  test('a schema below the range of a release is refused, with what to do', async () => {
    const { url } = await empty();
    await migrate(url);
    await expect(checkSchema(open(url), { min: 3, max: 9 })).rejects.toMatchObject({
      code: 'schema_version_unsupported',
      next: 'run holdfast db migrate',
    });
  });

  test('a database that was never migrated is refused, with what to do', async () => {
    const { url } = await empty();
    await expect(checkSchema(open(url))).rejects.toMatchObject({
      code: 'schema_version_unsupported',
      message: `the database was never migrated; this release serves ${SCHEMA_VERSIONS.min} to ${SCHEMA_VERSIONS.max}`,
      next: 'run holdfast db migrate',
    });
  });
});

describe('the schema', () => {
  let database: FreshDatabase;
  let owner: Ledger;
  beforeAll(async () => {
    database = await freshDatabase();
    owner = connect(database.url, { role: null, connectionsMax: 1 });
  });
  afterAll(async () => {
    await owner.close();
    await database.drop();
  });

  test('is the one that is checked in', async () => {
    await expect(await dumpSchema(owner.sql)).toMatchFileSnapshot('../schema.snapshot.txt');
  });

  test('of db/schema.ts is the one of the newest migration', async () => {
    const newest = JSON.parse(await readFile(join(MIGRATIONS_DIR, 'meta/0001_snapshot.json'), 'utf8'));
    const now = generateDrizzleJson({ ...schema }, newest.id, ['holdfast']);
    expect(await generateMigration(newest, now)).toEqual([]);
  });
});
