import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Billing, startBilling } from '../../support/billing.ts';
import { type FreshDatabase, type FreshNamespace, freshDatabase, freshNamespace } from '../../support/stack.ts';
import { errorIn, type Ran, type Shipped, shippedCommand } from './command.ts';

const CONTRACTS = join(import.meta.dirname, '../../../examples/billing-provider/contracts');
const MAIN = join(import.meta.dirname, '../../../cli/main.ts');
const ID = 'effect:acme:r:note-1';
const NO_TEMPORAL = { TEMPORAL_ADDRESS: '127.0.0.1:1' };

/** One story in order: each step goes on where the one before ended. No worker runs in it. */
describe('operating with the shipped command, without a fleet', () => {
  const holdfast: Shipped = shippedCommand();
  let database: FreshDatabase;
  let temporal: FreshNamespace;
  let billing: Billing;

  const json = async (args: readonly string[], env?: Record<string, string>): Promise<Ran & { out: never }> => {
    const ran = await holdfast.run([...args, '--json'], env);
    return { ...ran, out: (ran.stdout === '' ? null : JSON.parse(ran.stdout)) as never };
  };
  const note = (call: string, env: Record<string, string> = {}) =>
    json(
      [
        'call',
        'billing.note',
        '--tool-version',
        '1.0.0',
        '--tenant',
        'acme',
        '--run',
        'r',
        '--call',
        call,
        '--wait',
        '0ms',
      ].concat(['--lane', 'direct', '--args', '{"text":"called back"}']),
      { HOLDFAST_SECRET_BILLING: 'v1:token', ...env },
    );

  beforeAll(async () => {
    [database, temporal, billing] = await Promise.all([freshDatabase(), freshNamespace(), startBilling()]);
    writeFileSync(
      join(holdfast.dir, 'holdfast.yaml'),
      JSON.stringify({
        database: { url: database.url },
        temporal: { address: temporal.address, namespace: temporal.namespace, ui_url: 'http://ui.test' },
        providers: { billing: { kind: 'http', base_url: billing.url } },
        allow_unsafe_durability: true,
      }),
    );
  });
  afterAll(async () => {
    await billing?.stop();
    await database?.drop();
    holdfast.remove();
  });

  it('publishes contracts once, evidence calls first, and shows them', async () => {
    const files = ['pay', 'note', 'find-payment'].map((name) => join(CONTRACTS, `${name}.yaml`));
    const [first, again] = [
      await json(['contract', 'publish', ...files]),
      await json(['contract', 'publish', ...files]),
    ];
    const brief = ({ out }: { out: { contracts: { tool: string; created: boolean }[] } }) =>
      out.contracts.map(({ tool, created }) => [tool, created]);
    expect([brief(first), brief(again)]).toEqual([
      [
        ['billing.find_payment', true],
        ['billing.pay', true],
        ['billing.note', true],
      ],
      [
        ['billing.find_payment', false],
        ['billing.pay', false],
        ['billing.note', false],
      ],
    ]);
    const shown = await holdfast.run(['contract', 'show', 'billing.note@1.0.0']);
    expect(shown.stdout).toContain('effect: UNKNOWN');
  });

  it('puts a tenant and a credential', async () => {
    expect((await json(['tenant', 'put', 'acme'])).out).toMatchObject({ tenant: 'acme', created: true });
    const put = ['credential', 'put', 'billing', '--credential-version', 'v1', '--account', 'main'];
    expect((await json([...put, '--grant', 'note:write:acme', '--grant', 'payment:*:acme'])).out).toMatchObject({
      created: true,
      current: true,
      grants: ['note:write:acme', 'payment:*:acme'],
    });
  });

  it('ends a call of unknown outcome with 4 and says not to repeat it', async () => {
    await billing.faults({ route: 'POST /v1/notes', mode: 'accept_then_close', times: 1 });
    const ran = await note('note-1', NO_TEMPORAL);
    expect({ exit: ran.exit, out: ran.out }).toMatchObject({ exit: 4, out: { status: 'UNKNOWN', effectId: ID } });
    expect(JSON.parse(ran.stderr).error).toMatchObject({ code: 'outcome_unknown', place: ID });
  });

  it('lists it as stuck, with the way to look closer and the link to the UI', async () => {
    const ran = await holdfast.run(['effect', 'list', '--stuck'], NO_TEMPORAL);
    expect(ran.stdout.split('\n')[1]).toMatch(
      /^effect:acme:r:note-1 {2}UNKNOWN {2}billing\.note@1\.0\.0 {2}UNKNOWN {2}\d+s/,
    );
    expect(ran.stdout).toContain('holdfast effect show effect:acme:r:note-1');
    expect(ran.stdout).toContain(`http://ui.test/namespaces/${temporal.namespace}/workflows?query=`);
  });

  it('has a look asked for only while Temporal answers', async () => {
    expect((await json(['effect', 'check', ID])).out).toEqual({ effectId: ID, asked: true });
    const ran = await holdfast.run(['effect', 'check', ID], NO_TEMPORAL);
    expect({ exit: ran.exit, code: errorIn(ran).code }).toEqual({ exit: 5, code: 'temporal_unreachable' });
  });

  it('refuses "not applied" as long as the request may still take effect', async () => {
    const ran = await holdfast.run(['effect', 'not-applied', ID, '--actor', 'ann', '--reason', 'gone'], NO_TEMPORAL);
    expect({ exit: ran.exit, code: errorIn(ran).code }).toEqual({ exit: 3, code: 'decision_refused' });
    expect(errorIn(ran).message).toContain('has to be forced');
  });

  it('takes a decision with fleet and Temporal down, says that the workflow was not told, and applies it once', async () => {
    const confirm = [
      'effect',
      'confirm',
      ID,
      '--actor',
      'ann',
      '--reason',
      'seen in the books',
      '--decision-id',
      'd-1',
    ];
    const expected = ['--expected-status', 'UNKNOWN', '--expected-fence', '1', '--result', '{"note":{"id":"n1"}}'];
    const told = await holdfast.run([...confirm, ...expected], NO_TEMPORAL);
    expect({ exit: told.exit, stderr: told.stderr }).toEqual({ exit: 0, stderr: '' });
    expect(told.stdout).toContain('The workflow could not be told (temporal_unreachable');
    const again = await json([...confirm, ...expected], NO_TEMPORAL);
    expect(again.out).toMatchObject({ applied: true, repeated: true, status: 'CONFIRMED', workflowTold: false });
    const late = await json(['effect', 'not-applied', ID, '--actor', 'bob', '--reason', 'no'], NO_TEMPORAL);
    expect({ exit: late.exit, out: late.out }).toMatchObject({ exit: 3, out: { applied: false, status: 'CONFIRMED' } });
  });

  it('gives the decided outcome to whoever waits or makes the same call again', async () => {
    const outcome = { status: 'CONFIRMED', effectId: ID, settledBy: 'decision', result: { note: { id: 'n1' } } };
    expect(await json(['effect', 'wait', ID], NO_TEMPORAL)).toMatchObject({ exit: 0, out: outcome });
    expect(await note('note-1', NO_TEMPORAL)).toMatchObject({ exit: 0, out: outcome });
    const sent = (await billing.audit()).filter((line) => line.route === 'POST /v1/notes');
    expect(sent).toHaveLength(1);
  });

  it('exports the story of the effect as JSON Lines, complete or not at all', async () => {
    const ran = await json(['audit', 'export', '--tenant', 'acme', '--effect', ID, '--out', 'story.jsonl']);
    const lines = readFileSync(join(holdfast.dir, 'story.jsonl'), 'utf8').trimEnd().split('\n');
    expect(ran.out).toEqual({ effects: 1, lines: lines.length, out: 'story.jsonl' });
    const decisions = lines.map((line) => JSON.parse(line)).filter((line) => line.kind === 'decision');
    expect(decisions.map(({ actor, applied }) => [actor, applied])).toEqual([
      ['ann', false],
      ['ann', true],
      ['bob', false],
    ]);
    const nowhere = await holdfast.run(['audit', 'export', '--tenant', 'acme', '--out', 'no/such/dir.jsonl']);
    expect({ exit: nowhere.exit, ...errorIn(nowhere) }).toMatchObject({
      exit: 2,
      code: 'bad_input',
      place: 'no/such/dir.jsonl',
    });
  });

  it('runs a development stack that other commands in its directory find, until Ctrl-C', async () => {
    const own = shippedCommand();
    const env = {
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
    };
    const dev = spawn(process.execPath, [MAIN, 'dev', '--json'], { cwd: own.dir, env: { ...process.env, ...env } });
    try {
      const ready = await new Promise<string>((resolve, reject) => {
        dev.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString()));
        dev.once('close', (code) => reject(new Error(`dev ended with ${code}`)));
      });
      expect(JSON.parse(ready)).toMatchObject({
        event: 'ready',
        temporal: temporal.address,
        namespace: temporal.namespace,
      });
      const found = await own.run(['effect', 'show', ID]);
      expect(found).toMatchObject({ exit: 0, stderr: '' });
      const ended = new Promise<number | null>((resolve) => dev.once('close', resolve));
      dev.kill('SIGINT');
      expect(await ended).toBe(0);
      expect(errorIn(await own.run(['effect', 'show', ID]))).toMatchObject({ code: 'bad_config' });
    } finally {
      dev.kill('SIGKILL');
      own.remove();
    }
  });
});
