import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import { defineSearchAttributeKey } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SEARCH_ATTRIBUTES } from '../../../client/search-attributes.ts';
import { defaultBinDir, temporalRoads } from '../../../dev/temporal.ts';
import { findTemporal } from '../../../dev/temporal-binary.ts';
import type { Call } from '../../../effects/effect.ts';
import type { Fleet } from '../../../workers/fleet.ts';
import type { DecidePayload } from '../../../workflows/decide-payload.ts';
import { checkNowSignal, decideSignal, decideUpdate, effectQuery } from '../../../workflows/reconcile-effect.ts';
import { until } from '../../crash/support/world.ts';
import { type House, openHouse, stuckCall, TENANT } from '../support/house.ts';

let house: House;
let dispatching: Fleet;
let reconciling: Fleet | undefined;

beforeAll(async () => {
  house = await openHouse();
  dispatching = await house.fleet({ roles: ['dispatch', 'providers'] });
  await reconcilersUp();
});

afterAll(() => house?.close());

async function reconcilersUp(): Promise<void> {
  reconciling = await house.fleet({ roles: ['reconcile'] });
}

async function reconcilersDown(): Promise<void> {
  await reconciling?.stop();
}

const stuck = (name: string) => stuckCall(house, dispatching, name);

const ruling = (decisionId: string, more: Partial<DecidePayload> = {}): DecidePayload => ({
  decisionId,
  ruling: 'confirm',
  actor: 'ann',
  reason: 'the bank shows it',
  expected: { status: 'UNKNOWN', fence: 1 },
  ...more,
});

async function eventKinds(handle: WorkflowHandle): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).map((event) => Object.keys(event).find((key) => key.endsWith('EventAttributes')) ?? '');
}

async function decisionsOf(call: Call) {
  const { history } = await house.holdfast.effect(call);
  return history.filter((entry) => entry.kind === 'decision');
}

describe('the Update decide', () => {
  test('settles the effect, answers, and only then lets the workflow close (case 11)', async () => {
    const { call, reconciliation } = await stuck('update');
    const answer = await reconciliation.executeUpdate(decideUpdate, { args: [ruling('u-1')] });
    expect(answer).toEqual({
      effectId: `effect:${TENANT}:${house.run}:update`,
      decisionId: 'u-1',
      applied: true,
      repeated: false,
      refusal: null,
      status: 'CONFIRMED',
      fence: 1,
    });
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    const kinds = await eventKinds(reconciliation);
    expect(kinds.filter((kind) => /Update|Completed/.test(kind)).slice(-2)).toEqual([
      'workflowTaskCompletedEventAttributes',
      'workflowExecutionCompletedEventAttributes',
    ]);
    expect(kinds.indexOf('workflowExecutionUpdateCompletedEventAttributes')).toBeGreaterThan(0);
    expect(await house.sends(call)).toBe(1);
  });

  test('that is sent many times at once, with one id, is applied once and answered every time', async () => {
    const { call, reconciliation } = await stuck('update-many');
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => reconciliation.executeUpdate(decideUpdate, { args: [ruling('u-many')] })),
    );
    expect(answers.map(({ applied, status }) => ({ applied, status }))).toEqual(
      answers.map(() => ({ applied: true, status: 'CONFIRMED' })),
    );
    expect(answers.filter(({ repeated }) => !repeated)).toHaveLength(1);
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await decisionsOf(call)).toHaveLength(1);
  });

  test('to a workflow that no worker has in its cache is applied once (case 10)', async () => {
    const { call, reconciliation } = await stuck('uncached');
    await reconcilersDown();
    await reconcilersUp();
    const answer = await reconciliation.executeUpdate(decideUpdate, { args: [ruling('u-uncached')] });
    expect(answer).toMatchObject({ applied: true, repeated: false, status: 'CONFIRMED' });
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await decisionsOf(call)).toHaveLength(1);
  });

  test.each([
    ['no object', 'yes, it happened', 'the decision is not a JSON object'],
    ['no decision id', { ...ruling('x'), decisionId: undefined }, 'decisionId: '],
    ['an unknown ruling', { ...ruling('x'), ruling: 'maybe' }, 'ruling: '],
    ['the example untouched', { ...ruling('x'), actor: 'YOUR NAME' }, 'put your own text in place of "YOUR NAME"'],
    ['no reason', { ...ruling('x'), reason: ' ' }, 'reason: '],
    ['no expected version', { ...ruling('x'), expected: undefined }, 'expected: '],
    ['a fence of another claim', ruling('x', { expected: { status: 'UNKNOWN', fence: 7 } }), 'has fence 1'],
    ['force as a text', { ...ruling('x'), force: 'yes' }, 'force: true or false'],
  ])('with %s is refused with the reason and leaves no trace in history', async (_, payload, why) => {
    const { reconciliation } = await once();
    const step = await until('the first look is made', async () => (await reconciliation.query(effectQuery)) ?? false);
    expect(step.fence).toBe(1);
    const refused = reconciliation.executeUpdate('decide', { args: [payload] });
    await expect(refused).rejects.toMatchObject({
      cause: { type: expect.stringMatching(/^(bad_input|decision_refused)$/), message: expect.stringContaining(why) },
    });
    const kinds = await eventKinds(reconciliation);
    expect(kinds.filter((kind) => kind.includes('Update'))).toEqual([]);
  });

  let shared: ReturnType<typeof stuck> | undefined;
  function once() {
    shared ??= stuck('refusals');
    return shared;
  }
});

