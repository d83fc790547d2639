import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, type Ledger } from '../../../db/connect.ts';
import { beat, endLease, openLease } from '../../../db/statements/index.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';
import { errorIn, shippedCommand } from './command.ts';

const SINCE = '2026-11-30T09:30:00Z';
const WHO = ['--actor', 'ann', '--reason', 'a standby was promoted'];

/** One story in order, with the database alone. */
describe('holdfast db recovered', () => {
  const holdfast = shippedCommand();
  let database: FreshDatabase;
  let ledger: Ledger;
  const run = (...args: string[]) => holdfast.run(['db', 'recovered', ...args], { DATABASE_URL: database.url });
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout) as unknown;

  beforeAll(async () => {
    database = await freshDatabase();
    ledger = connect(database.url, { connectionsMax: 1 });
  });
  afterAll(async () => {
    await ledger.close();
    await database.drop();
    holdfast.remove();
  });

  it.each([
    [['--since', 'yesterday', ...WHO], '--since', 'not a time with its zone'],
    [['--since', '2026-11-30T09:30:00', ...WHO], '--since', 'not a time with its zone'],
    [['--since', SINCE, '--actor', 'ann'], '--reason', '--reason is missing'],
    [['--over'], '--actor', '--actor is missing'],
    [['--since', SINCE, '--over', ...WHO], '--over', 'not both at once'],
    [['--since', '2999-01-01T00:00:00Z', ...WHO], 'since', 'the time is yet to come'],
  ])('refuses %j with one clear error', async (args, place, message) => {
    const ran = await run(...args);
    const error = errorIn(ran);
    expect({ exit: ran.exit, code: error.code, place: error.place }).toEqual({ exit: 2, code: 'bad_input', place });
    expect(error.message).toContain(message);
  });

  it('refuses while a process beats, names it, and says what to do', async () => {
    const processId = randomUUID();
    await openLease(ledger.sql, { processId, ttlMs: 3_000, info: { pid: 4711 } });
    const beating = setInterval(() => void beat(ledger.sql, processId), 500);
    const ran = await run('--since', SINCE, ...WHO);
    clearInterval(beating);
    await endLease(ledger.sql, processId);
    expect({ exit: ran.exit, ...errorIn(ran) }).toEqual({
      exit: 3,
      code: 'fleet_running',
      message: `process ${processId} (pid 4711) beats: it may claim and send`,
      place: null,
      next: 'stop every worker and every host of the direct lane, then run it again',
    });
    expect(await json()).toEqual({ open: null });
  });

  it('recovers, shows that it is open, and ends it', async () => {
    const done = await run('--since', SINCE, ...WHO);
    expect({ exit: done.exit, stderr: done.stderr }).toEqual({ exit: 0, stderr: '' });
    expect(done.stdout).toContain('what happened after 2026-11-30T09:30:00.000Z');
    expect(await json()).toEqual({ open: { since: '2026-11-30T09:30:00.000Z', recoveredAt: expect.any(String) } });
    expect(await json('--over', '--actor', 'ann', '--reason', 'every run has ended')).toEqual({ ended: true });
    expect((await run()).stdout).toBe('No recovery is open.\n');
  });

  it('gives one JSON value', async () => {
    expect(await json('--since', SINCE, ...WHO)).toEqual({
      since: '2026-11-30T09:30:00.000Z',
      recoveredAt: expect.any(String),
      fenced: 0,
      released: 0,
      askedAgain: 0,
    });
  });
});
