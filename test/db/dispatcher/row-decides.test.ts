import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import { recordRefusal } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import { hashCall } from '../../../dispatcher/prepare.ts';
import type { Call } from '../../../effects/effect.ts';
import { args, callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { gate, openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let contract: Contract;
const running: Process[] = [];
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find) }));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()));
  shop.reset();
});
afterAll(async () => {
  await world.close();
  await shop.close();
});

async function start(options?: ProcessOptions): Promise<Process> {
  const started = await startProcess(world, shop, options);
  running.push(started);
  return started;
}

/** The code of what was thrown, or the outcome. */
const told = (outcome: Promise<unknown>) =>
  outcome.then(
    (value) => value,
    (error: { code?: string }) => error.code ?? error,
  );

describe('2.1 an existing row decides before any rule', () => {
  test.each<[string, (call: Call, credential: string) => Promise<ProcessOptions | undefined>]>([
    [
      'the credential was rotated and lost its grants',
      async (_, name) => {
        await putCredential(world.ledger, { name, version: 'v2', account: 'acct-1', grants: ['nothing'] });
        return undefined;
      },
    ],
    ['the worker lost its secret', async () => ({ secret: null })],
    [
      'the contract is being retired',
      async (call) => {
        await world.admin`UPDATE holdfast.contracts SET state = 'retiring' WHERE tool = ${call.tool}`;
        return undefined;
      },
    ],
    [
      'the tenant is suspended',
      async ({ tenant }) => {
        await putTenant(world.ledger, { tenant, state: 'suspended' });
        return undefined;
      },
    ],
    [
      'the tenant may send less now',
      async ({ tenant }) => {
        await putTenant(world.ledger, { tenant, payloadBytesMax: 1_024 });
        return undefined;
      },
    ],
    ['nothing but time has passed', async () => undefined],
  ])('a settled call is told again although %s', async (name, change) => {
    const own = name.replaceAll(' ', '-');
    await putTenant(world.ledger, { tenant: own });
    await putCredential(world.ledger, { name: own, version: 'v1', account: 'acct-1', grants: ['**'] });
    const tool = `shop.${own.replaceAll('-', '_')}`;
    const published = await world.publish(order({ credential: own, capabilities: ['order:write:{tenant}'] }, { tool }));
    const call = callOf(published, { tenant: own, args: { item: 'x'.repeat(2_000) } });
    const first = await start();
    const before = await first.dispatcher.dispatch(call);
    expect(before.status).toBe('CONFIRMED');
    // Another process: nothing is known from the first one's memory.
    const second = await start(await change(call, own));
    const late = { ...call, notAfter: '2020-01-01T00:00:00Z' };
    expect(await told(second.dispatcher.dispatch(late))).toEqual(before);
    expect(await told(first.dispatcher.dispatch(late))).toEqual(before);
    expect(shop.sends()).toBe(1);
  });

  test.each<[string, (call: Call) => Partial<Call>]>([
    ['other arguments', () => args({ item: 'something else' })],
    ['another version', () => ({ version: '2.0.0' })],
    ['another tool', () => ({ tool: 'shop.other' })],
    ['another digest', () => ({ digest: `sha256/v1:${'0'.repeat(64)}` })],
    ['arguments that do not fit the contract', () => args({ item: 7 })],
  ])('the same call id with %s is call_id_reused, and sends nothing', async (_, change) => {
    const call = callOf(contract);
    const one = await start();
    await one.dispatcher.dispatch(call);
    const other = { ...call, ...change(call) };
    const two = await start();
    expect([await told(one.dispatcher.dispatch(other)), await told(two.dispatcher.dispatch(other))]).toEqual([
      'call_id_reused',
      'call_id_reused',
    ]);
    expect(shop.sends()).toBe(1);
  });

  test('a flight stands for the row it is about to make: other arguments meanwhile are call_id_reused', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const one = await start();
    const call = callOf(contract);
    const flight = one.dispatcher.dispatch(call);
    await hold.reached;
    expect(await told(one.dispatcher.dispatch({ ...call, ...args({ item: 'other' }) }))).toBe('call_id_reused');
    hold.open();
    expect((await flight).status).toBe('CONFIRMED');
  });

  test('an UNKNOWN row is told as UNKNOWN, and its reconciliation is asked for', async () => {
    shop.onSend = (ask) => {
      shop.apply(ask);
      return 'drop';
    };
    const call = callOf(contract);
    const one = await start();
    expect((await one.dispatcher.dispatch(call)).status).toBe('UNKNOWN');
    const two = await start();
    expect(await two.dispatcher.dispatch(call)).toMatchObject({
      status: 'UNKNOWN',
      message: `outcome unknown, do not repeat, effect id effect:acme:run:${call.call}`,
    });
    expect(two.unresolved).toEqual([`effect:acme:run:${call.call}`]);
    expect(shop.sends()).toBe(1);
  });
});

