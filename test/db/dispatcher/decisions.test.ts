import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { endLease, fenceLapsed, planLook, settleTroubled } from '../../../db/statements/index.ts';
import type { EffectId } from '../../../effects/effect.ts';
import { callOf, decideIn, type Process, ruling, startProcess } from '../protocol/fleet.ts';
import { settlement } from '../protocol/moves.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { admission, admitOne, byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let one: Process;
let contract: Contract;
let slow: Contract;
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find), send_by: '1ms', in_flight_max: '0ms' }));
  slow = await world.publish(order({ evidence: byKey(find), in_flight_max: '1h' }, { tool: 'shop.slow' }));
  one = await startProcess(world, shop);
});
afterEach(() => shop.reset());
afterAll(async () => {
  await one.stop();
  await world.close();
  await shop.close();
});

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** An UNKNOWN effect of that contract, made by the statements themselves. */
async function unknown(of: Contract = contract): Promise<EffectId> {
  const { sendByMs, inFlightMaxMs } = of.execution;
  const a = admission(of, one.dispatcher.lease.processId, { sendByMs, inFlightMaxMs });
  await admitOne(world.ledger.sql, a);
  await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN' }));
  if (of === contract) await sleep(60);
  return a.id;
}

async function confirmed(): Promise<EffectId> {
  const id = await unknown();
  await decideIn(world, ruling(await world.row(id))());
  return id;
}

const state = async (id: EffectId) => {
  const { status, settledBy, attention, reasonCode } = await world.row(id);
  return { status, settledBy, attention, reasonCode };
};
const recorded = async (decisionId: string) =>
  (
    await world.admin`
      SELECT run_id, call_id, ruling, actor, applied, refusal FROM holdfast.decisions WHERE decision_id = ${decisionId}`
  ).map((row) => ({ ...row }));

