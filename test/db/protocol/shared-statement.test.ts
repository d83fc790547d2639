import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import { constraintOf, isConnectionDoubt } from '../../../db/errors.ts';
import { type Admission, admit, readEffect, type Settlement, settleConfirmed } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import { admission, admitOne, newId, openWorld, order, type World } from './world.ts';

let world: World;
let contract: Contract;
let process: string;
beforeAll(async () => {
  world = await openWorld();
  contract = await world.publish(order());
  process = await world.lease();
});
afterAll(() => world.close());

/** Text that every quoting on the way has to leave alone. */
const AWKWARD = `{"a":"'\\"\\\\ \\u0000 {},NULL $1 ß 🦉\\n"}`;

function answerTo(a: Admission, more: Partial<Settlement> = {}): Settlement {
  return {
    id: a.id,
    nonce: a.nonce,
    to: 'CONFIRMED',
    result: AWKWARD,
    resultInfo: { parts: ['x', { y: null }] },
    providerRef: randomUUID(),
    reasonCode: null,
    reason: null,
    attention: null,
    sentLate: false,
    lookInMs: 0,
    actor: process,
    ...more,
  };
}

async function claimed(count: number): Promise<Admission[]> {
  const all = Array.from({ length: count }, () => admission(contract, process));
  expect((await admit(world.ledger.sql, all)).size).toBe(count);
  return all;
}

const columns = (id: Admission['id']) =>
  world.admin`SELECT * FROM holdfast.effects WHERE tenant = ${id.tenant} AND run_id = ${id.run} AND call_id = ${id.call}`;

