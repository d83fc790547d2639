import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, type EffectSummary, type Ledger, listEffects } from '../../../client/admin.ts';
import { type Billing, startBilling } from '../../support/billing.ts';
import {
  emptyDatabase,
  type FreshDatabase,
  type FreshNamespace,
  freshDatabase,
  freshNamespace,
} from '../../support/stack.ts';
import { errorIn, type Ran, type Shipped, shippedCommand } from './command.ts';

const CONTRACTS = join(import.meta.dirname, '../../../examples/billing-provider/contracts');
const SECRET = 's3cr3t-token';
const PASSWORD = 's3cr3t-password';
const PAYMENT = JSON.stringify({ payee: 'Ada', amount: 12, currency: 'EUR' });

const RATE = `tool: billing.rate
version: 2.0.0
owner: tests
selection: { title: Rate, description: Rate }
parameters: { type: object, properties: { currency: { type: string } }, required: [currency] }
`;

describe('bad input to the shipped command', () => {
  const holdfast: Shipped = shippedCommand();
  let database: FreshDatabase;
  let unmigrated: FreshDatabase;
  let temporal: FreshNamespace;
  let billing: Billing;
  let ledger: Ledger;
  let worker: { stop(): Promise<Ran> };
  const everything: string[] = [];

  const file = (name: string, text: string): string => {
    writeFileSync(join(holdfast.dir, name), text);
    return name;
  };
  const run = async (args: readonly string[], env?: Record<string, string>): Promise<Ran> => {
    const ran = await holdfast.run(args, env);
    everything.push(ran.stdout, ran.stderr);
    return ran;
  };
  const call = (name: string, tool: string, args: string, ...more: string[]): Promise<Ran> =>
    run([
      'call',
      tool,
      '--tool-version',
      '1.0.0',
      '--tenant',
      'acme',
      '--run',
      'r',
      '--call',
      name,
      '--args',
      args,
      ...more,
    ]);

  /** What the ledger has under a call id. */
  const rows = async (callId: string): Promise<readonly EffectSummary[]> =>
    (await listEffects(ledger, { limit: 500 })).effects.filter((effect) => effect.call === callId);

  beforeAll(async () => {
    [database, unmigrated, temporal, billing] = await Promise.all([
      freshDatabase(),
      emptyDatabase(),
      freshNamespace(),
      startBilling({ token: SECRET }),
    ]);
    ledger = connect(database.url);
    file(
      'holdfast.yaml',
      `database: { url: "${database.url}" }
temporal: { address: "${temporal.address}", namespace: ${temporal.namespace} }
queue_prefix: ${temporal.namespace}
providers:
  billing: { kind: http, base_url: "${billing.url}" }
  gone: { kind: http, base_url: "http://127.0.0.1:1" }
allow_unsafe_durability: true
`,
    );
    file(
      'gone.yaml',
      `${RATE.replaceAll('billing.rate', 'gone.put').replace('2.0.0', '1.0.0')}execution:
  { provider: gone, effect: NON_RETRYABLE, timeout: 1s, send_by: 1s, in_flight_max: 2s, http: { method: POST, path: /x } }
`,
    );
    file(
      'nobody.yaml',
      `${RATE.replaceAll('billing.rate', 'billing.nobody').replace('2.0.0', '1.0.0')}execution:
  { provider: billing, effect: NON_RETRYABLE, credential: nobody, timeout: 1s, send_by: 1s, in_flight_max: 2s, http: { method: POST, path: /x } }
`,
    );
    const published = ['find-payment', 'pay', 'rate'].map((name) => join(CONTRACTS, `${name}.yaml`));
    for (const args of [
      ['contract', 'publish', ...published, 'gone.yaml', 'nobody.yaml'],
      ['tenant', 'put', 'acme', '--payload-bytes-max', '2KiB'],
      ['credential', 'put', 'billing', '--credential-version', 'v1', '--account', 'main', '--grant', '**'],
    ]) {
      expect(await run(args)).toMatchObject({ exit: 0, stderr: '' });
    }
    worker = await holdfast.worker([], { HOLDFAST_SECRET_BILLING: `v1:${SECRET}` });
  });

  afterAll(async () => {
    const ran = await worker?.stop();
    everything.push(ran?.stdout ?? '', ran?.stderr ?? '');
    await billing?.stop();
    await ledger?.close();
    await Promise.all([database?.drop(), unmigrated?.drop()]);
    holdfast.remove();
  });

  it.each([
    ['malformed YAML', `tool: [unclosed\n`, 'broken.yaml:'],
    [
      'an unknown key',
      `${RATE}execution: { provider: billing, efect: PURE, http: { method: GET, path: /x } }\n`,
      'broken.yaml:6:',
    ],
    [
      'a bad schema',
      `${RATE.replace('{ type: object, ', '{ type: objekt, ')}execution: { provider: billing, effect: PURE, http: { method: GET, path: /x } }\n`,
      'broken.yaml:5:',
    ],
  ])('a contract file with %s is refused at its line, and nothing is published', async (_, text, place) => {
    const ran = await run(['contract', 'publish', file('broken.yaml', text), join(CONTRACTS, 'note.yaml')]);
    const error = errorIn(ran);
    expect({ exit: ran.exit, stdout: ran.stdout, code: error.code }).toEqual({
      exit: 2,
      stdout: '',
      code: 'bad_contract',
    });
    expect(error.place).toContain(place);
    expect((await run(['contract', 'list', '--tool', 'billing.note', '--json'])).stdout).toBe('{"contracts":[]}\n');
  });

  it.each([
    ['malformed YAML', 'database: { url: [\n', 'odd.yaml:'],
    ['an unknown key', 'queue_prefix: x\nwroker: {}\n', 'odd.yaml:1'],
    ['a lease without room for three beats', 'settings: { ttl_ms: 100 }\n', 'odd.yaml'],
  ])('a configuration with %s is refused', async (_, text, place) => {
    const ran = await run(['effect', 'list', '--config', file('odd.yaml', text)]);
    expect({ exit: ran.exit, code: errorIn(ran).code }).toEqual({ exit: 2, code: 'bad_config' });
    expect(errorIn(ran).place).toContain(place);
  });

  it.each([
    ['an unknown command', ['efect'], 'holdfast', "unknown command 'efect' (Did you mean effect?)"],
    ['no command', ['effect', '--json'], 'holdfast effect', 'holdfast effect needs a command'],
    [
      'an unknown option',
      ['effect', 'list', '--sutck'],
      'holdfast effect list',
      "unknown option '--sutck' (Did you mean --stuck?)",
    ],
    [
      'a missing option',
      ['effect', 'confirm', 'a:b:c', '--actor', 'ann'],
      'holdfast effect confirm',
      "required option '--reason <text>' not specified",
    ],
    ['a missing argument', ['contract', 'show'], 'holdfast contract show', "missing required argument 'tool@version'"],
  ])('wrong usage, %s, ends with 2 and the same form of error', async (_, args, place, message) => {
    const ran = await run(args);
    const error = args.includes('--json') ? JSON.parse(ran.stderr).error : errorIn(ran);
    expect({ exit: ran.exit, ...error }).toMatchObject({ exit: 2, code: 'bad_input', place, message });
  });

  it.each([
    [
      'wrong types',
      'billing.pay',
      '{"payee":"Ada","amount":"12","currency":"EUR"}',
      [],
      2,
      'bad_arguments',
      '/args/amount',
    ],
    ['text that is no JSON', 'billing.pay', '{"payee', [], 2, 'bad_input', '--args'],
    ['an array', 'billing.pay', '[]', [], 2, 'bad_input', '--args'],
    ['a malformed digest', 'billing.pay', PAYMENT, ['--digest', 'abc'], 2, 'bad_input', '/digest'],
    ['a wait without unit', 'billing.pay', PAYMENT, ['--wait', '5'], 2, 'bad_input', '--wait'],
    ['half an override', 'billing.pay', PAYMENT, ['--override-actor', 'ann'], 2, 'bad_input', '--override-reason'],
  ])('a call with %s leaves no row', async (name, tool, args, more, exit, code, place) => {
    const id = name.replaceAll(' ', '-');
    const ran = await call(id, tool, args, ...more);
    expect({ exit: ran.exit, stdout: ran.stdout, ...errorIn(ran) }).toMatchObject({ exit, stdout: '', code, place });
    expect(await rows(id)).toEqual([]);
  });

  it.each([
    ['small', 3_000],
    ['stored', 20_000],
  ])('arguments larger than the tenant may send are refused without a row: %s', async (name, length) => {
    const payee = 'x'.repeat(length);
    const big = file('big.json', JSON.stringify({ payee, amount: 1, currency: 'EUR' }));
    const ran = await call(`big-${name}`, 'billing.pay', `@${big}`);
    expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({ exit: 2, code: 'payload_too_large', place: '/args' });
    expect(await rows(`big-${name}`)).toEqual([]);
  });

  it.each([
    [
      'a digest of another version',
      'drift',
      'billing.pay',
      PAYMENT,
      ['--digest', `sha256/v1:${'0'.repeat(64)}`],
      'tool_schema_drift',
    ],
    ['an unknown tool', 'tool', 'billing.payy', '{}', [], 'tool_contract_not_found'],
    ['an unknown version', 'version', 'billing.pay', PAYMENT, ['--tool-version', '9.9.9'], 'tool_contract_not_found'],
    ['an unknown tenant', 'tenant', 'billing.pay', PAYMENT, ['--tenant', 'nobody'], 'tenant_unknown'],
    ['a missing credential', 'credential', 'billing.nobody', '{"currency":"EUR"}', [], 'credential_policy_changed'],
    ['a provider that is down', 'provider', 'gone.put', '{"currency":"EUR"}', [], 'not_sent'],
  ])(
    'a call refused for %s is recorded as not applied, and says so on both streams',
    async (_, id, tool, args, more, code) => {
      const ran = await call(id, tool, args, '--json', ...more);
      const outcome = JSON.parse(ran.stdout);
      const { error } = JSON.parse(ran.stderr);
      const effectId = `effect:${more[1] === 'nobody' ? 'nobody' : 'acme'}:r:${id}`;
      expect({
        exit: ran.exit,
        status: outcome.status,
        reason: outcome.reason.code,
        code: error.code,
        place: error.place,
      }).toEqual({
        exit: 3,
        status: 'NOT_APPLIED',
        reason: code,
        code,
        place: effectId,
      });
      expect(error.next).not.toBe('');
      expect(await rows(id)).toMatchObject([{ effectId, status: 'NOT_APPLIED', reasonCode: code }]);
    },
  );

  it('a call id that names another call is refused', async () => {
    expect(await call('twice', 'billing.rate', '{"currency":"EUR"}')).toMatchObject({ exit: 0, stderr: '' });
    const ran = await call('twice', 'billing.rate', '{"currency":"USD"}');
    expect({ exit: ran.exit, code: errorIn(ran).code }).toEqual({ exit: 3, code: 'call_id_reused' });
  });

  it.each([
    [
      'the database is down',
      { DATABASE_URL: `postgres://holdfast:${PASSWORD}@127.0.0.1:1/ledger` },
      5,
      'ledger_unreachable',
    ],
    ['the database URL is malformed', { DATABASE_URL: `holdfast:${PASSWORD}@127.0.0.1` }, 2, 'bad_config'],
    ['Temporal is down', { TEMPORAL_ADDRESS: '127.0.0.1:1' }, 5, 'temporal_unreachable'],
  ])(
    'a call while %s fails within the first look, with the exit code of a part that is away',
    async (_, env, exit, code) => {
      const args = ['--tool-version', '1.0.0', '--tenant', 'acme', '--run', 'r', '--call', 'away'];
      const ran = await run(['call', 'billing.rate', ...args, '--args', '{"currency":"EUR"}'], env);
      expect({ exit: ran.exit, stdout: ran.stdout, code: errorIn(ran).code }).toEqual({ exit, stdout: '', code });
      expect(errorIn(ran).place).not.toBeNull();
    },
  );

  it('a database that was never migrated is named, with the command that helps', async () => {
    const ran = await run(['effect', 'list'], { DATABASE_URL: unmigrated.url });
    expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({
      exit: 5,
      code: 'schema_version_unsupported',
      next: 'run holdfast db migrate',
    });
    expect(await run(['db', 'migrate'], { DATABASE_URL: unmigrated.url })).toMatchObject({ exit: 0, stderr: '' });
    expect(await run(['effect', 'list'], { DATABASE_URL: unmigrated.url })).toMatchObject({
      exit: 0,
      stdout: 'No effect fits.\n',
    });
  });

  it('a second worker with another deployment id is refused, so that keys never change under one ledger', async () => {
    const config = file(
      'other.yaml',
      `deployment: other\ndatabase: { url: "${database.url}" }\nallow_unsafe_durability: true\n`,
    );
    const ran = await run(['worker', '--config', config]);
    expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({ exit: 2, code: 'deployment_mismatch' });
  });

  it('a worker on a database that may forget commits is refused', async () => {
    const config = file('unsafe.yaml', `database: { url: "${database.url}" }\n`);
    const ran = await run(['worker', '--config', config]);
    expect({ exit: ran.exit, code: errorIn(ran).code }).toEqual({ exit: 5, code: 'unsafe_durability' });
  });

  it('a worker without Temporal ends with one error', async () => {
    const ran = await run(['worker'], { TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({
      exit: 5,
      code: 'temporal_unreachable',
      place: '127.0.0.1:1',
    });
  });

  it('no secret and no password was ever printed', () => {
    const all = everything.join('\n');
    const shown = [SECRET, PASSWORD, new URL(database.url).password].filter(
      (secret) => secret !== '' && all.includes(secret),
    );
    expect(shown).toEqual([]);
  });
});
