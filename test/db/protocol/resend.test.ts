import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import {
  type Admission,
  type EffectRow,
  fenceLapsed,
  type Resend,
  resend,
  settleTroubled,
} from '../../../db/statements/index.ts';
import { resendOf, settlement } from './moves.ts';
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

/** An UNKNOWN effect whose first send is long over. */
async function unknown(change: Partial<Admission> = {}): Promise<EffectRow> {
  const a = admission(contract, process, {
    effectClass: 'IDEMPOTENT',
    sendByMs: -10_000,
    inFlightMaxMs: 100,
    ...change,
  });
  expect(await admitOne(world.ledger.sql, a)).toBe(true);
  await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN' }));
  return world.row(a.id);
}

const again = (row: EffectRow, change: Partial<Resend> = {}, nonce: string = randomUUID()) =>
  resend(world.ledger.sql, resendOf(row, process, nonce, change));

describe('3.6 a re-send is one statement', () => {
  test('it moves the status, claims anew, and counts fence and sends', async () => {
    const row = await unknown();
    const nonce = randomUUID();
    expect(await again(row, {}, nonce)).toBe(true);
    const now = await world.row(row.id);
    expect({
      status: now.status,
      fence: now.fence,
      sends: now.sends,
      nonce: now.nonce,
      first: now.recordedAtMs,
    }).toEqual({
      status: 'DISPATCHED',
      fence: 2,
      sends: 2,
      nonce,
      first: row.recordedAtMs,
    });
    expect((await world.events(row.id)).at(-1)).toEqual({
      kind: 'resent',
      from: 'UNKNOWN',
      to: 'DISPATCHED',
      fence: 2,
    });
  });

  test.each<[string, (row: EffectRow) => Partial<Resend>]>([
    ['another contract digest', () => ({ contractDigest: Buffer.alloc(32, 1) })],
    ['other request bytes', () => ({ requestHash: Buffer.alloc(32, 1) })],
    ['another account', () => ({ account: 'acct-2' })],
    ['no account at all', () => ({ account: null })],
    ['an older fence', (row) => ({ fence: row.fence - 1 })],
    ['a newer fence', (row) => ({ fence: row.fence + 1 })],
    ['no key window for an IDEMPOTENT effect', () => ({ keyWindowMs: null })],
    ['a process without a lease', () => ({ processId: randomUUID() })],
  ])('not with %s', async (_, change) => {
    const row = await unknown();
    expect(await again(row, change(row))).toBe(false);
    expect(await world.row(row.id)).toMatchObject({ status: 'UNKNOWN', fence: 1, sends: 1, nonce: row.nonce });
  });

  test('a newer credential version of the same account will do, and is recorded', async () => {
    const row = await unknown();
    expect(await again(row, { credentialVersion: 'v2' })).toBe(true);
    expect((await world.row(row.id)).credentialVersion).toBe('v2');
  });

  test('not before every earlier send is over, by send-by and in-flight limit', async () => {
    const early = await unknown({ sendByMs: 50, inFlightMaxMs: 60_000 });
    const over = await unknown({ sendByMs: -60_001, inFlightMaxMs: 60_000 });
    expect([await again(early), await again(over)]).toEqual([false, true]);
  });

  test('before that only where the contract says that concurrent sends are safe', async () => {
    const early = await unknown({ sendByMs: 50, inFlightMaxMs: 60_000 });
    expect(await again(early, { concurrentSafe: true })).toBe(true);
  });

  test('an earlier, longer send-by is not forgotten by a shorter re-send', async () => {
    const row = await unknown({ sendByMs: 60_000, inFlightMaxMs: 0 });
    await again(row, { concurrentSafe: true, sendByMs: 1 });
    expect((await world.row(row.id)).sendByAtMs).toBe(row.sendByAtMs);
  });

  test('case 24: not when the provider could forget the key before the request is over', async () => {
    const row = await unknown();
    // now + send-by (1 s) + in-flight limit (100 ms) against the first claim + the window.
    expect([await again(row, { keyWindowMs: 1_090 }), await again(row, { keyWindowMs: 30_000 })]).toEqual([
      false,
      true,
    ]);
  });

  test('case 24: the window runs from the first claim, however often it was sent again', async () => {
    const row = await unknown({ sendByMs: -10_000 });
    await new Promise((resolve) => setTimeout(resolve, 600));
    const nonce = randomUUID();
    await again(row, { sendByMs: 1 }, nonce);
    await settleTroubled(world.ledger.sql, settlement({ id: row.id, nonce }, { to: 'UNKNOWN' }));
    const second = await world.row(row.id);
    // Ends 100 ms before the request would be over; counted from the second claim it would end after.
    const windowMs = second.nowMs - second.recordedAtMs + 1_000;
    expect(await again(second, { concurrentSafe: true, keyWindowMs: windowMs })).toBe(false);
    expect(await again(second, { concurrentSafe: true, keyWindowMs: windowMs + 2_000 })).toBe(true);
  });

  test.each(['DISPATCHED', 'CONFIRMED', 'NOT_APPLIED'] as const)('not from %s', async (status) => {
    const a = admission(contract, process, { effectClass: 'IDEMPOTENT', sendByMs: -10_000, inFlightMaxMs: 0 });
    await admitOne(world.ledger.sql, a);
    if (status === 'CONFIRMED') await confirmOne(world.ledger.sql, settlement(a));
    if (status === 'NOT_APPLIED') {
      await settleTroubled(world.ledger.sql, settlement(a, { to: status, reasonCode: 'refused_by_provider' }));
    }
    expect(await again(await world.row(a.id))).toBe(false);
  });

  test.each([
    ['PURE', true],
    ['IDEMPOTENT', true],
    ['REPLAYABLE', true],
    ['NON_RETRYABLE', false],
    ['UNKNOWN', false],
  ] as const)('class %s: %s, though all else is given and time has passed', async (effectClass, allowed) => {
    const row = await unknown({ effectClass });
    expect(await again(row)).toBe(allowed);
  });

  test('of 16 that race, one has the new claim', async () => {
    const row = await unknown();
    const results = await Promise.all(Array.from({ length: 16 }, () => again(row)));
    expect(results.filter((won) => won)).toEqual([true]);
    expect((await world.row(row.id)).sends).toBe(2);
  });

  test('a fencer that runs meanwhile takes the lease away before the claim', async () => {
    const mine = await world.lease(50);
    const row = await unknown();
    await world.admin`UPDATE holdfast.processes SET beat_at = beat_at - interval '1 hour' WHERE process_id = ${mine}`;
    const fencing = world.connection();
    await fencing`BEGIN`;
    await fenceLapsed(fencing, mine);
    const claimed = again(row, { processId: mine });
    await world.untilBlocked();
    await fencing`COMMIT`;
    expect(await claimed).toBe(false);
    expect((await world.row(row.id)).status).toBe('UNKNOWN');
  });
});
