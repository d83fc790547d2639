import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { constraintOf } from '../../../db/errors.ts';
import {
  type Admission,
  type EffectRow,
  keepLateFacts,
  markSentLate,
  move,
  recordVerdict,
  resend,
  settleTroubled,
} from '../../../db/statements/index.ts';
import { EFFECT_STATUSES, type EffectId, type EffectStatus } from '../../../effects/effect.ts';
import { moveOf, resendOf, settlement } from './moves.ts';
import { admission, admitOne, confirmOne, openWorld, order, type World } from './world.ts';

let world: World;
let contract: Contract;
let process: string;
beforeAll(async () => {
  world = await openWorld();
  contract = await world.publish(order());
  process = await world.lease();
});
afterAll(() => world.close());

async function claimed(change: Partial<Admission> = {}): Promise<Admission> {
  const a = admission(contract, process, change);
  expect(await admitOne(world.ledger.sql, a)).toBe(true);
  return a;
}

/** A row of that status, by the moves that lead there. */
async function rowIn(status: EffectStatus, change: Partial<Admission> = {}): Promise<EffectRow> {
  const a = await claimed({ effectClass: 'IDEMPOTENT', sendByMs: -1_000, inFlightMaxMs: 0, ...change });
  if (status === 'CONFIRMED') await confirmOne(world.ledger.sql, settlement(a));
  else if (status !== 'DISPATCHED') {
    await settleTroubled(world.ledger.sql, settlement(a, { to: status, reasonCode: 'refused_by_provider' }));
  }
  return world.row(a.id);
}

describe('7 the holder settles its own claim', () => {
  test('applied: one update by nonce, no event, and the row tells the rest', async () => {
    const a = await claimed();
    expect(await confirmOne(world.ledger.sql, settlement(a, { providerRef: 'o-1' }))).toBe(true);
    const { status, settledBy, result, providerRef, fence } = await world.row(a.id);
    expect({ status, settledBy, result, providerRef, fence }).toEqual({
      status: 'CONFIRMED',
      settledBy: 'holder',
      result: '{"done":true}',
      providerRef: 'o-1',
      fence: 1,
    });
    expect(await world.events(a.id)).toEqual([]);
  });

  test.each(['CONFIRMED', 'NOT_APPLIED', 'UNKNOWN'] as const)('another nonce settles nothing: %s', async (to) => {
    const a = await claimed();
    const write = to === 'CONFIRMED' ? confirmOne : settleTroubled;
    const foreign = settlement({ ...a, nonce: randomUUID() }, { to, reasonCode: 'not_sent' });
    expect(await write(world.ledger.sql, foreign)).toBe(false);
    expect((await world.row(a.id)).status).toBe('DISPATCHED');
    expect(await world.events(a.id)).toEqual([]);
  });

  test('a settle changes a row once: a repeat and a second answer change nothing', async () => {
    const a = await claimed();
    const refused = settlement(a, { to: 'NOT_APPLIED', reasonCode: 'refused_by_provider' });
    expect(await settleTroubled(world.ledger.sql, refused)).toBe(true);
    expect(await settleTroubled(world.ledger.sql, refused)).toBe(false);
    expect(await confirmOne(world.ledger.sql, settlement(a))).toBe(false);
    expect((await world.row(a.id)).status).toBe('NOT_APPLIED');
  });

  test('3.6 a definite refusal settles NOT_APPLIED only when it answers the only send', async () => {
    const row = await rowIn('UNKNOWN');
    const nonce = randomUUID();
    expect(await resend(world.ledger.sql, resendOf(row, process, nonce))).toBe(true);
    const refused = settlement({ id: row.id, nonce }, { to: 'NOT_APPLIED', reasonCode: 'refused_by_provider' });
    expect(await settleTroubled(world.ledger.sql, refused)).toBe(false);
    expect((await world.row(row.id)).status).toBe('DISPATCHED');
  });

  test('an UNKNOWN is due for a look at the time given, by the clock of the database', async () => {
    const a = await claimed();
    await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN', lookInMs: 60_000 }));
    const row = await world.row(a.id);
    const inMs = (row.nextLookAtMs ?? 0) - row.nowMs;
    expect(inMs).toBeGreaterThan(50_000);
    expect(inMs).toBeLessThanOrEqual(60_000);
  });
});

