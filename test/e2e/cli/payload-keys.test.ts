import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type Ledger } from '../../../db/connect.ts';
import { type Billing, startBilling } from '../../support/billing.ts';
import { type FreshDatabase, type FreshNamespace, freshDatabase, freshNamespace } from '../../support/stack.ts';
import { errorIn, type Ran, type Shipped, shippedCommand } from './command.ts';

const CONTRACTS = join(import.meta.dirname, '../../../examples/billing-provider/contracts');
const WORDS = 'only the customer may read this';
const SECRET = { HOLDFAST_SECRET_BILLING: 'v1:token' };

/** One story in order, with workers and commands that share a file of keys. */
describe('with payload keys the shipped command', () => {
  const holdfast: Shipped = shippedCommand();
  let database: FreshDatabase;
  let temporal: FreshNamespace;
  let billing: Billing;
  let ledger: Ledger;
  let worker: { stop(): Promise<Ran> };

  const config = (more: object) =>
    JSON.stringify({
      database: { url: database.url },
      temporal: { address: temporal.address, namespace: temporal.namespace },
      providers: { billing: { kind: 'http', base_url: billing.url } },
      allow_unsafe_durability: true,
      ...more,
    });
  const json = async (...args: string[]) => {
    const ran = await holdfast.run([...args, '--json'], SECRET);
    if (ran.stdout === '') throw new Error(ran.stderr);
    return JSON.parse(ran.stdout) as Record<string, unknown>;
  };
  const call = (name: string, lane: string, wait = '30s') =>
    json(
      ...['call', 'billing.note', '--tool-version', '1.0.0', '--tenant', 'acme', '--run', 'r', '--call', name],
      ...['--lane', lane, '--wait', wait, '--args', JSON.stringify({ text: `${WORDS} (${name})` })],
    );
  const payloads = async (name: string) => {
    const rows = await ledger.sql`SELECT args, result FROM holdfast.effects WHERE call_id = ${name}`;
    return [rows[0]?.['args'], rows[0]?.['result']] as (string | null)[];
  };

  beforeAll(async () => {
    [database, temporal, billing] = await Promise.all([freshDatabase(), freshNamespace(), startBilling()]);
    ledger = connect(database.url, { connectionsMax: 1 });
    const keys = { keys: { k1: randomBytes(32).toString('base64') }, default: 'k1' };
    writeFileSync(join(holdfast.dir, 'keys.json'), JSON.stringify(keys));
    writeFileSync(join(holdfast.dir, 'holdfast.yaml'), config({ payload_keys_file: 'keys.json' }));
    writeFileSync(join(holdfast.dir, 'no-keys.yaml'), config({}));
    await holdfast.run(['tenant', 'put', 'acme']);
    await holdfast.run(
      ['credential', 'put', 'billing', '--credential-version', 'v1', '--account', 'a'].concat('--grant', '**'),
    );
    const published = await holdfast.run(['contract', 'publish', join(CONTRACTS, 'note.yaml')]);
    expect(published.stderr).toBe('');
    worker = await holdfast.worker([], SECRET);
  });
  afterAll(async () => {
    await worker?.stop();
    await ledger?.close();
    await billing?.stop();
    await database?.drop();
    holdfast.remove();
  });

  test.each(['workflow', 'direct'])(
    'makes a call by lane %s, shows its result, and leaves no payload readable',
    async (lane) => {
      const outcome = await call(`note-${lane}`, lane);
      expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'holder' });
      expect(JSON.stringify(outcome['result'])).toContain(WORDS);
      expect((await payloads(`note-${lane}`)).map((text) => text?.slice(0, 7))).toEqual(['hf1:k1:', 'hf1:k1:']);
    },
  );

  test('leaves no payload readable in history', async () => {
    const connection = await Connection.connect({ address: temporal.address });
    const client = new Client({ connection, namespace: temporal.namespace });
    const { events } = await client.workflow.getHandle('call:acme:r:note-workflow').fetchHistory();
    await connection.close();
    const datas = [...JSON.stringify(events).matchAll(/"data":"([^"]*)"/g)].map(([, text = '']) =>
      Buffer.from(text, 'base64').toString(),
    );
    const coded = datas.filter((text) => text.startsWith('hf1:k1:')).length;
    expect({ coded: coded >= 2, readable: datas.filter((text) => text.includes(WORDS)) }).toEqual({
      coded: true,
      readable: [],
    });
  });

  test('waits for an outcome, and shows and exports payloads in the clear to whoever has the keys', async () => {
    const id = 'effect:acme:r:note-workflow';
    expect(JSON.stringify((await json('effect', 'wait', id))['result'])).toContain(WORDS);
    expect((await json('effect', 'show', id, '--payloads'))['args']).toContain(WORDS);
    const exported = await holdfast.run(['audit', 'export', '--tenant', 'acme', '--payloads']);
    expect(exported.stdout).toContain(WORDS);
  });

  test('says which key it lacks', async () => {
    const ran = await holdfast.run(['effect', 'wait', 'effect:acme:r:note-workflow', '--config', 'no-keys.yaml']);
    expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({
      exit: 1,
      code: 'payload_unreadable',
      message: expect.stringContaining('key "k1"'),
    });
  });

  test('writes the result of a decision as workers do', async () => {
    await billing.faults({ route: 'POST /v1/notes', mode: 'accept_then_close', times: 1 });
    expect(await call('note-decided', 'direct', '0ms')).toMatchObject({ status: 'UNKNOWN' });
    const id = 'effect:acme:r:note-decided';
    const result = JSON.stringify({ note: WORDS });
    const ruled = ['effect', 'confirm', id, '--actor', 'ann', '--reason', 'seen in the books', '--result', result];
    expect(await json(...ruled)).toMatchObject({ applied: true });
    expect((await payloads('note-decided')).map((text) => text?.slice(0, 7))).toEqual(['hf1:k1:', 'hf1:k1:']);
    expect((await json('effect', 'wait', id))['result']).toEqual({ note: WORDS });
  });
});
