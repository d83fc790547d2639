import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type Ledger } from '../../../db/connect.ts';
import { constraintOf, sqlStateOf } from '../../../db/errors.ts';
import { EFFECT_STATUSES, type EffectStatus } from '../../../effects/effect.ts';
import { MOVERS, type MoveFacts, transition } from '../../../effects/transition.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';
import { appendEvent, changeEffect, claimed, type EffectColumns, effectIn, insertEffect, refused } from './rows.ts';

let database: FreshDatabase;
/** As the workers act. */
let app: Ledger;
/** As whoever owns the schema: grants do not bind it, triggers do. */
let owner: Ledger;

beforeAll(async () => {
  database = await freshDatabase();
  app = connect(database.url, { connectionsMax: 2 });
  owner = connect(database.url, { connectionsMax: 2, role: null });
});
afterAll(async () => {
  await app.close();
  await owner.close();
  await database.drop();
});

/** Name of the guard or constraint that refused, or `taken`. */
async function refusal(work: () => Promise<unknown>): Promise<string | undefined> {
  return work().then(
    () => 'taken',
    (error) => constraintOf(error) ?? sqlStateOf(error),
  );
}

/** Facts under which the table of moves allows most. */
const GENEROUS: MoveFacts[] = [
  { sends: 1, refused: true, notSent: true, pure: true, correction: true, leaseAlive: false },
  { sends: 1, refused: true },
];

function allowedBySomebody(from: EffectStatus | null, to: EffectStatus): boolean {
  return MOVERS.some((by) => GENEROUS.some((facts) => transition(from, to, by, facts).allowed));
}

describe('the trigger and transition() agree', () => {
  for (const from of EFFECT_STATUSES) {
    for (const to of EFFECT_STATUSES) {
      if (from === to) continue;
      const allowed = allowedBySomebody(from, to);
      test(`${from} → ${to} is ${allowed ? 'taken' : 'refused'}`, async () => {
        const row = await effectIn(app.sql, from);
        const newClaim = from === 'UNKNOWN' && to === 'DISPATCHED' ? { fence: 2, sends: 2, nonce: randomUUID() } : {};
        const change = { status: to, reason_code: 'proven_absent', ...newClaim };
        const result = await refusal(() => changeEffect(app.sql, row, change));
        expect(result).toBe(allowed ? 'taken' : 'effects_legal_move');
      });
    }
  }
  for (const to of EFFECT_STATUSES) {
    const allowed = allowedBySomebody(null, to);
    test(`nothing → ${to} is ${allowed ? 'taken' : 'refused'}`, async () => {
      const row = to === 'NOT_APPLIED' ? refused() : claimed({ status: to });
      expect(await refusal(() => insertEffect(app.sql, row))).toBe(allowed ? 'taken' : 'effects_legal_start');
    });
  }
});

describe('a row begins as the first claim or as an unsent refusal', () => {
  const starts: [string, EffectColumns][] = [
    ['a claim with fence 2', claimed({ fence: 2 })],
    ['a claim with two sends', claimed({ sends: 2 })],
    ['a refusal that sent', refused({ sends: 1, fence: 1 })],
  ];
  test.each(starts)('%s is refused', async (_, row) => {
    expect(await refusal(() => insertEffect(app.sql, row))).toBe('effects_legal_start');
  });
  test.each(['nonce', 'process_id', 'send_by_at', 'deadline_at', 'effect_key', 'effect_class', 'request_hash'])(
    'a claim without %s is refused',
    async (column) => {
      const row = claimed({ [column]: null });
      expect(await refusal(() => insertEffect(app.sql, row))).toBe('effects_claimed_or_refused');
    },
  );
  test('a refusal that names no reason is refused', async () => {
    expect(await refusal(() => insertEffect(app.sql, refused({ reason_code: null })))).toBe('effects_reason');
  });
  test('a second row of the same call is refused', async () => {
    const row = await insertEffect(app.sql, claimed());
    expect(await refusal(() => insertEffect(app.sql, claimed({ call_id: row['call_id'] })))).toBe(
      'effects_tenant_run_id_call_id_pk',
    );
  });
});

describe('identity and the pinned tuple never change', () => {
  const changes: [string, unknown][] = [
    ['tenant', 'other'],
    ['run_id', 'other'],
    ['call_id', 'other'],
    ['tool', 'billing.other'],
    ['version', '9.9.9'],
    ['contract_digest', Buffer.alloc(32, 9)],
    ['args_hash', Buffer.alloc(32, 9)],
    ['recorded_at', new Date()],
    ['effect_class', 'PURE'],
    ['effect_key', 'other'],
    ['request_hash', Buffer.alloc(32, 9)],
    ['account', 'other'],
  ];
  for (const status of EFFECT_STATUSES) {
    test.each(changes)(`${status}: %s`, async (column, value) => {
      const row = await effectIn(app.sql, status);
      expect(await refusal(() => changeEffect(app.sql, row, { [column]: value }))).toBe('effects_legal_move');
    });
  }
});

