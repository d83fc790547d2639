import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import { httpProvider } from '../../../providers/http.ts';
import type { ProviderAdapter, Secret } from '../../../providers/provider.ts';
import { callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let find: Contract;
let contract: Contract;
let idempotent: Contract;
const running: Process[] = [];
const IDEMPOTENT: JsonObject = {
  effect: 'IDEMPOTENT',
  concurrent: 'safe',
  idempotency: { send_as: 'header Idempotency-Key', window: '1h' },
};
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find) }));
  idempotent = await world.publish(order(IDEMPOTENT, { tool: 'shop.again' }));
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
const code = (error: { code?: string }) => error.code ?? error;
const state = async (call: { tenant: string; run: string; call: string }) => {
  const { status, sends, reasonCode, attention } = await world.row(call);
  return { status, sends, reasonCode, attention };
};

describe('5.1 and 5.2 one request, and what "not sent" means', () => {
  test.each<[string, number]>([
    ['a redirect', 302],
    ['401', 401],
    ['503', 503],
    ['429', 429],
  ])('%s is one request and no answer', async (_, status) => {
    shop.onSend = () => ({ status, body: {} });
    const call = callOf(contract);
    expect(await (await start()).dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(shop.asks.length).toBe(1);
  });

  test('case 23: no connection is "not sent" and NOT_APPLIED; a connection lost after the request is UNKNOWN', async () => {
    const nobody = httpProvider({ name: 'shop', baseUrl: 'http://127.0.0.1:9' });
    const quick = await world.publish(order({ send_by: '150ms' }, { tool: 'shop.quick' }));
    const refused = callOf(quick);
    expect(await (await start({ provider: nobody })).dispatcher.dispatch(refused)).toMatchObject({
      status: 'NOT_APPLIED',
      reason: { code: 'not_sent' },
    });
    shop.onSend = () => 'drop';
    const dropped = callOf(quick);
    expect(await (await start()).dispatcher.dispatch(dropped)).toMatchObject({ status: 'UNKNOWN' });
    expect([await state(refused), await state(dropped), shop.sends()]).toEqual([
      { status: 'NOT_APPLIED', sends: 1, reasonCode: 'not_sent', attention: null },
      { status: 'UNKNOWN', sends: 1, reasonCode: null, attention: null },
      1,
    ]);
  });

  test('case 20: a transport error after the first byte is UNKNOWN, though the provider did it', async () => {
    shop.onSend = (ask) => {
      shop.apply(ask);
      return 'drop';
    };
    const one = await start();
    const call = callOf(contract);
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(await one.reconcile(call)).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence' });
    expect(shop.sends()).toBe(1);
  });
});

describe('5.3 answers', () => {
  test.each<[string, JsonObject, number, JsonObject, JsonObject]>([
    ['applied', {}, 201, { order: { id: 'a-1' } }, { status: 'CONFIRMED' }],
    [
      'applied_partly',
      { answers: [{ status: 207, means: 'applied_partly', parts: '/parts' }] },
      207,
      { parts: ['a', 'b'] },
      { status: 'CONFIRMED', parts: ['a', 'b'] },
    ],
    ['refused', {}, 422, { message: 'no' }, { status: 'NOT_APPLIED', reason: { code: 'refused_by_provider' } }],
    ['accepted', {}, 202, { order: { id: 'j-1' } }, { status: 'UNKNOWN', attention: null }],
    [
      'no answer, though a class names it',
      { answers: [{ status: '4xx', means: 'refused' }] },
      409,
      {},
      { status: 'UNKNOWN' },
    ],
    [
      'refused, since it is named one by one',
      { answers: [{ status: [409], means: 'refused' }] },
      409,
      {},
      { status: 'NOT_APPLIED' },
    ],
  ])('%s', async (name, change, status, body, outcome) => {
    const own = await world.publish(
      order({ evidence: byKey(find), ...change }, { tool: `shop.a_${name.replaceAll(/[^a-z]/g, '_')}` }),
    );
    shop.onSend = () => ({ status, body });
    expect(await (await start()).dispatcher.dispatch(callOf(own))).toMatchObject(outcome);
  });
});

describe('5.4 secrets', () => {
  test.each<[string, ProcessOptions['secret']]>([
    ['missing', null],
    ['of another version', { version: 'v0', value: 'old' }],
  ])('a secret that is %s is a refusal before the claim', async (_, secret) => {
    const call = callOf(contract);
    const outcome = await (await start({ secret: secret ?? null })).dispatcher.dispatch(call);
    expect(outcome).toMatchObject({ status: 'NOT_APPLIED', reason: { code: 'credential_policy_changed' } });
    expect([await state(call), shop.asks.length]).toEqual([
      { status: 'NOT_APPLIED', sends: 0, reasonCode: 'credential_policy_changed', attention: null },
      0,
    ]);
  });

  test('rule 11: the secret reaches the provider, and no table of the ledger', async () => {
    shop.onSend = (ask) => ({ status: 422, body: { message: `the token ${ask.secret} is bad` } });
    const secret = { version: 'v1', value: 'hush-hush-hush' };
    await (await start({ secret })).dispatcher.dispatch(callOf(contract));
    expect(shop.asks[0]?.secret).toBe('Bearer hush-hush-hush');
    const tables = await world.admin`
      SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'holdfast'`;
    for (const { name } of tables) {
      const [row] = await world.admin.unsafe(
        `SELECT count(*)::int AS hits FROM holdfast."${name}" t WHERE t::text LIKE '%hush-hush%'`,
      );
      expect([name, row?.hits]).toEqual([name, 0]);
    }
  });

  test('2.2 grants are matched against the current credential: what is not granted is refused', async () => {
    await putCredential(world.ledger, { name: 'narrow', version: 'v1', account: 'a', grants: ['order:write:other'] });
    const own = await world.publish(
      order({ credential: 'narrow', capabilities: ['order:write:{tenant}'] }, { tool: 'shop.narrow' }),
    );
    const one = await start();
    expect(await one.dispatcher.dispatch(callOf(own))).toMatchObject({
      status: 'NOT_APPLIED',
      reason: { code: 'credential_policy_changed', message: 'credential narrow@v1 does not grant order:write:acme' },
    });
    expect(shop.asks.length).toBe(0);
  });

  test('2.2 a cached policy that is old is read anew, once: a rotation refuses nobody who can follow it', async () => {
    await putCredential(world.ledger, { name: 'moving', version: 'v1', account: 'a', grants: ['**'] });
    const own = await world.publish(order({ credential: 'moving' }, { tool: 'shop.moving' }));
    let version = 'v1';
    const one = await start();
    (one.deps.secrets as { resolve(name: string): Secret }).resolve = (name) => ({ name, version, value: 'x' });
    expect(await one.dispatcher.dispatch(callOf(own))).toMatchObject({ status: 'CONFIRMED' });
    await putCredential(world.ledger, { name: 'moving', version: 'v2', account: 'a', grants: ['**'] });
    version = 'v2';
    const call = callOf(own);
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'CONFIRMED' });
    expect((await world.row(call)).credentialVersion).toBe('v2');
  });
});

