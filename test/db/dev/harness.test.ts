import postgres from 'postgres';
import { afterAll, expect, inject, test } from 'vitest';
import { emptyDatabase, type FreshDatabase, freshDatabase } from '../../support/stack.ts';

const made: FreshDatabase[] = [];
afterAll(() => Promise.all(made.map((database) => database.drop())));

async function ask(url: string, query: string): Promise<unknown[]> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return [...(await sql.unsafe(query))];
  } finally {
    await sql.end();
  }
}

const TABLES = "select count(*)::int as tables from information_schema.tables where table_schema = 'holdfast'";

test('a fresh database has the ledger, and what one file writes another does not see', async () => {
  const [one, two] = await Promise.all([freshDatabase(), freshDatabase()]);
  made.push(one, two);
  await ask(one.url, 'create table public.mine (i int)');
  const seen = await ask(two.url, "select to_regclass('public.mine') as mine");
  const [count] = (await ask(two.url, TABLES)) as { tables: number }[];
  expect({ seen, some: (count?.tables ?? 0) > 5 }).toEqual({ seen: [{ mine: null }], some: true });
});

test('an empty database has no table of ours', async () => {
  const empty = await emptyDatabase();
  made.push(empty);
  expect(await ask(empty.url, TABLES)).toEqual([{ tables: 0 }]);
});

test('a dropped database is gone even while somebody is connected', async () => {
  const database = await freshDatabase();
  const left = postgres(database.url, { max: 1, onnotice: () => {} });
  await left`select 1`;
  await database.drop();
  const name = new URL(database.url).pathname.slice(1);
  const found = await ask(inject('servers').postgresUrl, `select 1 from pg_database where datname = '${name}'`);
  await left.end({ timeout: 1 }).catch(() => {});
  expect(found).toEqual([]);
});
