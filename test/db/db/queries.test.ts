import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { auditExport } from '../../../db/audit.ts';
import { aesGcmCodec, passThrough } from '../../../db/codec.ts';
import { connect, type Ledger } from '../../../db/connect.ts';
import { metrics } from '../../../db/metrics.ts';
import { type EffectFilter, listEffects, showEffect } from '../../../db/queries.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';
import {
  appendEvent,
  changeEffect,
  claimed,
  type EffectColumns,
  effectIn,
  insertEffect,
  insertProcess,
  refused,
} from './rows.ts';

let database: FreshDatabase;
let ledger: Ledger;

beforeAll(async () => {
  database = await freshDatabase();
  ledger = connect(database.url, { connectionsMax: 2 });
});
afterAll(async () => {
  await ledger.close();
  await database.drop();
});

const at = (seconds: number) => new Date(Date.parse('2026-11-30T12:00:00.000Z') + seconds * 1_000);
const id = (row: EffectColumns) => ({
  tenant: row['tenant'] as string,
  run: row['run_id'] as string,
  call: row['call_id'] as string,
});

describe('lists', () => {
  const calls = async (filter: EffectFilter) =>
    (await listEffects(ledger, filter)).effects.map((effect) => effect.call);

  beforeAll(async () => {
    const { sql } = ledger;
    const [alive, lapsed, ended] = [
      await insertProcess(sql),
      await insertProcess(sql, { beatAgeMs: 60_000 }),
      await insertProcess(sql, { ended_at: new Date() }),
    ];
    const later = new Date(Date.now() + 600_000);
    const open = (call_id: string, process_id: string, seconds: number, over: EffectColumns = {}) =>
      insertEffect(
        sql,
        claimed({ tenant: 'lists', call_id, process_id, recorded_at: at(seconds), deadline_at: later, ...over }),
      );
    await open('alive', alive, 1);
    await open('lapsed', lapsed, 9);
    await open('ended', ended, 8);
    await open('orphan', '00000000-0000-4000-8000-000000000000', 7);
    await open('overdue', alive, 6, { deadline_at: at(0) });
    await effectIn(sql, 'UNKNOWN', {
      tenant: 'lists',
      call_id: 'unknown',
      recorded_at: at(5),
      effect_class: 'NON_RETRYABLE',
    });
    await effectIn(sql, 'CONFIRMED', {
      tenant: 'lists',
      call_id: 'confirmed',
      recorded_at: at(4),
      tool: 'files.write',
    });
    const conflict = await effectIn(sql, 'CONFIRMED', { tenant: 'lists', call_id: 'conflict', recorded_at: at(3) });
    await changeEffect(sql, conflict, { attention: 'CONFLICT' });
    await insertEffect(sql, refused({ tenant: 'lists', call_id: 'refused', recorded_at: at(2) }));
    await insertEffect(sql, claimed({ tenant: 'other', call_id: 'foreign', process_id: alive, deadline_at: later }));
  });

  test('are of one tenant, by id', async () => {
    expect(await calls({ tenant: 'lists' })).toEqual([
      'alive',
      'confirmed',
      'conflict',
      'ended',
      'lapsed',
      'orphan',
      'overdue',
      'refused',
      'unknown',
    ]);
  });

  test.each([
    [{ status: 'UNKNOWN' }, ['unknown']],
    [{ effectClass: 'NON_RETRYABLE' }, ['unknown']],
    [{ tool: 'files.write' }, ['confirmed']],
    [{ attention: 'any' }, ['conflict']],
    [{ attention: 'CONFLICT', status: 'CONFIRMED' }, ['conflict']],
    [{ attention: 'EXPIRED' }, []],
  ] as [EffectFilter, string[]][])('by %j', async (filter, expected) => {
    expect(await calls({ tenant: 'lists', ...filter })).toEqual(expected);
  });

  test('of what is stuck: unknown, in need of a person, overdue, or left by a process whose lease is gone; oldest first', async () => {
    expect(await calls({ tenant: 'lists', stuck: true })).toEqual([
      'conflict',
      'unknown',
      'overdue',
      'orphan',
      'ended',
      'lapsed',
    ]);
  });

  test('say whether the holder of a claim still lives', async () => {
    const { effects } = await listEffects(ledger, { tenant: 'lists', limit: 500 });
    expect(Object.fromEntries(effects.map((effect) => [effect.call, effect.holder]))).toEqual({
      alive: 'alive',
      overdue: 'alive',
      lapsed: 'lapsed',
      ended: 'lapsed',
      orphan: 'lapsed',
      confirmed: null,
      conflict: null,
      refused: null,
      unknown: null,
    });
  });

  test.each([{ tenant: 'lists' }, { stuck: true }, {}] as EffectFilter[])(
    'page by page give the same: %j',
    async (filter) => {
      const whole = await listEffects(ledger, filter);
      const pages: unknown[] = [];
      let after: string | undefined;
      do {
        const page = await listEffects(ledger, { ...filter, limit: 2, ...(after === undefined ? {} : { after }) });
        expect(page.effects.length).toBeGreaterThan(0);
        pages.push(...page.effects);
        after = page.next ?? undefined;
      } while (after !== undefined);
      expect(pages).toEqual(whole.effects);
      expect(whole.next).toBeNull();
    },
  );

  test('refuse a cursor that is not theirs', async () => {
    for (const after of ['nonsense', Buffer.from('["a"]').toString('base64url')]) {
      await expect(listEffects(ledger, { after })).rejects.toMatchObject({ code: 'bad_input', place: 'after' });
    }
  });

  test('of what is stuck read the partial indexes of troubled rows alone', async () => {
    // For a handful of rows the planner takes a scan, so it is told not to.
    const own = connect(`${database.url}?enable_seqscan=off`, { connectionsMax: 1 });
    try {
      const rows = await own.sql`EXPLAIN SELECT * FROM holdfast.effects e
        WHERE (e.status = 'UNKNOWN' OR e.status = 'DISPATCHED' OR e.attention IS NOT NULL)`;
      const plan = rows.map((row) => row['QUERY PLAN'] as string).join('\n');
      const used = ['Seq Scan', 'effects_due', 'effects_claims', 'effects_attention'].filter((name) =>
        plan.includes(name),
      );
      expect(used).toEqual(['effects_due', 'effects_claims', 'effects_attention']);
    } finally {
      await own.close();
    }
  });
});