describe('the healthy second move changes nothing of what was recorded', () => {
  const changes: [string, unknown][] = [
    ['tool', 'billing.other'],
    ['contract_digest', Buffer.alloc(32, 9)],
    ['args_hash', Buffer.alloc(32, 9)],
    ['effect_key', 'other'],
    ['request_hash', Buffer.alloc(32, 9)],
    ['account', 'other'],
    ['fence', 2],
    ['sends', 2],
    ['nonce', randomUUID()],
    ['send_by_at', new Date(0)],
  ];
  test.each(changes)('%s', async (column, value) => {
    const row = await effectIn(app.sql, 'DISPATCHED');
    const change = { status: 'CONFIRMED', settled_by: 'holder', [column]: value };
    expect(await refusal(() => changeEffect(app.sql, row, change))).toBe('effects_legal_move');
  });
  test.each(['nonce', 'process_id', 'deadline_at'])('and %s stays there', async (column) => {
    const row = await effectIn(app.sql, 'DISPATCHED');
    const change = { status: 'CONFIRMED', settled_by: 'holder', [column]: null };
    expect(await refusal(() => changeEffect(app.sql, row, change))).toMatch(
      /^effects_(legal_move|claimed_or_refused)$/,
    );
  });
});

describe('a claim moves only by a re-send', () => {
  const fresh = () => ({ status: 'DISPATCHED', fence: 2, sends: 2, nonce: randomUUID() });
  const wrong: [string, () => EffectColumns][] = [
    ['the same fence', () => ({ ...fresh(), fence: 1 })],
    ['a fence two higher', () => ({ ...fresh(), fence: 3 })],
    ['the same number of sends', () => ({ ...fresh(), sends: 1 })],
    ['the same nonce', () => ({ status: 'DISPATCHED', fence: 2, sends: 2 })],
    ['an earlier send-by', () => ({ ...fresh(), send_by_at: new Date(0) })],
  ];
  test.each(wrong)('a re-send with %s is refused', async (_, change) => {
    const row = await effectIn(app.sql, 'UNKNOWN');
    expect(await refusal(() => changeEffect(app.sql, row, change()))).toBe('effects_legal_move');
  });
  test.each(['NON_RETRYABLE', 'UNKNOWN'])('class %s is never sent again', async (effect_class) => {
    const row = await effectIn(app.sql, 'UNKNOWN', { effect_class });
    expect(await refusal(() => changeEffect(app.sql, row, fresh()))).toBe('effects_legal_move');
  });
  test.each(['PURE', 'IDEMPOTENT', 'REPLAYABLE'])('class %s may be', async (effect_class) => {
    const row = await effectIn(app.sql, 'UNKNOWN', { effect_class });
    expect(await refusal(() => changeEffect(app.sql, row, fresh()))).toBe('taken');
  });
  const touched: [string, EffectColumns][] = [
    ['fence', { fence: 2 }],
    ['sends', { sends: 2 }],
    ['nonce', { nonce: randomUUID() }],
    ['send_by_at, to earlier', { send_by_at: new Date(0) }],
    ['send_by_at, to nothing', { send_by_at: null }],
  ];
  for (const status of EFFECT_STATUSES) {
    test.each(touched)(`${status}: %s stays`, async (_, change) => {
      const row = await effectIn(app.sql, status);
      expect(await refusal(() => changeEffect(app.sql, row, change))).toBe('effects_legal_move');
    });
  }
  test('that bytes left late is not forgotten', async () => {
    const row = await effectIn(app.sql, 'UNKNOWN');
    await changeEffect(app.sql, row, { sent_late: true });
    expect(await refusal(() => changeEffect(app.sql, row, { sent_late: false }))).toBe('effects_legal_move');
  });
});

describe('one open effect, one artefact', () => {
  const twin = { twin_guard: true, args_hash: Buffer.alloc(32, 7) };
  test('an open twin is refused until the first is settled', async () => {
    const first = await insertEffect(app.sql, claimed(twin));
    const again = () => refusal(() => insertEffect(app.sql, claimed(twin)));
    expect(await again()).toBe('effects_open_twin');
    await changeEffect(app.sql, first, { status: 'UNKNOWN' });
    expect(await again()).toBe('effects_open_twin');
    await changeEffect(app.sql, first, { status: 'CONFIRMED' });
    expect(await again()).toBe('taken');
  });
  test('one artefact confirms one effect of an account', async () => {
    await effectIn(app.sql, 'CONFIRMED', { provider_ref: 'inv-9' });
    expect(await refusal(() => effectIn(app.sql, 'CONFIRMED', { provider_ref: 'inv-9' }))).toBe('effects_one_artefact');
    expect(await refusal(() => effectIn(app.sql, 'CONFIRMED', { provider_ref: 'inv-9', account: 'b' }))).toBe('taken');
  });
});