describe('3.6 a re-send by the reconciliation', () => {
  /** An IDEMPOTENT effect that got no answer, with no evidence to ask for. */
  async function unanswered(of = idempotent) {
    shop.onSend = () => 'drop';
    const call = callOf(of);
    const one = await start();
    await one.dispatcher.dispatch(call);
    shop.onSend = (ask) => shop.apply(ask);
    return { call, one };
  }

  test('has the same key and the same bytes, and its answer settles the effect', async () => {
    const { call, one } = await unanswered();
    expect(await one.reconcile(call)).toMatchObject({ status: 'CONFIRMED', sends: 2, fence: 2, settledBy: 'holder' });
    const [first, second] = shop.asks;
    expect(second).toEqual(first);
  });

  test('a refusal then proves nothing, since the first may have been applied', async () => {
    const { call, one } = await unanswered();
    shop.onSend = () => ({ status: 422, body: {} });
    expect(await one.reconcile(call)).toMatchObject({ status: 'UNKNOWN', sends: 2 });
  });

  test('"not sent" then proves nothing either', async () => {
    const { call } = await unanswered();
    const away = await start({ provider: httpProvider({ name: 'shop', baseUrl: 'http://127.0.0.1:9' }) });
    expect(await away.reconcile(call)).toMatchObject({ status: 'UNKNOWN', sends: 2 });
  });

  test('a release that would render another request parks it', async () => {
    const { call } = await unanswered();
    const http = httpProvider({ name: 'shop', baseUrl: shop.url });
    const newer: ProviderAdapter = {
      ...http,
      render: (...input) => ({ ...http.render(...input), path: '/v2/orders' }),
    };
    const sent = shop.sends();
    const row = await (await start({ provider: newer })).reconcile(call);
    expect([row.status, row.attention, row.sends, shop.sends() - sent]).toEqual(['UNKNOWN', 'PARKED', 1, 0]);
  });

  test('another deployment id would make another key: parked', async () => {
    const { call } = await unanswered();
    const sent = shop.sends();
    const row = await (await start({ deploymentId: 'staging' })).reconcile(call);
    expect([row.attention, row.sends, shop.sends() - sent]).toEqual(['PARKED', 1, 0]);
  });

  test('a credential that now acts as another account parks it; a new version of the same account does not', async () => {
    await putCredential(world.ledger, { name: 'again', version: 'v1', account: 'a', grants: ['**'] });
    const own = await world.publish(order({ ...IDEMPOTENT, credential: 'again' }, { tool: 'shop.again_own' }));
    const { call } = await unanswered(own);
    const { call: other } = await unanswered(own);
    await putCredential(world.ledger, { name: 'again', version: 'v2', account: 'a', grants: ['**'] });
    const two = await start({ secret: { version: 'v2', value: 'x' } });
    expect(await two.reconcile(call)).toMatchObject({ status: 'CONFIRMED', credentialVersion: 'v2' });
    await putCredential(world.ledger, { name: 'again', version: 'v3', account: 'b', grants: ['**'] });
    const three = await start({ secret: { version: 'v3', value: 'x' } });
    expect(await three.reconcile(other)).toMatchObject({ status: 'UNKNOWN', attention: 'PARKED', sends: 1 });
  });

  test('waits until earlier sends are over, and is planned for then', async () => {
    const patient = await world.publish(
      order(
        { ...IDEMPOTENT, concurrent: 'unsafe', send_by: '100ms', in_flight_max: '300ms' },
        { tool: 'shop.patient' },
      ),
    );
    const { call, one } = await unanswered(patient);
    const early = await one.reconcile(call);
    expect([early.status, early.sends, early.attention]).toEqual(['UNKNOWN', 1, null]);
    expect((early.nextLookAtMs ?? 0) - early.nowMs).toBeLessThanOrEqual(450);
    await new Promise((resolve) => setTimeout(resolve, 450));
    expect(await one.reconcile(call)).toMatchObject({ status: 'CONFIRMED', sends: 2 });
  });

  test('case 24: past the key window it is not made, and a person is called', async () => {
    const short = await world.publish(
      order(
        {
          ...IDEMPOTENT,
          send_by: '50ms',
          in_flight_max: '0ms',
          idempotency: { send_as: 'header Idempotency-Key', window: '200ms' },
        },
        { tool: 'shop.short' },
      ),
    );
    const { call, one } = await unanswered(short);
    await new Promise((resolve) => setTimeout(resolve, 250));
    const sent = shop.sends();
    const row = await one.reconcile(call);
    expect([row.status, row.attention, row.sends, shop.sends() - sent]).toEqual(['UNKNOWN', 'NEEDS_DECISION', 1, 0]);
  });

  test.each(['NON_RETRYABLE', 'UNKNOWN'])(
    'rule 3: class %s is never sent again, however long it waits',
    async (effect) => {
      const own = await world.publish(order({ effect }, { tool: `shop.once_${effect.toLowerCase()}` }));
      const { call, one } = await unanswered(own);
      // As if everything had been over for an hour.
      await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = -3600000 WHERE call_id = ${call.call}`;
      const sent = shop.sends();
      for (let looks = 0; looks < 4; looks += 1) await one.reconcile(call);
      expect([await state(call), shop.sends() - sent]).toEqual([
        { status: 'UNKNOWN', sends: 1, reasonCode: null, attention: 'NEEDS_DECISION' },
        0,
      ]);
    },
  );

  test('a PURE call is sent again at once, a bounded number of times, and then given up as not applied', async () => {
    shop.onLook = () => 'drop';
    const one = await start({ settings: { pureSendsMax: 3 } });
    const call = callOf(find, { args: { key: 'k' } });
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    for (let looks = 0; looks < 4; looks += 1) await one.reconcile(call);
    expect([await state(call), shop.asks.length]).toEqual([
      { status: 'NOT_APPLIED', sends: 3, reasonCode: 'pure_no_answer', attention: null },
      3,
    ]);
  });

  test('two reconciliations at once make one re-send', async () => {
    const { call, one } = await unanswered();
    const two = await start();
    const sent = shop.sends();
    await Promise.all([one.reconcile(call), two.reconcile(call)]);
    expect([(await state(call)).sends, shop.sends() - sent]).toEqual([2, 1]);
  });
});

describe('8.3 payloads', () => {
  test('arguments up to 8 KiB stand in the row; larger ones are stored first and named by hash', async () => {
    const one = await start();
    const small = callOf(contract, { args: { item: 'x'.repeat(8_000) } });
    const large = callOf(contract, { args: { item: 'y'.repeat(9_000) } });
    await one.dispatcher.dispatch(small);
    await one.dispatcher.dispatch(large);
    const stored = await world.admin`SELECT hash, body FROM holdfast.payloads`;
    const [a, b] = [await world.row(small), await world.row(large)];
    expect([a.args, b.args, stored.length]).toEqual([JSON.stringify(small.args), null, 1]);
    expect(stored.map(({ hash, body }) => ({ hash, body }))).toEqual([
      { hash: b.argsHash, body: JSON.stringify(large.args) },
    ]);
    expect(shop.orders.map((made) => made.item)).toEqual([small.args.item, large.args.item]);
  });

  test('they are stored before the claim, so that a claim never names what is not there', async () => {
    const one = await start();
    const owner = await world.admin.reserve();
    await one.dispatcher.dispatch(callOf(contract));
    await owner`BEGIN`;
    await owner`SELECT FROM holdfast.processes WHERE process_id = ${one.dispatcher.lease.processId} FOR UPDATE`;
    const call = callOf(contract, { args: { item: 'z'.repeat(10_000) } });
    const outcome = one.dispatcher.dispatch(call);
    await world.untilBlocked();
    const [seen] = await world.admin`
      SELECT (SELECT count(*)::int FROM holdfast.payloads WHERE body LIKE '%zzz%') AS payloads,
        (SELECT count(*)::int FROM holdfast.effects WHERE call_id = ${call.call}) AS rows`;
    await owner`COMMIT`;
    owner.release();
    expect(seen).toEqual({ payloads: 1, rows: 0 });
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
  });

  test('a stored payload is found again by evidence and re-send', async () => {
    shop.onSend = () => 'drop';
    const one = await start();
    const call = callOf(idempotent, { args: { item: 'w'.repeat(10_000) } });
    await one.dispatcher.dispatch(call);
    shop.onSend = (ask) => shop.apply(ask);
    expect(await one.reconcile(call)).toMatchObject({ status: 'CONFIRMED', sends: 2 });
    expect(shop.asks[1]?.body).toEqual(call.args);
  });

  test('an expired payload parks the effect, which keeps its identity', async () => {
    shop.onSend = () => 'drop';
    const one = await start();
    const call = callOf(contract, { args: { item: 'v'.repeat(10_000) } });
    await one.dispatcher.dispatch(call);
    await world.admin`DELETE FROM holdfast.payloads WHERE body LIKE '%vvv%'`;
    expect(await one.reconcile(call)).toMatchObject({ status: 'UNKNOWN', attention: 'PARKED' });
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(await one.dispatcher.dispatch({ ...call, args: { item: 'other' } }).catch(code)).toBe('call_id_reused');
  });

  test('larger than the tenant may send: refused without a row', async () => {
    const one = await start();
    const call = callOf(contract, { args: { item: 'u'.repeat(1_048_577) } });
    expect(await one.dispatcher.dispatch(call).catch(code)).toBe('payload_too_large');
    const [count] = await world.admin`SELECT count(*)::int AS rows FROM holdfast.effects WHERE call_id = ${call.call}`;
    expect([count, shop.asks.length]).toEqual([{ rows: 0 }, 0]);
  });
});
