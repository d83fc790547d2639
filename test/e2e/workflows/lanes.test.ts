import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Holdfast } from '../../../client/holdfast.ts';
import type { Call, Outcome } from '../../../effects/effect.ts';
import { isHoldfastError } from '../../../effects/errors.ts';
import type { Fleet } from '../../../workers/fleet.ts';
import { type House, openHouse, TENANT, userWorkflow } from '../support/house.ts';

let house: House;
let fleet: Fleet;
let host: Holdfast;

beforeAll(async () => {
  house = await openHouse();
  fleet = await house.fleet();
  host = house.hostOf(fleet);
});

afterAll(() => house?.close());

const LANES = ['direct', 'workflow', 'local', 'activity'] as const;
type Lane = (typeof LANES)[number];

const QUEUE = 'holdfast-provider-billing';

/** One call by any lane, as its caller hears it. */
async function dispatch(lane: Lane, call: Call, waitMs = 0): Promise<Outcome> {
  if (lane === 'direct' || lane === 'workflow') return host.dispatch({ ...call, lane, waitMs: waitMs || 20_000 });
  const options = { lane, waitMs, ...(lane === 'activity' ? { taskQueue: QUEUE } : {}) };
  const handle = await userWorkflow(house, [call], options);
  const [outcome] = (await handle.result()) as Outcome[];
  if (outcome === undefined) throw new Error('the workflow answered without an outcome');
  return outcome;
}

describe.each(LANES)('the lane %s', (lane) => {
  test('sends one call once and says what the provider answered', async () => {
    const call = house.call('NON_RETRYABLE', `plain-${lane}`);
    const outcome = await dispatch(lane, call);
    expect(outcome).toEqual({
      status: 'CONFIRMED',
      effectId: `effect:${TENANT}:${house.run}:${call.call}`,
      tool: call.tool,
      version: call.version,
      effectClass: 'NON_RETRYABLE',
      result: { payment: expect.objectContaining({ payee: call.call, amount: 980, currency: 'EUR' }) },
      settledBy: 'holder',
    });
    expect(await house.sends(call)).toBe(1);
  });

  test('gives the recorded outcome to a repeat of the call id', async () => {
    const call = house.call('NON_RETRYABLE', `repeat-${lane}`);
    const first = await dispatch(lane, call);
    const repeats: Outcome[] = [];
    for (const other of LANES) repeats.push(await dispatch(other, call));
    expect(repeats).toEqual([first, first, first, first]);
    expect(await house.sends(call)).toBe(1);
  });

  test('answers a wrong digest with tool_schema_drift, as a row, and sends nothing (D9)', async () => {
    const call = { ...house.call('NON_RETRYABLE', `drift-${lane}`), digest: `sha256/v1:${'0'.repeat(64)}` };
    const outcome = await dispatch(lane, call);
    expect(outcome).toMatchObject({
      status: 'NOT_APPLIED',
      settledBy: 'admission',
      reason: { code: 'tool_schema_drift' },
    });
    const row = await house.row(call.call);
    expect({ status: row?.status, code: row?.reasonCode }).toEqual({
      status: 'NOT_APPLIED',
      code: 'tool_schema_drift',
    });
    expect(await house.sends(call)).toBe(0);
  });

  test('takes the right digest', async () => {
    const pinned = await host.pin(house.call('NON_RETRYABLE', 'x').tool, '1.0.0');
    const call = { ...house.call('NON_RETRYABLE', `pinned-${lane}`), digest: pinned.digest };
    expect((await dispatch(lane, call)).status).toBe('CONFIRMED');
  });

  test('refuses a call id that already names another call', async () => {
    const call = house.call('NON_RETRYABLE', `reused-${lane}`);
    await dispatch(lane, call);
    const other = { ...call, args: { ...call.args, amount: 1 } };
    const codes = await codeOf(dispatch(lane, other));
    expect(codes).toBe('call_id_reused');
    expect(await house.sends(call)).toBe(1);
  });

  test('passes arguments and results above 8 KiB', async () => {
    const payee = `${lane} ${'p'.repeat(20_000)}`;
    const call = house.call('NON_RETRYABLE', `large-${lane}`, { payee });
    const outcome = await dispatch(lane, call);
    expect(outcome).toEqual({
      status: 'CONFIRMED',
      effectId: `effect:${TENANT}:${house.run}:${call.call}`,
      tool: call.tool,
      version: call.version,
      effectClass: 'NON_RETRYABLE',
      result: null,
      resultStoredBytes: expect.any(Number),
      settledBy: 'holder',
    });
    const { result } = await host.effect(call, { payloads: true });
    const kept = JSON.parse(result ?? 'null') as { payment: { payee: string } };
    const [line] = await house.billing.audit(house.keyOf(call));
    const seen = (line?.body as { payee: string } | undefined)?.payee;
    // Compared by `===`: a difference would print all of it.
    expect({ kept: kept.payment.payee === payee, seen: seen === payee }).toEqual({ kept: true, seen: true });
  });

  test('refuses a repeat in other words while the first is open, names it, and lets host code override', async () => {
    const first = house.call('NON_RETRYABLE', `twin-${lane}`);
    await house.billing.faults(
      { route: 'POST /v1/payments', mode: 'accept_then_close', times: 1, match: { '/body/payee': first.call } },
      { route: 'GET /v1/payments', mode: 'status', status: 503, match: { '/query/reference': house.keyOf(first) } },
    );
    const open = await dispatch(lane, first, 1_500);
    expect(open).toMatchObject({
      status: 'UNKNOWN',
      message: `outcome unknown, do not repeat, effect id effect:${TENANT}:${house.run}:${first.call}`,
    });
    const twin = { ...first, call: `twin-${lane}-again` };
    const refused = await dispatch(lane, twin);
    expect(refused).toMatchObject({ status: 'NOT_APPLIED', reason: { code: 'effect_unresolved' } });
    expect((refused as { reason: { message: string } }).reason.message).toContain(open.effectId);
    expect(await house.sends(twin)).toBe(0);

    const allowed = { ...first, call: `twin-${lane}-override`, override: { actor: 'ann', reason: 'two are wanted' } };
    expect(await dispatch(lane, allowed)).toMatchObject({ status: 'CONFIRMED' });
    expect([await house.sends(first), await house.sends(allowed)]).toEqual([1, 1]);
    const { history } = await host.effect(allowed);
    expect(history).toContainEqual(
      expect.objectContaining({ event: 'override', actor: 'ann', reason: 'two are wanted' }),
    );
    await house.billing.clearFaults();
  });
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (isHoldfastError(error)) return error.code;
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      const { type } = cause as { type?: string };
      if (type !== undefined) return type;
    }
    throw error;
  }
  throw new Error('it was not refused');
}