describe('7 decisions', () => {
  test.each([
    ['confirm', 'CONFIRMED', null],
    ['not_applied', 'NOT_APPLIED', 'decided_not_applied'],
  ] as const)('%s settles an UNKNOWN effect, with its event and its own row', async (kind, status, reasonCode) => {
    const id = await unknown();
    const d = ruling(await world.row(id))({ ruling: kind });
    expect(await decideIn(world, d)).toEqual({
      effectId: `effect:acme:run:${id.call}`,
      decisionId: d.decisionId,
      applied: true,
      repeated: false,
      refusal: null,
      status,
      fence: 1,
    });
    expect(await state(id)).toEqual({ status, settledBy: 'decision', attention: null, reasonCode });
    expect((await world.events(id)).at(-1)).toEqual({ kind: 'decision', from: 'UNKNOWN', to: status, fence: 1 });
    expect(await recorded(d.decisionId)).toEqual([
      { run_id: 'run', call_id: id.call, ruling: kind, actor: 'ann', applied: true, refusal: null },
    ]);
  });

  test('the expected version is (status, fence): an older one is refused and kept as an event', async () => {
    const id = await unknown();
    const decide = ruling(await world.row(id));
    expect(await decideIn(world, decide({ expected: { status: 'UNKNOWN', fence: 0 } }))).toMatchObject({
      applied: false,
      refusal: 'expected UNKNOWN with fence 0, but the effect is UNKNOWN with fence 1',
      status: 'UNKNOWN',
    });
    expect(
      await decideIn(world, decide({ expected: { status: 'DISPATCHED', fence: 1 }, decisionId: 'older' })),
    ).toMatchObject({ applied: false, status: 'UNKNOWN' });
    expect((await world.events(id)).map(({ kind }) => kind)).toEqual([
      'settled',
      'decision_refused',
      'decision_refused',
    ]);
  });

  test('looks never move the version', async () => {
    const id = await unknown();
    const decide = ruling(await world.row(id));
    await one.reconcile(id).catch(() => undefined);
    await planLook(world.ledger.sql, id, 1, { inMs: 5, attention: 'NEEDS_DECISION', reason: 'x' });
    const row = await world.row(id);
    // The look found nothing at the honest provider; only when that settled it is the version another.
    if (row.status === 'UNKNOWN') expect(await decideIn(world, decide())).toMatchObject({ applied: true });
    const fresh = await unknown(slow);
    const early = ruling(await world.row(fresh));
    await one.reconcile(fresh);
    await planLook(world.ledger.sql, fresh, 1, { inMs: 5, attention: 'NEEDS_DECISION', reason: 'x' });
    expect(await decideIn(world, early())).toMatchObject({ applied: true, status: 'CONFIRMED' });
  });

  test('a repeat of a decision id gets the first answer, whatever happened since', async () => {
    const id = await unknown();
    const d = ruling(await world.row(id))();
    const first = await decideIn(world, d);
    const version = await world.row(id);
    await decideIn(world, ruling(version)({ ruling: 'not_applied', correction: true }));
    const again = await decideIn(world, d);
    expect(again).toEqual({ ...first, repeated: true, status: 'NOT_APPLIED' });
    expect((await world.events(id)).filter(({ kind }) => kind === 'decision').length).toBe(2);
  });

  test('a repeat of a refused decision is refused as at first, though it would do now', async () => {
    const id = await unknown();
    const d = ruling(await world.row(id))({
      expected: { status: 'CONFIRMED', fence: 1 },
      ruling: 'not_applied',
      correction: true,
    });
    const first = await decideIn(world, d);
    await decideIn(world, ruling(await world.row(id))());
    expect(await decideIn(world, d)).toEqual({ ...first, repeated: true, status: 'CONFIRMED' });
    expect((await state(id)).status).toBe('CONFIRMED');
  });

  test('of 8 racing repeats of one decision, one is applied and all hear the same', async () => {
    const id = await unknown();
    const d = ruling(await world.row(id))();
    const answers = await Promise.all(Array.from({ length: 8 }, () => decideIn(world, d)));
    expect(answers.map(({ applied, refusal }) => ({ applied, refusal }))).toEqual(
      Array(8).fill({ applied: true, refusal: null }),
    );
    expect((await world.events(id)).filter(({ kind }) => kind.startsWith('decision')).length).toBe(1);
  });

  test('of two people who rule at once, one wins and the other is an event', async () => {
    const id = await unknown();
    const decide = ruling(await world.row(id));
    const answers = await Promise.all([
      decideIn(world, decide({ decisionId: `a-${id.call}` })),
      decideIn(world, decide({ decisionId: `b-${id.call}`, ruling: 'not_applied' })),
    ]);
    expect(answers.map(({ applied }) => applied).sort()).toEqual([false, true]);
    expect((await world.events(id)).map(({ kind }) => kind).sort()).toEqual([
      'decision',
      'decision_refused',
      'settled',
    ]);
  });

  test('one decision id rules one effect only, also when both are tried at once', async () => {
    const [a, b] = [await unknown(), await unknown()];
    const [first, second] = [await world.row(a), await world.row(b)];
    const decisionId = `both-${a.call}`;
    const told = await Promise.all(
      [first, second].map((row) =>
        decideIn(world, ruling(row)({ decisionId })).then(
          ({ applied }) => applied,
          (error: { code: string }) => error.code,
        ),
      ),
    );
    expect(told.sort()).toEqual(['bad_input', true].sort());
    const statuses = [(await state(a)).status, (await state(b)).status].sort();
    expect(statuses).toEqual(['CONFIRMED', 'UNKNOWN']);
  });

  test.each([
    ['actor', { actor: ' ' }],
    ['reason', { reason: '' }],
    ['decision id', { decisionId: 'a b' }],
  ])('a decision without a proper %s is bad input', async (_, change) => {
    const id = await unknown();
    await expect(decideIn(world, ruling(await world.row(id))(change))).rejects.toMatchObject({ code: 'bad_input' });
    expect((await state(id)).status).toBe('UNKNOWN');
  });
});

