import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { Holdfast } from '../../../client/holdfast.ts';
import type { Contract } from '../../../contracts/contract.ts';
import type { EffectId } from '../../../effects/effect.ts';
import { httpProvider } from '../../../providers/http.ts';
import type { ProviderAdapter, SendInput } from '../../../providers/provider.ts';
import { callOf, type Process, type ProcessOptions, startProcess } from '../protocol/fleet.ts';
import { gate, openShop, type Shop } from '../protocol/shop.ts';
import { byKey, findOrder, openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let contract: Contract;
let hasty: Contract;
const running: Process[] = [];
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  const find = await world.publish(findOrder());
  contract = await world.publish(order({ evidence: byKey(find) }));
  hasty = await world.publish(order({ evidence: byKey(find), send_by: '150ms' }, { tool: 'shop.hasty' }));
});
afterEach(async () => {
  vi.useRealTimers();
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

/** The real adapter, to which something happens between the claim and the first byte. */
function interrupted(before: (input: SendInput) => SendInput | Promise<SendInput>): ProviderAdapter {
  const http = httpProvider({ name: 'shop', baseUrl: shop.url });
  return {
    ...http,
    // The PURE look-ups pass.
    send: async (input) => http.send(input.contract.execution.effect === 'PURE' ? input : await before(input)),
  };
}

const jumpClock = (ms: number) => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms });
};
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const state = async (id: EffectId) => {
  const { status, reasonCode, sentLate, sends } = await world.row(id);
  return { status, reasonCode, sentLate, sends };
};
const SILENT = { status: 'NOT_APPLIED', reasonCode: 'sent_too_late', sentLate: false, sends: 1 };