describe('6.4 a verdict names the status and fence it judged', () => {
  const look = (row: EffectRow, verdict: string) => ({
    id: row.id,
    fence: row.fence,
    askedAtMs: row.nowMs,
    verdict,
    why: null,
    observed: null,
    actor: 'test',
  });

  test('a verdict about an older fence moves nothing, and its look is kept', async () => {
    const row = await rowIn('UNKNOWN');
    await resend(world.ledger.sql, resendOf(row, process, randomUUID()));
    const again = await world.row(row.id);
    await settleTroubled(world.ledger.sql, settlement({ id: row.id, nonce: again.nonce as string }, { to: 'UNKNOWN' }));
    const absent = moveOf(row, { to: 'NOT_APPLIED', reasonCode: 'proven_absent', result: null });
    expect(await recordVerdict(world.ledger.sql, look(row, 'ABSENT_SETTLED'), absent)).toBe(false);
    const now = await world.row(row.id);
    const [kept] = await world.admin`SELECT verdict, fence FROM holdfast.evidence WHERE call_id = ${row.id.call}`;
    expect([now.status, now.fence, kept]).toEqual(['UNKNOWN', 2, { verdict: 'ABSENT_SETTLED', fence: 1 }]);
  });

  test('a verdict about a row that was settled meanwhile moves nothing', async () => {
    const row = await rowIn('UNKNOWN');
    expect(await move(world.ledger.sql, moveOf(row, { settledBy: 'decision' }))).toBe(true);
    const absent = moveOf(row, { to: 'NOT_APPLIED', reasonCode: 'proven_absent' });
    expect(await recordVerdict(world.ledger.sql, look(row, 'ABSENT_SETTLED'), absent)).toBe(false);
    expect((await world.row(row.id)).status).toBe('CONFIRMED');
  });

  test('of two verdicts that race, one moves the row and leaves its event', async () => {
    const row = await rowIn('UNKNOWN');
    const moved = await Promise.all([
      recordVerdict(world.ledger.sql, look(row, 'CONFIRMED'), moveOf(row)),
      recordVerdict(world.ledger.sql, look(row, 'CONFIRMED'), moveOf(row)),
    ]);
    expect(moved.sort()).toEqual([false, true]);
    expect((await world.events(row.id)).filter(({ kind }) => kind === 'evidence')).toEqual([
      { kind: 'evidence', from: 'UNKNOWN', to: 'CONFIRMED', fence: 1 },
    ]);
  });
});

describe('3.2 bytes that left after send-by', () => {
  test('forbid NOT_APPLIED by evidence, whenever they are noticed, but no other move', async () => {
    const row = await rowIn('UNKNOWN');
    await markSentLate(world.ledger.sql, row.id, 'test');
    await markSentLate(world.ledger.sql, row.id, 'test');
    const absent = moveOf(row, { to: 'NOT_APPLIED', reasonCode: 'proven_absent' });
    expect(await move(world.ledger.sql, absent)).toBe(false);
    expect((await world.events(row.id)).filter(({ kind }) => kind === 'sent_late').length).toBe(1);
    expect(await move(world.ledger.sql, { ...absent, settledBy: 'decision' })).toBe(true);
  });

  test.each([
    ['its own mark', (id: EffectId) => markSentLate(world.ledger.sql, id, 'test')],
    [
      'a late holder',
      (id: EffectId) => keepLateFacts(world.ledger.sql, { ...settlement({ id, nonce: randomUUID() }), sentLate: true }),
    ],
  ])('count from when they were noticed, by %s: a re-send waits for them too', async (_, mark) => {
    const row = await rowIn('UNKNOWN', { sendByMs: -3_600_000, inFlightMaxMs: 60_000 });
    await mark(row.id);
    expect((await world.row(row.id)).sentLate).toBe(true);
    expect(await resend(world.ledger.sql, resendOf(row, process, randomUUID()))).toBe(false);
  });

  test('are never taken back while the effect is not confirmed', async () => {
    const row = await rowIn('UNKNOWN');
    await markSentLate(world.ledger.sql, row.id, 'test');
    const error = await world.admin`UPDATE holdfast.effects SET sent_late = false WHERE call_id = ${row.id.call}`.catch(
      (thrown: unknown) => thrown,
    );
    expect(constraintOf(error)).toBe('effects_legal_move');
  });

  test('a settlement carries the mark when the event of its own was lost', async () => {
    const a = await claimed();
    await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN', sentLate: true }));
    expect((await world.row(a.id)).sentLate).toBe(true);
  });
});

