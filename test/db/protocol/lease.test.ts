import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import {
  beat,
  endLease,
  fenceLapsed,
  purgeLeases,
  readClock,
  releaseFencedClaims,
  releaseOverdueClaims,
  settleTroubled,
  takeOverdueLooks,
} from '../../../db/statements/index.ts';
import { FleetLease } from '../../../dispatcher/lease.ts';
import { TEST_SETTINGS } from './fleet.ts';
import { settlement } from './moves.ts';
import { admission, admitOne, openWorld, order, type World } from './world.ts';

let world: World;
let contract: Contract;
beforeAll(async () => {
  world = await openWorld();
  contract = await world.publish(order());
});
afterAll(() => world.close());
beforeEach(async () => {
  // Claims of earlier tests must not be met by the scans of this one.
  await world.admin`UPDATE holdfast.effects SET status = 'UNKNOWN', next_look_at = NULL WHERE status = 'DISPATCHED'`;
});

const lapse = (processId: string) =>
  world.admin`UPDATE holdfast.processes SET beat_at = beat_at - interval '1 hour' WHERE process_id = ${processId}`;

describe('4.1 one lease per process start', () => {
  test('a beat keeps a lease alive by the clock of the database; without one it lapses after its ttl', async () => {
    const processId = await world.lease(50);
    expect(await fenceLapsed(world.ledger.sql, processId)).toEqual([]);
    await lapse(processId);
    expect(await beat(world.ledger.sql, processId)).toBe(true);
    expect(await fenceLapsed(world.ledger.sql, processId)).toEqual([]);
    await lapse(processId);
    expect(await fenceLapsed(world.ledger.sql, processId)).toEqual([processId]);
  });

  test('a fenced lease and an ended one never beat again', async () => {
    const [fenced, ended] = [await world.lease(50), await world.lease()];
    await lapse(fenced);
    await fenceLapsed(world.ledger.sql, fenced);
    await endLease(world.ledger.sql, ended);
    expect(await Promise.all([beat(world.ledger.sql, fenced), beat(world.ledger.sql, ended)])).toEqual([false, false]);
  });

  test('a claim under way does not hold up the beat of its process', async () => {
    const processId = await world.lease();
    const claiming = world.connection();
    await claiming`BEGIN`;
    await admitOne(claiming, admission(contract, processId));
    const beating = await world.ledger.run('beat', () => beat(world.ledger.sql, processId), 1_000);
    await claiming`COMMIT`;
    expect(beating).toBe(true);
  });
});

