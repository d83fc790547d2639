import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { putTenant } from '../../../db/tenants.ts';
import type { Call, EffectId } from '../../../effects/effect.ts';
import { effectIdText } from '../../../effects/effect.ts';
import { callOf, decideIn, type Process, ruling, startProcess } from '../protocol/fleet.ts';
import { gate, openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, newId, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let one: Process;
let contract: Contract;
let pure: Contract;
let repeats: Contract;
let setting: Contract;
let otherSetting: Contract;
const PUT: JsonObject = {
  effect: 'REPLAYABLE',
  exclusive_writer: true,
  resource: ['setting/{args.item}'],
  idempotency: { send_as: 'header Idempotency-Key' },
};
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  const evidence = byKey(find);
  pure = find;
  contract = await world.publish(order({ evidence }));
  repeats = await world.publish(order({ evidence, repeats: 'allowed' }, { tool: 'shop.tip' }));
  setting = await world.publish(order({ evidence, ...PUT }, { tool: 'shop.set' }));
  otherSetting = await world.publish(order({ evidence, ...PUT }, { tool: 'shop.unset' }));
  await putTenant(world.ledger, { tenant: 'other' });
  one = await startProcess(world, shop);
});
afterEach(() => shop.reset());
afterAll(async () => {
  await one.stop();
  await world.close();
  await shop.close();
});

/** The same call in other words: another call id. */
const twinOf = (call: Call, change: Partial<Call> = {}): Call => ({ ...call, ...newId(), ...change });

/** An effect of which nobody knows whether it happened. */
async function open(of: Contract, change: Partial<Call> = {}): Promise<Call> {
  const call = callOf(of, change);
  shop.onSend = () => 'drop';
  await one.dispatcher.dispatch(call);
  shop.onSend = (ask) => shop.apply(ask);
  expect((await world.row(call)).status).toBe('UNKNOWN');
  return call;
}

/** Resolves once that many have been told something. */
async function told(outcomes: readonly Promise<unknown>[], count: number): Promise<void> {
  let done = 0;
  for (const outcome of outcomes) void outcome.then(() => (done += 1));
  while (done < count) await new Promise((resolve) => setTimeout(resolve, 10));
}

const unresolved = (id: EffectId) => ({
  status: 'NOT_APPLIED',
  reason: { code: 'effect_unresolved', message: expect.stringContaining(effectIdText(id)) },
});
const confirmed = { status: 'CONFIRMED' };

describe('2.5 a repeat in other words', () => {
  test('is refused while the first is UNKNOWN, names it, and sends nothing', async () => {
    const call = await open(contract);
    const sent = shop.sends();
    expect(await one.dispatcher.dispatch(twinOf(call))).toMatchObject(unresolved(call));
    expect(shop.sends()).toBe(sent);
  });

  test('is refused while the first is in flight', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const call = callOf(contract);
    const flight = one.dispatcher.dispatch(call);
    await hold.reached;
    expect(await one.dispatcher.dispatch(twinOf(call))).toMatchObject(unresolved(call));
    hold.open();
    expect(await flight).toMatchObject(confirmed);
    expect(shop.sends()).toBe(1);
  });

  test('of 16 at once in two processes, one is sent', async () => {
    const two = await startProcess(world, shop);
    const first = callOf(contract);
    const twins = Array.from({ length: 16 }, () => twinOf(first));
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const outcomes = twins.map((call, index) => (index % 2 ? one : two).dispatcher.dispatch(call));
    await told(outcomes, outcomes.length - 1);
    hold.open();
    const codes = (await Promise.all(outcomes)).map((outcome) =>
      outcome.status === 'NOT_APPLIED' ? outcome.reason.code : outcome.status,
    );
    expect(codes.sort()).toEqual(['CONFIRMED', ...Array(15).fill('effect_unresolved')]);
    expect(shop.sends()).toBe(1);
    await two.stop();
  });

  test('is allowed once the first is settled', async () => {
    const call = await open(contract);
    await decideIn(world, ruling(await world.row(call))());
    expect(await one.dispatcher.dispatch(twinOf(call))).toMatchObject(confirmed);
  });

  test.each<[string, (call: Call) => Partial<Call>]>([
    ['other arguments', () => ({ args: { item: 'another' } })],
    ['another tenant', () => ({ tenant: 'other' })],
  ])('is none with %s', async (_, change) => {
    const call = await open(contract);
    expect(await one.dispatcher.dispatch(twinOf(call, change(call)))).toMatchObject(confirmed);
  });

  test('equal arguments in another order of keys are the same', async () => {
    const wide = await world.publish(
      order(
        {},
        {
          tool: 'shop.wide',
          parameters: { type: 'object', properties: { item: { type: 'string' }, size: { type: 'integer' } } },
        },
      ),
    );
    const call = await open(wide, { args: { item: 'x', size: 1 } });
    expect(await one.dispatcher.dispatch(twinOf(call, { args: { size: 1, item: 'x' } }))).toMatchObject(
      unresolved(call),
    );
  });

  test('a contract with repeats: allowed has no twins', async () => {
    const call = await open(repeats);
    expect(await one.dispatcher.dispatch(twinOf(call))).toMatchObject(confirmed);
  });

  test('a PURE call has no twins', async () => {
    const args = { key: 'same' };
    shop.onLook = () => 'drop';
    const call = callOf(pure, { args });
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    shop.onLook = () => ({ status: 200, body: { order: null } });
    expect(await one.dispatcher.dispatch(twinOf(call))).toMatchObject(confirmed);
  });

  test('host code may override it, with actor and reason, which the history keeps', async () => {
    const call = await open(contract);
    const twin = twinOf(call, { override: { actor: 'ann', reason: 'two are wanted' } });
    expect(await one.dispatcher.dispatch(twin)).toMatchObject(confirmed);
    const [event] = await world.admin`
      SELECT kind, actor, reason FROM holdfast.effect_events WHERE call_id = ${twin.call}`;
    expect(event).toEqual({ kind: 'override', actor: 'ann', reason: 'two are wanted' });
  });

  test('arguments are no way to it: an "override" or "_meta" in them is an argument like any other', async () => {
    const loose = await world.publish(
      order({}, { tool: 'shop.loose', parameters: { type: 'object', additionalProperties: true } }),
    );
    const args = { item: 'x', override: { actor: 'model', reason: 'I may' }, _meta: { override: true } };
    const call = await open(loose, { args });
    expect(await one.dispatcher.dispatch(twinOf(call, { args }))).toMatchObject(unresolved(call));
  });
});

