import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract, JsonObject, JsonValue } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import type { EffectRow } from '../../../db/statements/index.ts';
import { sweepLedger } from '../../../dispatcher/sweep.ts';
import type { Call } from '../../../effects/effect.ts';
import { callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { gate, openShop, type Reply, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let one: Process;
let find: Contract;
const others: Process[] = [];
/** Short, so that the moment from which absence proves comes soon. */
const SOON: JsonObject = { send_by: '40ms', in_flight_max: '20ms' };
const DAY: JsonObject = { send_by: '2s', in_flight_max: '1d' };
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  find = await world.publish(findOrder());
  one = await startProcess(world, shop);
  // The first send of a process opens connections and is slow: with a send-by of 40 ms it would stay silent now and then.
  await one.dispatcher.dispatch(callOf(await world.publish(order({}, { tool: 'shop.warm' }))));
  shop.reset();
});
afterEach(async () => {
  await Promise.all(others.splice(0).map((each) => each.stop()));
  shop.reset();
});
afterAll(async () => {
  await one.stop();
  await world.close();
  await shop.close();
});

let tools = 0;
/** A contract of its own with that evidence rule. */
function contractWith(evidence: JsonObject | undefined, execution: JsonObject = SOON): Promise<Contract> {
  tools += 1;
  return world.publish(
    order({ ...(evidence === undefined ? {} : { evidence }), ...execution }, { tool: `shop.t${tools}` }),
  );
}

/** An UNKNOWN effect: the provider was asked (and did it, when `applied`), and no answer came. */
async function unknown(contract: Contract, applied: boolean, change: Partial<Call> = {}): Promise<Call> {
  shop.onSend = (ask) => {
    if (applied) shop.apply(ask);
    return 'drop';
  };
  const call = callOf(contract, change);
  await one.dispatcher.dispatch(call);
  expect((await world.row(call)).status).toBe('UNKNOWN');
  return call;
}

const told = ({ status, attention, reason, reasonCode }: EffectRow) => ({ status, attention, reason, reasonCode });
const verdicts = async ({ call }: Call) =>
  (await world.admin`SELECT verdict, why FROM holdfast.evidence WHERE call_id = ${call} ORDER BY id`).map((row) => ({
    verdict: row.verdict as string,
    why: row.why as string | null,
  }));
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Until send-by, in-flight limit, lag and clock margin are over. */
const settled = () => sleep(150);

describe('6.1 positive patterns', () => {
  test('found: the effect is CONFIRMED, with what was found as its result', async () => {
    const call = await unknown(await contractWith(byKey(find)), true);
    const row = await one.reconcile(call);
    expect(told(row)).toEqual({ status: 'CONFIRMED', attention: null, reason: null, reasonCode: null });
    expect([row.settledBy, row.providerRef, JSON.parse(row.result ?? '')]).toEqual([
      'evidence',
      shop.orders[0]?.id,
      { order: shop.orders[0] },
    ]);
    expect(shop.sends()).toBe(1);
  });

  test('absent: NOT_APPLIED once that proves something', async () => {
    const call = await unknown(await contractWith(byKey(find)), false);
    await settled();
    expect(told(await one.reconcile(call))).toEqual({
      status: 'NOT_APPLIED',
      attention: null,
      reason: 'the provider showed that it never happened',
      reasonCode: 'proven_absent',
    });
  });

  test.each<[string, Reply]>([
    ['a renamed field', { status: 200, body: { purchase: { key: 'x' } } }],
    ['lost permission', { status: 403, body: { error: 'forbidden' } }],
    ['a 404 that means something else', { status: 404, body: { error: 'no_such_route' } }],
    ['an empty body', { status: 200, body: {} }],
    ['a provider in trouble', { status: 500, body: {} }],
    ['a redirect', { status: 302, body: {} }],
    ['no answer', 'drop'],
    ['an answer that is no JSON object', { status: 200, body: 'maintenance' }],
  ])('%s fits neither, and is INCONCLUSIVE', async (_, reply) => {
    const call = await unknown(await contractWith(byKey(find)), false);
    await settled();
    shop.onLook = () => reply;
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['INCONCLUSIVE']);
  });

  test('the evidence call is the one pinned by digest, whatever was published since', async () => {
    const contract = await contractWith(byKey(find));
    const call = await unknown(contract, false);
    await settled();
    // A newer version asks elsewhere.
    await world.publish(findOrder({ version: '2.0.0', selection: { description: 'Newer.' } }));
    await one.reconcile(call);
    expect(shop.asks.filter(({ method }) => method === 'GET').map(({ path }) => path)).toEqual(['/orders']);
  });

  test('a contract whose evidence call has another digest than published cannot be published', async () => {
    const wrong = byKey(find, { call: `shop.find@1.0.0#sha256/v1:${'0'.repeat(64)}` });
    await expect(contractWith(wrong)).rejects.toMatchObject({ code: 'tool_schema_drift' });
  });
});