describe('the history of an effect', () => {
  test('of a healthy one is told by its row alone', async () => {
    const row = await effectIn(ledger.sql, 'CONFIRMED', { tenant: 'story' });
    expect(await showEffect(ledger, id(row))).toEqual({
      effectId: `effect:story:run-1:${row['call_id']}`,
      ...id(row),
      status: 'CONFIRMED',
      fence: 1,
      sends: 1,
      looks: 0,
      tool: 'billing.send_invoice',
      version: '1.0.0',
      contractDigest: `sha256/v1:${'01'.repeat(32)}`,
      effectClass: 'IDEMPOTENT',
      effectKey: row['effect_key'],
      provider: 'billing',
      attention: null,
      reasonCode: null,
      reason: null,
      recordedAt: '2026-11-30T12:00:00.000000Z',
      settledAt: '2026-11-30T12:00:02.000000Z',
      settledBy: 'holder',
      deadlineAt: '2026-11-30T12:00:30.000000Z',
      nextLookAt: null,
      holder: null,
      credential: null,
      credentialVersion: null,
      account: 'main',
      capabilities: [],
      providerRef: null,
      sentLate: false,
      history: [
        { kind: 'recorded', at: '2026-11-30T12:00:00.000Z', to: 'DISPATCHED' },
        { kind: 'settled', at: '2026-11-30T12:00:02.000Z', to: 'CONFIRMED', actor: 'holder' },
      ],
    });
  });

  test('of a troubled one is its events, evidence and decisions in the order of time', async () => {
    const row = await troubled();
    const { history } = await showEffect(ledger, id(row));
    expect(history.map((entry) => [entry.kind, entry.at, 'event' in entry ? entry.event : undefined])).toEqual([
      ['recorded', '2026-11-30T12:00:00.000Z', undefined],
      ['event', '2026-11-30T12:00:10.000Z', 'fenced'],
      ['evidence', '2026-11-30T12:00:20.000Z', undefined],
      ['event', '2026-11-30T12:00:20.000Z', 'parked'],
      ['decision', '2026-11-30T12:00:30.000Z', undefined],
      ['event', '2026-11-30T12:00:30.000Z', 'decision'],
    ]);
  });

  test('shows payloads only through a codec', async () => {
    const codec = aesGcmCodec({ keys: { k1: Buffer.alloc(32, 7) }, keyFor: () => 'k1' });
    const coded = (text: string) => codec.encode(text, { tenant: 'story' });
    const row = await effectIn(ledger.sql, 'DISPATCHED', { tenant: 'story', args: coded('{"amount":5}') });
    await changeEffect(ledger.sql, row, { status: 'CONFIRMED', result: coded('{"id":"inv-1"}') });
    expect(await showEffect(ledger, id(row))).not.toHaveProperty('args');
    expect(await showEffect(ledger, id(row), codec)).toMatchObject({ args: '{"amount":5}', result: '{"id":"inv-1"}' });
    await expect(showEffect(ledger, id(row), passThrough)).rejects.toMatchObject({
      code: 'payload_unreadable',
      message: 'the payload cannot be read: the payload is encrypted, and no keys are configured (key "k1")',
    });
  });

  test('finds arguments that are stored apart', async () => {
    const hash = Buffer.alloc(32, 8);
    const row = await insertEffect(ledger.sql, claimed({ tenant: 'story', args: null, args_hash: hash }));
    expect(await showEffect(ledger, id(row), passThrough)).toMatchObject({ args: null });
    await ledger.sql`INSERT INTO holdfast.payloads ${ledger.sql({ tenant: 'story', hash, body: '{"big":1}' })}`;
    expect(await showEffect(ledger, id(row), passThrough)).toMatchObject({ args: '{"big":1}' });
  });

  test('of an effect that is not there is an error that names it', async () => {
    await expect(showEffect(ledger, { tenant: 'story', run: 'r', call: 'nope' })).rejects.toMatchObject({
      code: 'effect_not_found',
      place: 'effect:story:r:nope',
    });
  });
});