describe('what was appended stays', () => {
  /** A table with one row, and a change of it. */
  const appended: [string, string, (ledger: Ledger) => Promise<unknown>][] = [
    [
      'effect_events',
      'reason',
      ({ sql }) => effectIn(sql, 'UNKNOWN').then((row) => appendEvent(sql, row, { kind: 'overdue' })),
    ],
    [
      'evidence',
      'why',
      ({ sql }) =>
        sql`INSERT INTO holdfast.evidence ${sql({ tenant: 'acme', run_id: 'r', call_id: 'c', asked_at: new Date(), fence: 1, verdict: 'INCONCLUSIVE', actor: 'test' })}`,
    ],
    [
      'decisions',
      'reason',
      ({ sql }) =>
        sql`INSERT INTO holdfast.decisions ${sql({ tenant: 'acme', decision_id: randomUUID(), run_id: 'r', call_id: 'c', ruling: 'confirm', actor: 'ann', source: 'cli', reason: 'seen', expected_status: 'UNKNOWN', expected_fence: 1, force: false, correction: false, applied: true })}`,
    ],
  ];
  for (const [table, column, insert] of appended) {
    const work: [string, (ledger: Ledger) => Promise<unknown>][] = [
      ['UPDATE', ({ sql }) => sql`UPDATE ${sql(`holdfast.${table}`)} SET ${sql({ [column]: 'rewritten' })}`],
      ['DELETE', ({ sql }) => sql`DELETE FROM ${sql(`holdfast.${table}`)}`],
      ['TRUNCATE', ({ sql }) => sql`TRUNCATE ${sql(`holdfast.${table}`)}`],
    ];
    test.each(work)(
      `${table}: %s is refused by grant to the workers and by trigger to the owner`,
      async (_, change) => {
        await insert(app);
        expect([await refusal(() => change(app)), await refusal(() => change(owner))]).toEqual([
          '42501',
          `${table}_append_only`,
        ]);
      },
    );
  }
  test('an effect is never deleted', async () => {
    await insertEffect(app.sql, claimed());
    const remove = ({ sql }: Ledger) => refusal(() => sql`DELETE FROM holdfast.effects`);
    const empty = ({ sql }: Ledger) => refusal(() => sql`TRUNCATE holdfast.effects`);
    expect([await remove(app), await remove(owner), await empty(app), await empty(owner)]).toEqual([
      '42501',
      'effects_never_deleted',
      '42501',
      'effects_never_truncated',
    ]);
  });
  test('a contract changes nothing but its state', async () => {
    const digest = Buffer.alloc(32, 5);
    await app.sql`INSERT INTO holdfast.contracts ${app.sql({ digest, tool: 't.t', version: '1.0.0', owner: 'o', effect_class: 'PURE', provider: 'p', layer_digests: {}, source: '{}', published_by: 'ann' })}`;
    const change = (ledger: Ledger, columns: EffectColumns) =>
      refusal(() => ledger.sql`UPDATE holdfast.contracts SET ${ledger.sql(columns)}`);
    expect([
      await change(app, { state: 'retiring' }),
      await change(app, { source: '{"a":1}' }),
      await change(owner, { source: '{"a":1}' }),
      await refusal(() => app.sql`DELETE FROM holdfast.contracts`),
      await refusal(() => owner.sql`DELETE FROM holdfast.contracts`),
    ]).toEqual(['taken', 'contracts_immutable', 'contracts_immutable', '42501', 'contracts_never_deleted']);
  });
  test('a credential version changes nothing but whether it is current', async () => {
    await app.sql`INSERT INTO holdfast.credentials ${app.sql({ name: 'n', version: '1', account: 'a', grants: ['x'], current: true })}`;
    const change = (columns: EffectColumns) =>
      refusal(() => app.sql`UPDATE holdfast.credentials SET ${app.sql(columns)}`);
    expect([
      await change({ current: false }),
      await change({ account: 'b' }),
      await change({ grants: ['x', 'y'] }),
      await refusal(() => app.sql`DELETE FROM holdfast.credentials`),
    ]).toEqual(['taken', 'credentials_immutable', 'credentials_immutable', '42501']);
  });
  test('the deployment id is written once', async () => {
    await app.sql`INSERT INTO holdfast.deployments (deployment_id) VALUES ('one')`;
    const insert = () => refusal(() => app.sql`INSERT INTO holdfast.deployments (deployment_id) VALUES ('two')`);
    const change = ({ sql }: Ledger) => refusal(() => sql`UPDATE holdfast.deployments SET deployment_id = 'two'`);
    expect([await insert(), await change(app), await change(owner)]).toEqual([
      'deployments_pkey',
      '42501',
      'deployments_immutable',
    ]);
  });
});
