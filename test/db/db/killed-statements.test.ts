import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { isConnectionDoubt } from '../../../db/errors.ts';
import type { Decision, EffectRow, HotSql, Look } from '../../../db/statements/index.ts';
import * as statements from '../../../db/statements/index.ts';
import { isHoldfastError } from '../../../effects/errors.ts';
import { moveOf, resendOf, settlement } from '../protocol/moves.ts';
import { admission, newId, openWorld, order, TENANT, type World } from '../protocol/world.ts';

/** Every statement of the hot path, its backend killed under it: nothing of it is in the ledger, and it may be tried again. */
let world: World;
let contract: Contract;
let holder: string;
beforeAll(async () => {
  world = await openWorld();
  contract = await world.publish(order());
  holder = await world.lease();
});
afterAll(() => world.close());

async function claimed(change = {}) {
  const a = admission(contract, holder, { effectClass: 'IDEMPOTENT', sendByMs: -1_000, inFlightMaxMs: 0, ...change });
  await statements.admit(world.ledger.sql, [a]);
  return a;
}

async function unknown(): Promise<EffectRow> {
  const a = await claimed();
  await statements.settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN' }));
  return world.row(a.id);
}

/** A lease of the past, whose claim nobody holds any more. */
async function lapsed(): Promise<string> {
  const processId = await world.lease(1);
  await claimed({ processId });
  await world.admin`UPDATE holdfast.processes SET beat_at = now() - interval '1 hour' WHERE process_id = ${processId}`;
  return processId;
}

const lookAt = ({ id, fence }: EffectRow): Look => ({
  ...{
    id,
    fence,
    askedAtMs: Date.now(),
    verdict: 'INCONCLUSIVE',
    why: 'nothing to see',
    observed: null,
    actor: 'test',
  },
});
const NEXT = { inMs: 1_000, attention: null, reason: null };
const note = ({ id }: { id: EffectRow['id'] }) => ({
  ...{ id, kind: 'override', fence: 1, actor: 'ann', reason: null, data: {} },
});
const decisionOn = ({ id, status, fence }: EffectRow): Decision => ({
  ...{ id, decisionId: randomUUID(), ruling: 'confirm', actor: 'ann', source: 'test', reason: 'seen' },
  ...{ expected: { status, fence }, force: false, correction: false },
});

type Run = (sql: HotSql) => Promise<unknown>;
/** What the statement is given, and what a first try of it answers. */
type Case = () => Promise<{ readonly run: Run; readonly answer: unknown }>;

