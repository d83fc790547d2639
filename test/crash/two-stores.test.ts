import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Outcome } from '../../effects/effect.ts';
import { booksOf, readBooks } from './support/auditor.ts';
import { openWorld, TENANT, until, type World } from './support/world.ts';

/** The ledger and Temporal are written one after the other: a worker dies between the two, in either order. */
describe('case 17: a worker killed between the ledger and the workflow', () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld();
  });
  afterEach(() => world.close());

  const books = (name: string) => booksOf(readBooks(world.billing.store), 'NON_RETRYABLE', name, '');
  const ONCE = { sends: 1, artefacts: 1, keys: 1 };
  const told = ({ status, ...rest }: Outcome) => ({ status, by: 'settledBy' in rest ? rest.settledBy : null });

  test('the outcome was written and the workflow not told: it hears the recorded one, and nothing is sent again', async () => {
    const holder = await world.worker(['dispatch', 'providers'], { armed: { point: 'settled', action: 'SIGKILL' } });
    const handle = await world.callMany([world.call('NON_RETRYABLE', 'told-late')], 'local');
    expect(await holder.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const before = await world.row('told-late');
    expect([holder.reached(), before?.status]).toEqual([['told-late'], 'CONFIRMED']);
    expect((await handle.describe()).status.name).toBe('RUNNING');

    await world.worker(['dispatch', 'providers']);
    expect((await handle.result()).map(told)).toEqual([{ status: 'CONFIRMED', by: 'holder' }]);
    const after = await world.row('told-late');
    expect([after?.nonce, after?.sends]).toEqual([before?.nonce, 1]);
    expect(books('told-late')).toEqual(ONCE);
  });

  test('the workflow had begun and nothing was written: the call is made once, by the next worker', async () => {
    const holder = await world.worker(['dispatch', 'providers'], {
      armed: { point: 'before_record', action: 'SIGKILL' },
    });
    const handle = await world.callMany([world.call('NON_RETRYABLE', 'begun')], 'local');
    expect(await holder.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect([holder.reached(), await world.row('begun')]).toEqual([['begun'], undefined]);
    expect((await handle.describe()).status.name).toBe('RUNNING');

    await world.worker(['dispatch', 'providers']);
    expect((await handle.result()).map(told)).toEqual([{ status: 'CONFIRMED', by: 'holder' }]);
    expect(books('begun')).toEqual(ONCE);
  });

  test('a verdict was written and its reconciliation not told: it closes with the verdict, without another look', async () => {
    const [holder, judging] = await Promise.all([
      world.worker(['dispatch', 'providers']),
      world.worker(['reconcile'], { armed: { point: 'verdict_written', action: 'SIGKILL' } }),
    ]);
    await world.billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_close', times: 1 });
    const heard = holder.dispatch([world.call('NON_RETRYABLE', 'judged')], 60_000);
    expect(await judging.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect((await world.row('judged'))?.status).toBe('CONFIRMED');
    const looks = async () => (await world.billing.audit(world.keyOf(world.call('NON_RETRYABLE', 'judged')))).length;
    const before = await looks();
    const reconciliation = world.temporal.workflow.getHandle(`effect:${TENANT}:${world.run}:judged`);
    expect((await reconciliation.describe()).status.name).toBe('RUNNING');

    await world.worker(['reconcile']);
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    expect(await heard).toMatchObject([{ outcome: { status: 'CONFIRMED', settledBy: 'evidence' } }]);
    expect(await looks()).toBe(before);
    expect(books('judged')).toEqual(ONCE);
  });

  test('a decision had reached the workflow and not the ledger: it is applied once, by the next worker', async () => {
    await Promise.all([world.worker(['dispatch', 'providers']), world.billing.faults(...noEvidence)]);
    const judging = await world.worker(['reconcile']);
    await world.holdfast.dispatch({ ...world.call('NON_RETRYABLE', 'decided'), waitMs: 1 });
    await until('a person is called', async () => (await world.row('decided'))?.attention === 'NEEDS_DECISION');
    const reconciliation = world.temporal.workflow.getHandle(`effect:${TENANT}:${world.run}:decided`);
    // Asleep: the server keeps the signal in the workflow's history, and its worker dies with it.
    await judging.signal('SIGSTOP');
    await reconciliation.signal('decide', {
      decisionId: 'd-1',
      ruling: 'confirm',
      actor: 'ann',
      reason: 'the bank shows it',
      expected: { status: 'UNKNOWN', fence: 1 },
    });
    await judging.signal('SIGKILL');
    expect((await world.row('decided'))?.status).toBe('UNKNOWN');

    await world.worker(['reconcile']);
    expect(await reconciliation.result()).toEqual({ status: 'CONFIRMED' });
    const { history } = await world.holdfast.effect(world.call('NON_RETRYABLE', 'decided'));
    expect(history.filter(({ kind }) => kind === 'decision')).toMatchObject([{ decisionId: 'd-1', applied: true }]);
    expect(books('decided')).toEqual(ONCE);
  });
  const noEvidence = [
    { route: 'POST /v1/payments', mode: 'accept_then_close', times: 1 },
    { route: 'GET /v1/payments', mode: 'lose_evidence' },
  ] as const;
});
