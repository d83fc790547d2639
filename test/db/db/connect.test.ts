import { existsSync, readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { sql as drizzleSql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { connect, type Ledger, type LedgerOptions } from '../../../db/connect.ts';
import { isConnectionDoubt, sqlStateOf } from '../../../db/errors.ts';
import { tenants } from '../../../db/schema.ts';
import { readPayload, storePayload } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import { FOREVER } from '../../../db/types.ts';
import { HoldfastError } from '../../../effects/errors.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';

let database: FreshDatabase;
/** Kills and looks from outside. */
let owner: Ledger;
const opened: Ledger[] = [];

beforeAll(async () => {
  database = await freshDatabase();
  owner = connect(database.url, { role: null, connectionsMax: 2 });
});
afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
});
afterAll(async () => {
  await owner.close();
  await database.drop();
});

function open(options: LedgerOptions = {}, url = database.url): Ledger {
  const ledger = connect(url, { connectionsMax: 2, ...options });
  opened.push(ledger);
  return ledger;
}

/** The error of a statement, as callers see it. */
async function failure(work: () => Promise<unknown>): Promise<{ code: string; doubt: boolean; state?: string }> {
  try {
    await work();
  } catch (error) {
    const state = sqlStateOf(error);
    return {
      code: (error as HoldfastError).code,
      doubt: isConnectionDoubt(error),
      ...(state === undefined ? {} : { state }),
    };
  }
  throw new Error('the statement succeeded');
}

