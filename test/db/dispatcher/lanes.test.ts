import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createDispatchActivities } from '../../../activities/dispatch-activities.ts';
import type { Contract } from '../../../contracts/contract.ts';
import { readEffect, readPayload } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import { hashCall } from '../../../dispatcher/prepare.ts';
import { callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { gate, openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let contract: Contract;
let long: Contract;
const running: Process[] = [];
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find) }));
  long = await world.publish(order({ timeout: '30s' }, { tool: 'shop.long' }));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()));
  shop.reset();
});
afterAll(async () => {
  await world.close();
  await shop.close();
});

async function start(options?: ProcessOptions) {
  const process = await startProcess(world, shop, options);
  running.push(process);
  const activities = createDispatchActivities({
    dispatcher: process.dispatcher,
    providerQueue: (provider) => `queue-${provider}`,
  });
  return { process, activities };
}

const elsewhere = (timeoutMs: number) => ({
  use: 'activity',
  taskQueue: 'queue-shop',
  timeoutMs,
  queueWaitMs: 900_000,
});

describe('8.1 and 8.2 the local step says who takes the call, and its answer is what history keeps', () => {
  test('a short call with a free slot is taken', async () => {
    const { activities } = await start();
    const call = callOf(contract);
    expect(await activities.dispatchLocal({ call, waitMs: 5_000 })).toMatchObject({
      use: 'outcome',
      outcome: { status: 'CONFIRMED' },
      argsHash: hashCall(call).argsHash.toString('hex'),
    });
  });

  test.each<[string, () => Promise<{ step: unknown; call: ReturnType<typeof callOf> }>, number]>([
    [
      'a call declared longer than local calls may take',
      async () => {
        const { activities } = await start();
        const call = callOf(long);
        return { call, step: await activities.dispatchLocal({ call, waitMs: 5_000 }) };
      },
      30_000,
    ],
    [
      'a process without the adapter',
      async () => {
        const { process, activities } = await start();
        (process.deps.providers as Map<string, unknown>).delete('shop');
        const call = callOf(contract);
        return { call, step: await activities.dispatchLocal({ call, waitMs: 5_000 }) };
      },
      2_000,
    ],
  ])('%s goes to the provider\u2019s queue, and nothing is recorded', async (_, take, timeoutMs) => {
    const { step, call } = await take();
    expect(step).toEqual(elsewhere(timeoutMs));
    expect([await readEffect(world.ledger.sql, call), shop.asks.length]).toEqual([undefined, 0]);
  });

  test('a full bulkhead: the local step goes elsewhere and records nothing; the direct lane answers busy', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const { process, activities } = await start({ settings: { slotsPerProvider: 1 } });
    const first = process.dispatcher.dispatch(callOf(contract));
    await hold.reached;
    const [local, direct] = [callOf(contract), callOf(contract)];
    expect(await activities.dispatchLocal({ call: local, waitMs: 5_000 })).toEqual(elsewhere(2_000));
    expect(await process.dispatcher.dispatch(direct).catch((error: { code: string }) => error.code)).toBe('busy');
    expect([await readEffect(world.ledger.sql, local), await readEffect(world.ledger.sql, direct)]).toEqual([
      undefined,
      undefined,
    ]);
    hold.open();
    expect(await first).toMatchObject({ status: 'CONFIRMED' });
    expect(await process.dispatcher.dispatch(direct)).toMatchObject({ status: 'CONFIRMED' });
  });

  test('2.1 a full process still tells what an existing row says', async () => {
    const { process } = await start({ settings: { slotsPerProvider: 1 } });
    const settled = callOf(contract);
    const outcome = await process.dispatcher.dispatch(settled);
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const busy = process.dispatcher.dispatch(callOf(contract));
    await hold.reached;
    expect(await process.dispatcher.dispatch(settled)).toEqual(outcome);
    hold.open();
    await busy;
  });

  test('a slow provider fills its own slots only', async () => {
    const { process } = await start({ settings: { slotsPerProvider: 1 } });
    const other = { ...process.deps.providers.get('shop'), name: 'store' };
    (process.deps.providers as Map<string, unknown>).set('store', other);
    const elsewhere = await world.publish(order({ provider: 'store' }, { tool: 'store.order' }));
    const hold = gate();
    shop.onSend = async (ask) => {
      if (ask.body.item === 'slow') await hold.wait();
      return shop.apply(ask);
    };
    const slow = process.dispatcher.dispatch(callOf(contract, { args: { item: 'slow' } }));
    await hold.reached;
    expect(await process.dispatcher.dispatch(callOf(elsewhere))).toMatchObject({ status: 'CONFIRMED' });
    hold.open();
    await slow;
  });

  test('a wait for another\u2019s flight is bounded: past it the call goes on as an activity, and the flight as it was', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const { process, activities } = await start();
    const call = callOf(contract);
    expect(await activities.dispatchLocal({ call, waitMs: 150 })).toMatchObject({
      use: 'activity',
      taskQueue: 'queue-shop',
    });
    const second = activities.dispatchEffect({ call });
    hold.open();
    expect((await second).outcome).toMatchObject({ status: 'CONFIRMED' });
    expect([shop.sends(), process.dispatcher.load().flights]).toEqual([1, 0]);
  });

  test('case 9: a tool without a contract is refused by the dispatcher, and sent nowhere', async () => {
    const { activities } = await start();
    const call = { ...callOf(contract), tool: 'shop.nothing' };
    expect(await activities.dispatchLocal({ call, waitMs: 5_000 })).toMatchObject({
      use: 'outcome',
      outcome: { status: 'NOT_APPLIED', reason: { code: 'tool_contract_not_found' } },
    });
  });

  test('case 9: bad arguments end the activity for good, without a row and without a send', async () => {
    const { activities } = await start();
    const call = callOf(contract, { args: { item: 7 } });
    for (const attempt of [activities.dispatchLocal({ call, waitMs: 5_000 }), activities.dispatchEffect({ call })]) {
      await expect(attempt).rejects.toMatchObject({ type: 'bad_arguments', nonRetryable: true });
    }
    expect([await readEffect(world.ledger.sql, call), shop.sends()]).toEqual([undefined, 0]);
  });
});

