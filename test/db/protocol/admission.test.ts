import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { putCredential } from '../../../db/credentials.ts';
import { checkDurability } from '../../../db/durability.ts';
import { constraintOf, isConnectionDoubt } from '../../../db/errors.ts';
import { type Admission, fenceLapsed, readClock, readEffect, recordRefusal } from '../../../db/statements/index.ts';
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

const refusal = (a: Admission, by: 'admission' | 'withdrawal' = 'withdrawal') => ({
  id: a.id,
  tool: a.tool,
  version: a.version,
  contractDigest: a.contractDigest,
  effectClass: a.effectClass,
  provider: a.provider,
  argsHash: a.argsHash,
  code: 'withdrawn',
  message: 'given up',
  by,
  actor: 'test',
});

describe('2.2 record and claim are one statement', () => {
  test('the row names contract, key, credential version and hashes before anything can be sent', async () => {
    const a = admission(contract, process);
    expect(await admitOne(world.ledger.sql, a)).toBe(true);
    const row = await world.row(a.id);
    expect({
      ...row,
      recordedAtMs: 0,
      claimedAtMs: 0,
      sendByAtMs: (row.sendByAtMs ?? 0) - row.recordedAtMs,
      deadlineAtMs: (row.deadlineAtMs ?? 0) - row.recordedAtMs,
      nowMs: 0,
    }).toEqual({
      id: a.id,
      status: 'DISPATCHED',
      fence: 1,
      sends: 1,
      looks: 0,
      nonce: a.nonce,
      processId: process,
      holderAlive: true,
      tool: 'shop.order',
      version: '1.0.0',
      contractDigest: a.contractDigest,
      effectClass: 'NON_RETRYABLE',
      provider: 'shop',
      effectKey: a.effectKey,
      credential: 'writer',
      credentialVersion: 'v1',
      account: 'acct-1',
      argsHash: a.argsHash,
      requestHash: a.requestHash,
      args: a.args,
      stateBefore: null,
      providerRef: null,
      result: null,
      resultInfo: null,
      reasonCode: null,
      reason: null,
      settledBy: null,
      attention: null,
      sentLate: false,
      recordedAtMs: 0,
      claimedAtMs: 0,
      sendByAtMs: 5_000,
      deadlineAtMs: 10_000,
      nextLookAtMs: null,
      inFlightMaxMs: 5_000,
      nowMs: 0,
    });
  });

  test.each<[string, () => Promise<Partial<Admission> & { process?: string }>]>([
    ['the contract is not live', async () => ({ contractDigest: (await retiringContract()).contractDigest })],
    ['there is no such contract', async () => ({ contractDigest: Buffer.alloc(32, 7) })],
    ['the credential version is not current', async () => rotatedCredential()],
    ['there is no such credential', async () => ({ credential: 'nobody' })],
    ['the tenant is suspended', async () => ({ id: newId({ tenant: await suspendedTenant() }) })],
    ['there is no such tenant', async () => ({ id: newId({ tenant: 'nobody' }) })],
    ['not-after has passed by the clock of the database', async () => ({ notAfter: await databaseTime(-1) })],
    ['the lease is fenced', async () => ({ processId: await fencedProcess() })],
    ['the lease has ended', async () => ({ processId: await endedProcess() })],
    ['there is no lease', async () => ({ processId: randomUUID() })],
  ])('no claim and no row when %s', async (_, change) => {
    const a = admission(contract, process, await change());
    expect(await admitOne(world.ledger.sql, a)).toBe(false);
    expect(await readEffect(world.ledger.sql, a.id)).toBe(undefined);
  });

  test('a not-after that has not passed does not hinder the claim', async () => {
    const a = admission(contract, process, { notAfter: await databaseTime(60_000) });
    expect(await admitOne(world.ledger.sql, a)).toBe(true);
  });

  test('there is no unclaimed DISPATCHED row, not even for the owner of the schema', async () => {
    const a = admission(contract, process);
    await admitOne(world.ledger.sql, a);
    for (const column of ['process_id', 'send_by_at', 'deadline_at', 'effect_key', 'request_hash']) {
      const error = await world.admin
        .unsafe(`UPDATE holdfast.effects SET ${column} = NULL WHERE call_id = '${a.id.call}'`)
        .catch((thrown: unknown) => thrown);
      expect([column, constraintOf(error)]).toEqual([
        column,
        // What may never change is refused by the guard before the constraint is even asked.
        ['effect_key', 'request_hash', 'send_by_at'].includes(column)
          ? 'effects_legal_move'
          : 'effects_claimed_or_refused',
      ]);
    }
  });
});

