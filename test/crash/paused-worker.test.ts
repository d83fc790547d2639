import { afterEach, beforeEach, expect, test } from 'vitest';
import { booksOf, readBooks } from './support/auditor.ts';
import { crashContracts, QUICK } from './support/contracts.ts';
import { eventsOf, openWorld, until, type World } from './support/world.ts';

/** Long enough that absence proves nothing while a paused worker sleeps past its send-by time. */
const SLOW = crashContracts({ ...QUICK, timeout: '10s', inFlightMax: '20s' });
const PAST_SEND_BY_MS = 2_500;
const LONGER_THAN_TTL_MS = 2_500;

let world: World;
beforeEach(async () => {
  world = await openWorld({ contracts: SLOW });
});
afterEach(() => world.close());

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test.each(['claimed', 'before_first_byte'] as const)(
  'a worker that is paused at %s and wakes past its send-by time stays silent, and its effect is settled as not sent',
  async (point) => {
    const [holder] = await Promise.all([
      world.worker(['dispatch', 'providers'], { armed: { point, action: 'SIGSTOP', callPrefix: 'sleeper' } }),
      world.worker(['reconcile']),
    ]);
    const call = world.call('NON_RETRYABLE', 'sleeper');
    const heard = holder.dispatch([call], 30_000);
    await until('it is fenced', async () => (await world.row('sleeper'))?.status === 'UNKNOWN');
    await pause(PAST_SEND_BY_MS);
    await holder.signal('SIGCONT');
    const [outcome] = await heard;
    const row = await world.row('sleeper');
    // Which of the two depends on whether connecting or the gate notices first.
    const code = expect.stringMatching(/^(sent_too_late|not_sent)$/);
    expect(outcome).toMatchObject({ outcome: { status: 'NOT_APPLIED', reason: { code } } });
    expect({ status: row?.status, settledBy: row?.settledBy, events: await eventsOf(world, 'sleeper') }).toEqual({
      status: 'NOT_APPLIED',
      settledBy: 'late_answer',
      events: ['fenced', 'late_answer'],
    });
    expect(booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'sleeper', '')).toEqual({
      sends: 0,
      artefacts: 0,
      keys: 0,
    });

    // The process has a new lease and serves on.
    const [next] = await holder.dispatch([world.call('NON_RETRYABLE', 'next')], 10_000);
    expect(next).toMatchObject({ outcome: { status: 'CONFIRMED' } });
  },
);

test('an effect that was sent again while its first holder slept goes out once', async () => {
  await world.close();
  world = await openWorld();
  const [holder] = await Promise.all([
    world.worker(['dispatch', 'providers'], { armed: { point: 'claimed', action: 'SIGSTOP' } }),
    world.worker(['reconcile']),
  ]);
  const call = world.call('IDEMPOTENT', 'sleeper');
  const heard = holder.dispatch([call], 30_000);
  await until('others have sent it', async () => (await world.row('sleeper'))?.status === 'CONFIRMED');
  await holder.signal('SIGCONT');
  expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
  const row = await world.row('sleeper');
  expect({ status: row?.status, sends: row?.sends, attention: row?.attention }).toEqual({
    status: 'CONFIRMED',
    sends: 2,
    attention: null,
  });
  expect(booksOf(readBooks(world.billing.store), 'IDEMPOTENT', 'sleeper', world.keyOf(call))).toEqual({
    sends: 1,
    artefacts: 1,
    keys: 1,
  });
});

test('a worker that is paused with an answer under way keeps it as a late answer', async () => {
  const [holder] = await Promise.all([
    world.worker(['dispatch', 'providers'], { armed: { point: 'written', action: 'SIGSTOP' } }),
    world.worker(['reconcile']),
  ]);
  await world.billing.faults({ route: 'GET /v1/payments', mode: 'lose_evidence' });
  const heard = holder.dispatch([world.call('NON_RETRYABLE', 'sleeper')], 30_000);
  await until('it is fenced', async () => (await world.row('sleeper'))?.status === 'UNKNOWN');
  await holder.signal('SIGCONT');
  expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED', settledBy: 'late_answer' } }]);
  expect({
    events: await eventsOf(world, 'sleeper'),
    books: booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', 'sleeper', ''),
  }).toEqual({ events: ['fenced', 'late_answer'], books: { sends: 1, artefacts: 1, keys: 1 } });
});

test('a living holder whose lease lapsed is fenced, and its answer, which comes later, settles the effect', async () => {
  const [holder] = await Promise.all([world.worker(['dispatch', 'providers']), world.worker(['reconcile'])]);
  await world.billing.faults(
    { route: 'POST /v1/payments', mode: 'accept_then_hang' },
    { route: 'GET /v1/payments', mode: 'lose_evidence' },
  );
  const heard = holder.dispatch([world.call('UNKNOWN', 'sleeper')], 30_000);
  await world.billing.untilWaiting(1);
  await holder.signal('SIGSTOP');
  await pause(LONGER_THAN_TTL_MS);
  await until('it is fenced', async () => (await world.row('sleeper'))?.status === 'UNKNOWN');
  await holder.signal('SIGCONT');
  await pause(500);
  expect((await world.row('sleeper'))?.status).toBe('UNKNOWN');
  await world.billing.release();
  expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED', settledBy: 'late_answer' } }]);
  expect({
    events: await eventsOf(world, 'sleeper'),
    books: booksOf(readBooks(world.billing.store), 'UNKNOWN', 'sleeper', ''),
  }).toEqual({ events: ['fenced', 'late_answer'], books: { sends: 1, artefacts: 1, keys: 1 } });
});