describe('6.2 what absence is worth', () => {
  test('suggests: nothing moves, and a person is called', async () => {
    const call = await unknown(await contractWith(byKey(find, { absence: 'suggests' })), false);
    await settled();
    expect(told(await one.reconcile(call))).toMatchObject({
      status: 'UNKNOWN',
      attention: 'NEEDS_DECISION',
      reason: 'absent, but absence only suggests here',
    });
  });

  test('suggests is the default', async () => {
    const { absence: _, ...rule } = byKey(find) as Record<string, JsonValue>;
    const call = await unknown(await contractWith(rule), false);
    await settled();
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
  });

  test('without evidence a person is called at once', async () => {
    const call = await unknown(await contractWith(undefined), false);
    expect(told(await one.reconcile(call))).toMatchObject({ status: 'UNKNOWN', attention: 'NEEDS_DECISION' });
  });
});

describe('6.3 when absence proves', () => {
  test('not before settle_at; the next look is planned for it', async () => {
    const call = await unknown(await contractWith(byKey(find, { lag: '5s' })), false);
    await settled();
    const row = await one.reconcile(call);
    expect(told(row)).toMatchObject({ status: 'UNKNOWN', attention: null });
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['ABSENT_TOO_EARLY']);
    expect((row.nextLookAtMs ?? 0) - row.nowMs).toBeLessThanOrEqual(5_000);
  });

  test.each<[string, JsonObject, JsonObject]>([
    ['send-by', { send_by: '5s' }, {}],
    ['the in-flight limit', { in_flight_max: '5s' }, {}],
    ['the lag', {}, { lag: '5s' }],
  ])('settle_at counts %s', async (_, execution, rule) => {
    const call = await unknown(await contractWith(byKey(find, rule), { ...SOON, ...execution }), false);
    await settled();
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
  });

  test('settle_at counts the clock margin', async () => {
    const careful = await startProcess(world, shop, { settings: { clockMarginMs: 5_000 } });
    others.push(careful);
    const call = await unknown(await contractWith(byKey(find)), false);
    await settled();
    expect((await careful.reconcile(call)).status).toBe('UNKNOWN');
    expect((await one.reconcile(call)).status).toBe('NOT_APPLIED');
  });

  test('settle_at counts the latest send-by of all claims', async () => {
    const contract = await contractWith(byKey(find), {
      ...SOON,
      effect: 'IDEMPOTENT',
      concurrent: 'safe',
      idempotency: { send_as: 'header Idempotency-Key', window: '1h' },
    });
    const call = await unknown(contract, false);
    await settled();
    // Never shown before: so it is sent again, without an answer.
    expect((await one.reconcile(call)).sends).toBe(2);
    const again = await one.reconcile(call);
    expect([again.status, again.sends]).toEqual(['UNKNOWN', 3]);
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['ABSENT_SETTLED', 'ABSENT_TOO_EARLY']);
  });

  test('asked_at is the clock of the database before the look, so a slow look that began early proves nothing', async () => {
    const call = await unknown(await contractWith(byKey(find), { ...SOON, in_flight_max: '400ms' }), false);
    const hold = gate();
    shop.onLook = async (ask) => {
      await hold.wait();
      return shop.find(ask);
    };
    const looking = one.reconcile(call);
    await hold.reached;
    await sleep(600);
    hold.open();
    expect((await looking).status).toBe('UNKNOWN');
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['ABSENT_TOO_EARLY']);
    shop.onLook = (ask) => shop.find(ask);
    expect((await one.reconcile(call)).status).toBe('NOT_APPLIED');
  });

  test('past retention it is INCONCLUSIVE (expired), a person is called, and looks stop', async () => {
    const call = await unknown(await contractWith(byKey(find, { retention: '100ms' })), false);
    await settled();
    expect(told(await one.reconcile(call))).toMatchObject({ status: 'UNKNOWN', attention: 'EXPIRED' });
    const looks = shop.asks.filter(({ method }) => method === 'GET').length;
    const row = await one.reconcile(call);
    expect(told(row)).toMatchObject({ status: 'UNKNOWN', attention: 'EXPIRED' });
    expect(shop.asks.filter(({ method }) => method === 'GET').length).toBe(looks);
    expect((row.nextLookAtMs ?? 0) - row.nowMs).toBeGreaterThan(600_000);
  });
});

