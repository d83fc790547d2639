import { afterAll, beforeAll, expect, test } from 'vitest';
import { Holdfast } from '../../../client/holdfast.ts';
import type { Contract } from '../../../contracts/contract.ts';
import { callOf, type Process, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let process: Process;
let contract: Contract;
let holdfast: Holdfast;
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  process = await startProcess(world, shop);
  contract = await world.publish(order());
  holdfast = new Holdfast({ ledger: world.ledger, dispatcher: process.dispatcher });
});
afterAll(async () => {
  await process.stop();
  await world.close();
  await shop.close();
});

test('2.4 a withdrawn call is never sent, and whoever makes it hears so', async () => {
  const call = callOf(contract);
  const told = {
    status: 'NOT_APPLIED',
    effectId: `effect:acme:run:${call.call}`,
    tool: call.tool,
    version: call.version,
    effectClass: 'NON_RETRYABLE',
    reason: { code: 'withdrawn', message: 'the call was withdrawn before anything was sent' },
    settledBy: 'withdrawal',
  };
  expect(await holdfast.withdraw(call, 'ann')).toEqual(told);
  expect(await holdfast.withdraw(call, 'bob')).toEqual(told);
  expect(await holdfast.dispatch({ ...call, lane: 'direct' })).toEqual(told);
  expect(shop.sends()).toBe(0);
});

test('2.4 whoever withdraws a call that was sent hears its outcome', async () => {
  const call = callOf(contract);
  const outcome = await holdfast.dispatch({ ...call, lane: 'direct' });
  expect(outcome).toMatchObject({ status: 'CONFIRMED' });
  expect(await holdfast.withdraw(call, 'ann')).toEqual(outcome);
});

test('2.1 a withdrawal under the id of another call is call_id_reused', async () => {
  const call = callOf(contract);
  await holdfast.dispatch({ ...call, lane: 'direct' });
  await expect(holdfast.withdraw({ ...call, args: { item: 'another' } }, 'ann')).rejects.toMatchObject({
    code: 'call_id_reused',
  });
});