describe('the Signal decide', () => {
  test('sent while no worker runs is applied once when one comes (case 10)', async () => {
    const { call, reconciliation } = await stuck('signal');
    await reconcilersDown();
    await reconciliation.signal(decideSignal, ruling('s-1'));
    await reconciliation.signal(decideSignal, ruling('s-1'));
    expect((await house.row(call.call))?.status).toBe('UNKNOWN');
    await reconcilersUp();
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await decisionsOf(call)).toEqual([
      expect.objectContaining({ decisionId: 's-1', applied: true, actor: 'ann', source: 'temporal' }),
    ]);
    expect(await house.sends(call)).toBe(1);
  });

  test('that is malformed is logged and changes nothing', async () => {
    const { call, reconciliation } = await stuck('signal-malformed');
    await reconciliation.signal('decide', { ruling: 'confirm' });
    const warning = await until(
      'the workflow warns',
      async () => house.warnings().find(({ message }) => message === 'a decide signal was malformed') ?? false,
    );
    expect(warning.meta).toMatchObject({ why: expect.stringContaining('decisionId'), workflowId: expect.any(String) });
    expect((await house.row(call.call))?.status).toBe('UNKNOWN');
    expect(await decisionsOf(call)).toEqual([]);
    await reconciliation.executeUpdate(decideUpdate, { args: [ruling('after-malformed')] });
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
  });
});