describe('3.1 and 3.2 send-by', () => {
  test('late by the monotonic clock alone, as when the wall clock was set back: the holder stays silent', async () => {
    const holder = await start({ provider: interrupted((input) => sleep(200).then(() => input)) });
    const call = callOf(hasty);
    // The wall clock stands still.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'NOT_APPLIED' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 0]);
  });

  test('late by the wall clock alone, as after a suspended machine: the holder stays silent', async () => {
    const holder = await start({
      provider: interrupted((input) => {
        jumpClock(60_000);
        return input;
      }),
    });
    const call = callOf(contract);
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'NOT_APPLIED' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 0]);
  });

  test('the local deadline counts from before the claim was issued, however long the claim took', async () => {
    const holder = await start();
    await holder.dispatcher.dispatch(callOf(contract));
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`SELECT FROM holdfast.processes WHERE process_id = ${holder.dispatcher.lease.processId} FOR UPDATE`;
    const call = callOf(hasty);
    const outcome = holder.dispatcher.dispatch(call);
    await world.untilBlocked();
    await sleep(200);
    await owner`COMMIT`;
    owner.release();
    expect(await outcome).toMatchObject({ status: 'NOT_APPLIED' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 1]);
  });

  test('the last good beat is older than the ttl: the holder stays silent', async () => {
    let owner: Awaited<ReturnType<World['admin']['reserve']>> | undefined;
    const holder: Process = await start({
      provider: interrupted(async (input) => {
        owner = await world.admin.reserve();
        await owner`BEGIN`;
        await owner`SELECT FROM holdfast.processes WHERE process_id = ${holder.dispatcher.lease.processId} FOR NO KEY UPDATE`;
        while (holder.dispatcher.lease.isFresh()) await sleep(20);
        return input;
      }),
    });
    const call = callOf(contract);
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'NOT_APPLIED' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 0]);
    await owner?.unsafe('COMMIT');
    owner?.release();
  });

  test('the lease of the claim was fenced, and the process has a new one that is fresh: the holder stays silent', async () => {
    const holder: Process = await start({
      provider: interrupted(async (input) => {
        const { processId } = holder.dispatcher.lease;
        await world.admin`UPDATE holdfast.processes SET fenced_at = now() WHERE process_id = ${processId}`;
        while (holder.dispatcher.lease.processId === processId || !holder.dispatcher.lease.isFresh()) await sleep(10);
        return input;
      }),
    });
    const call = callOf(contract);
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'NOT_APPLIED' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 0]);
  });

  test('a holder that was given up and then stays silent settles NOT_APPLIED: no byte left', async () => {
    const holder = await start({ provider: interrupted((input) => sleep(200).then(() => input)) });
    const call = callOf(hasty);
    const outcome = holder.dispatcher.dispatch(call);
    while ((await world.admin`SELECT FROM holdfast.effects WHERE call_id = ${call.call}`).length === 0);
    await world.admin`UPDATE holdfast.effects SET status = 'UNKNOWN', next_look_at = now() WHERE call_id = ${call.call}`;
    expect(await outcome).toMatchObject({ status: 'NOT_APPLIED', settledBy: 'late_answer' });
    expect([await state(call), shop.sends()]).toEqual([SILENT, 0]);
  });

  test('late only after the write: the answer is not waited for, and absence proves nothing any more', async () => {
    shop.onSend = () => sleep(300).then(() => ({ status: 201, body: { order: { id: 'late' } } }));
    const holder = await start({
      provider: interrupted((input) => ({
        ...input,
        // Paused between the check and the write.
        gate: () => {
          const verdict = input.gate();
          jumpClock(60_000);
          return verdict;
        },
      })),
    });
    const call = callOf(contract);
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(await state(call)).toEqual({ status: 'UNKNOWN', reasonCode: null, sentLate: true, sends: 1 });
    expect((await world.events(call)).map(({ kind }) => kind).sort()).toEqual(['sent_late', 'settled']);
    vi.useRealTimers();
    await world.admin`UPDATE holdfast.effects SET in_flight_max_ms = 0 WHERE call_id = ${call.call}`;
    while ((await world.row(call)).nowMs < ((await world.row(call)).sendByAtMs ?? 0) + 200) await sleep(50);
    const looked = await holder.reconcile(call);
    expect([looked.status, looked.reason]).toEqual(['UNKNOWN', 'bytes left after send-by, so absence proves nothing']);
  });

  test('the mark reaches the row also when its claim was given up and the ledger was away at the write', async () => {
    shop.onSend = () => new Promise(() => {});
    const call = callOf(contract);
    const holder: Process = await start({
      provider: interrupted(async (input) => {
        await world.admin`UPDATE holdfast.effects SET status = 'UNKNOWN', next_look_at = now() WHERE call_id = ${call.call}`;
        return {
          ...input,
          gate: () => {
            const verdict = input.gate();
            jumpClock(60_000);
            return verdict;
          },
          wrote: () => {
            // The mark of its own is lost, so nobody else knows of it before the settlement.
            const { sql } = holder.ledger;
            (holder.ledger as { sql: unknown }).sql = () => Promise.reject(new Error('away'));
            const verdict = input.wrote();
            (holder.ledger as { sql: unknown }).sql = sql;
            return verdict;
          },
        };
      }),
    });
    expect(await holder.dispatcher.dispatch(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(await state(call)).toMatchObject({ status: 'UNKNOWN', sentLate: true });
    expect((await world.events(call)).map(({ kind }) => kind)).toEqual(['late_facts_kept']);
  });
});