describe('3.7 a held resource', () => {
  const later = (call: Call, of = setting): Call => ({ ...callOf(of), args: call.args });

  test('another writer of it, by the same or another tool, is refused and told who holds it', async () => {
    const call = await open(setting);
    expect(await one.dispatcher.dispatch(later(call))).toMatchObject(unresolved(call));
    expect(await one.dispatcher.dispatch(later(call, otherSetting))).toMatchObject(unresolved(call));
    expect(shop.orders).toEqual([]);
  });

  test('a writer of another resource, and one of another tenant, are not', async () => {
    const call = await open(setting);
    const elsewhere = callOf(setting, { tenant: 'other', args: call.args });
    expect(await one.dispatcher.dispatch(callOf(setting))).toMatchObject(confirmed);
    expect(await one.dispatcher.dispatch(elsewhere)).toMatchObject(confirmed);
  });

  test('a refused writer leaves neither claim nor hold', async () => {
    const call = await open(setting);
    const refused = later(call, otherSetting);
    await one.dispatcher.dispatch(refused);
    const holders =
      await world.admin`SELECT call_id FROM holdfast.resource_holds WHERE resource = ${`setting/${call.call}`}`;
    expect([(await world.row(refused)).sends, holders.map((row) => row.call_id)]).toEqual([0, [call.call]]);
  });

  test('the hold outlasts CONFIRMED until the last send-by and in-flight limit have passed', async () => {
    const call = callOf(setting);
    expect(await one.dispatcher.dispatch(call)).toMatchObject(confirmed);
    expect(await one.dispatcher.dispatch(later(call))).toMatchObject(unresolved(call));
    await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = -3600000 WHERE call_id = ${call.call}`;
    expect(await one.dispatcher.dispatch(later(call))).toMatchObject(confirmed);
  });

  test('the hold outlasts send-by and in-flight limit while the effect is UNKNOWN', async () => {
    const call = await open(setting);
    await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = -3600000 WHERE call_id = ${call.call}`;
    expect(await one.dispatcher.dispatch(later(call, otherSetting))).toMatchObject(unresolved(call));
  });

  test('of 8 writers at once, one is sent', async () => {
    const call = callOf(setting);
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const writers = Array.from({ length: 8 }, (_, index) => later(call, index % 2 ? setting : otherSetting));
    const outcomes = writers.map((each) => one.dispatcher.dispatch(each));
    await told(outcomes, outcomes.length - 1);
    hold.open();
    const statuses = (await Promise.all(outcomes)).map(({ status }) => status);
    expect(statuses.sort()).toEqual(['CONFIRMED', ...Array(7).fill('NOT_APPLIED')]);
    expect(shop.sends()).toBe(1);
  });

  test.each<[string, JsonObject]>([
    ['exclusive_writer', { exclusive_writer: false }],
    ['a resource', { resource: [] }],
  ])('REPLAYABLE without %s is handled as NON_RETRYABLE: never sent again', async (name, change) => {
    const weak = await world.publish(order({ ...PUT, ...change }, { tool: `shop.weak_${name.replace('a ', '')}` }));
    const call = await open(weak);
    expect((await world.row(call)).effectClass).toBe('NON_RETRYABLE');
    await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = -3600000 WHERE call_id = ${call.call}`;
    const sent = shop.sends();
    await one.reconcile(call);
    expect([(await world.row(call)).status, shop.sends()]).toEqual(['UNKNOWN', sent]);
  });

  test('REPLAYABLE that holds its resource is sent again, once earlier sends are over', async () => {
    const call = await open(setting);
    shop.onLook = () => ({ status: 503, body: {} });
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
    await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = -3600000 WHERE call_id = ${call.call}`;
    expect(await one.reconcile(call)).toMatchObject({ status: 'CONFIRMED', sends: 2 });
  });
});