describe('7 decisions about a claim', () => {
  async function claimed(ttlMs: number): Promise<{ id: EffectId; processId: string }> {
    const processId = await world.lease(ttlMs);
    const a = admission(contract, processId, { sendByMs: 1, inFlightMaxMs: 0 });
    await admitOne(world.ledger.sql, a);
    return { id: a.id, processId };
  }

  test('while its holder lives it is refused: the holder may still answer', async () => {
    const { id } = await claimed(60_000);
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({
      applied: false,
      status: 'DISPATCHED',
      refusal: 'the holder is alive and may still answer',
    });
  });

  test('a lapsed holder is watched for one ttl and fenced first', async () => {
    const { id, processId } = await claimed(200);
    await sleep(250);
    const started = performance.now();
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({ applied: true, status: 'CONFIRMED' });
    expect(performance.now() - started).toBeGreaterThanOrEqual(195);
    expect((await world.events(id)).map(({ kind, to }) => [kind, to])).toEqual([
      ['fenced', 'UNKNOWN'],
      ['decision', 'CONFIRMED'],
    ]);
    const [lease] =
      await world.admin`SELECT fenced_at IS NOT NULL AS fenced FROM holdfast.processes WHERE process_id = ${processId}`;
    expect(lease).toEqual({ fenced: true });
  });

  test('a holder that beats again while it is watched is spared, and the decision refused', async () => {
    const { id, processId } = await claimed(300);
    await sleep(350);
    const deciding = decideIn(world, ruling(await world.row(id))());
    await sleep(100);
    await world.admin`UPDATE holdfast.processes SET beat_at = clock_timestamp() + interval '1 h' WHERE process_id = ${processId}`;
    expect(await deciding).toMatchObject({ applied: false, status: 'DISPATCHED' });
  });

  test.each(['fenced', 'ended'])('a claim of a process that is %s already is moved first too', async (how) => {
    const { id, processId } = await claimed(50);
    await sleep(60);
    if (how === 'fenced') await fenceLapsed(world.ledger.sql, processId);
    else await endLease(world.ledger.sql, processId);
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({ applied: true, status: 'CONFIRMED' });
  });
});

describe('7 what a person may rule', () => {
  test('"not applied" before settle_at needs force', async () => {
    const id = await unknown(slow);
    const decide = ruling(await world.row(id));
    expect(await decideIn(world, decide({ ruling: 'not_applied' }))).toMatchObject({
      applied: false,
      refusal: expect.stringContaining('has to be forced'),
    });
    expect(
      await decideIn(world, decide({ ruling: 'not_applied', force: true, decisionId: `f-${id.call}` })),
    ).toMatchObject({
      applied: true,
      status: 'NOT_APPLIED',
    });
    const [event] = await world.admin`
      SELECT data FROM holdfast.effect_events WHERE call_id = ${id.call} AND kind = 'decision'`;
    expect(event?.data).toEqual({ decisionId: `f-${id.call}`, source: 'test', force: true, correction: false });
  });

  test('"confirm" needs no waiting', async () => {
    const id = await unknown(slow);
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({ applied: true, status: 'CONFIRMED' });
  });

  test('settle_at counts the lag of the recorded contract and the clock margin', async () => {
    const id = await unknown();
    const d = ruling(await world.row(id))({ ruling: 'not_applied' });
    expect(await decideIn(world, d, { clockMarginMs: 3_600_000 })).toMatchObject({ applied: false });
  });

  test('CONFIRMED becomes NOT_APPLIED only by a correction, and a person is called', async () => {
    const id = await confirmed();
    const decide = ruling(await world.row(id));
    expect(await decideIn(world, decide({ ruling: 'not_applied' }))).toMatchObject({
      applied: false,
      status: 'CONFIRMED',
    });
    expect(
      await decideIn(world, decide({ ruling: 'not_applied', correction: true, decisionId: `c-${id.call}` })),
    ).toMatchObject({ applied: true, status: 'NOT_APPLIED' });
    expect(await state(id)).toMatchObject({ status: 'NOT_APPLIED', attention: 'CONFLICT' });
  });

  test('NOT_APPLIED becomes CONFIRMED by decision without an alarm', async () => {
    const id = await unknown();
    await decideIn(world, ruling(await world.row(id))({ ruling: 'not_applied' }));
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({ applied: true, status: 'CONFIRMED' });
    expect(await state(id)).toMatchObject({ status: 'CONFIRMED', attention: null });
  });

  test('what is so already cannot be ruled again', async () => {
    const id = await confirmed();
    expect(await decideIn(world, ruling(await world.row(id))())).toMatchObject({ applied: false, status: 'CONFIRMED' });
  });

  test('nobody rules about an effect that is not there', async () => {
    const d = ruling({ id: { tenant: 'acme', run: 'run', call: 'nowhere' }, status: 'UNKNOWN', fence: 1 })();
    await expect(decideIn(world, d)).rejects.toMatchObject({ code: 'effect_not_found' });
  });

  test('a decision needs no worker: the process that sent is gone, and nobody else runs', async () => {
    const call = callOf(slow);
    const other = await startProcess(world, shop);
    shop.onSend = () => 'drop';
    await other.dispatcher.dispatch(call);
    await other.stop();
    expect(await decideIn(world, ruling(await world.row(call))())).toMatchObject({
      applied: true,
      status: 'CONFIRMED',
    });
  });
});