describe('6.3 and 6.5 listings', () => {
  const PAGE = 2;
  /** The honest provider's list: pages of two, oldest first. */
  const list = (): void => {
    shop.onLook = (ask) => {
      const from = Number(ask.query.cursor ?? 0);
      const orders = shop.orders.slice(from, from + PAGE);
      const next = from + PAGE < shop.orders.length ? from + PAGE : null;
      return { status: 200, body: { orders, next } };
    };
  };
  let lister: Contract;
  let listing: Contract;
  beforeAll(async () => {
    lister = await world.publish({
      ...findOrder(),
      tool: 'shop.list',
      parameters: { type: 'object', properties: { cursor: { type: 'integer' } } },
      execution: {
        provider: 'shop',
        effect: 'PURE',
        credential: 'writer',
        timeout: '2s',
        http: { method: 'GET', path: '/list', query: { cursor: '{args.cursor}' } },
      },
    });
    listing = await contractWith({
      ...byKey(lister),
      by: 'listing',
      with: {},
      found: { where: { '/key': '{effect_key}' } },
      absent: { status: 200 },
      equals: { '/item': '{args.item}' },
      reference: '/id',
      items: '/orders',
      next: '/next',
      cursor_arg: 'cursor',
      lag: '60ms',
    });
  });
  const others3 = async () => {
    for (let made = 0; made < 3; made += 1) await one.dispatcher.dispatch(callOf(await contractWith(byKey(find))));
  };

  test('found on a later page: CONFIRMED', async () => {
    shop.onSend = (ask) => shop.apply(ask);
    await others3();
    list();
    const call = await unknown(listing, true);
    expect((await one.reconcile(call)).status).toBe('CONFIRMED');
  });

  test('absent on all pages: proven by two full passes, a lag apart', async () => {
    shop.onSend = (ask) => shop.apply(ask);
    await others3();
    list();
    const call = await unknown(listing, false);
    await sleep(250);
    const before = shop.asks.length;
    expect((await one.reconcile(call)).status).toBe('NOT_APPLIED');
    // Three orders make two pages, and there are two passes.
    expect(shop.asks.length - before).toBe(4);
  });

  test('one that appears between the passes is found', async () => {
    list();
    const call = await unknown(listing, false);
    await sleep(250);
    const { effectKey } = await world.row(call);
    let looks = 0;
    const honest = shop.onLook;
    shop.onLook = (ask) => {
      looks += 1;
      if (looks === 2) shop.apply({ ...ask, key: effectKey, body: { item: call.call } });
      return honest(ask);
    };
    expect((await one.reconcile(call)).status).toBe('CONFIRMED');
  });

  test('too early for proof: one pass is made, and it proves nothing', async () => {
    list();
    const call = await unknown(listing, false);
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['ABSENT_TOO_EARLY']);
  });

  test.each<[string, (page: { orders: unknown[]; next: unknown }) => unknown]>([
    ['a page that cannot be read', () => ({ purchases: [] })],
    ['a cursor that does not advance', (page) => ({ ...page, next: 2 })],
    ['items without the field that is compared', () => ({ orders: [{ id: 'o', reference: 'x' }], next: null })],
  ])('%s proves no absence', async (_, spoil) => {
    shop.onSend = (ask) => shop.apply(ask);
    await others3();
    list();
    const honest = shop.onLook;
    const call = await unknown(listing, false);
    await sleep(250);
    shop.onLook = async (ask) => {
      const reply = (await honest(ask)) as { status: number; body: { orders: unknown[]; next: unknown } };
      return { status: 200, body: spoil(reply.body) };
    };
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
    expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['INCONCLUSIVE']);
  });

  test('several matches are a CONFLICT', async () => {
    list();
    const call = await unknown(listing, true);
    const { effectKey } = await world.row(call);
    shop.orders.push({ id: 'twin', key: effectKey, item: call.call });
    expect(told(await one.reconcile(call))).toMatchObject({ status: 'UNKNOWN', attention: 'CONFLICT' });
  });
});

