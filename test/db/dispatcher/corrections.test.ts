import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { showEffect } from '../../../db/queries.ts';
import type { Call } from '../../../effects/effect.ts';
import { callOf, decideIn, type Process, ruling, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let process: Process;
let contract: Contract;
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  process = await startProcess(world, shop);
  contract = await world.publish(order());
});
afterAll(async () => {
  await process.stop();
  await world.close();
  await shop.close();
});

const settledAt = async ({ call }: Call) => {
  const rows = await world.admin`SELECT settled_at FROM holdfast.effects WHERE call_id = ${call}`;
  return rows.map((row) => (row.settled_at as Date).toISOString()).join();
};

/** The moves of the effect, as whoever audits it reads them. */
async function story(call: Call) {
  const { history } = await showEffect(world.ledger, call);
  return history.flatMap((entry) => {
    if (entry.kind === 'settled') return [[entry.kind, entry.to, entry.at, entry.actor]];
    if (entry.kind === 'event' && entry.to !== null) return [[entry.event, entry.to, entry.actor, entry.reason]];
    return [];
  });
}

const decide = async (call: Call, change: Parameters<ReturnType<typeof ruling>>[0]) =>
  expect(await decideIn(world, ruling(await world.row(call))(change))).toMatchObject({ applied: true });

test('rule 10: a corrected CONFIRMED keeps the time of the healthy answer, and by whom, also after a second correction', async () => {
  const call = callOf(contract);
  await process.dispatcher.dispatch(call);
  const healthy = await settledAt(call);
  await decide(call, { ruling: 'not_applied', correction: true, reason: 'it bounced' });
  const corrected = await settledAt(call);
  await decide(call, { ruling: 'confirm', actor: 'bob', reason: 'it did not' });
  expect(await story(call)).toEqual([
    ['settled', 'CONFIRMED', healthy, 'holder'],
    ['decision', 'NOT_APPLIED', 'ann', 'it bounced'],
    ['decision', 'CONFIRMED', 'bob', 'it did not'],
  ]);
  const events = await world.admin`
    SELECT data->'before' AS before FROM holdfast.effect_events WHERE call_id = ${call.call} ORDER BY id`;
  const kept = events.map(({ before }) => [new Date(before.settledAt).toISOString(), before.settledBy]);
  expect(kept).toEqual([
    [healthy, 'holder'],
    [corrected, 'decision'],
  ]);
});

test('rule 10: a NOT_APPLIED that turns out applied keeps what it was', async () => {
  shop.onSend = () => ({ status: 422, body: {} });
  const call = callOf(contract);
  await process.dispatcher.dispatch(call);
  const refused = await settledAt(call);
  await decide(call, { ruling: 'confirm', reason: 'seen in the books' });
  const events = await world.admin`
    SELECT data FROM holdfast.effect_events WHERE call_id = ${call.call} AND kind = 'decision'`;
  expect(events.map(({ data }) => new Date(data.before.settledAt).toISOString())).toEqual([refused]);
  expect(events).toMatchObject([{ data: { source: 'test', correction: false, before: { settledBy: 'holder' } } }]);
});