describe('2.2 and 2.3 racing claims', () => {
  test('case 1: of 32 racing claimants one has the claim', async () => {
    const id = newId();
    const claimants = Array.from({ length: 32 }, () => admission(contract, process, { id }));
    const results = await Promise.all(claimants.map((a) => admitOne(world.ledger.sql, a)));
    const winner = claimants[results.indexOf(true)];
    expect(results.filter((won) => won)).toEqual([true]);
    expect((await world.row(id)).nonce).toBe(winner?.nonce);
  });

  test('case 1: claimants that wait behind a claim which is rolled back yield one winner', async () => {
    const id = newId();
    const first = world.connection();
    await first`BEGIN`;
    expect(await admitOne(first, admission(contract, process, { id }))).toBe(true);
    const waiting = Array.from({ length: 12 }, () => admitOne(world.ledger.sql, admission(contract, process, { id })));
    await world.untilBlocked(12);
    await first`ROLLBACK`;
    expect((await Promise.all(waiting)).filter((won) => won)).toEqual([true]);
  });

  test('a claimant that waits behind a committing one gets no row, and sees the other in a second statement', async () => {
    const id = newId();
    const first = world.connection();
    await first`BEGIN`;
    const a = admission(contract, process, { id });
    await admitOne(first, a);
    const second = admitOne(world.ledger.sql, admission(contract, process, { id }));
    await world.untilBlocked();
    await first`COMMIT`;
    expect(await second).toBe(false);
    expect((await world.row(id)).nonce).toBe(a.nonce);
  });
});

describe('2.4 a final "not sent" is a row', () => {
  test('an attempt that wakes after the call was refused cannot claim it', async () => {
    const a = admission(contract, process);
    expect(await recordRefusal(world.ledger.sql, refusal(a, 'admission'))).toBe(true);
    expect(await admitOne(world.ledger.sql, a)).toBe(false);
    const { status, reasonCode, settledBy, sends, fence } = await world.row(a.id);
    expect({ status, reasonCode, settledBy, sends, fence }).toEqual({
      status: 'NOT_APPLIED',
      reasonCode: 'withdrawn',
      settledBy: 'admission',
      sends: 0,
      fence: 0,
    });
    expect(await world.events(a.id)).toEqual([{ kind: 'refused', from: null, to: 'NOT_APPLIED', fence: 0 }]);
  });

  test('whoever withdraws after the claim is told by the row that it is in flight', async () => {
    const a = admission(contract, process);
    await admitOne(world.ledger.sql, a);
    expect(await recordRefusal(world.ledger.sql, refusal(a))).toBe(false);
    expect((await world.row(a.id)).status).toBe('DISPATCHED');
    expect(await world.events(a.id)).toEqual([]);
  });

  test('a withdrawal that races with a claim waits for it and loses to it', async () => {
    const a = admission(contract, process);
    const first = world.connection();
    await first`BEGIN`;
    await admitOne(first, a);
    const withdrawn = recordRefusal(world.ledger.sql, refusal(a));
    await world.untilBlocked();
    await first`COMMIT`;
    expect(await withdrawn).toBe(false);
    expect((await world.row(a.id)).status).toBe('DISPATCHED');
  });

  test('a claim that races with a withdrawal waits for it and loses to it', async () => {
    const a = admission(contract, process);
    const first = world.connection();
    await first`BEGIN`;
    await recordRefusal(first, refusal(a));
    const claimed = admitOne(world.ledger.sql, a);
    await world.untilBlocked();
    await first`COMMIT`;
    expect(await claimed).toBe(false);
    expect((await world.row(a.id)).status).toBe('NOT_APPLIED');
  });

  test('a row begins as a first claim or as a refusal that sent nothing', async () => {
    const columns =
      'recorded_at, fence, sends, status, tenant, run_id, call_id, tool, version, contract_digest, args_hash, reason_code';
    for (const start of [
      `0, 1, 'NOT_APPLIED'`,
      `1, 1, 'UNKNOWN'`,
      `1, 1, 'CONFIRMED'`,
      `2, 1, 'DISPATCHED'`,
      `1, 2, 'DISPATCHED'`,
    ]) {
      const error = await world.admin
        .unsafe(
          `INSERT INTO holdfast.effects (${columns}) VALUES (now(), ${start}, 'acme', 'start', 'c', 't', '1', '', '', 'x')`,
        )
        .catch((thrown: unknown) => thrown);
      expect([start, constraintOf(error)]).toEqual([start, 'effects_legal_start']);
    }
  });
});