describe('6.5 sources and comparison', () => {
  test('found with other content than was sent is a CONFLICT, and a person is called', async () => {
    const call = await unknown(await contractWith(byKey(find)), true);
    shop.onLook = (ask) => ({ status: 200, body: { order: { id: 'x', key: ask.query.key, item: 'other' } } });
    expect(told(await one.reconcile(call))).toEqual({
      status: 'UNKNOWN',
      attention: 'CONFLICT',
      reason: 'found, but with other content than was sent',
      reasonCode: null,
    });
  });

  test('accepted(ref): UNKNOWN without alarm, and asked by that reference', async () => {
    const byRef = await world.publish({
      ...findOrder(),
      tool: 'shop.job',
      parameters: { type: 'object', properties: { job: { type: 'string' } }, required: ['job'] },
      execution: {
        provider: 'shop',
        effect: 'PURE',
        credential: 'writer',
        timeout: '2s',
        http: { method: 'GET', path: '/jobs/{args.job}' },
      },
    });
    const contract = await contractWith(
      {
        ...byKey(byRef),
        by: 'ref',
        with: { job: '{ref}' },
        found: { status: 200, where: { '/job/state': 'done' } },
        absent: { status: 200, where: { '/job/state': 'failed' } },
        equals: {},
        reference: '/job/id',
      },
      { ...DAY, answers: [{ status: 202, means: 'accepted', ref: '/job/id' }] },
    );
    shop.onSend = () => ({ status: 202, body: { job: { id: 'job-7' } } });
    const call = callOf(contract);
    expect(await one.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN', attention: null });
    expect((await world.row(call)).providerRef).toBe('job-7');
    shop.onLook = () => ({ status: 200, body: { job: { id: 'job-7', state: 'running' } } });
    expect((await one.reconcile(call)).status).toBe('UNKNOWN');
    shop.onLook = () => ({ status: 200, body: { job: { id: 'job-7', state: 'done' } } });
    expect((await one.reconcile(call)).status).toBe('CONFIRMED');
    expect(shop.asks.filter(({ method }) => method === 'GET').map(({ path }) => path)).toEqual([
      '/jobs/job-7',
      '/jobs/job-7',
    ]);
  });

  describe('state', () => {
    let stateful: Contract;
    let content = 'before';
    beforeAll(async () => {
      const read = await world.publish({
        ...findOrder(),
        tool: 'shop.read',
        parameters: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
        execution: {
          provider: 'shop',
          effect: 'PURE',
          credential: 'writer',
          timeout: '2s',
          http: { method: 'GET', path: '/files/{args.item}' },
        },
      });
      stateful = await contractWith(
        {
          ...byKey(read),
          by: 'state',
          with: { item: 'shared' },
          found: { status: 200, where: { '/content': '{args.item}' } },
          absent: { status: 404 },
          equals: {},
          reference: '/id',
          absence: 'suggests',
        },
        DAY,
      );
    });
    const write = (wanted: string, applied: boolean): Promise<Call> => {
      shop.onLook = () => ({ status: 200, body: { id: `file-${wanted}`, content } });
      const call = unknown(stateful, false, { args: { item: wanted } });
      if (applied) void call.then(() => {});
      return call.then((done) => {
        if (applied) content = wanted;
        return done;
      });
    };

    test('equal proves it when the state before the send was recorded as different', async () => {
      content = 'before';
      const call = await write('new-1', true);
      expect((await world.row(call)).stateBefore).toBe('different');
      expect((await one.reconcile(call)).status).toBe('CONFIRMED');
    });

    test('equal proves nothing when it was so before', async () => {
      content = 'new-2';
      const call = await write('new-2', true);
      expect((await world.row(call)).stateBefore).toBe('equal');
      expect((await one.reconcile(call)).status).toBe('UNKNOWN');
      expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['INCONCLUSIVE']);
    });

    test('different proves nothing', async () => {
      content = 'before';
      const call = await write('new-3', false);
      expect((await one.reconcile(call)).status).toBe('UNKNOWN');
      expect((await verdicts(call)).map(({ verdict }) => verdict)).toEqual(['INCONCLUSIVE']);
    });
  });
});