describe('8.3 what travels through history', () => {
  test('large arguments go by reference to the activity, which finds them', async () => {
    const { activities } = await start();
    const call = callOf(long, { args: { item: 'x'.repeat(9_000) } });
    const step = await activities.dispatchLocal({ call, waitMs: 5_000 });
    const argsRef = hashCall(call).argsHash.toString('hex');
    expect(step).toEqual({ ...elsewhere(30_000), argsRef });
    const { args: _, ...rest } = call;
    expect((await activities.dispatchEffect({ call: { ...rest, argsRef } })).outcome).toMatchObject({
      status: 'CONFIRMED',
    });
    expect(shop.orders.map(({ item }) => item)).toEqual([call.args.item]);
  });

  test('larger ones than the tenant may send are refused before they are stored, unless a row decides', async () => {
    const { activities } = await start();
    await putTenant(world.ledger, { tenant: 'small', payloadBytesMax: 20_000 });
    const id = { tenant: 'small', args: { item: 'x'.repeat(15_000) } };
    const known = callOf(long, id);
    const argsRef = hashCall(known).argsHash.toString('hex');
    const { args: _, ...rest } = known;
    await activities.dispatchLocal({ call: known, waitMs: 5_000 });
    const { outcome } = await activities.dispatchEffect({ call: { ...rest, argsRef } });
    await putTenant(world.ledger, { tenant: 'small', payloadBytesMax: 10_000 });
    const second = await start();
    const tooLarge = callOf(long, { ...id, args: { item: 'y'.repeat(15_000) } });
    await expect(second.activities.dispatchLocal({ call: tooLarge, waitMs: 5_000 })).rejects.toMatchObject({
      type: 'payload_too_large',
    });
    const hash = hashCall(tooLarge).argsHash;
    expect(await readPayload(world.ledger.sql, 'small', hash)).toBeUndefined();
    const again = await second.activities.dispatchLocal({ call: known, waitMs: 5_000 });
    expect(again).toEqual({ ...elsewhere(30_000), argsRef });
    expect((await second.activities.dispatchEffect({ call: { ...rest, argsRef } })).outcome).toEqual(outcome);
  });

  test('small ones travel as they are', async () => {
    const { activities } = await start();
    expect(await activities.dispatchLocal({ call: callOf(long), waitMs: 5_000 })).toEqual(elsewhere(30_000));
  });
});

describe('case 8: a local activity that is repeated finds the row', () => {
  test('50 repeats in another process hear the recorded outcome, and nothing is sent again', async () => {
    const { activities } = await start();
    const call = callOf(contract);
    const first = await activities.dispatchLocal({ call, waitMs: 5_000 });
    const other = await start();
    for (let repeat = 0; repeat < 50; repeat += 1) {
      expect(await other.activities.dispatchLocal({ call, waitMs: 5_000 })).toEqual(first);
    }
    expect(shop.sends()).toBe(1);
  });
});