describe('4.2 the fencer', () => {
  test('a claim that commits while the fencer runs is moved too', async () => {
    const processId = await world.lease(50);
    const a = admission(contract, processId);
    const claiming = world.connection();
    await claiming`BEGIN`;
    await admitOne(claiming, a);
    await lapse(processId);
    const fencing = fenceLapsed(world.ledger.sql, processId);
    await world.untilBlocked();
    await claiming`COMMIT`;
    expect(await fencing).toEqual([processId]);
    const released = await releaseFencedClaims(world.ledger.sql, 'scanner', 100);
    expect(released).toEqual([{ ...a.id, tool: 'shop.order', version: '1.0.0', effectClass: 'NON_RETRYABLE' }]);
    expect((await world.row(a.id)).status).toBe('UNKNOWN');
    expect(await world.events(a.id)).toEqual([{ kind: 'fenced', from: 'DISPATCHED', to: 'UNKNOWN', fence: 1 }]);
  });

  test('a claim that comes while the fencer runs waits for it, and then is not made', async () => {
    const processId = await world.lease(50);
    await lapse(processId);
    const fencing = world.connection();
    await fencing`BEGIN`;
    expect(await fenceLapsed(fencing, processId)).toEqual([processId]);
    const claimed = admitOne(world.ledger.sql, admission(contract, processId));
    await world.untilBlocked();
    await fencing`COMMIT`;
    expect(await claimed).toBe(false);
  });

  test('a lease that beats while the fencer waits for it is spared', async () => {
    const processId = await world.lease(5_000);
    await lapse(processId);
    const beating = world.connection();
    await beating`BEGIN`;
    await beat(beating, processId);
    const fencing = fenceLapsed(world.ledger.sql, processId);
    await world.untilBlocked();
    await beating`COMMIT`;
    expect(await fencing).toEqual([]);
    expect(await beat(world.ledger.sql, processId)).toBe(true);
  });

  test('claims of a process that ended are moved like those of a fenced one', async () => {
    const processId = await world.lease();
    const a = admission(contract, processId);
    await admitOne(world.ledger.sql, a);
    await endLease(world.ledger.sql, processId);
    await releaseFencedClaims(world.ledger.sql, 'scanner', 100);
    expect((await world.row(a.id)).status).toBe('UNKNOWN');
  });

  test('claims of a living process stay, however many others are fenced', async () => {
    const [alive, dead] = [await world.lease(), await world.lease(50)];
    const [mine, theirs] = [admission(contract, alive), admission(contract, dead)];
    await admitOne(world.ledger.sql, mine);
    await admitOne(world.ledger.sql, theirs);
    await lapse(dead);
    await fenceLapsed(world.ledger.sql);
    await releaseFencedClaims(world.ledger.sql, 'scanner', 100);
    expect([(await world.row(mine.id)).status, (await world.row(theirs.id)).status]).toEqual(['DISPATCHED', 'UNKNOWN']);
  });

  test('the sweep moves a claim past its deadline even though its process lives', async () => {
    const processId = await world.lease();
    const [late, timely] = [admission(contract, processId, { deadlineMs: -1 }), admission(contract, processId)];
    await admitOne(world.ledger.sql, late);
    await admitOne(world.ledger.sql, timely);
    const released = await releaseOverdueClaims(world.ledger.sql, 'sweep', 100);
    expect(released.map(({ call }) => call)).toEqual([late.id.call]);
    expect(await world.events(late.id)).toEqual([{ kind: 'overdue', from: 'DISPATCHED', to: 'UNKNOWN', fence: 1 }]);
  });

  test('the sweep moves a claim whose process has no lease row', async () => {
    const processId = await world.lease();
    const a = admission(contract, processId);
    await admitOne(world.ledger.sql, a);
    await world.admin`DELETE FROM holdfast.processes WHERE process_id = ${processId}`;
    await releaseOverdueClaims(world.ledger.sql, 'sweep', 100);
    expect((await world.row(a.id)).status).toBe('UNKNOWN');
  });

  test('a claim that another transaction is settling is not waited for, and not moved', async () => {
    const processId = await world.lease(50);
    const a = admission(contract, processId);
    await admitOne(world.ledger.sql, a);
    await lapse(processId);
    await fenceLapsed(world.ledger.sql, processId);
    const settling = world.connection();
    await settling`BEGIN`;
    await settleTroubled(settling, settlement(a, { to: 'NOT_APPLIED', reasonCode: 'refused_by_provider' }));
    const released = await world.ledger.run(
      'release',
      () => releaseFencedClaims(world.ledger.sql, 'scanner', 100),
      1_000,
    );
    await settling`COMMIT`;
    expect(released).toEqual([]);
    expect((await world.row(a.id)).status).toBe('NOT_APPLIED');
  });

  test('a lease row lives as long as a claim names it', async () => {
    const [named, unnamed] = [await world.lease(50), await world.lease(50)];
    const a = admission(contract, named);
    await admitOne(world.ledger.sql, a);
    for (const processId of [named, unnamed]) {
      await world.admin`UPDATE holdfast.processes SET fenced_at = now() - interval '2 hours' WHERE process_id = ${processId}`;
    }
    const left = async () =>
      (await world.admin`SELECT process_id FROM holdfast.processes WHERE process_id IN (${named}, ${unnamed})`).map(
        (row) => row.process_id,
      );
    await purgeLeases(world.ledger.sql);
    const while_claimed = await left();
    await releaseFencedClaims(world.ledger.sql, 'scanner', 100);
    await purgeLeases(world.ledger.sql);
    expect({ while_claimed, afterwards: await left() }).toEqual({ while_claimed: [named], afterwards: [] });
  });
});