/** Fenced, looked at, and decided by hand. */
async function troubled(over: EffectColumns = {}): Promise<EffectColumns> {
  const { sql } = ledger;
  const row = await effectIn(sql, 'UNKNOWN', { tenant: 'story', ...over });
  const { tenant, run_id, call_id } = row;
  await appendEvent(sql, row, { at: at(10), kind: 'fenced', from_status: 'DISPATCHED', to_status: 'UNKNOWN' });
  await appendEvent(sql, row, { at: at(20), kind: 'parked', data: { result: { secret: 'hunter2' }, note: 'kept' } });
  const seen = { asked_at: at(19), written_at: at(20), verdict: 'INCONCLUSIVE', observed: '{"secret":"hunter2"}' };
  await sql`INSERT INTO holdfast.evidence ${sql({ tenant, run_id, call_id, fence: 1, actor: 'test', ...seen } as EffectColumns)}`;
  const ruled = {
    decision_id: `d-${call_id}`,
    at: at(30),
    ruling: 'confirm',
    actor: 'ann',
    source: 'cli',
    reason: 'seen',
  };
  const judged = { expected_status: 'UNKNOWN', expected_fence: 1, force: false, correction: false, applied: true };
  await sql`INSERT INTO holdfast.decisions ${sql({ tenant, run_id, call_id, ...ruled, ...judged } as EffectColumns)}`;
  await changeEffect(sql, row, {
    status: 'CONFIRMED',
    settled_by: 'decision',
    settled_at: at(30),
    result: '{"secret":"hunter2"}',
  });
  await appendEvent(sql, row, { at: at(30), kind: 'decision', from_status: 'UNKNOWN', to_status: 'CONFIRMED' });
  return row;
}