const CASES: Readonly<Record<Exclude<keyof typeof statements, 'readClock'>, Case>> = {
  admit: async () => {
    const a = admission(contract, holder);
    return { run: (sql) => statements.admit(sql, [a]), answer: new Set([a.nonce]) };
  },
  settleConfirmed: async () => {
    const s = settlement(await claimed());
    return { run: (sql) => statements.settleConfirmed(sql, [s]), answer: new Set([s.nonce]) };
  },
  settleTroubled: async () => {
    const s = settlement(await claimed(), { to: 'UNKNOWN' });
    return { run: (sql) => statements.settleTroubled(sql, s), answer: true };
  },
  recordRefusal: async () => {
    const { id, tool, version, contractDigest, effectClass, provider, argsHash } = admission(contract, holder);
    const what = { id, tool, version, contractDigest, effectClass, provider, argsHash };
    const why = { code: 'withdrawn', message: 'withdrawn', by: 'withdrawal', actor: 'ann' } as const;
    return { run: (sql) => statements.recordRefusal(sql, { ...what, ...why }), answer: true };
  },
  resend: async () => {
    const again = resendOf(await unknown(), holder, randomUUID());
    return { run: (sql) => statements.resend(sql, again), answer: true };
  },
  isReplayLost: async () => {
    const { id } = await unknown();
    return { run: (sql) => statements.isReplayLost(sql, id), answer: false };
  },
  move: async () => {
    const m = moveOf(await unknown());
    return { run: (sql) => statements.move(sql, m), answer: true };
  },
  appendEvent: async () => {
    const event = note(await unknown());
    return { run: (sql) => statements.appendEvent(sql, event), answer: undefined };
  },
  flagConflict: async () => {
    const event = note(await unknown());
    return { run: (sql) => statements.flagConflict(sql, event), answer: undefined };
  },
  markSentLate: async () => {
    const { id } = await claimed();
    return { run: (sql) => statements.markSentLate(sql, id, 'test'), answer: undefined };
  },
  keepLateFacts: async () => {
    const { id, nonce } = await unknown();
    const s = settlement({ id, nonce: nonce ?? '' }, { providerRef: 'job-1' });
    return { run: (sql) => statements.keepLateFacts(sql, s), answer: undefined };
  },
  readKeptAnswers: async () => {
    const { id } = await unknown();
    return { run: (sql) => statements.readKeptAnswers(sql, id), answer: [] };
  },
  recordLook: async () => {
    const look = lookAt(await unknown());
    return { run: (sql) => statements.recordLook(sql, look, NEXT), answer: true };
  },
  recordVerdict: async () => {
    const row = await unknown();
    return { run: (sql) => statements.recordVerdict(sql, lookAt(row), moveOf(row)), answer: true };
  },
  planLook: async () => {
    const { id, fence } = await unknown();
    return { run: (sql) => statements.planLook(sql, id, fence, NEXT), answer: true };
  },
  recentLooks: async () => {
    const { id } = await unknown();
    return { run: (sql) => statements.recentLooks(sql, id, 5), answer: [] };
  },
  takeOverdueLooks: async () => {
    const { id, tool, version, effectClass } = await unknown();
    await world.admin`UPDATE holdfast.effects SET next_look_at = now() - interval '1 day' WHERE call_id = ${id.call}`;
    const take = { graceMs: 3_600_000, pushMs: 1_000, limit: 10 };
    return { run: (sql) => statements.takeOverdueLooks(sql, take), answer: [{ id, tool, version, effectClass }] };
  },
  applyDecision: async () => {
    const row = await unknown();
    const decision = decisionOn(row);
    const m = moveOf(row, { settledBy: 'decision' });
    return { run: (sql) => statements.applyDecision(sql, decision, m), answer: true };
  },
  refuseDecision: async () => {
    const decision = decisionOn(await unknown());
    return { run: (sql) => statements.refuseDecision(sql, decision, 'too late'), answer: true };
  },
  readDecision: async () => ({ run: (sql) => statements.readDecision(sql, TENANT, 'd-none'), answer: undefined }),
  readEffect: async () => {
    const id = newId();
    return { run: (sql) => statements.readEffect(sql, id), answer: undefined };
  },
  readOpenTwin: async () => {
    const { argsHash } = admission(contract, holder);
    const twin = { tenant: TENANT, tool: 'shop.order', argsHash, provider: 'shop', resources: [] };
    return { run: (sql) => statements.readOpenTwin(sql, twin), answer: undefined };
  },
  readAdmissionState: async () => {
    const a = admission(contract, holder);
    const live = { contractState: 'live', tenantState: 'active', credentialCurrent: true, leaseAlive: true };
    return {
      run: (sql) => statements.readAdmissionState(sql, { ...a, tenant: TENANT }),
      answer: { ...live, notAfterPassed: false },
    };
  },
  storePayload: async () => {
    const { argsHash } = admission(contract, holder);
    return { run: (sql) => statements.storePayload(sql, TENANT, argsHash, '{}'), answer: undefined };
  },
  readPayload: async () => {
    const { argsHash } = admission(contract, holder);
    return { run: (sql) => statements.readPayload(sql, TENANT, argsHash), answer: undefined };
  },
  openLease: async () => {
    const lease = { processId: randomUUID(), ttlMs: 1_000, info: {} };
    return { run: (sql) => statements.openLease(sql, lease), answer: undefined };
  },
  beat: async () => ({ run: (sql) => statements.beat(sql, holder), answer: true }),
  endLease: async () => {
    const processId = await world.lease();
    return { run: (sql) => statements.endLease(sql, processId), answer: undefined };
  },
  fenceLapsed: async () => {
    const processId = await lapsed();
    return { run: (sql) => statements.fenceLapsed(sql, processId), answer: [processId] };
  },
  releaseFencedClaims: async () => {
    const processId = await lapsed();
    await statements.fenceLapsed(world.ledger.sql, processId);
    return { run: async (sql) => (await statements.releaseFencedClaims(sql, 'test', 1)).length, answer: 1 };
  },
  releaseOverdueClaims: async () => {
    await claimed({ deadlineMs: -1 });
    return { run: async (sql) => (await statements.releaseOverdueClaims(sql, 'test', 1)).length, answer: 1 };
  },
  purgeLeases: async () => {
    const processId = await world.lease();
    await world.admin`UPDATE holdfast.processes SET ended_at = now() - interval '2 hours' WHERE process_id = ${processId}`;
    return { run: (sql) => statements.purgeLeases(sql), answer: 1 };
  },
};

const TABLES = ['contracts', 'credentials', 'decisions', 'effect_events', 'effects', 'evidence', 'payloads']
  .concat('processes', 'resource_holds', 'tenants')
  .map((table) => `holdfast.${table}`);

/** The rows of every table: what a statement that did nothing leaves as they were. */
async function contents(): Promise<string[]> {
  const texts = TABLES.map(
    (table) => world.admin`
    SELECT coalesce(string_agg(md5(t::text), ' ' ORDER BY t::text), '') AS text FROM ${world.admin(table)} t`,
  );
  return (await Promise.all(texts)).map(([row]) => row?.text as string);
}

describe('case 15: a backend killed in the middle of', () => {
  test.each(Object.entries(CASES))('%s leaves nothing, and the next try does it all', async (name, prepare) => {
    const { run, answer } = await prepare();
    const before = await contents();
    expect(await killUnder(name, run)).toEqual({ code: 'ledger_unreachable', doubt: true });
    expect(await contents()).toEqual(before);
    const { ledger } = world;
    expect(await ledger.run(name, () => run(ledger.sql))).toEqual(answer);
    expect((await contents()).join() !== before.join()).toBe(!LOOKS.test(name));
  });
});

/** Statements that only look. */
const LOOKS = /^(read|recentLooks$|isReplayLost$)/;

/** The statement takes up its work, comes no further, and its backend is ended. */
async function killUnder(name: string, run: Run): Promise<{ code: string; doubt: boolean }> {
  const victim = world.newLedger({ applicationName: `victim of ${name}`, connectionsMax: 1 });
  const owner = await world.admin.reserve();
  await owner.unsafe(`BEGIN; LOCK TABLE ${TABLES.join(', ')} IN ACCESS EXCLUSIVE MODE`);
  try {
    const failed = victim
      .run(name, () => run(victim.sql))
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    await world.untilBlocked();
    await owner`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ${`victim of ${name}`}`;
    const error = await failed;
    return { code: isHoldfastError(error) ? error.code : String(error), doubt: isConnectionDoubt(error) };
  } finally {
    await owner`COMMIT`;
    owner.release();
  }
}