describe('7 the database repeats the table of moves', () => {
  const LEGAL = new Set([
    'DISPATCHED CONFIRMED',
    'DISPATCHED NOT_APPLIED',
    'DISPATCHED UNKNOWN',
    'UNKNOWN CONFIRMED',
    'UNKNOWN NOT_APPLIED',
    'NOT_APPLIED CONFIRMED',
    'CONFIRMED NOT_APPLIED',
  ]);
  const pairs = EFFECT_STATUSES.flatMap((from) => EFFECT_STATUSES.map((to) => [from, to] as const)).filter(
    ([from, to]) => from !== to,
  );

  test.each(pairs)('%s → %s by the owner of the schema', async (from, to) => {
    const row = await rowIn(from);
    const error = await world.admin`
      UPDATE holdfast.effects SET status = ${to}, reason_code = 'x' WHERE call_id = ${row.id.call}`.catch(
      (thrown: unknown) => thrown,
    );
    expect(constraintOf(error)).toBe(LEGAL.has(`${from} ${to}`) ? undefined : 'effects_legal_move');
    expect((await world.row(row.id)).status).toBe(LEGAL.has(`${from} ${to}`) ? to : from);
  });

  test.each([
    ['fence', 'fence = fence + 1'],
    ['sends', 'sends = sends + 1'],
    ['nonce', 'nonce = gen_random_uuid()'],
    ['tool', "tool = 'shop.other'"],
    ['version', "version = '9.9.9'"],
    ['contract digest', "contract_digest = '\\x00'"],
    ['argument hash', "args_hash = '\\x00'"],
    ['request hash', "request_hash = '\\x00'"],
    ['effect key', "effect_key = 'other'"],
    ['class', "effect_class = 'PURE'"],
    ['account', "account = 'other'"],
    ['time of record', "recorded_at = recorded_at + interval '1 s'"],
    ['send-by, to an earlier time', "send_by_at = send_by_at - interval '1 s'"],
    ['id', "call_id = call_id || '-other'"],
  ])('nothing but a new claim changes the %s', async (_, change) => {
    const row = await rowIn('UNKNOWN');
    const error = await world.admin
      .unsafe(`UPDATE holdfast.effects SET ${change} WHERE call_id = '${row.id.call}'`)
      .catch((thrown: unknown) => thrown);
    expect(constraintOf(error)).toBe('effects_legal_move');
  });

  test.each(['NON_RETRYABLE', 'UNKNOWN'] as const)(
    'class %s is never claimed again, by nobody',
    async (effectClass) => {
      const row = await rowIn('UNKNOWN', { effectClass });
      expect(await resend(world.ledger.sql, resendOf(row, process, randomUUID()))).toBe(false);
      const error = await world.admin`
      UPDATE holdfast.effects SET status = 'DISPATCHED', fence = fence + 1, sends = sends + 1, nonce = gen_random_uuid()
      WHERE call_id = ${row.id.call}`.catch((thrown: unknown) => thrown);
      expect(constraintOf(error)).toBe('effects_legal_move');
    },
  );
});

describe('1.3 and rule 10: what happened stays', () => {
  test.each(['effects', 'effect_events', 'evidence', 'decisions'])('nobody deletes from %s', async (table) => {
    await rowIn('NOT_APPLIED');
    const refused = async (sql: World['admin'], statement: string) =>
      sql.unsafe(statement).then(
        () => 'done',
        (thrown: unknown) => (thrown as { code: string }).code,
      );
    expect({
      ownerTruncates: await refused(world.admin, `TRUNCATE holdfast.${table}`),
      workerDeletes: await refused(world.ledger.sql, `DELETE FROM holdfast.${table}`),
      workerTruncates: await refused(world.ledger.sql, `TRUNCATE holdfast.${table}`),
    }).toEqual({ ownerTruncates: '23000', workerDeletes: '42501', workerTruncates: '42501' });
  });

  test('not even the owner deletes an effect or rewrites an event', async () => {
    const row = await rowIn('NOT_APPLIED');
    const code = (thrown: unknown) => (thrown as { code: string }).code;
    expect({
      deleted: await world.admin`DELETE FROM holdfast.effects WHERE call_id = ${row.id.call}`.catch(code),
      rewritten: await world.admin`UPDATE holdfast.effect_events SET reason = 'x' WHERE call_id = ${row.id.call}`.catch(
        code,
      ),
      forgotten: await world.admin`DELETE FROM holdfast.effect_events WHERE call_id = ${row.id.call}`.catch(code),
    }).toEqual({ deleted: '23000', rewritten: '23000', forgotten: '23000' });
  });
});
