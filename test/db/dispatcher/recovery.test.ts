import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import { endRecovery, openRecovery } from '../../../db/forgotten.ts';
import { recoverLedger } from '../../../db/recovery.ts';
import { hashCall } from '../../../dispatcher/prepare.ts';
import { withdrawCall } from '../../../dispatcher/withdraw.ts';
import type { Call } from '../../../effects/effect.ts';
import type { ProviderAdapter } from '../../../providers/provider.ts';
import { callOf, type Process, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let find: Contract;
const processes: Process[] = [];
/** Short, so that the moment from which absence proves comes soon. */
const SOON: JsonObject = { send_by: '2s', in_flight_max: '20ms' };

beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  find = await world.publish(findOrder());
});
afterEach(async () => {
  await stopFleet();
  await endRecovery(world.ledger, 'test', 'the test is over');
  shop.reset();
});
afterAll(async () => {
  await world.close();
  await shop.close();
});

async function fleet(): Promise<Process> {
  const process = await startProcess(world, shop);
  processes.push(process);
  return process;
}

async function stopFleet(): Promise<void> {
  await Promise.all(processes.splice(0).map((each) => each.stop()));
}

let tools = 0;
function contractWith(execution: JsonObject, evidence: JsonObject | null = byKey(find)): Promise<Contract> {
  tools += 1;
  return world.publish(
    order({ ...SOON, ...(evidence === null ? {} : { evidence }), ...execution }, { tool: `shop.r${tools}` }),
  );
}

const recover = (since = new Date(Date.now() - 60_000)) =>
  recoverLedger(world.ledger, { since, actor: 'ann', reason: 'a standby was promoted' }, { watchMs: 800, batch: 2 });

/** As a restore leaves it: everything about the call is gone, and no rule of the database was asked. */
async function forget({ call }: Call): Promise<void> {
  await asRestore((sql) => sql`DELETE FROM holdfast.effects WHERE call_id = ${call}`);
  await asRestore((sql) => sql`DELETE FROM holdfast.effect_events WHERE call_id = ${call}`);
}

/** An older version of the row: claimed, and nothing known of what came after. */
async function restoreClaim({ call }: Call): Promise<void> {
  await asRestore(
    (sql) => sql`
      UPDATE holdfast.effects SET status = 'DISPATCHED', settled_at = NULL, settled_by = NULL, result = NULL,
        result_info = NULL, provider_ref = NULL, next_look_at = NULL, reason = NULL, reason_code = NULL
      WHERE call_id = ${call}`,
  );
}

async function asRestore(work: (sql: World['admin']) => PromiseLike<unknown>): Promise<void> {
  await world.admin.begin(async (sql) => {
    await sql`SET LOCAL session_replication_role = replica`;
    await work(sql as unknown as World['admin']);
  });
}

async function until(done: () => Promise<boolean>): Promise<void> {
  while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 50));
}

const status = async (call: Call) => (await world.row(call)).status;
const recorded = async ({ call }: Call) =>
  (
    await world.admin`
      SELECT kind, from_status, to_status, actor, reason FROM holdfast.effect_events
      WHERE call_id = ${call} AND kind = 'recovered' ORDER BY id`
  ).map((row) => ({ ...row }));

/** An UNKNOWN effect: the provider was asked (and did it, when `applied`), and no answer came. */
async function unanswered(process: Process, contract: Contract, applied: boolean): Promise<Call> {
  shop.onSend = (ask) => {
    if (applied) shop.apply(ask);
    return 'drop';
  };
  const call = callOf(contract);
  await process.dispatcher.dispatch(call);
  shop.onSend = (ask) => shop.apply(ask);
  expect(await status(call)).toBe('UNKNOWN');
  return call;
}