describe('2.2 and 2.3 one claim, one send', () => {
  test('case 1: 32 racing dispatches in 8 processes make one request, and all hear its outcome', async () => {
    const processes = await Promise.all(Array.from({ length: 8 }, () => start()));
    const call = callOf(contract);
    const outcomes = await Promise.all(
      processes.flatMap(({ dispatcher }) => Array.from({ length: 4 }, () => dispatcher.dispatch(call))),
    );
    expect(new Set(outcomes.map((outcome) => JSON.stringify(outcome))).size).toBe(1);
    expect(outcomes[0]).toMatchObject({ status: 'CONFIRMED', result: { order: { item: call.call } } });
    expect(shop.sends()).toBe(1);
  });

  test('case 16: the loser of a race stops dead and takes the winner\u2019s outcome', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const [one, two] = [await start(), await start()];
    const call = callOf(contract);
    const flights = [one.dispatcher.dispatch(call), two.dispatcher.dispatch(call)];
    await hold.reached;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(shop.sends()).toBe(1);
    hold.open();
    const [first, second] = await Promise.all(flights);
    expect(second).toEqual(first);
    expect(shop.sends()).toBe(1);
  });
});

describe('2.4 refusals', () => {
  test.each<[string, (call: Call) => Promise<void>, string]>([
    [
      'contract_not_live',
      async (call) => {
        await world.admin`UPDATE holdfast.contracts SET state = 'retiring' WHERE tool = ${call.tool}`;
      },
      "UPDATE holdfast.contracts SET state = 'live'",
    ],
    [
      'tenant_suspended',
      async (call) => void (await putTenant(world.ledger, { tenant: call.tenant, state: 'suspended' })),
      "UPDATE holdfast.tenants SET state = 'active'",
    ],
  ])('%s is final for that call id, also when the reason is gone', async (code, forbid, allow) => {
    const call = callOf(contract);
    await forbid(call);
    const one = await start();
    const refused = await one.dispatcher.dispatch(call);
    expect(refused).toMatchObject({ status: 'NOT_APPLIED', reason: { code }, settledBy: 'admission' });
    await world.admin.unsafe(allow);
    const two = await start();
    expect(await two.dispatcher.dispatch(call)).toEqual(refused);
    expect(await two.dispatcher.dispatch(callOf(contract))).toMatchObject({ status: 'CONFIRMED' });
    expect(shop.sends()).toBe(1);
  });

  test.each<[string, (call: Call) => Partial<Call>]>([
    ['tool_contract_not_found', () => ({ tool: 'shop.nothing' })],
    ['tool_contract_not_found', () => ({ version: '7.7.7' })],
    ['tool_schema_drift', () => ({ digest: `sha256/v1:${'0'.repeat(64)}` })],
    ['not_after_passed', () => ({ notAfter: '2020-01-01T00:00:00Z' })],
    ['tenant_unknown', () => ({ tenant: 'nobody' })],
  ])('%s is a row with that code, and sends nothing', async (code, change) => {
    const call = { ...callOf(contract), ...change(callOf(contract)) };
    const one = await start();
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'NOT_APPLIED', reason: { code } });
    expect(await world.row(call)).toMatchObject({ status: 'NOT_APPLIED', reasonCode: code, sends: 0 });
    expect(shop.sends()).toBe(0);
  });

  test.each<[string, (call: Call) => Partial<Call>]>([
    ['bad_id', () => ({ call: 'a/b' })],
    ['bad_id', () => ({ run: '' })],
    ['bad_id', () => ({ tenant: 'x'.repeat(65) })],
    ['bad_arguments', () => args({ item: 7 })],
    ['bad_arguments', () => args({})],
    ['bad_input', () => ({ digest: 'md5:nonsense' })],
    ['bad_input', () => ({ notAfter: 'tomorrow' })],
    ['payload_too_large', () => args({ item: 'x'.repeat(2 * 1024 * 1024) })],
  ])('%s is refused without a row, and the id is still free', async (code, change) => {
    const good = callOf(contract);
    const call = { ...good, ...change(good) };
    const one = await start();
    expect(await told(one.dispatcher.dispatch(call))).toBe(code);
    const [count] = await world.admin`SELECT count(*)::int AS rows FROM holdfast.effects WHERE call_id = ${call.call}`;
    expect(count).toEqual({ rows: 0 });
    expect(await one.dispatcher.dispatch(good)).toMatchObject({ status: 'CONFIRMED' });
    expect(shop.sends()).toBe(1);
  });

  test('a paused first attempt that wakes after a refusal was told sends nothing', async () => {
    const asleep = gate();
    const one = await start();
    const call = callOf(contract);
    // Paused between preparing and claiming, by a provider that takes its time to show its definition.
    const slow = one.deps.providers.get('shop');
    const pausing = { ...slow, verify: () => asleep.wait().then(() => ({ kind: 'not_checked' as const })) };
    (one.deps.providers as Map<string, unknown>).set('shop', pausing);
    const paused = one.dispatcher.dispatch(call);
    await asleep.reached;
    await world.ledger.run('withdraw', () =>
      recordRefusal(world.ledger.sql, {
        id: call,
        tool: call.tool,
        version: call.version,
        contractDigest: Buffer.from(contract.digest.slice(-64), 'hex'),
        effectClass: 'NON_RETRYABLE',
        provider: 'shop',
        argsHash: hashCall(call).argsHash,
        code: 'withdrawn',
        message: 'the user was told that nothing was sent',
        by: 'withdrawal',
        actor: 'test',
      }),
    );
    asleep.open();
    expect(await paused).toMatchObject({
      status: 'NOT_APPLIED',
      reason: { code: 'withdrawn' },
      settledBy: 'withdrawal',
    });
    expect(shop.sends()).toBe(0);
  });
});