/** The backend that runs a statement with this word in it. */
async function backendOf(word: string): Promise<number> {
  for (;;) {
    const [row] = await owner.sql`SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE ${`%${word}%`} AND state = 'active' AND pid <> pg_backend_pid()`;
    if (row !== undefined) return row['pid'] as number;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function kill(pid: number): Promise<void> {
  await owner.sql`SELECT pg_terminate_backend(${pid})`;
}

test('values travel as one kind each, on both clients', async () => {
  const ledger = open();
  const at = new Date('2026-11-30T12:00:00.123Z');
  const texts = ['plain', 'quote"', 'back\\slash', 'NULL', '', 'comma,brace}', 'line\nfeed', 'ünï'];
  const bytes = [Buffer.from([0, 1, 255]), Buffer.alloc(0)];
  const id = '0b1f5f3e-6f0e-4a5e-9d3c-1c2f0c5d7a10';
  const [row] = await ledger.run(
    'types',
    () => ledger.sql`
      SELECT ${at}::timestamptz AS at, 'infinity'::timestamptz AS never, ${FOREVER}::timestamptz = 'infinity' AS kept,
        ${9_007_199_254_740_991}::bigint AS big, ${Buffer.from('é')}::bytea AS bytes, ${texts}::text[] AS texts,
        ${[] as string[]}::text[] AS none, ARRAY['a', NULL] AS gap, ${[1, -2]}::int[] AS ints, ${[3]}::bigint[] AS bigs,
        ${[id]}::uuid[] AS ids, ${ledger.sql.typed(bytes as never, 1001)} AS blobs, ${'{"a":1}'}::text::jsonb AS json, NULL AS nil`,
  );
  expect(row).toEqual({
    at,
    never: FOREVER,
    kept: true,
    big: 9_007_199_254_740_991,
    bytes: Buffer.from('é'),
    texts,
    none: [],
    gap: ['a', null],
    ints: [1, -2],
    bigs: [3],
    ids: [id],
    blobs: bytes,
    json: { a: 1 },
    nil: null,
  });
  await ledger.run('put', () => ledger.db.insert(tenants).values({ tenant: 'types', createdAt: at }));
  const [tenant] = await ledger.run('get', () => ledger.db.select().from(tenants));
  expect(tenant).toEqual({ tenant: 'types', state: 'active', payloadBytesMax: 1_048_576, createdAt: at });
});

test('a bigint that a number cannot hold is an error, not another number', async () => {
  const ledger = open();
  const read = () => ledger.run('big', () => ledger.sql`SELECT 9007199254740993::bigint AS big`);
  expect((await failure(read)).code).toBe('internal');
});

test('connections of all three kinds act as holdfast_app, read committed, in UTC, with a time limit', async () => {
  const ledger = open({ applicationName: 'the-name', statementTimeoutMs: 4_321 });
  const own = ledger.fresh();
  const columns = `current_user AS role, current_setting('default_transaction_isolation') AS isolation,
    current_setting('TimeZone') AS zone, current_setting('statement_timeout') AS limit,
    current_setting('application_name') AS name`;
  const expected = {
    role: 'holdfast_app',
    isolation: 'read committed',
    zone: 'UTC',
    limit: '4321ms',
    name: 'the-name',
  };
  const [hot] = await ledger.sql.unsafe(`SELECT ${columns}`);
  const [alone] = await own.sql.unsafe(`SELECT ${columns}`);
  const [cold] = await ledger.db.execute(drizzleSql.raw(`SELECT ${columns}`));
  expect([hot, alone, cold]).toEqual([expected, expected, expected]);
});

describe('a statement that gets no answer', () => {
  test('is ended by the server at its limit, and certainly not committed', async () => {
    const ledger = open({ statementTimeoutMs: 100 });
    expect(await failure(() => ledger.run('slow', () => ledger.sql`SELECT pg_sleep(30)`))).toEqual({
      code: 'ledger_unreachable',
      doubt: false,
      state: '57014',
    });
  });

  test('is in doubt when its backend is killed under it, and the next one works (case 15)', async () => {
    const ledger = open({ connectionsMax: 1 });
    const failed = failure(() => ledger.run('killed', () => ledger.sql`SELECT pg_sleep(30), 'kill me'`));
    await kill(await backendOf('kill me'));
    expect(await failed).toEqual({ code: 'ledger_unreachable', doubt: true });
    // postgres.js gives the FATAL of the former connection to the first statement of the next one.
    expect([...(await ledger.run('next', () => ledger.sql`SELECT 1 AS one`))]).toEqual([{ one: 1 }]);
  });

  test('is in doubt when its deadline passes after it was sent', async () => {
    const ledger = open();
    expect(await failure(() => ledger.run('late', () => ledger.sql`SELECT pg_sleep(1)`, 50))).toEqual({
      code: 'ledger_unreachable',
      doubt: true,
    });
  });

  test('is never sent any more when its deadline passes in the queue', async () => {
    const ledger = open({ connectionsMax: 1 });
    const before = ledger.run('first', () => ledger.sql`SELECT pg_sleep(0.5)`);
    const queued = () =>
      ledger.run('queued', () => ledger.sql`INSERT INTO holdfast.tenants (tenant) VALUES ('queued')`, 50);
    expect(await failure(queued)).toEqual({ code: 'ledger_unreachable', doubt: false });
    await before;
    const rows = await ledger.run('look', () => ledger.sql`SELECT FROM holdfast.tenants WHERE tenant = 'queued'`);
    expect(rows.length).toBe(0);
  });

  test('is never sent any more when its deadline passes in the queue, also as a function of db/statements', async () => {
    const ledger = open({ connectionsMax: 1 });
    await putTenant(owner, { tenant: 'queue' });
    const hash = Buffer.alloc(32, 7);
    const before = ledger.run('first', () => ledger.sql`SELECT pg_sleep(0.5)`);
    const queued = () => ledger.run('queued', () => storePayload(ledger.sql, 'queue', hash, '{}'), 50);
    expect(await failure(queued)).toEqual({ code: 'ledger_unreachable', doubt: false });
    await before;
    expect(await ledger.run('look', () => readPayload(ledger.sql, 'queue', hash))).toBeUndefined();
  });

  test('killed with its backend leaves nothing to the next function of db/statements on that connection', async () => {
    const ledger = open({ connectionsMax: 1 });
    const failed = failure(() => ledger.run('killed', () => ledger.sql`SELECT pg_sleep(30), 'kill this'`));
    await kill(await backendOf('kill this'));
    expect(await failed).toEqual({ code: 'ledger_unreachable', doubt: true });
    expect(await ledger.run('next', () => readPayload(ledger.sql, 'queue', Buffer.alloc(32)))).toBeUndefined();
  });

  test('lets none of those that came after it hang, when a pool of connections is killed (case 15)', async () => {
    const ledger = open({ connectionsMax: 4 });
    const running = Array.from({ length: 4 }, (_, i) =>
      ledger.run('running', () => ledger.sql`SELECT pg_sleep(30), ${`pool ${i}`}::text`).catch((error) => error.code),
    );
    const queued = Array.from({ length: 12 }, (_, i) => ledger.run('queued', () => ledger.sql`SELECT ${i}::int AS i`));
    await backendOf('pg_sleep(30)');
    await owner.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()`;
    // Those that were not yet running when the others were killed.
    const rest = setInterval(() => {
      void owner.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()`.execute();
    }, 50);
    expect(await Promise.all(running)).toEqual(Array(4).fill('ledger_unreachable'));
    clearInterval(rest);
    const answers = await Promise.all(queued);
    expect(answers.map(([row]) => row?.['i'])).toEqual(Array.from({ length: 12 }, (_, i) => i));
  });

  test('does not hold its place in the pool when the backend is frozen', async (context) => {
    const ledger = open({ connectionsMax: 1, statementTimeoutMs: 200, deadlineMs: 300 });
    const [row] = await ledger.run('pid', () => ledger.sql`SELECT pg_backend_pid() AS pid`);
    const pid = row?.['pid'] as number;
    const line = `/proc/${pid}/cmdline`;
    if (!existsSync(line) || !readFileSync(line, 'utf8').includes('postgres')) {
      context.skip('the server does not run on this machine, so its backend cannot be stopped');
    }
    process.kill(pid, 'SIGSTOP');
    try {
      expect(await failure(() => ledger.run('frozen', () => ledger.sql`SELECT 1`))).toMatchObject({ doubt: true });
      let answered: number | undefined;
      for (let tries = 0; answered === undefined && tries < 60; tries += 1) {
        const rows = await ledger.run('again', () => ledger.sql`SELECT pg_backend_pid() AS pid`).catch(() => undefined);
        answered = rows?.[0]?.['pid'] as number | undefined;
      }
      expect(answered).toBeTypeOf('number');
      expect(answered).not.toBe(pid);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });
});

test('an open transaction that is left alone is ended by the server', async () => {
  const ledger = open({ statementTimeoutMs: 100, connectionsMax: 1 });
  const left = ledger.db.transaction(async (tx) => {
    await tx.execute(drizzleSql`SELECT 1`);
    await new Promise((resolve) => setTimeout(resolve, 600));
    await tx.execute(drizzleSql`SELECT 2`);
  });
  expect((await failure(() => ledger.run('left', () => left))).code).toBe('ledger_unreachable');
});

test('the hot client and lone connections have no transactions', async () => {
  const ledger = open();
  const refused = { code: 'internal', message: 'no transactions on the hot client; use ledger.db.transaction' };
  await expect(ledger.sql.begin(async () => {})).rejects.toMatchObject(refused);
  await expect(ledger.fresh().sql.begin(async () => {})).rejects.toMatchObject(refused);
});

describe('no error holds a secret or a value', () => {
  const shown = (error: unknown) => inspect(error, { depth: 10, showHidden: true });

  test('a malformed URL', () => {
    for (const url of ['postgres://me:hunter2@host:port/x', 'hunter2', 'mysql://me:hunter2@host/x']) {
      let thrown: unknown;
      try {
        connect(url);
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toMatchObject({ code: 'bad_config' });
      expect(shown(thrown)).not.toContain('hunter2');
    }
  });

  test('a password that is refused, a port where nobody listens, a database that is not there', async () => {
    const url = new URL(database.url);
    const variants = [
      {
        set: (copy: URL) => {
          copy.password = 'hunter2';
        },
        code: 'bad_config',
      },
      {
        set: (copy: URL) => {
          copy.password = 'hunter2';
          copy.port = '1';
        },
        code: 'ledger_unreachable',
      },
      {
        set: (copy: URL) => {
          copy.pathname = '/not_there';
        },
        code: 'bad_config',
      },
    ];
    for (const { set, code } of variants) {
      const copy = new URL(url);
      set(copy);
      const ledger = open({}, copy.toString());
      const error = await ledger.run('try', () => ledger.sql`SELECT 1`).catch((caught) => caught);
      expect({ code: error.code, doubt: isConnectionDoubt(error) }).toEqual({ code, doubt: false });
      expect(shown(error)).not.toContain('hunter2');
      expect(shown(error)).not.toContain(decodeURIComponent(url.password) || 'hunter2');
    }
  });

  test('a value that the server quotes back, from both clients', async () => {
    const ledger = open();
    const work: (() => PromiseLike<unknown>)[] = [
      () => ledger.sql`SELECT ${'hunter2'}::text::uuid`,
      () => ledger.sql`SELECT ${'hunter2'}::text::timestamptz`,
      () => ledger.sql`INSERT INTO holdfast.tenants (tenant, state) VALUES ('hunter2', 'hunter2')`,
      () => ledger.db.insert(tenants).values({ tenant: 'hunter2', state: 'hunter2' }),
      () => ledger.db.execute(drizzleSql`SELECT ${'hunter2'}::text::uuid`),
      () => ledger.sql`SELECT hunter2`,
    ];
    for (const statement of work) {
      const error = await ledger.run('quoted', statement).catch((caught) => caught);
      expect(error).toBeInstanceOf(HoldfastError);
      expect(shown(error)).not.toContain('hunter2');
    }
  });
});
