import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { exampleContracts } from '../../../examples/contract-refs.ts';
import { createProvider } from '../../../providers/index.ts';
import type { ProviderAdapter, SendInput } from '../../../providers/provider.ts';
import { type Billing, startBilling } from '../../support/billing.ts';
import { inputOf, look, scope } from '../../unit/providers/support.ts';

const TOKEN = 'billing-test-token';
const secret = { name: 'billing', version: '1', value: TOKEN };
const contracts = new Map(
  exampleContracts(join(import.meta.dirname, '../../../examples/billing-provider')).map(({ contract }) => [
    contract.tool,
    contract,
  ]),
);

const INVOICE = { customer: 'ACME', amount: 1200, currency: 'EUR' };
const PAYMENT = { payee: 'ACME', amount: 1200, currency: 'EUR' };
const WRITES: [string, JsonObject, string][] = [
  ['billing.send_invoice', INVOICE, '/v1/invoices'],
  ['billing.pay', PAYMENT, '/v1/payments'],
  ['billing.put_setting', { id: 'terms', value: '30d' }, '/v1/settings/terms'],
  ['billing.note', { text: 'hello' }, '/v1/notes'],
];

let billing: Billing;
let adapter: ProviderAdapter;
beforeAll(async () => {
  billing = await startBilling({ token: TOKEN });
  adapter = createProvider('billing', { kind: 'http', base_url: billing.url });
});
afterEach(() => billing.clearFaults());
afterAll(async () => {
  await adapter?.close();
  await billing?.stop();
});

function send(tool: string, effectKey: string, args: JsonObject, more: Partial<SendInput> = {}, to = adapter) {
  const contract = contracts.get(tool) as Contract;
  return to.send(inputOf(contract, to.render(contract, { ...scope, effectKey, args }), { secret, ...more }));
}

async function booked(key: string) {
  return (await billing.audit(key)).map(({ accepted, outcome }) => ({ accepted, outcome }));
}

describe('the example contracts at the example provider', () => {
  it('makes an invoice once per key and replays it', async () => {
    const first = await send('billing.send_invoice', 'inv-1', INVOICE);
    const again = await send('billing.send_invoice', 'inv-1', INVOICE);
    expect(first).toMatchObject({
      kind: 'response',
      status: 201,
      body: { invoice: { ...INVOICE, reference: 'inv-1' } },
    });
    expect(again).toEqual({ ...first, headers: { 'content-type': 'application/json', 'idempotent-replayed': 'true' } });
    expect(await booked('inv-1')).toEqual([
      { accepted: true, outcome: 'created' },
      { accepted: true, outcome: 'deduped' },
    ]);
  });

  it('refuses another invoice under the same key', async () => {
    await send('billing.send_invoice', 'inv-2', INVOICE);
    const other = await send('billing.send_invoice', 'inv-2', { ...INVOICE, amount: 1 });
    expect(other).toMatchObject({ status: 409, body: { error: { code: 'idempotency_mismatch' } } });
  });

  it('pays as often as it is asked, and says how often', async () => {
    await send('billing.pay', 'pay-1', PAYMENT);
    await send('billing.pay', 'pay-1', PAYMENT);
    expect(await send('billing.find_payment', 'look', { key: 'pay-1' })).toMatchObject({
      status: 200,
      body: { count: 2, payment: { ...PAYMENT, reference: 'pay-1' } },
    });
  });

  it('keeps the last write of a setting and remembers each write by its key', async () => {
    await send('billing.put_setting', 'set-1', { id: 'terms', value: '14d' });
    await send('billing.put_setting', 'set-2', { id: 'terms', value: '30d' });
    expect(await send('billing.find_setting_write', 'look', { id: 'terms', key: 'set-1' })).toMatchObject({
      status: 200,
      body: { count: 1, setting: { id: 'terms', value: '14d', reference: 'set-1' } },
    });
    expect(await send('billing.find_setting_write', 'look', { id: 'other', key: 'set-1' })).toMatchObject({
      status: 404,
    });
  });

  it.each([
    ['billing.find_invoice', { key: 'never' }],
    ['billing.find_payment', { key: 'never' }],
    ['billing.find_setting_write', { id: 'terms', key: 'never' }],
  ])('%s shows absence in the very words that its readers pin', async (tool, args) => {
    expect(await send(tool, 'look', args)).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } });
  });

  it('lists invoices in pages that end', async () => {
    for (const n of [1, 2, 3]) await send('billing.send_invoice', `page-${n}`, { ...INVOICE, amount: n });
    const seen: unknown[] = [];
    for (let cursor: JsonObject = {}; ; ) {
      const page = await send('billing.list_invoices', 'look', { limit: 2, ...cursor });
      const body =
        page.kind === 'response'
          ? (page.body as unknown as { invoices: { reference: string }[]; next_cursor: string | null })
          : undefined;
      seen.push(...(body?.invoices ?? []).map(({ reference }) => reference));
      if (typeof body?.next_cursor !== 'string') break;
      cursor = { cursor: body.next_cursor };
    }
    expect(seen.slice(-3)).toEqual(['page-1', 'page-2', 'page-3']);
  });

  it('tells a rate, and that there is none', async () => {
    expect(await send('billing.rate', 'look', { currency: 'USD' })).toMatchObject({
      status: 200,
      body: { per_eur: '1.0850' },
    });
    expect(await send('billing.rate', 'look', { currency: 'XXX' })).toMatchObject({ status: 404 });
  });

  it('refuses a wrong token without booking anything as accepted', async () => {
    const wrong = { ...secret, value: 'some-other-token' };
    expect(await send('billing.pay', 'pay-401', PAYMENT, { secret: wrong })).toMatchObject({ status: 401 });
    expect(await booked('pay-401')).toEqual([]);
  });
});