describe('the Signal checkNow', () => {
  test('before the effect turns UNKNOWN is remembered until there is something to look at', async () => {
    const call = house.call('NON_RETRYABLE', 'check-early');
    await house.billing.faults({
      route: 'POST /v1/payments',
      mode: 'accept_then_hang',
      match: { '/body/payee': call.call },
    });
    const flight = house.hostOf(dispatching).dispatch({ ...call, lane: 'direct', waitMs: 0 });
    await house.billing.untilWaiting(1);
    await house.holdfast.checkNow(call);
    const reconciliation = house.temporal.workflow.getHandle(`effect:${TENANT}:${house.run}:check-early`);
    const step = await until('it has read the row', async () => (await reconciliation.query(effectQuery)) ?? false);
    expect({ status: step.status, looks: step.looks }).toEqual({ status: 'DISPATCHED', looks: [] });
    // The holder times out and settles UNKNOWN; the asked look follows.
    expect(await flight).toMatchObject({ status: 'UNKNOWN' });
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    const { history } = await house.holdfast.effect(call);
    expect(history.filter((entry) => entry.kind === 'evidence').map(({ verdict }) => verdict)).toContain('CONFIRMED');
    expect(await house.sends(call)).toBe(1);
  });

  test('during a look survives continue-as-new', async () => {
    const { call, reconciliation } = await stuck('check-continued');
    const first = (await reconciliation.describe()).runId;
    await reconcilersDown();
    // Four megabytes of history: the server suggests continue-as-new.
    for (let i = 0; i < 5; i += 1) await reconciliation.signal('decide', { padding: 'x'.repeat(1_000_000) });
    await house.billing.clearFaults();
    await house.billing.faults({
      route: 'GET /v1/payments',
      mode: 'hang_before_accept',
      times: 1,
      match: { '/query/reference': house.keyOf(call) },
    });
    await reconcilersUp();
    await house.billing.untilWaiting(1);
    await reconciliation.signal(checkNowSignal, { actor: 'ann' });
    // The look times out as inconclusive, so the workflow goes on in a new run, which looks because it was asked to.
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    const last = (await reconciliation.describe()).runId;
    expect(last).not.toBe(first);
    const { events } = await reconciliation.fetchHistory();
    const [started] = events ?? [];
    expect(started?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId).toBeTruthy();
    const { history } = await house.holdfast.effect(call);
    const looks = history.filter((entry) => entry.kind === 'evidence');
    expect(looks.at(-1)).toMatchObject({ actor: expect.stringMatching(/^checkNow@/) });
  });
});

describe('what an operator sees', () => {
  test('search attributes from the start and after settling, summary, details and memo', async () => {
    const { reconciliation } = await stuck('seen');
    const attributes = async () => {
      const { typedSearchAttributes } = await reconciliation.describe();
      return Object.fromEntries(
        SEARCH_ATTRIBUTES.map((name) => [name, typedSearchAttributes.get(defineSearchAttributeKey(name, 'KEYWORD'))]),
      );
    };
    const what = { EffectClass: 'NON_RETRYABLE', ToolName: 'crash.pay', ToolVersion: '1.0.0', Tenant: TENANT };
    expect(await attributes()).toMatchObject({ ...what, EffectStatus: 'UNKNOWN' });
    await until('a person is called', async () => (await attributes())['EffectAttention'] === 'NEEDS_DECISION');
    const description = await reconciliation.describe();
    expect(description.memo).toEqual({
      effectId: `effect:${TENANT}:${house.run}:seen`,
      tool: 'crash.pay',
      version: '1.0.0',
      effectClass: 'NON_RETRYABLE',
    });
    expect(await description.staticSummary()).toBe('crash.pay@1.0.0 for acme: outcome unknown');
    const details = (await description.staticDetails())?.split('\n');
    expect(details).toContain(`ID=effect:${TENANT}:${house.run}:seen`);
    expect(details).toContain('holdfast effect confirm $ID \\');
    await reconciliation.executeUpdate(decideUpdate, { args: [ruling('seen-1')] });
    await reconciliation.result();
    expect(await attributes()).toEqual({ ...what, EffectStatus: 'CONFIRMED', EffectAttention: undefined });
  });

  test('the Query effect and the current details tell the same step, with a payload that decide takes', async () => {
    const { reconciliation } = await stuck('details');
    const step = await until('looks were made', async () => {
      const seen = await reconciliation.query(effectQuery);
      return seen?.attention === 'NEEDS_DECISION' && seen;
    });
    expect(step).toMatchObject({
      effectId: `effect:${TENANT}:${house.run}:details`,
      status: 'UNKNOWN',
      fence: 1,
      tool: 'crash.pay',
      version: '1.0.0',
      effectClass: 'NON_RETRYABLE',
    });
    const metadata = await reconciliation.query<{
      currentDetails: string;
      definition: { updateDefinitions: { name: string; description: string }[] };
    }>('__temporal_workflow_metadata');
    expect(metadata.currentDetails).toContain('needs a person: **NEEDS_DECISION**');
    expect(metadata.definition.updateDefinitions).toEqual([
      { name: 'decide', description: expect.stringContaining('Rule by hand') },
    ]);
    const example = /```json\n([\s\S]*?)\n```/.exec(metadata.currentDetails)?.[1] ?? '';
    const payload = { ...(JSON.parse(example) as DecidePayload), actor: 'ann', reason: 'copied from the details' };
    expect(await reconciliation.executeUpdate(decideUpdate, { args: [payload] })).toMatchObject({ applied: true });
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
  });
});

