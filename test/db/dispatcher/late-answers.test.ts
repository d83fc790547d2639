import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { fenceLapsed, move, releaseFencedClaims } from '../../../db/statements/index.ts';
import type { EffectId } from '../../../effects/effect.ts';
import { callOf, decideIn, type Process, type ProcessOptions, ruling, startProcess } from '../protocol/fleet.ts';
import { moveOf } from '../protocol/moves.ts';
import { gate, openShop, type Reply, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let find: Contract;
let once: Contract;
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
  once = await world.publish(order({ evidence: byKey(find) }));
  idempotent = await world.publish(order({ evidence: byKey(find), ...IDEMPOTENT }, { tool: 'shop.again' }));
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

/** Gives up the claims of a process that lives: its lease is made to lapse, as by a long pause. */
async function giveUp({ dispatcher }: Process): Promise<void> {
  const { processId } = dispatcher.lease;
  const expired = async () => {
    await world.admin`UPDATE holdfast.processes SET beat_at = beat_at - interval '1 hour' WHERE process_id = ${processId}`;
    return fenceLapsed(world.ledger.sql, processId);
  };
  // It may beat between the two.
  while ((await expired()).length === 0);
  await releaseFencedClaims(world.ledger.sql, 'scanner', 100);
}

/** A call whose answer the test holds back while the claim is given up: a zombie in the making. */
async function zombie(contract: Contract, reply: (apply: () => Reply) => Reply) {
  const hold = gate();
  shop.onSend = async (ask) => {
    await hold.wait();
    return reply(() => shop.apply(ask));
  };
  const holder = await start();
  const call = callOf(contract);
  const outcome = holder.dispatcher.dispatch(call);
  await hold.reached;
  await giveUp(holder);
  expect((await world.row(call)).status).toBe('UNKNOWN');
  shop.onSend = (ask) => shop.apply(ask);
  return { call, holder, outcome, answer: hold.open };
}

const state = async (id: EffectId) => {
  const { status, attention, settledBy, sends } = await world.row(id);
  return { status, attention, settledBy, sends };
};

describe('7 a holder\u2019s answer after its claim was given up (case 6)', () => {
  test('applied, while UNKNOWN: it settles CONFIRMED, and the caller hears it', async () => {
    const { call, outcome, answer } = await zombie(once, (apply) => apply());
    answer();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'late_answer', result: { order: {} } });
    expect(await state(call)).toEqual({ status: 'CONFIRMED', attention: null, settledBy: 'late_answer', sends: 1 });
    expect(await world.events(call)).toEqual([
      { kind: 'fenced', from: 'DISPATCHED', to: 'UNKNOWN', fence: 1 },
      { kind: 'late_answer', from: 'UNKNOWN', to: 'CONFIRMED', fence: 1 },
    ]);
  });

  test('refused, while UNKNOWN, after the only send: it settles NOT_APPLIED', async () => {
    const { call, outcome, answer } = await zombie(once, () => ({ status: 422, body: { error: 'no' } }));
    answer();
    expect(await outcome).toMatchObject({ status: 'NOT_APPLIED', reason: { code: 'refused_by_provider' } });
    expect(await state(call)).toEqual({ status: 'NOT_APPLIED', attention: null, settledBy: 'late_answer', sends: 1 });
  });

  test('no answer, while UNKNOWN: it stays UNKNOWN', async () => {
    const { call, outcome, answer } = await zombie(once, () => 'drop');
    answer();
    expect(await outcome).toMatchObject({ status: 'UNKNOWN' });
    expect(await state(call)).toEqual({ status: 'UNKNOWN', attention: null, settledBy: null, sends: 1 });
  });

  test('applied, after evidence said NOT_APPLIED: CONFIRMED, and a person is called', async () => {
    const { call, outcome, answer } = await zombie(once, (apply) => apply());
    const judged = await world.row(call);
    await move(world.ledger.sql, moveOf(judged, { to: 'NOT_APPLIED', reasonCode: 'proven_absent', result: null }));
    answer();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
    expect(await state(call)).toEqual({
      status: 'CONFIRMED',
      attention: 'CONFLICT',
      settledBy: 'late_answer',
      sends: 1,
    });
    expect((await world.events(call)).at(-1)).toEqual({
      kind: 'late_answer',
      from: 'NOT_APPLIED',
      to: 'CONFIRMED',
      fence: 1,
    });
  });

  test('refused, after CONFIRMED: it moves nothing, is kept, and a person is called', async () => {
    const { call, outcome, answer } = await zombie(once, () => ({ status: 422, body: { error: 'no' } }));
    await move(world.ledger.sql, moveOf(await world.row(call)));
    answer();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
    expect(await state(call)).toEqual({ status: 'CONFIRMED', attention: 'CONFLICT', settledBy: 'evidence', sends: 1 });
    expect((await world.events(call)).at(-1)?.kind).toBe('late_answer_kept');
  });

  test('applied, after CONFIRMED by evidence: it agrees, and is kept as an event only', async () => {
    const { call, outcome, answer } = await zombie(once, (apply) => apply());
    await move(world.ledger.sql, moveOf(await world.row(call)));
    answer();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence' });
    expect((await world.events(call)).at(-1)).toEqual({ kind: 'late_answer_agrees', from: null, to: null, fence: 1 });
  });

  test('applied, while another claim is in flight: it is kept, and proves it when that one brings no answer', async () => {
    const { call, answer, outcome } = await zombie(idempotent, (apply) => apply());
    const hold = gate();
    shop.onSend = () => hold.wait().then(() => 'drop' as const);
    // Evidence cannot tell, so the reconciliation sends again with the same key.
    shop.onLook = () => ({ status: 503, body: {} });
    const other = await start();
    const step = other.reconcile(call);
    await hold.reached;
    expect(await state(call)).toMatchObject({ status: 'DISPATCHED', sends: 2 });
    answer();
    // The zombie waits for the new claim's outcome, which alone can settle now.
    await until(async () => (await world.events(call)).at(-1)?.kind === 'late_answer_kept');
    hold.open();
    expect((await step).status).toBe('UNKNOWN');
    expect((await other.reconcile(call)).status).toBe('CONFIRMED');
    expect(await state(call)).toEqual({ status: 'CONFIRMED', attention: null, settledBy: 'late_answer', sends: 2 });
    expect(await outcome).toMatchObject({ effectId: `effect:acme:run:${call.call}` });
  });

  test('refused, when it was sent more than once: nothing moves, since an earlier send may have been applied', async () => {
    const { call, answer, outcome } = await zombie(idempotent, () => ({ status: 422, body: {} }));
    shop.onLook = () => ({ status: 503, body: {} });
    shop.onSend = () => 'drop';
    const other = await start();
    await other.reconcile(call);
    expect(await state(call)).toMatchObject({ status: 'UNKNOWN', sends: 2 });
    answer();
    expect(await outcome).toMatchObject({ status: 'UNKNOWN' });
    expect(await state(call)).toEqual({ status: 'UNKNOWN', attention: null, settledBy: null, sends: 2 });
    expect((await world.events(call)).at(-1)?.kind).toBe('late_answer_kept');
  });

  test('a holder that loses the race with a decision judges the row as it is then', async () => {
    const { call, outcome, answer } = await zombie(once, (apply) => apply());
    const locked = world.connection();
    await locked`BEGIN`;
    await move(
      locked,
      moveOf(await world.row(call), { to: 'NOT_APPLIED', settledBy: 'decision', reasonCode: 'decided_not_applied' }),
    );
    answer();
    await world.untilBlocked();
    await locked`COMMIT`;
    expect(await outcome).toMatchObject({ status: 'CONFIRMED' });
    expect(await state(call)).toEqual({
      status: 'CONFIRMED',
      attention: 'CONFLICT',
      settledBy: 'late_answer',
      sends: 1,
    });
  });

  test('case 22: a claim that was given up is never sent again by time, only asked about', async () => {
    const { call, outcome, answer } = await zombie(once, (apply) => apply());
    const other = await start();
    shop.onLook = () => ({ status: 503, body: {} });
    for (let looks = 0; looks < 5; looks += 1) await other.reconcile(call);
    expect(await state(call)).toMatchObject({ status: 'UNKNOWN', sends: 1 });
    expect(shop.sends()).toBe(1);
    answer();
    await outcome;
  });
});