describe('the evidence rules of the example contracts', () => {
  const EVIDENT = WRITES.filter(([tool]) => tool !== 'billing.note');
  const ask = (tool: string, effectKey: string, args: JsonObject) => {
    const contract = contracts.get(tool) as Contract;
    const asked = contracts.get(contract.execution.evidence?.call.tool ?? '') as Contract;
    return look(adapter, contract, asked, { ...scope, effectKey, args }, { secret });
  };

  it.each(EVIDENT)('%s: found once sent, with equal content', async (tool, args) => {
    await send(tool, `seen-${tool}`, args);
    expect(await ask(tool, `seen-${tool}`, args)).toMatchObject({ kind: 'found', matches: 1, equal: true });
  });

  it.each(EVIDENT)('%s: absent when never sent', async (tool, args) => {
    expect(await ask(tool, `unseen-${tool}`, args)).toMatchObject({ kind: 'absent', complete: true });
  });

  it.each(EVIDENT)('%s: found, but unequal, when it was sent with other content', async (tool, args) => {
    const other = 'amount' in args ? { ...args, amount: 1 } : { ...args, value: 'other' };
    await send(tool, `other-${tool}`, other);
    expect(await ask(tool, `other-${tool}`, args)).toMatchObject({ kind: 'found', equal: false });
  });

  it('billing.pay: unequal when it was paid twice', async () => {
    await send('billing.pay', 'twice', PAYMENT);
    await send('billing.pay', 'twice', PAYMENT);
    expect(await ask('billing.pay', 'twice', PAYMENT)).toMatchObject({ kind: 'found', equal: false });
  });

  it.each(EVIDENT)('%s: inconclusive when the provider has lost its evidence', async (tool, args) => {
    await billing.faults({ route: 'GET /v1/*', mode: 'lose_evidence' });
    expect(await ask(tool, `lost-${tool}`, args)).toMatchObject({ kind: 'inconclusive' });
  });
});

