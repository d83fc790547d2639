import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { readEffect } from '../../../db/statements/index.ts';
import type { EffectId } from '../../../effects/effect.ts';
import { callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { openProxy, type Wire } from '../protocol/proxy.ts';
import { gate, openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let proxy: Wire;
let contract: Contract;
let hasty: Contract;
const running: Process[] = [];
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  proxy = await openProxy(world.database.url);
  const find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find) }));
  hasty = await world.publish(order({ evidence: byKey(find), send_by: '400ms' }, { tool: 'shop.hasty' }));
});
afterEach(async () => {
  proxy.up();
  await Promise.all(running.splice(0).map((each) => each.stop()));
  shop.reset();
});
afterAll(async () => {
  await world.close();
  await proxy.close();
  await shop.close();
});

/** A process whose ledger is behind the proxy, with a lease that outlives the trouble. */
async function start(options: ProcessOptions & { name?: string } = {}): Promise<Process> {
  const ledger = world.newLedger({ applicationName: options.name ?? 'behind-proxy' }, proxy.url);
  const started = await startProcess(world, shop, {
    ledger,
    ...options,
    settings: { ttlMs: 30_000, ...options.settings },
  });
  running.push(started);
  return started;
}

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await check()); tries += 1) {
    if (tries > 1_000) throw new Error('it never came');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const statusOf = async (id: EffectId) => (await readEffect(world.ledger.sql, id))?.status;

/** Holds up every claim of the process at its lease row; gives how to let them go. */
async function lockLease({ dispatcher }: Process): Promise<() => Promise<void>> {
  const owner = await world.admin.reserve();
  await owner`BEGIN`;
  await owner`SELECT FROM holdfast.processes WHERE process_id = ${dispatcher.lease.processId} FOR KEY SHARE`;
  // A claim takes KEY SHARE too: only an update of the key, or a delete, stands in its way.
  await owner`SELECT FROM holdfast.processes WHERE process_id = ${dispatcher.lease.processId} FOR UPDATE`;
  return async () => {
    await owner`COMMIT`;
    owner.release();
  };
}

const kill = (name: string) =>
  world.admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ${name} AND datname = current_database()`;

describe('3.3 a claim in doubt', () => {
  test('its backend is killed before the insert: it is made again, and sent once', async () => {
    const process = await start({ name: 'killed-early' });
    // Connections of the pool exist before, so that the kill meets the statement and not the connecting.
    await process.dispatcher.dispatch(callOf(contract));
    const release = await lockLease(process);
    const call = callOf(contract);
    const outcome = process.dispatcher.dispatch(call);
    await world.untilBlocked(1);
    await kill('killed-early');
    await release();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
    expect(shop.asks.filter(({ body }) => body.item === call.call).length).toBe(1);
  });

  test('its reply is lost after the commit: it is read back by nonce, claimed once and sent once', async () => {
    const process = await start();
    await process.dispatcher.dispatch(callOf(contract));
    const release = await lockLease(process);
    const call = callOf(contract);
    const outcome = process.dispatcher.dispatch(call);
    await world.untilBlocked(1);
    proxy.hold();
    await release();
    await until(async () => (await statusOf(call)) === 'DISPATCHED');
    const claimed = await world.row(call);
    proxy.cut();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
    const row = await world.row(call);
    expect([row.nonce, row.sends, row.fence]).toEqual([claimed.nonce, 1, 1]);
    expect(shop.asks.filter(({ body }) => body.item === call.call).length).toBe(1);
  });

  test('the reply is lost, and the row read back is another\u2019s: nothing is sent, its outcome is taken', async () => {
    const [mine, other] = [await start(), await startProcess(world, shop)];
    running.push(other);
    await mine.dispatcher.dispatch(callOf(contract));
    const release = await lockLease(mine);
    const call = callOf(contract);
    const outcome = mine.dispatcher.dispatch(call);
    await world.untilBlocked(1);
    const first = await other.dispatcher.dispatch(call);
    proxy.hold();
    await release();
    await new Promise((resolve) => setTimeout(resolve, 50));
    proxy.cut();
    expect(await outcome).toEqual(first);
    expect(shop.asks.filter(({ body }) => body.item === call.call).length).toBe(1);
  });

  test('doubt outlasts send-by: nothing is ever sent, and the row is withdrawn when the ledger answers', async () => {
    const process = await start();
    await process.dispatcher.dispatch(callOf(contract));
    const release = await lockLease(process);
    const call = callOf(hasty);
    const outcome = process.dispatcher.dispatch(call).catch((error: { code: string }) => error.code);
    await world.untilBlocked(1);
    proxy.hold();
    await release();
    await until(async () => (await statusOf(call)) === 'DISPATCHED');
    proxy.down();
    expect(await outcome).toBe('ledger_unreachable');
    expect(await statusOf(call)).toBe('DISPATCHED');
    proxy.up();
    await until(async () => (await statusOf(call)) === 'NOT_APPLIED');
    expect(await world.row(call)).toMatchObject({ reasonCode: 'withdrawn', settledBy: 'holder', sends: 1 });
    expect(await process.dispatcher.dispatch(call)).toMatchObject({
      status: 'NOT_APPLIED',
      reason: { code: 'withdrawn' },
    });
    expect(shop.asks.filter(({ body }) => body.item === call.call).length).toBe(0);
  });

  test('case 15: backends killed at every moment: no call is sent twice, and what is told is what the ledger says', async () => {
    const process = await start({ name: 'hunted' });
    let hunting = true;
    const hunt = (async () => {
      for (let round = 0; hunting; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 3 + (round % 7) * 4));
        await kill('hunted');
      }
    })();
    const calls = Array.from({ length: 60 }, () => callOf(contract));
    const outcomes = await Promise.all(
      calls.map(async (call, index) => {
        await new Promise((resolve) => setTimeout(resolve, index * 8));
        return process.dispatcher.dispatch(call).then(
          ({ status }) => status as string,
          (error: { code: string }) => error.code,
        );
      }),
    );
    hunting = false;
    await hunt;
    const seen = await Promise.all(
      calls.map(async (call, index) => ({
        told: outcomes[index],
        row: await statusOf(call),
        sends: shop.asks.filter(({ body }) => body.item === call.call).length,
      })),
    );
    const wrong = seen.filter(({ told, row, sends }) => {
      if (told === 'CONFIRMED') return row !== 'CONFIRMED' || sends !== 1;
      if (told === 'UNKNOWN') return row !== 'UNKNOWN' || sends > 1;
      // Thrown or refused: nothing left.
      return sends !== 0;
    });
    expect(wrong).toEqual([]);
    expect(seen.some(({ told }) => told === 'CONFIRMED')).toBe(true);
  });
});

describe('3.3 a settle in doubt', () => {
  test('its reply is lost: the same outcome with the same nonce is success, not somebody else\u2019s', async () => {
    const process = await start();
    await process.dispatcher.dispatch(callOf(contract));
    const call = callOf(contract);
    shop.onSend = (ask) => {
      proxy.hold();
      return shop.apply(ask);
    };
    const outcome = process.dispatcher.dispatch(call);
    await until(async () => (await statusOf(call)) === 'CONFIRMED');
    proxy.cut();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(await world.events(call)).toEqual([]);
  });

  test('Postgres is away when the answer comes: the holder keeps it and writes it when the ledger is back', async () => {
    const process = await start();
    await process.dispatcher.dispatch(callOf(contract));
    const call = callOf(contract);
    shop.onSend = (ask) => {
      proxy.down();
      return shop.apply(ask);
    };
    const outcome = process.dispatcher.dispatch(call);
    await until(() => process.dispatcher.load().keptAnswers === 1);
    expect(await statusOf(call)).toBe('DISPATCHED');
    proxy.up();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(process.dispatcher.load()).toMatchObject({ flights: 0, keptAnswers: 0 });
  });

  test.each([
    ['count', { keptAnswersMax: 1 }],
    ['bytes', { keptBytesMax: 20 }],
  ])('3.5 past the bound of kept answers, by %s, the process stops claiming', async (_, settings) => {
    const process = await start({ settings });
    await process.dispatcher.dispatch(callOf(contract));
    const owner = await world.admin.reserve();
    const call = callOf(contract);
    shop.onSend = async (ask) => {
      // Only the settle of this call waits: its row is locked, and its backend is killed once.
      await owner`BEGIN`;
      await owner`SELECT FROM holdfast.effects WHERE call_id = ${call.call} FOR UPDATE`;
      return shop.apply(ask);
    };
    const kept = process.dispatcher.dispatch(call);
    await world.untilBlocked();
    await world.admin`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = 'behind-proxy' AND datname = current_database() AND wait_event_type = 'Lock'`;
    await until(() => process.dispatcher.load().keptAnswers === 1);
    shop.onSend = (ask) => shop.apply(ask);
    const next = callOf(contract);
    const refused = await process.dispatcher.dispatch(next).catch((error: { code: string }) => error.code);
    expect([refused, await statusOf(next)]).toEqual(['busy', undefined]);
    await owner`COMMIT`;
    owner.release();
    expect(await kept).toMatchObject({ status: 'CONFIRMED' });
    expect(await process.dispatcher.dispatch(next)).toMatchObject({ status: 'CONFIRMED' });
  });
});

describe('case 15: each statement has a deadline', () => {
  test('a Postgres that takes a statement and says nothing more is given up on, and the call may be repeated', async () => {
    const ledger = world.newLedger({ statementTimeoutMs: 200, deadlineMs: 300 }, proxy.url);
    const process = await start({ ledger });
    await process.dispatcher.dispatch(callOf(contract));
    const call = callOf(hasty);
    proxy.hold();
    const outcome = await process.dispatcher.dispatch(call).catch((error: { code: string }) => error.code);
    proxy.cut();
    expect(outcome).toBe('ledger_unreachable');
    expect(shop.asks.filter(({ body }) => body.item === call.call).length).toBe(0);
    const settled = async () => ['NOT_APPLIED', undefined].includes(await statusOf(call));
    await until(settled);
  });
});

test('3.4 a process without its ledger still holds its flight: the second caller joins it', async () => {
  const process = await start();
  const hold = gate();
  shop.onSend = async (ask) => {
    await hold.wait();
    return shop.apply(ask);
  };
  const call = callOf(contract);
  const first = process.dispatcher.dispatch(call);
  await hold.reached;
  proxy.down();
  const second = process.dispatcher.dispatch(call);
  hold.open();
  proxy.up();
  expect(await second).toEqual(await first);
  expect(shop.sends()).toBe(1);
});