describe('6.6 with which credential is asked', () => {
  const rotate = (version: string, account: string) =>
    putCredential(world.ledger, { name: 'looker', version, account, grants: ['**'] });
  async function withSecret(version: string, options: ProcessOptions = {}): Promise<Process> {
    const started = await startProcess(world, shop, { secret: { version, value: `secret-${version}` }, ...options });
    others.push(started);
    return started;
  }
  let lookup: Contract;
  let contract: Contract;
  beforeAll(async () => {
    await rotate('v1', 'acct-1');
    const source = findOrder({ tool: 'shop.lookup' });
    lookup = await world.publish({
      ...source,
      execution: { ...(source.execution as JsonObject), credential: 'looker' },
    });
    contract = await contractWith(byKey(lookup), { ...SOON, credential: 'looker' });
  });

  test('the newest version of the same account', async () => {
    const call = await unknown(contract, true);
    await rotate('v2', 'acct-1');
    expect((await (await withSecret('v2')).reconcile(call)).status).toBe('CONFIRMED');
    expect(shop.asks.at(-1)?.secret).toBe('Bearer secret-v2');
  });

  test('the newest version of the same account, also by a process that knew the one before', async () => {
    const secret = { version: 'v2', value: 'secret-v2' };
    const process = await withSecret('v2', { secret });
    shop.onSend = (ask) => {
      shop.apply(ask);
      return 'drop';
    };
    const call = callOf(contract);
    await process.dispatcher.dispatch(call);
    await settled();
    await rotate('v2b', 'acct-1');
    Object.assign(secret, { version: 'v2b', value: 'secret-v2b' });
    expect((await process.reconcile(call)).status).toBe('CONFIRMED');
    expect(shop.asks.at(-1)?.secret).toBe('Bearer secret-v2b');
  });

  test('a version of another account sees nothing that counts: INCONCLUSIVE, and nobody is asked', async () => {
    const sender = await withSecret('v2b');
    shop.onSend = () => 'drop';
    const call = callOf(contract);
    await sender.dispatcher.dispatch(call);
    await settled();
    await rotate('v3', 'acct-2');
    const before = shop.asks.length;
    const row = await (await withSecret('v3')).reconcile(call);
    expect([row.status, shop.asks.length - before]).toEqual(['UNKNOWN', 0]);
    expect(await verdicts(call)).toEqual([
      {
        verdict: 'INCONCLUSIVE',
        why: 'credential looker acts as account acct-2, the effect was sent as acct-1',
      },
    ]);
  });

  test('a worker without the secret does not ask, and says so', async () => {
    const call = await unknown(await contractWith(byKey(find)), false);
    await settled();
    const row = await (await withSecret('v1', { secret: null })).reconcile(call);
    expect(row.status).toBe('UNKNOWN');
    expect((await verdicts(call))[0]?.verdict).toBe('INCONCLUSIVE');
  });
});

describe('what a look may do', () => {
  test('rule 5: a process without the provider parks the effect and says so', async () => {
    const call = await unknown(await contractWith(byKey(find)), true);
    const elsewhere = await startProcess(world, shop);
    others.push(elsewhere);
    (elsewhere.deps.providers as Map<string, unknown>).delete('shop');
    expect(told(await elsewhere.reconcile(call))).toMatchObject({
      status: 'UNKNOWN',
      attention: 'PARKED',
      reason: expect.stringContaining('provider_not_here'),
    });
    expect((await one.reconcile(call)).status).toBe('CONFIRMED');
  });

  test('two looks at once settle it once', async () => {
    const call = await unknown(await contractWith(byKey(find)), true);
    const two = await startProcess(world, shop);
    others.push(two);
    const rows = await Promise.all([one.reconcile(call), two.reconcile(call), one.reconcile(call)]);
    expect(rows.map(({ status }) => status)).toEqual(Array(3).fill('CONFIRMED'));
    expect((await world.events(call)).filter(({ kind }) => kind === 'evidence').length).toBe(1);
  });

  test('after a declared number of looks without a verdict a person is called', async () => {
    const patient = await startProcess(world, shop, { settings: { attentionAfterLooks: 3 } });
    others.push(patient);
    const call = await unknown(await contractWith(byKey(find)), false);
    shop.onLook = () => 'drop';
    const attentions = [];
    for (let looks = 0; looks < 3; looks += 1) attentions.push((await patient.reconcile(call)).attention);
    expect(attentions).toEqual([null, null, 'NEEDS_DECISION']);
  });

  test('case 21: the sweep hands out an effect whose reconciliation is gone, again and again, and sends nothing', async () => {
    const call = await unknown(await contractWith(byKey(find), DAY), false);
    const sent = shop.sends();
    const overdue = () =>
      world.admin`UPDATE holdfast.effects SET next_look_at = now() - interval '1 minute' WHERE call_id = ${call.call}`;
    const swept = async () => {
      const handed: string[] = [];
      await sweepLedger(one.dispatcher, async ({ id }) => void handed.push(id.call));
      return handed.filter((each) => each === call.call);
    };
    await overdue();
    expect([await swept(), await swept()]).toEqual([[call.call], []]);
    await overdue();
    expect(await swept()).toEqual([call.call]);
    expect(shop.sends()).toBe(sent);
  });
});