describe('the audit export', () => {
  async function lines(scope: Parameters<typeof auditExport>[1], options = {}) {
    const written: string[] = [];
    const done = await auditExport(ledger, scope, (line) => void written.push(line), options);
    expect(done.lines).toBe(written.length);
    return { text: written.join(''), entries: written.map((line) => JSON.parse(line)), effects: done.effects };
  }

  beforeAll(async () => {
    for (let n = 0; n < 7; n += 1)
      await troubled({ tenant: 'audit', run_id: `run-${n % 3}`, args: '{"secret":"hunter2"}' });
    await insertEffect(ledger.sql, refused({ tenant: 'audit', run_id: 'run-0', call_id: 'zz-refused' }));
    await effectIn(ledger.sql, 'CONFIRMED', { tenant: 'audit', run_id: 'run-9', call_id: 'zz-healthy' });
  });

  test('gives a tenant whole, whatever the size of its pages', async () => {
    const whole = await lines({ tenant: 'audit' });
    expect(whole.effects).toBe(9);
    expect(whole.entries).toHaveLength(7 * 7 + 1 + 3);
    for (const pageSize of [1, 2, 9]) expect((await lines({ tenant: 'audit' }, { pageSize })).text).toBe(whole.text);
  });

  test('gives one effect, first what it is pinned to, then the derived healthy moves', async () => {
    const scope = { tenant: 'audit', effect: { tenant: 'audit', run: 'run-9', call: 'zz-healthy' } };
    const { entries } = await lines(scope);
    const effect = 'effect:audit:run-9:zz-healthy';
    expect(entries).toEqual([
      expect.objectContaining({ effect, kind: 'effect', status: 'CONFIRMED', tool: 'billing.send_invoice', fence: 1 }),
      { effect, kind: 'recorded', at: '2026-11-30T12:00:00.000Z', to: 'DISPATCHED' },
      { effect, kind: 'settled', at: '2026-11-30T12:00:02.000Z', to: 'CONFIRMED', actor: 'holder' },
    ]);
  });

  test('never holds arguments, results or observations, unless they are asked for', async () => {
    const plain = await lines({ tenant: 'audit' });
    expect(plain.text).not.toContain('hunter2');
    expect(plain.text).toContain('"data":{"note":"kept"}');
    const full = await lines({ tenant: 'audit' }, { payloads: true });
    expect(full.entries.filter((entry) => entry.kind === 'effect')[0]).toMatchObject({
      args: { secret: 'hunter2' },
      result: { secret: 'hunter2' },
    });
    expect(full.entries.find((entry) => entry.kind === 'evidence')).toMatchObject({ observed: '{"secret":"hunter2"}' });
  });

  test('waits for a slow reader', async () => {
    let busy = 0;
    await auditExport(ledger, { tenant: 'audit' }, async () => {
      busy += 1;
      expect(busy).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      busy -= 1;
    });
  });

  test('of nothing is nothing for a tenant, and an error for an effect', async () => {
    expect(await lines({ tenant: 'nobody' })).toEqual({ text: '', entries: [], effects: 0 });
    const effect = { tenant: 'audit', run: 'r', call: 'nope' };
    await expect(lines({ tenant: 'audit', effect })).rejects.toMatchObject({ code: 'effect_not_found' });
    await expect(lines({ tenant: 'other', effect })).rejects.toMatchObject({ code: 'bad_input' });
  });
});

test('metrics count by status and class, and know the oldest and the lapsed (case 4)', async () => {
  const own = await freshDatabase();
  const other = connect(own.url, { connectionsMax: 1 });
  try {
    const none = { settledEstimated: false, oldestUnknownMs: null, oldestDispatchedMs: null, lapsed: 0, overdue: 0 };
    expect(await metrics(other)).toEqual({ ...none, counts: [], attention: {} });
    const { sql } = other;
    const ago = (ms: number) => new Date(Date.now() - ms);
    const alive = await insertProcess(sql);
    await insertEffect(sql, claimed({ process_id: alive, recorded_at: ago(60_000), deadline_at: ago(-600_000) }));
    await insertEffect(sql, claimed({ recorded_at: ago(120_000), deadline_at: ago(30_000) }));
    await effectIn(sql, 'UNKNOWN', { recorded_at: ago(300_000), effect_class: 'NON_RETRYABLE' });
    const conflict = await effectIn(sql, 'CONFIRMED');
    await changeEffect(sql, conflict, { attention: 'CONFLICT' });
    await effectIn(sql, 'CONFIRMED', { effect_class: 'PURE' });
    await insertEffect(sql, refused());
    const { oldestUnknownMs, oldestDispatchedMs, ...rest } = await metrics(other);
    expect(rest).toEqual({
      counts: [
        { status: 'DISPATCHED', effectClass: 'IDEMPOTENT', count: 2 },
        { status: 'UNKNOWN', effectClass: 'NON_RETRYABLE', count: 1 },
        { status: 'CONFIRMED', effectClass: 'IDEMPOTENT', count: 1 },
        { status: 'CONFIRMED', effectClass: 'PURE', count: 1 },
        { status: 'NOT_APPLIED', effectClass: 'none', count: 1 },
      ],
      settledEstimated: false,
      lapsed: 1,
      overdue: 1,
      attention: { CONFLICT: 1 },
    });
    // The clocks of database and test may differ by a little; the ages are minutes apart.
    expect(Math.round((oldestUnknownMs ?? 0) / 60_000)).toBe(5);
    expect(Math.round((oldestDispatchedMs ?? 0) / 60_000)).toBe(2);
  } finally {
    await other.close();
    await own.drop();
  }
});