describe('4.3 who may judge whom', () => {
  const fast = { ...TEST_SETTINGS, beatMs: 50, ttlMs: 300, scanMs: 30 };
  const until = async (check: () => Promise<boolean>): Promise<void> => {
    for (let tries = 0; !(await check()); tries += 1) {
      if (tries > 500) throw new Error('it never came');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const fencedAt = async (processId: string) =>
    (await world.admin`SELECT fenced_at FROM holdfast.processes WHERE process_id = ${processId}`)[0]
      ?.fenced_at as Date | null;

  test('a lapsed lease is fenced only by one that has itself beaten for a whole ttl', async () => {
    const dead = await world.lease(50);
    await lapse(dead);
    const beforeMs = await readClock(world.ledger.sql);
    const lease = await FleetLease.start(world.ledger, fast, {}, () => {});
    await until(async () => (await fencedAt(dead)) !== null);
    await lease.stop();
    const waited = ((await fencedAt(dead)) as Date).getTime() - beforeMs;
    expect(waited).toBeGreaterThanOrEqual(fast.ttlMs);
  });

  test('an observer that missed beats begins to count anew', async () => {
    const ledger = world.newLedger();
    const lease = await FleetLease.start(ledger, fast, {}, () => {});
    const first = await world.lease(50);
    await lapse(first);
    await until(async () => (await fencedAt(first)) !== null);
    // Nobody can beat for longer than a ttl: as while Postgres is away.
    const owner = await world.admin.reserve();
    await owner`BEGIN`;
    await owner`LOCK TABLE holdfast.processes IN ACCESS EXCLUSIVE MODE`;
    await new Promise((resolve) => setTimeout(resolve, 2 * fast.ttlMs));
    const second = randomUUID();
    await owner`INSERT INTO holdfast.processes (process_id, ttl_ms, info, beat_at) VALUES (${second}, 50, '{}', now() - interval '1 hour')`;
    await owner`COMMIT`;
    owner.release();
    const backMs = await readClock(world.ledger.sql);
    await until(async () => (await fencedAt(second)) !== null);
    await lease.stop();
    const waited = ((await fencedAt(second)) as Date).getTime() - backMs;
    // The reply that ended the gap may have come just before `back` was read.
    expect(waited).toBeGreaterThan(fast.ttlMs - 50);
  });

  test('one scanner at a time: who lost the lock with its connection does not go on as if it had it', async () => {
    const lock = 7_305_451;
    const holders = async () =>
      (
        await world.admin`
          SELECT l.pid, l.granted FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
          WHERE l.locktype = 'advisory' AND l.objid = ${lock} AND a.datname = current_database()`
      ).map((row) => ({ pid: row.pid as number, granted: row.granted as boolean }));
    const leases = await Promise.all([1, 2].map(() => FleetLease.start(world.newLedger(), fast, {}, () => {})));
    await until(async () => (await holders()).length > 0);
    const [holder] = await holders();
    const owner = await world.admin.reserve();
    const taken = owner`SELECT pg_advisory_lock(${lock})`.execute();
    await until(async () => (await holders()).length === 2);
    await world.admin`SELECT pg_terminate_backend(${holder?.pid ?? 0})`;
    await taken;
    const dead = await world.lease(50);
    await lapse(dead);
    await new Promise((resolve) => setTimeout(resolve, 2 * fast.ttlMs));
    expect(await fencedAt(dead)).toBe(null);
    await owner`SELECT pg_advisory_unlock(${lock})`;
    owner.release();
    await until(async () => (await fencedAt(dead)) !== null);
    expect((await holders()).length).toBe(1);
    await Promise.all(leases.map((lease) => lease.stop()));
  });

  test('a process that was fenced while it lives takes a new id', async () => {
    const lease = await FleetLease.start(world.newLedger(), fast, {}, () => {});
    const first = lease.processId;
    await world.admin`UPDATE holdfast.processes SET fenced_at = now() WHERE process_id = ${first}`;
    await until(async () => lease.processId !== first);
    const [row] = await world.admin`SELECT fenced_at FROM holdfast.processes WHERE process_id = ${lease.processId}`;
    await lease.stop();
    expect(row).toEqual({ fenced_at: null });
  });
});

describe('4.4 overdue looks drive the sweep', () => {
  test('only overdue rows are handed out, in order, limited, each once per push', async () => {
    const processId = await world.lease();
    const made = [];
    for (const lookInMs of [-30_000, -20_000, -10_000, 60_000]) {
      const a = admission(contract, processId);
      await admitOne(world.ledger.sql, a);
      await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN', lookInMs }));
      made.push(a.id.call);
    }
    const take = async () =>
      (await takeOverdueLooks(world.ledger.sql, { graceMs: 5_000, pushMs: 30_000, limit: 2 })).map(({ id }) => id.call);
    expect([(await take()).sort(), await take(), await take()]).toEqual([made.slice(0, 2), made.slice(2, 3), []]);
  });

  test('a row that somebody is moving is skipped, not waited for', async () => {
    const processId = await world.lease();
    const a = admission(contract, processId);
    await admitOne(world.ledger.sql, a);
    await settleTroubled(world.ledger.sql, settlement(a, { to: 'UNKNOWN', lookInMs: -60_000 }));
    const moving = world.connection();
    await moving`BEGIN`;
    await moving`SELECT FROM holdfast.effects WHERE call_id = ${a.id.call} FOR UPDATE`;
    const take = () => takeOverdueLooks(world.ledger.sql, { graceMs: 5_000, pushMs: 30_000, limit: 100 });
    const taken = await world.ledger.run('take', take, 1_000);
    await moving`COMMIT`;
    expect(taken.map(({ id }) => id.call)).not.toContain(a.id.call);
    expect((await take()).map(({ id }) => id.call)).toContain(a.id.call);
  });
});