describe.each(WRITES)('faults at %s', (tool, args, path) => {
  const method = tool === 'billing.put_setting' ? 'PUT' : 'POST';
  const route = `${method} ${path}`;
  const made = tool === 'billing.put_setting' ? 'updated' : 'created';
  const keyOf = (mode: string) => `${tool}-${mode}`;

  it.each([
    ['hang_before_accept', { kind: 'no_answer', why: 'no whole answer within 100 ms' }, false],
    ['accept_then_hang', { kind: 'no_answer', why: 'no whole answer within 100 ms' }, true],
    ['accept_then_close', { kind: 'no_answer' }, true],
    ['close_before_accept', { kind: 'no_answer' }, false],
    ['drop_mid_body', { kind: 'no_answer' }, true],
    ['status', { kind: 'response', status: 503 }, false],
    ['accept_then_status', { kind: 'response', status: 500 }, true],
  ] as const)('%s, addressed by a field of the body', async (mode, expected, accepted) => {
    const key = keyOf(mode);
    const field = tool === 'billing.note' ? '/body/text' : '/body/case';
    const marked = tool === 'billing.note' ? { text: mode } : { ...args, case: mode };
    await billing.faults({ route, mode, match: { [field]: mode } });
    const answer = await send(tool, key, marked, { timeoutMs: 100 });
    expect(answer).toMatchObject(expected);
    // A request that hangs is booked as dropped only once its client has gone.
    await expect
      .poll(() => booked(key), { timeout: 10_000 })
      .toEqual([{ accepted, outcome: accepted ? made : 'dropped' }]);
    expect(await send(tool, `${key}-other`, args)).toMatchObject({ kind: 'response' });
  });
});

describe('fault control', () => {
  it('counts who hangs, and lets them go on with the true answer', async () => {
    await billing.faults({ route: 'POST /v1/payments', mode: 'accept_then_hang', times: 1 });
    const answer = send('billing.pay', 'late-1', PAYMENT, { timeoutMs: 5_000 });
    await billing.untilWaiting(1);
    expect(await billing.waiting()).toMatchObject({ total: 1, routes: { 'POST /v1/payments': 1 } });
    expect(await billing.release({ key: 'late-1' })).toBe(1);
    expect(await answer).toMatchObject({ kind: 'response', status: 201 });
    expect(await booked('late-1')).toEqual([{ accepted: true, outcome: 'created' }]);
  });

  it('hides an artefact for a while, and loses evidence by what was written under the key', async () => {
    await billing.faults(
      { route: 'POST /v1/payments', mode: 'evidence_lag_ms', ms: 2_000, match: { '/key': 'lag-1' } },
      { route: 'GET /v1/payments', mode: 'lose_evidence', match: { '/seen/case': 'cannot_tell' } },
    );
    await send('billing.pay', 'lag-1', PAYMENT);
    expect(await send('billing.find_payment', 'look', { key: 'lag-1' })).toMatchObject({ status: 404 });
    await expect
      .poll(() => send('billing.find_payment', 'look', { key: 'lag-1' }), { timeout: 10_000 })
      .toMatchObject({ status: 200 });
    await send('billing.pay', 'lost-1', { ...PAYMENT, case: 'cannot_tell' });
    expect(await send('billing.find_payment', 'look', { key: 'lost-1' })).toMatchObject({ status: 500 });
  });

  it('refuses a rule it does not know', async () => {
    await expect(billing.faults({ mode: 'nonsense' as 'status' })).rejects.toThrow('mode: one of');
  });
});

describe('the books', () => {
  it('survive SIGKILL of the provider, with keys still removing duplicates', async () => {
    const first = await startBilling();
    const one = createProvider('b', { kind: 'http', base_url: first.url });
    const before = await send('billing.send_invoice', 'kept-1', INVOICE, { secret: null }, one);
    await first.kill('SIGKILL');
    const second = await startBilling({ store: first.store });
    const two = createProvider('b', { kind: 'http', base_url: second.url });
    const after = await send('billing.send_invoice', 'kept-1', INVOICE, { secret: null }, two);
    expect(after).toMatchObject({ status: 201, body: before.kind === 'response' ? before.body : null });
    expect((await second.audit('kept-1')).map(({ outcome }) => outcome)).toEqual(['created', 'deduped']);
    await Promise.all([one.close(), two.close(), second.stop(), first.stop()]);
  });

  it('forget a key after its window', async () => {
    const short = await startBilling({ windowMs: 50 });
    const to = createProvider('b', { kind: 'http', base_url: short.url });
    await send('billing.send_invoice', 'old-1', INVOICE, { secret: null }, to);
    await new Promise((resolve) => setTimeout(resolve, 80));
    await send('billing.send_invoice', 'old-1', INVOICE, { secret: null }, to);
    expect((await short.audit('old-1')).map(({ outcome }) => outcome)).toEqual(['created', 'created']);
    await Promise.all([to.close(), short.stop()]);
  });
});