describe('2.7 a recovered ledger: what it shows as open', () => {
  test('while a process beats it is refused, and nothing is touched', async () => {
    const process = await fleet();
    const call = await unanswered(process, await contractWith({}), true);
    const before = await world.row(call);
    await expect(recover()).rejects.toMatchObject({ code: 'fleet_running' });
    expect({ ...(await world.row(call)), nowMs: 0 }).toEqual({ ...before, nowMs: 0 });
    expect(await openRecovery(world.ledger)).toBeUndefined();
  });

  test('claims become UNKNOWN, UNKNOWN is asked about at once, what is settled stays, and each is told', async () => {
    const process = await fleet();
    const contract = await contractWith({});
    const claims = [callOf(contract), callOf(contract), callOf(contract)];
    for (const call of claims) await process.dispatcher.dispatch(call);
    const open = await unanswered(process, contract, true);
    const confirmed = callOf(contract);
    await process.dispatcher.dispatch(confirmed);
    shop.onSend = () => ({ status: 422, body: {} });
    const refused = callOf(contract);
    await process.dispatcher.dispatch(refused);
    await stopFleet();
    for (const call of claims) await restoreClaim(call);
    const settled = await Promise.all([world.row(confirmed), world.row(refused)]);
    expect(settled.map((row) => row.status)).toEqual(['CONFIRMED', 'NOT_APPLIED']);
    const done = await recover();
    // Effects of the tests before are open as well.
    expect(done).toMatchObject({ released: 3 });
    const rows = await Promise.all([...claims, open].map((call) => world.row(call)));
    const at = Date.parse(done.recoveredAt);
    for (const row of rows) {
      expect(row.status).toBe('UNKNOWN');
      expect(row.sendByAtMs ?? 0).toBeGreaterThanOrEqual(at);
      expect(row.nextLookAtMs ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(row.nowMs);
    }
    const told = { kind: 'recovered', actor: 'ann', reason: 'a standby was promoted' };
    expect(await recorded(claims[0] as Call)).toEqual([{ ...told, from_status: 'DISPATCHED', to_status: 'UNKNOWN' }]);
    expect(await recorded(open)).toEqual([{ ...told, from_status: null, to_status: null }]);
    const after = await Promise.all([world.row(confirmed), world.row(refused)]);
    expect(after.map((row) => ({ ...row, nowMs: 0, holderAlive: false }))).toEqual(
      settled.map((row) => ({ ...row, nowMs: 0, holderAlive: false })),
    );
  });

  test('what was forgotten after the claim comes back from the provider, without a second send', async () => {
    const call = callOf(await contractWith({}));
    await (await fleet()).dispatcher.dispatch(call);
    await stopFleet();
    await restoreClaim(call);
    await recover();
    const process = await fleet();
    expect(await process.reconcile(call)).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence' });
    expect(shop.sends()).toBe(1);
  });

  test('absence proves nothing before the in-flight limit after the recovery: a late send may have been forgotten', async () => {
    const first = await fleet();
    const call = await unanswered(
      first,
      await contractWith({ in_flight_max: '1d' }, byKey(find, { retention: '30d' })),
      false,
    );
    await stopFleet();
    await asRestore(
      (sql) => sql`
        UPDATE holdfast.effects SET recorded_at = now() - interval '2 days', send_by_at = now() - interval '2 days'
        WHERE call_id = ${call.call}`,
    );
    await recover();
    const process = await fleet();
    expect(await process.reconcile(call)).toMatchObject({ status: 'UNKNOWN' });
    const [look] = await world.admin`SELECT verdict FROM holdfast.evidence WHERE call_id = ${call.call}`;
    expect(look?.verdict).toBe('ABSENT_TOO_EARLY');
  });

  test('a REPLAYABLE effect is not replayed any more: a later writer may have been forgotten', async () => {
    const execution = { effect: 'REPLAYABLE', resource: ['item/{args.item}'], exclusive_writer: true };
    const contract = await contractWith(execution, null);
    const first = await fleet();
    const [lost, kept] = [await unanswered(first, contract, false), callOf(contract)];
    await stopFleet();
    await recover();
    await endRecovery(world.ledger, 'ann', 'it is over');
    const process = await fleet();
    expect(await process.reconcile(lost)).toMatchObject({ status: 'UNKNOWN', attention: 'NEEDS_DECISION', sends: 1 });
    shop.onSend = () => 'drop';
    await process.dispatcher.dispatch(kept);
    shop.onSend = (ask) => shop.apply(ask);
    await until(async () => (await process.reconcile(kept)).status === 'CONFIRMED');
    expect((await world.row(kept)).sends).toBe(2);
  });

  test('an IDEMPOTENT effect is sent again by its key once what may have been forgotten is over', async () => {
    const contract = await contractWith(
      { effect: 'IDEMPOTENT', idempotency: { send_as: 'header Idempotency-Key', window: '1h' } },
      null,
    );
    const call = await unanswered(await fleet(), contract, false);
    await stopFleet();
    await recover();
    const process = await fleet();
    await until(async () => (await process.reconcile(call)).status === 'CONFIRMED');
    expect(new Set(shop.asks.map(({ key }) => key)).size).toBe(1);
  });

  test.each([
    ['actor', ' ', 'seen'],
    ['reason', 'ann', ''],
    ['reason', 'ann', 'x'.repeat(2_001)],
  ])('neither its begin nor its end is taken without who says so and why: %s', async (place, actor, reason) => {
    const refused = { code: 'bad_input', place, message: `a recovery names its ${place} in 1 to 2000 characters` };
    const since = new Date();
    await expect(recoverLedger(world.ledger, { since, actor, reason })).rejects.toMatchObject(refused);
    await expect(endRecovery(world.ledger, actor, reason)).rejects.toMatchObject(refused);
  });

  test('a time that is yet to come is refused', async () => {
    await expect(recover(new Date(Date.now() + 60_000))).rejects.toMatchObject({ code: 'bad_input', place: 'since' });
  });
});

describe('2.7 a recovered ledger: calls that it has forgotten', () => {
  test.each(['NON_RETRYABLE', 'UNKNOWN'])(
    'a %s call that the provider has is recorded and settled by evidence, not sent again',
    async (effect) => {
      const call = callOf(await contractWith({ effect }));
      await (await fleet()).dispatcher.dispatch(call);
      await stopFleet();
      await forget(call);
      await recover();
      const process = await fleet();
      expect(await process.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
      expect(await process.reconcile(call)).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence', sends: 1 });
      expect(await process.dispatcher.dispatch(call)).toMatchObject({ status: 'CONFIRMED' });
      expect(shop.sends()).toBe(1);
      expect(await recorded(call)).toMatchObject([{ from_status: 'DISPATCHED', to_status: 'UNKNOWN' }]);
    },
  );

  test('a new call waits until absence proves that nothing is under way, and is then sent once', async () => {
    const contract = await contractWith({ in_flight_max: '1s' });
    await recover();
    const process = await fleet();
    const call = callOf(contract);
    await expect(process.dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'recovery_open', retryable: true });
    expect(shop.sends()).toBe(0);
    await until(() =>
      process.dispatcher.dispatch(call).then(
        ({ status: now }) => now === 'CONFIRMED',
        () => false,
      ),
    );
    expect(shop.sends()).toBe(1);
  });

  test('without evidence it is not sent before a person says that the recovery is over', async () => {
    const call = callOf(await contractWith({}, null));
    await recover();
    const held = await fleet();
    await expect(held.dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'recovery_open' });
    await expect(held.dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'recovery_open' });
    expect(shop.sends()).toBe(0);
    expect(await endRecovery(world.ledger, 'ann', 'every run has ended')).toBe(true);
    expect(await endRecovery(world.ledger, 'ann', 'every run has ended')).toBe(false);
    const process = await fleet();
    expect(await process.dispatcher.dispatch(call)).toMatchObject({ status: 'CONFIRMED' });
  });

  test('it is not withdrawn either: "not sent" would be more than anybody knows', async () => {
    const [call, told] = [callOf(await contractWith({})), callOf(await contractWith({}))];
    await (await fleet()).dispatcher.dispatch(told);
    await stopFleet();
    await recover();
    const { deps } = await fleet();
    const withdraw = (each: Call) =>
      withdrawCall(deps, each, hashCall(each).argsHash, { code: 'withdrawn', message: 'given up', actor: 'test' });
    await expect(withdraw(call)).rejects.toMatchObject({ code: 'recovery_open' });
    expect(await withdraw(told)).toMatchObject({ status: 'CONFIRMED' });
  });

  test('nor is it refused for good by what the policy says now', async () => {
    const policy = { name: 'clerk', account: 'acct-1' };
    await putCredential(world.ledger, { ...policy, version: 'v1', grants: ['**'] });
    const call = callOf(await contractWith({ credential: 'clerk', capabilities: ['order:{tenant}'] }));
    await (await fleet()).dispatcher.dispatch(call);
    await stopFleet();
    await forget(call);
    await recover();
    await putCredential(world.ledger, { ...policy, version: 'v2', grants: [] });
    await expect((await fleet()).dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'recovery_open' });
    expect(await world.admin`SELECT FROM holdfast.effects WHERE call_id = ${call.call}`).toHaveLength(0);
  });

  test('nor because the live definition has drifted', async () => {
    const contract = await contractWith({});
    const call = callOf(contract);
    await (await fleet()).dispatcher.dispatch(call);
    await stopFleet();
    await forget(call);
    await recover();
    const process = await fleet();
    const provider = process.dispatcher.deps.providers.get('shop') as ProviderAdapter;
    Object.assign(provider, { verify: async () => ({ kind: 'drifted', why: 'another schema' }) });
    await expect(process.dispatcher.dispatch(call)).rejects.toMatchObject({ code: 'recovery_open' });
    expect(await world.admin`SELECT FROM holdfast.effects WHERE call_id = ${call.call}`).toHaveLength(0);
  });

  test('a row decides as ever, and PURE calls and IDEMPOTENT ones within their key window go on', async () => {
    const window = { send_as: 'header Idempotency-Key', window: '1h' };
    const idempotent = await contractWith({ effect: 'IDEMPOTENT', idempotency: window }, null);
    const call = callOf(await contractWith({}, null));
    await (await fleet()).dispatcher.dispatch(call);
    await stopFleet();
    await recover();
    const process = await fleet();
    const calls = [call, callOf(idempotent), callOf(find, { args: { key: shop.orders[0]?.key ?? '' } })];
    const outcomes = await Promise.all(calls.map((each) => process.dispatcher.dispatch(each)));
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['CONFIRMED', 'CONFIRMED', 'CONFIRMED']);
    expect(shop.sends()).toBe(2);
  });

  test('an IDEMPOTENT call whose key the provider may know no longer is held like any other', async () => {
    const window = { send_as: 'header Idempotency-Key', window: '1h' };
    const contract = await contractWith({ effect: 'IDEMPOTENT', idempotency: window }, null);
    await recover(new Date(Date.now() - 2 * 3_600_000));
    const process = await fleet();
    await expect(process.dispatcher.dispatch(callOf(contract))).rejects.toMatchObject({ code: 'recovery_open' });
    expect(shop.sends()).toBe(0);
  });
});
