import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { writeSettlement } from '../../../dispatcher/settle.ts';
import { callOf, type Process, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { admission, admitOne, byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let process: Process;
let contract: Contract;
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  contract = await world.publish(
    order({ evidence: byKey(find), in_flight_max: '20ms', answers: [{ status: 422, means: 'refused' }] }),
  );
  process = await startProcess(world, shop);
});
afterEach(() => shop.reset());
afterAll(async () => {
  await process.stop();
  await world.close();
  await shop.close();
});

/** A number that JSON can write and JavaScript reads as Infinity. */
const HUGE = (JSON as unknown as { rawJSON(text: string): number }).rawJSON('1e400');

describe('5.3 what a provider says oddly is what it said all the same', () => {
  test.each([
    ['a reference with NUL', { order: { id: 'o\0dd' } }],
    ['a number beyond all numbers', { order: { id: 'o-huge', total: HUGE } }],
    ['NUL in the result', { order: { id: 'o-nul', note: 'a\0b' } }],
  ])('applied, with %s, is CONFIRMED', async (_, body) => {
    shop.onSend = (ask) => {
      shop.apply(ask);
      return { status: 201, body };
    };
    const call = callOf(contract);
    expect(await process.dispatcher.dispatch(call)).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(shop.sends()).toBe(1);
  });

  test('refused, with NUL in its words, is NOT_APPLIED', async () => {
    shop.onSend = () => ({ status: 422, body: { message: 'no\0pe' } });
    expect(await process.dispatcher.dispatch(callOf(contract))).toMatchObject({
      status: 'NOT_APPLIED',
      reason: { code: 'refused_by_provider', message: 'the provider answered 422: no pe' },
    });
  });

  test('found, with a number beyond all numbers, settles UNKNOWN', async () => {
    shop.onSend = (ask) => {
      shop.apply(ask);
      return 'drop';
    };
    shop.onLook = (ask) => {
      const seen = shop.find(ask);
      if (seen === 'drop' || seen.status !== 200) return seen;
      return { status: 200, body: { ...(seen.body as object), total: HUGE } };
    };
    const call = callOf(contract);
    expect(await process.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(await process.reconcile(call)).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence' });
  });
});

test('words that the ledger does not take cost the words, not what they mean', async () => {
  const { deps, lease } = process.dispatcher;
  const settle = async (to: 'CONFIRMED' | 'NOT_APPLIED', reasonCode: string | null) => {
    const a = admission(contract, lease.processId);
    await admitOne(world.ledger.sql, a);
    const none = { resultInfo: null, attention: null, sentLate: false, lookInMs: 0, actor: lease.processId };
    const words = { result: 'a\0b', providerRef: 'a\0b', reason: 'a\0b' };
    await writeSettlement(deps, { ...none, ...words, id: a.id, nonce: a.nonce, to, reasonCode });
    return world.row(a.id);
  };
  expect(await settle('CONFIRMED', null)).toMatchObject({
    status: 'CONFIRMED',
    result: null,
    resultInfo: { truncated: true },
    providerRef: null,
  });
  expect(await settle('NOT_APPLIED', 'refused_by_provider')).toMatchObject({
    status: 'NOT_APPLIED',
    reasonCode: 'refused_by_provider',
    reason: 'the provider answered in words that the ledger does not take',
  });
});

test('an override without a name, or with NUL in it, is refused before anything is recorded', async () => {
  for (const override of [
    { actor: '', reason: 'because' },
    { actor: 'ann', reason: ' ' },
    { actor: 'an\0n', reason: 'because' },
  ]) {
    const call = callOf(contract, { override });
    await expect(process.dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'bad_input' });
    expect(await world.admin`SELECT FROM holdfast.effects WHERE call_id = ${call.call}`).toHaveLength(0);
  }
});
