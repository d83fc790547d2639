import { afterEach, beforeEach, expect, test } from 'vitest';
import { openProxy, type Wire } from '../db/protocol/proxy.ts';
import type { FleetProcess } from '../support/fleet.ts';
import { type FreshDatabase, freshDatabase, freshNamespace } from '../support/stack.ts';
import { booksOf, readBooks } from './support/auditor.ts';
import { eventsOf, openWorld, QUICK_SETTINGS, until, type World } from './support/world.ts';

/** DESIGN.md, crash points: "the record's commit in doubt". The wire between the holder and Postgres is the test's. */
let database: FreshDatabase;
let world: World;
let wire: Wire;
let holder: FleetProcess;
let other: FleetProcess;

beforeEach(async () => {
  database = await freshDatabase();
  wire = await openProxy(database.url);
  const temporal = await freshNamespace();
  world = await openWorld({ postgresUrl: database.url, temporal });
  const config = {
    // With one connection the claim goes where a claim has gone before: its statement is prepared there.
    database: { url: wire.url, connections_max: 1 },
    temporal,
    worker: { roles: ['dispatch', 'providers'] },
    providers: { billing: { kind: 'http', base_url: world.billing.url } },
    settings: QUICK_SETTINGS,
    allow_unsafe_durability: true,
  };
  const armed = { point: 'before_record', action: 'SIGSTOP', callPrefix: 'doubt' } as const;
  [holder, other] = await Promise.all([
    world.worker([], { config, armed }),
    world.worker(['dispatch', 'providers', 'reconcile']),
  ]);
  const warm = (['NON_RETRYABLE', 'IDEMPOTENT'] as const).map((each) => world.call(each, `warm-${each}`));
  for (const call of warm)
    expect(await holder.dispatch([call], 10_000)).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
});
afterEach(async () => {
  await world.close();
  await wire.close();
  await database.drop();
});

type Class = 'NON_RETRYABLE' | 'IDEMPOTENT';
const sends = (effectClass: Class) => booksOf(readBooks(world.billing.store), effectClass, 'doubt', '').sends;

/** Makes the call, and takes the wire away right before its claim is written to it. */
async function upToTheClaim(effectClass: Class, take: () => void) {
  const call = world.call(effectClass, 'doubt');
  const heard = holder.dispatch([call], 30_000).catch(() => 'nothing');
  await until('it is about to be recorded', async () => holder.reached().length > 0);
  take();
  await holder.signal('SIGCONT');
  return { call, heard };
}

/** The claim is in the ledger, and its holder cannot know. */
async function untilCommitted(): Promise<void> {
  await until('the claim is committed', async () => (await world.row('doubt'))?.status === 'DISPATCHED');
}

test('a worker whose claim was committed without its knowing reads it back, and sends only then, once', async () => {
  const { heard } = await upToTheClaim('NON_RETRYABLE', wire.hold);
  await untilCommitted();
  expect(sends('NON_RETRYABLE')).toBe(0);
  wire.cut();
  expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED', settledBy: 'holder' } }]);
  const row = await world.row('doubt');
  expect({ fence: row?.fence, sends: row?.sends, events: await eventsOf(world, 'doubt') }).toEqual({
    fence: 1,
    sends: 1,
    events: [],
  });
  expect(sends('NON_RETRYABLE')).toBe(1);
});

test('a worker whose claim never arrived sends nothing before the ledger has it', async () => {
  const { heard } = await upToTheClaim('NON_RETRYABLE', wire.mute);
  await until('the claim is on its way', async () => wire.unheard().includes('doubt'));
  wire.down();
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect([sends('NON_RETRYABLE'), await world.row('doubt')]).toEqual([0, undefined]);
  wire.up();
  expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
  expect([sends('NON_RETRYABLE'), (await world.row('doubt'))?.sends]).toEqual([1, 1]);
});

test('a worker killed with its claim committed and unknown to it has sent nothing: evidence says so', async () => {
  const { call, heard } = await upToTheClaim('NON_RETRYABLE', wire.hold);
  await untilCommitted();
  await holder.signal('SIGKILL');
  wire.cut();
  expect(await heard).toBe('nothing');
  await until('evidence settles it', async () => (await world.row('doubt'))?.status === 'NOT_APPLIED');
  expect(await eventsOf(world, 'doubt')).toEqual(['fenced', 'evidence']);
  expect(await other.dispatch([call], 10_000)).toMatchObject([
    { outcome: { status: 'NOT_APPLIED', reason: { code: 'proven_absent' } } },
  ]);
  expect(sends('NON_RETRYABLE')).toBe(0);
  // Still wanted, so it is made as a new call.
  expect(await other.dispatch([{ ...call, call: 'again' }], 10_000)).toMatchObject([
    { outcome: { status: 'CONFIRMED' } },
  ]);
  expect(sends('NON_RETRYABLE')).toBe(1);
});

test('the same with an IDEMPOTENT call: it is sent once, by another worker', async () => {
  const { call } = await upToTheClaim('IDEMPOTENT', wire.hold);
  await untilCommitted();
  await holder.signal('SIGKILL');
  wire.cut();
  await until('it is sent', async () => (await world.row('doubt'))?.status === 'CONFIRMED');
  expect(await other.dispatch([call], 10_000)).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
  expect(sends('IDEMPOTENT')).toBe(1);
});

test('a worker killed with a claim that never arrived leaves nothing, and whoever repeats the call sends it once', async () => {
  const { call } = await upToTheClaim('NON_RETRYABLE', wire.mute);
  await until('the claim is on its way', async () => wire.unheard().includes('doubt'));
  expect(await world.row('doubt')).toBeUndefined();
  await holder.signal('SIGKILL');
  wire.cut();
  expect(await other.dispatch([call], 10_000)).toMatchObject([{ outcome: { status: 'CONFIRMED' } }]);
  expect(sends('NON_RETRYABLE')).toBe(1);
});