describe('3.4 a flight belongs to the process', () => {
  test('a second attempt in the same process joins the flight: nothing is prepared or claimed for it', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    let prepared = 0;
    const { secrets } = holder.deps;
    const { resolve } = secrets;
    (secrets as { resolve: typeof resolve }).resolve = (name) => {
      prepared += 1;
      return resolve(name);
    };
    const call = callOf(contract);
    const attempts = [holder.dispatcher.dispatch(call), holder.dispatcher.dispatch(call)];
    await hold.reached;
    attempts.push(holder.dispatcher.dispatch(call));
    hold.open();
    const [first, second, third] = await Promise.all(attempts);
    expect([second, third]).toEqual([first, first]);
    expect([prepared, shop.sends()]).toEqual([1, 1]);
  });

  test('a caller that stops waiting aborts neither send nor settle', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    const client = new Holdfast({ ledger: holder.ledger, dispatcher: holder.dispatcher });
    const call = callOf(contract);
    const told = await client.dispatch({ ...call, lane: 'direct', waitMs: 100 });
    expect(told).toMatchObject({ status: 'UNKNOWN', message: expect.stringContaining('in flight') });
    hold.open();
    expect(await client.outcome(call, 5_000)).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(shop.sends()).toBe(1);
  });

  test('an attempt in another process waits for a living holder, past send-by and without asking the provider', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const [holder, other] = [await start(), await start()];
    const call = callOf(hasty);
    const first = holder.dispatcher.dispatch(call);
    await hold.reached;
    const second = other.dispatcher.dispatch(call);
    await sleep(300);
    expect([await state(call), other.unresolved]).toEqual([
      { status: 'DISPATCHED', reasonCode: null, sentLate: false, sends: 1 },
      [],
    ]);
    hold.open();
    expect(await second).toEqual(await first);
    expect(shop.asks.length).toBe(1);
  });

  test('past the claim\u2019s deadline it is UNKNOWN, though the holder lives; the holder\u2019s answer still settles it', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    const watcher = await start({ settings: { scanMs: 30 } });
    const call = callOf(contract);
    const first = holder.dispatcher.dispatch(call);
    await hold.reached;
    const second = watcher.dispatcher.dispatch(call);
    await world.admin`UPDATE holdfast.effects SET deadline_at = now() - interval '1 s' WHERE call_id = ${call.call}`;
    expect(await second).toMatchObject({ status: 'UNKNOWN' });
    hold.open();
    expect(await first).toMatchObject({ status: 'CONFIRMED', settledBy: 'late_answer' });
    expect(shop.sends()).toBe(1);
  });

  test('with a lapsed lease it is UNKNOWN before the deadline', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    const watcher = await start({ settings: { scanMs: 30 } });
    const call = callOf(contract);
    const first = holder.dispatcher.dispatch(call);
    await hold.reached;
    const second = watcher.dispatcher.dispatch(call);
    const { processId } = holder.dispatcher.lease;
    // Beats do not get through for longer than a ttl.
    await world.admin`UPDATE holdfast.processes SET beat_at = now() - interval '1 h', ttl_ms = 1 WHERE process_id = ${processId}`;
    expect(await second).toMatchObject({ status: 'UNKNOWN' });
    expect((await world.events(call)).map(({ kind }) => kind)).toEqual(['fenced']);
    hold.open();
    expect(await first).toMatchObject({ status: 'CONFIRMED', settledBy: 'late_answer' });
    // Its next beat tells it that it was fenced.
    while (holder.dispatcher.lease.processId === processId) await sleep(20);
  });
});

describe('3.5 shutdown (case 7, case 19)', () => {
  const leaseOf = async (processId: string) =>
    (
      await world.admin`SELECT ended_at IS NOT NULL AS ended FROM holdfast.processes WHERE process_id = ${processId}`
    )[0];

  test('it waits for the answer, settles it, and only then ends the lease', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    const { processId } = holder.dispatcher.lease;
    const call = callOf(contract);
    const outcome = holder.dispatcher.dispatch(call);
    await hold.reached;
    const stopping = holder.stop();
    await sleep(100);
    expect(await leaseOf(processId)).toEqual({ ended: false });
    hold.open();
    await stopping;
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
    expect(await leaseOf(processId)).toEqual({ ended: true });
  });

  test('past its limit it settles the rest UNKNOWN, never "cancelled"', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start({ settings: { shutdownMs: 100 } });
    const call = callOf(contract);
    const outcome = holder.dispatcher.dispatch(call);
    await hold.reached;
    await holder.dispatcher.stop();
    expect(await state(call)).toMatchObject({ status: 'UNKNOWN' });
    expect(holder.unresolved).toContain(`effect:acme:run:${call.call}`);
    hold.open();
    expect(await outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'late_answer' });
  });

  test('it claims nothing more', async () => {
    const hold = gate();
    shop.onSend = async (ask) => {
      await hold.wait();
      return shop.apply(ask);
    };
    const holder = await start();
    const first = holder.dispatcher.dispatch(callOf(contract));
    await hold.reached;
    const stopping = holder.stop();
    const next = callOf(contract);
    expect(await holder.dispatcher.dispatch(next).catch((error: { code: string }) => error.code)).toBe('busy');
    expect(holder.dispatcher.canTake('shop')).toBe(false);
    hold.open();
    await Promise.all([first, stopping]);
    expect((await world.admin`SELECT FROM holdfast.effects WHERE call_id = ${next.call}`).length).toBe(0);
  });
});
