import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { serveHealth } from '../../../workers/health.ts';
import { until } from '../../crash/support/world.ts';
import { type House, openHouse, userWorkflow } from '../support/house.ts';
import { startTemporalProxy } from '../support/temporal-proxy.ts';

let house: House;

beforeAll(async () => {
  house = await openHouse();
});

afterAll(() => house?.close());

interface Probe {
  readonly status: number;
  readonly body: string;
}

async function probe(port: number, path: string): Promise<Probe> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.text() };
}

/** The part of `/readyz` that says why. */
async function ready(port: number) {
  const { status, body } = await probe(port, '/readyz');
  const { workers, postgres, temporal } = JSON.parse(body) as {
    workers: { state: string }[];
    postgres: boolean;
    temporal: boolean;
  };
  return { status, states: [...new Set(workers.map(({ state }) => state))], postgres, temporal };
}

/** gRPC status code. */
const PERMISSION_DENIED = 7;
const READY = { status: 200, states: ['RUNNING'], postgres: true, temporal: true };

describe('the probes of a process', () => {
  test('say that it lives, that it is ready, and what it counted', async () => {
    const fleet = await house.fleet();
    const health = await serveHealth(fleet, '127.0.0.1', 0);
    await until('it is ready', async () => (await ready(health.port)).status === 200);
    expect(await ready(health.port)).toEqual(READY);
    expect(await probe(health.port, '/healthz')).toEqual({
      status: 200,
      body: `${JSON.stringify({ ok: true, pid: process.pid })}\n`,
    });
    const call = house.call('NON_RETRYABLE', 'counted');
    await house.hostOf(fleet).dispatch({ ...call, lane: 'direct' });
    const { body } = await probe(health.port, '/metrics');
    const lines = body.split('\n');
    expect(lines).toContain('holdfast_sends_total{tool="crash.pay"} 1');
    expect(lines).toContain('holdfast_effects{status="CONFIRMED",class="NON_RETRYABLE"} 1');
    expect(lines).toContain('holdfast_settlements_total{tool="crash.pay",class="NON_RETRYABLE",status="CONFIRMED"} 1');
    expect((await probe(health.port, '/other')).status).toBe(404);
    await health.close();
    await fleet.stop();
  });

  test('say not ready while the database is away, and alive all the time', async () => {
    const fleet = await house.fleet();
    const health = await serveHealth(fleet, '127.0.0.1', 0);
    await until('it is ready', async () => (await ready(health.port)).status === 200);
    const database = await admin();
    await database.close();
    await until('it is not ready', async () => (await ready(health.port)).status === 503);
    expect(await ready(health.port)).toEqual({ ...READY, status: 503, postgres: false });
    expect((await probe(health.port, '/healthz')).status).toBe(200);
    expect((await probe(health.port, '/metrics')).status).toBe(503);
    await database.open();
    await until('it is ready again', async () => (await ready(health.port)).status === 200);
    await database.end();
    await health.close();
    await fleet.stop();
  });

  test('say not ready when a worker has FAILED though the process lives (case 14)', async () => {
    const fleet = await house.fleet({ roles: ['dispatch'], settings: { shutdown_ms: 200, give_up_ms: 200 } });
    const health = await serveHealth(fleet, '127.0.0.1', 0);
    await until('it is ready', async () => (await ready(health.port)).status === 200);
    // A worker fails that may not wait for its activity any longer.
    const call = house.call('NON_RETRYABLE', 'failed');
    const match = { '/body/payee': call.call };
    await house.billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_hang', match });
    const handle = await userWorkflow(house, [call], { lane: 'activity' });
    await house.billing.untilWaiting(1);
    fleet.workers[0]?.shutdown();
    await until('the worker fails', async () => (await ready(health.port)).states.includes('FAILED'));
    expect(await ready(health.port)).toEqual({ ...READY, status: 503, states: ['FAILED'] });
    expect((await probe(health.port, '/healthz')).status).toBe(200);
    await expect(fleet.run()).rejects.toThrow();
    await handle.terminate();
    await house.billing.release();
    await health.close();
    await fleet.stop();
  });

  test('say not ready when Temporal refuses the polls of workers that call themselves RUNNING', async () => {
    const proxy = await startTemporalProxy(house.address);
    const fleet = await house.fleet({ address: proxy.address, roles: ['dispatch'] });
    const health = await serveHealth(fleet, '127.0.0.1', 0, { pollAgeMaxMs: 4_000 });
    // Busy workers poll all the time.
    let turn = 0;
    await until('it is ready while it works', async () => {
      turn += 1;
      const call = house.call('PURE', `turn-${turn}`);
      await (await userWorkflow(house, [call], { lane: 'activity' })).result();
      return (await ready(health.port)).status === 200;
    });
    proxy.refusePolls(PERMISSION_DENIED);
    await until('it is not ready', async () => (await ready(health.port)).status === 503);
    expect(await ready(health.port)).toEqual({ ...READY, status: 503 });
    await health.close();
    await fleet.stop();
    proxy.close();
  });
});

/** Takes this house's database away from everybody, and gives it back. */
async function admin() {
  const sql = postgres(inject('servers').postgresUrl, { max: 1, onnotice: () => {} });
  const name = new URL(house.url).pathname.slice(1);
  const allow = (yes: boolean) => sql`ALTER DATABASE ${sql(name)} ALLOW_CONNECTIONS ${sql.unsafe(String(yes))}`;
  return {
    async close() {
      await allow(false);
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${name}`;
    },
    open: () => allow(true),
    end: () => sql.end({ timeout: 1 }),
  };
}

test('a fleet that is stopped stops polling, waits for the answer, writes it, and then ends its lease (case 19)', async () => {
  const fleet = await house.fleet();
  const call = house.call('NON_RETRYABLE', 'stopped');
  const match = { '/body/payee': call.call };
  await house.billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_hang', match });
  const heard = house.hostOf(fleet).dispatch({ ...call, lane: 'direct', waitMs: 20_000 });
  await house.billing.untilWaiting(1);
  const { processId } = fleet.dispatcher.lease;
  const lease = async () => {
    const [row] = await house.ledger.sql`
      SELECT beat_at, ended_at FROM holdfast.processes WHERE process_id = ${processId}`;
    return row as { beat_at: Date; ended_at: Date | null };
  };
  const stopped = fleet.stop();
  await until('nothing polls any more', async () => fleet.workers.every((one) => one.getState() === 'STOPPED'));
  const first = await lease();
  await until('the lease beats on', async () => (await lease()).beat_at > first.beat_at);
  expect((await lease()).ended_at).toBeNull();
  await expect(fleet.dispatcher.dispatch(house.call('NON_RETRYABLE', 'too-late'))).rejects.toMatchObject({
    code: 'busy',
  });
  await house.billing.release();
  await stopped;
  expect(await heard).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
  const [row] = await house.ledger.sql`
    SELECT e.settled_at <= p.ended_at AS in_order FROM holdfast.effects e, holdfast.processes p
    WHERE e.call_id = 'stopped' AND p.process_id = ${processId}`;
  expect(row).toEqual({ in_order: true });
  expect(await house.sends(call)).toBe(1);
});