describe('2.6 retirement and rotation race with claims', () => {
  test('an open rotation does not hold up a claim, and once committed no claim with the old version is made', async () => {
    await putCredential(world.ledger, { name: 'rotating', version: 'v1', account: 'acct-1', grants: ['**'] });
    const rotating = { credential: 'rotating', credentialVersion: 'v1' };
    const rotation = world.admin.reserve();
    const owner = await rotation;
    await owner`BEGIN`;
    await owner`UPDATE holdfast.credentials SET current = false WHERE name = 'rotating'`;
    await owner`INSERT INTO holdfast.credentials (name, version, account, grants, current) VALUES ('rotating', 'v2', 'acct-1', '{**}', true)`;
    const during = await admitOne(world.ledger.sql, admission(contract, process, rotating));
    await owner`COMMIT`;
    owner.release();
    const after = await admitOne(world.ledger.sql, admission(contract, process, rotating));
    const fresh = await admitOne(
      world.ledger.sql,
      admission(contract, process, { ...rotating, credentialVersion: 'v2' }),
    );
    expect({ during, after, fresh }).toEqual({ during: true, after: false, fresh: true });
  });

  test('an open retirement does not hold up a claim, and once it is retiring no claim is made', async () => {
    const old = await world.publish(order({}, { tool: 'shop.old' }));
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`UPDATE holdfast.contracts SET state = 'retiring' WHERE tool = 'shop.old'`;
    const during = await admitOne(world.ledger.sql, admission(old, process));
    await owner`COMMIT`;
    owner.release();
    const after = await admitOne(world.ledger.sql, admission(old, process));
    expect({ during, after }).toEqual({ during: true, after: false });
  });

  test('a claim that hangs is ended by the server at its time limit, and never commits later', async () => {
    const impatient = world.newLedger({ statementTimeoutMs: 200 });
    const busy = await world.lease();
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`SELECT FROM holdfast.processes WHERE process_id = ${busy} FOR UPDATE`;
    const a = admission(contract, busy);
    const error = await impatient.run('admit', () => admitOne(impatient.sql, a)).catch((thrown: unknown) => thrown);
    await owner`COMMIT`;
    owner.release();
    expect({ error, doubt: isConnectionDoubt(error) }).toEqual({
      error: expect.objectContaining({ code: 'ledger_unreachable', place: 'admit' }),
      doubt: false,
    });
    expect(await readEffect(world.ledger.sql, a.id)).toBe(undefined);
  });

  test('every connection of the hot path has that limit on the server', async () => {
    const [row] = await world.ledger.sql`SHOW statement_timeout`;
    expect(row).toEqual({ statement_timeout: '5s' });
  });
});

describe('2.7 committed means durable', () => {
  test('a Postgres that may forget commits is refused unless a test allows it', async () => {
    // The servers of the tests run with fsync off.
    const error = await checkDurability(world.ledger).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'unsafe_durability' });
    expect(await checkDurability(world.ledger, true)).toContain('fsync=off');
  });
});

const databaseTime = async (ms: number): Promise<string> =>
  new Date((await readClock(world.ledger.sql)) + ms).toISOString();

async function retiringContract(): Promise<Admission> {
  const retiring = await world.publish(order({}, { tool: 'shop.retiring' }));
  await world.admin`UPDATE holdfast.contracts SET state = 'retiring' WHERE tool = 'shop.retiring'`;
  return admission(retiring, process);
}

async function rotatedCredential(): Promise<Partial<Admission>> {
  for (const version of ['v1', 'v2']) {
    await putCredential(world.ledger, { name: 'rotated', version, account: 'acct-1', grants: ['**'] });
  }
  return { credential: 'rotated', credentialVersion: 'v1' };
}

async function suspendedTenant(): Promise<string> {
  await putTenant(world.ledger, { tenant: 'idle', state: 'suspended' });
  return 'idle';
}

async function fencedProcess(): Promise<string> {
  const processId = await world.lease(1);
  await world.admin`UPDATE holdfast.processes SET beat_at = beat_at - interval '1 second' WHERE process_id = ${processId}`;
  expect(await fenceLapsed(world.ledger.sql, processId)).toEqual([processId]);
  return processId;
}

async function endedProcess(): Promise<string> {
  const processId = await world.lease();
  await world.admin`UPDATE holdfast.processes SET ended_at = now() WHERE process_id = ${processId}`;
  return processId;
}