describe('the command temporal', () => {
  const run = promisify(execFile);

  async function temporal(...args: string[]): Promise<string> {
    const { stdout } = await run(await binary(), [
      ...args,
      ...['--address', house.address, '--namespace', house.namespace, '--output', 'json'],
    ]);
    return stdout;
  }

  test('sends decide by workflow update, and checkNow and decide by workflow signal', async () => {
    const updated = await stuck('cli-update');
    const workflowId = updated.reconciliation.workflowId;
    await temporal(
      'workflow',
      'signal',
      '--workflow-id',
      workflowId,
      '--name',
      'checkNow',
      '--input',
      '{"actor":"ann"}',
    );
    await temporal('workflow', 'signal', '--workflow-id', workflowId, '--name', 'checkNow');
    const said = await temporal(
      ...['workflow', 'update', 'execute', '--workflow-id', workflowId, '--name', 'decide'],
      ...['--input', JSON.stringify(ruling('cli-1'))],
    );
    expect(JSON.parse(said)).toMatchObject({ name: 'decide', result: { applied: true, status: 'CONFIRMED' } });
    expect(await updated.reconciliation.result()).toEqual({ status: 'CONFIRMED' });

    const signalled = await stuck('cli-signal');
    await temporal(
      ...['workflow', 'signal', '--workflow-id', signalled.reconciliation.workflowId, '--name', 'decide'],
      ...['--input', JSON.stringify(ruling('cli-2', { ruling: 'not_applied', force: true }))],
    );
    expect(await signalled.reconciliation.result()).toEqual({ status: 'NOT_APPLIED' });
  });
});

async function binary(): Promise<string> {
  for (const road of temporalRoads({})) {
    const found = await findTemporal(road, defaultBinDir()).catch(() => undefined);
    if (found !== undefined) return found.path;
  }
  throw new Error('the servers of this run were started by a CLI, and now there is none');
}

describe('a decision by the client', () => {
  test('with the reconcilers down is applied at once and once, and the workflow closes when they are back (case 10)', async () => {
    const { call, reconciliation } = await stuck('client-down');
    await reconcilersDown();
    const request = { ...ruling('c-1'), id: call, source: 'client' };
    const answer = await house.holdfast.decide(request);
    const again = await house.holdfast.decide(request);
    expect([answer, again]).toMatchObject([
      { applied: true, repeated: false, status: 'CONFIRMED' },
      { applied: true, repeated: true, status: 'CONFIRMED' },
    ]);
    expect((await reconciliation.describe()).status.name).toBe('RUNNING');
    await reconcilersUp();
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await decisionsOf(call)).toHaveLength(1);
  });

  test('that comes after the effect was settled is refused and recorded', async () => {
    const { call, reconciliation } = await stuck('client-late');
    await house.holdfast.decide({ ...ruling('l-1'), id: call, source: 'client' });
    await reconciliation.result();
    const late = await house.holdfast.decide({
      ...ruling('l-2', { ruling: 'not_applied', actor: 'bob' }),
      id: call,
      source: 'client',
    });
    expect(late).toMatchObject({
      applied: false,
      refusal: 'expected UNKNOWN with fence 1, but the effect is CONFIRMED with fence 1',
      status: 'CONFIRMED',
    });
    expect((await decisionsOf(call)).map(({ decisionId, applied }) => ({ decisionId, applied }))).toEqual([
      { decisionId: 'l-1', applied: true },
      { decisionId: 'l-2', applied: false },
    ]);
  });
});