describe('2.2 claims that share a statement', () => {
  test('each stands or falls with its own row', async () => {
    await putTenant(world.ledger, { tenant: 'asleep', state: 'suspended' });
    await putCredential(world.ledger, { name: 'turned', version: 'v2', account: 'acct-1', grants: ['**'] });
    const retiring = await world.publish(order({}, { tool: 'shop.retiring' }));
    await world.admin`UPDATE holdfast.contracts SET state = 'retiring' WHERE tool = 'shop.retiring'`;
    const fenced = await world.lease();
    await world.admin`UPDATE holdfast.processes SET fenced_at = clock_timestamp() WHERE process_id = ${fenced}`;
    const recorded = admission(contract, process);
    await admitOne(world.ledger.sql, recorded);

    const good = admission(contract, process);
    const other = await world.lease();
    const all: Record<string, Admission> = {
      good,
      ofAnotherProcess: admission(contract, other),
      retiring: admission(retiring, process),
      oldCredential: admission(contract, process, { credential: 'turned', credentialVersion: 'v1' }),
      suspendedTenant: admission(contract, process, { id: newId({ tenant: 'asleep' }) }),
      tooLate: admission(contract, process, { notAfter: '2020-01-01T00:00:00.000Z' }),
      inTime: admission(contract, process, { notAfter: '2120-01-01T00:00:00.000Z' }),
      fenced: admission(contract, fenced),
      known: admission(contract, process, { id: recorded.id }),
      twin: admission(contract, process, { argsHash: good.argsHash }),
      sameCall: admission(contract, process, { id: good.id }),
      good2: admission(contract, process),
    };
    const won = await admit(world.ledger.sql, Object.values(all));
    expect(Object.keys(all).filter((name) => won.has(all[name]?.nonce ?? ''))).toEqual([
      'good',
      'ofAnotherProcess',
      'inTime',
      'good2',
    ]);
    for (const [name, a] of Object.entries(all)) {
      const row = await readEffect(world.ledger.sql, a.id);
      expect([name, row?.nonce === a.nonce]).toEqual([name, won.has(a.nonce)]);
    }
  });

  test('a row is the same whether its claim came alone or with others', async () => {
    const more = { args: AWKWARD, capabilities: ['a:{b},"c"', "d'\\"], stateBefore: AWKWARD, credential: null };
    const alone = admission(contract, process, { ...more, credentialVersion: null, account: null });
    const shared = admission(contract, process, { ...more, credentialVersion: null, account: null });
    await admitOne(world.ledger.sql, alone);
    await admit(world.ledger.sql, [shared, admission(contract, process)]);
    const own = ['recorded_at', 'claimed_at', 'send_by_at', 'deadline_at', 'nonce', 'run_id', 'call_id', 'effect_key'];
    const rest = async (a: Admission) => {
      const [row] = await columns(a.id);
      return Object.fromEntries(
        Object.entries(row ?? {}).filter(([name]) => ![...own, 'args_hash', 'request_hash'].includes(name)),
      );
    };
    expect(await rest(shared)).toEqual(await rest(alone));
    expect(await rest(shared)).toMatchObject({ args: AWKWARD, state_before: AWKWARD, capabilities: more.capabilities });
    const [row] = await columns(shared.id);
    expect(row?.args_hash).toEqual(shared.argsHash);
  });

  test('claims that meet in this process stand or fall each by its own row', async () => {
    const id = newId();
    const claims = Array.from({ length: 12 }, (_, n) => admission(contract, process, n % 2 === 0 ? { id } : {}));
    const won = await Promise.all(claims.map((a) => world.ledger.hot.admit(a)));
    const rows = await Promise.all(claims.map((a) => readEffect(world.ledger.sql, a.id)));
    expect(won).toEqual(rows.map((row, n) => row?.nonce === claims[n]?.nonce));
    expect(won.filter((mine) => mine).length).toBe(7);
  });

  test('one that the server refuses harms no other', async () => {
    const bad = admission(contract, process, { tool: 'no\0text' });
    const good = Array.from({ length: 3 }, () => admission(contract, process));
    const answers = await Promise.allSettled(
      [good[0], good[1], bad, good[2]].map((a) => world.ledger.hot.admit(a as Admission)),
    );
    expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : answer.reason.code))).toEqual([
      true,
      true,
      'bad_input',
      true,
    ]);
    expect(await readEffect(world.ledger.sql, bad.id)).toBe(undefined);
  });

  test('two processes that claim the same calls and their twins in other orders never lock each other out', async () => {
    const [one, other] = [world.newLedger(), world.newLedger()];
    const ask = (ledger: World['ledger'], all: Admission[]) => Promise.all(all.map((a) => ledger.hot.admit(a)));
    for (let round = 0; round < 12; round += 1) {
      const calls = Array.from({ length: 60 }, () => admission(contract, process));
      const again = calls.map((a, n) => {
        const id = n % 2 === 0 ? a.id : newId();
        return admission(contract, process, { id, argsHash: a.argsHash });
      });
      const won = await Promise.all([ask(one, calls), ask(other, again.toReversed())]);
      expect(won.flat().filter((mine) => mine).length).toBe(60);
    }
    await Promise.all([one.close(), other.close()]);
    // Backends report when they end.
    await expect
      .poll(async () => {
        const [row] = await world.admin`
          SELECT deadlocks::int AS n, tup_inserted::int > 0 AS told FROM pg_stat_database WHERE datname = current_database()`;
        return row;
      })
      .toEqual({ n: 0, told: true });
  });

  test('when its connection is lost all are in doubt', async () => {
    const ledger = world.newLedger({ connectionsMax: 2 });
    const held = await world.lease();
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`SELECT FROM holdfast.processes WHERE process_id = ${held} FOR UPDATE`;
    const claims = Array.from({ length: 3 }, () => ledger.hot.admit(admission(contract, held)));
    const answers = Promise.allSettled(claims);
    await world.untilBlocked(2);
    await world.admin`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    expect((await answers).map((answer) => answer.status === 'rejected' && isConnectionDoubt(answer.reason))).toEqual([
      true,
      true,
      true,
    ]);
    await owner`ROLLBACK`;
    owner.release();
  });
});

describe('7 settlements that share a statement', () => {
  test('each moves its own row, by its own nonce, once', async () => {
    const [first, second, third] = (await claimed(3)) as [Admission, Admission, Admission];
    const stranger = answerTo(second, { nonce: randomUUID() });
    const moved = await settleConfirmed(world.ledger.sql, [
      answerTo(first),
      stranger,
      answerTo(third, { sentLate: true }),
    ]);
    expect(moved).toEqual(new Set([first.nonce, third.nonce]));
    expect(await settleConfirmed(world.ledger.sql, [answerTo(first), answerTo(third)])).toEqual(new Set());
    const rows = await Promise.all([first, second, third].map(({ id }) => world.row(id)));
    expect(rows.map(({ status, result, resultInfo, sentLate }) => ({ status, result, resultInfo, sentLate }))).toEqual([
      { status: 'CONFIRMED', result: AWKWARD, resultInfo: { parts: ['x', { y: null }] }, sentLate: false },
      { status: 'DISPATCHED', result: null, resultInfo: null, sentLate: false },
      { status: 'CONFIRMED', result: AWKWARD, resultInfo: { parts: ['x', { y: null }] }, sentLate: true },
    ]);
  });

  test('bytes that left late stay told when the answer does not know of them', async () => {
    const [late] = (await claimed(1)) as [Admission];
    await world.admin`UPDATE holdfast.effects SET sent_late = true WHERE nonce = ${late.nonce}`;
    await settleConfirmed(world.ledger.sql, [answerTo(late)]);
    expect(await world.row(late.id)).toMatchObject({ status: 'CONFIRMED', sentLate: true });
  });

  test('an artefact that confirms another effect is refused alone', async () => {
    const [first, second, third] = (await claimed(3)) as [Admission, Admission, Admission];
    const answers = await Promise.allSettled(
      [answerTo(first, { providerRef: 'one' }), answerTo(second, { providerRef: 'one' }), answerTo(third)].map((s) =>
        world.ledger.hot.confirm(s),
      ),
    );
    expect(
      answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : constraintOf(answer.reason))),
    ).toEqual([true, 'effects_one_artefact', true]);
  });

  test('one that waits for a lock does not keep the others', async () => {
    const [locked, free] = (await claimed(2)) as [Admission, Admission];
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`SELECT FROM holdfast.effects WHERE nonce = ${locked.nonce} FOR UPDATE`;
    const waits = world.ledger.hot.confirm(answerTo(locked));
    expect(await world.ledger.hot.confirm(answerTo(free))).toBe(true);
    expect((await world.row(locked.id)).status).toBe('DISPATCHED');
    await owner`COMMIT`;
    owner.release();
    expect(await waits).toBe(true);
  });
});

test('no plan of the hot statements scans, also when it was made while the tables were empty', async () => {
  const empty = await openWorld();
  try {
    const ledger = empty.newLedger({ connectionsMax: 1 });
    for (const count of [1, 2]) {
      const none = Array.from({ length: count }, () => admission(contract, randomUUID()));
      await admit(ledger.sql, none);
      await settleConfirmed(
        ledger.sql,
        none.map((a) => answerTo(a)),
      );
    }
    await ledger.sql`SET plan_cache_mode = force_generic_plan`;
    const prepared = await ledger.sql`
      SELECT name, cardinality(parameter_types) AS parameters FROM pg_prepared_statements
      WHERE cardinality(parameter_types) > 0 AND statement LIKE '%holdfast.effects%'`;
    const plans = await Promise.all(
      prepared.map(async ({ name, parameters }) => {
        const nulls = Array(parameters).fill('NULL').join(', ');
        const lines = await ledger.sql.unsafe(`EXPLAIN (COSTS OFF) EXECUTE "${name}"(${nulls})`);
        return lines.map((line) => line['QUERY PLAN'] as string).join('\n');
      }),
    );
    expect(plans.length).toBe(4);
    for (const plan of plans) {
      expect(plan).not.toMatch(/Seq Scan/);
      // Each index is entered by a condition, and an effect is found by its whole key.
      const entries = plan.match(/Scan (using|on) \w+_(pk|pkey)\b/g) ?? [];
      expect((plan.match(/Index Cond: /g) ?? []).length).toBe(entries.length);
      if (plan.includes('Update on effects')) {
        expect(plan).toMatch(/Index Cond: \(\(tenant = .*\) AND \(run_id = .*\) AND \(call_id = .*\)\)/);
      }
    }
  } finally {
    await empty.close();
  }
});