describe('5.3 the provider\u2019s own id is stored as soon as it is seen', () => {
  test('also when it comes after the claim was given up', async () => {
    const { call, outcome, answer } = await zombie(once, () => ({ status: 202, body: { order: { id: 'job-9' } } }));
    answer();
    expect(await outcome).toMatchObject({ status: 'UNKNOWN' });
    expect((await world.row(call)).providerRef).toBe('job-9');
    expect((await world.events(call)).at(-1)?.kind).toBe('late_facts_kept');
  });
});

describe('6.5 one artefact confirms one effect', () => {
  const taken = async (holder: Process) => {
    const first = callOf(once);
    shop.onSend = () => ({ status: 201, body: { order: { id: `same-${first.call}` } } });
    expect(await holder.dispatcher.dispatch(first)).toMatchObject({ status: 'CONFIRMED' });
    return `same-${first.call}`;
  };

  test('an answer with the artefact of another effect is no proof, and the caller is not told that it is', async () => {
    const holder = await start();
    await taken(holder);
    const second = callOf(once);
    expect(await holder.dispatcher.dispatch(second)).toMatchObject({ status: 'UNKNOWN', attention: 'CONFLICT' });
    expect(await state(second)).toMatchObject({ status: 'UNKNOWN', attention: 'CONFLICT' });
    expect(holder.unresolved).toContain(`effect:acme:run:${second.call}`);
  });

  test('a late one neither, and it is kept', async () => {
    const holder = await start();
    const id = await taken(holder);
    const { call, outcome, answer } = await zombie(once, () => ({ status: 201, body: { order: { id } } }));
    answer();
    expect(await outcome).toMatchObject({ status: 'UNKNOWN' });
    expect(await state(call)).toMatchObject({ status: 'UNKNOWN', attention: 'CONFLICT' });
    expect((await world.events(call)).at(-1)?.kind).toBe('late_facts_kept');
  });

  test('evidence neither: that is a CONFLICT', async () => {
    const holder = await start();
    const id = await taken(holder);
    const call = callOf(once);
    shop.onSend = () => 'drop';
    await holder.dispatcher.dispatch(call);
    shop.onLook = (ask) => ({ status: 200, body: { order: { id, key: ask.query.key, item: call.call } } });
    expect(await holder.reconcile(call)).toMatchObject({ status: 'UNKNOWN', attention: 'CONFLICT' });
  });

  test('nor a person, who is told so by a recorded refusal', async () => {
    const holder = await start();
    const id = await taken(holder);
    const call = callOf(once);
    shop.onSend = () => ({ status: 202, body: { order: { id } } });
    await holder.dispatcher.dispatch(call);
    const answer = await decideIn(world, ruling(await world.row(call))());
    expect(answer).toMatchObject({
      applied: false,
      status: 'UNKNOWN',
      refusal: `artefact ${id} already confirms another effect`,
    });
    expect((await world.events(call)).at(-1)?.kind).toBe('decision_refused');
  });

  test('another tenant, provider or account may have an artefact of the same name', async () => {
    const holder = await start();
    const id = await taken(holder);
    const { putTenant } = await import('../../../db/tenants.ts');
    await putTenant(world.ledger, { tenant: 'other' });
    shop.onSend = () => ({ status: 201, body: { order: { id } } });
    expect(await holder.dispatcher.dispatch(callOf(once, { tenant: 'other' }))).toMatchObject({ status: 'CONFIRMED' });
  });
});

async function until(check: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await check()); tries += 1) {
    if (tries > 500) throw new Error('it never came');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
