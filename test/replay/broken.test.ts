import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { bundleWorkflowCode, DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Copies of the workflows with one thing broken: the replay of recorded histories has to notice each of them. */
const ROOT = join(import.meta.dirname, '../..');
const ROOMS = ['workflows', 'activities', 'contracts', 'effects', 'test/support/workflows', 'test/replay'];
const copies: string[] = [];

beforeAll(() => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
});

afterAll(() => {
  for (const copy of copies) rmSync(copy, { recursive: true, force: true });
});

interface Edit {
  readonly file: string;
  readonly from: string | RegExp;
  readonly to: string;
}

/** The bundle of a copy in which `edits` were made; below the repository, so that packages are found. */
async function bundleWith(edits: readonly Edit[], interceptors: readonly string[] = []): Promise<{ code: string }> {
  mkdirSync(join(ROOT, '.holdfast'), { recursive: true });
  const copy = mkdtempSync(join(ROOT, '.holdfast', 'replay-'));
  copies.push(copy);
  for (const room of ROOMS) cpSync(join(ROOT, room), join(copy, room), { recursive: true });
  for (const { file, from, to } of edits) {
    const before = readFileSync(join(copy, file), 'utf8');
    const after = before.replaceAll(typeof from === 'string' ? from : new RegExp(from, 'g'), to);
    if (after === before) throw new Error(`${file} does not hold ${from} any more`);
    writeFileSync(join(copy, file), after);
  }
  const quiet = () => {};
  return bundleWorkflowCode({
    workflowsPath: join(copy, 'test/support/workflows/index.ts'),
    workflowInterceptorModules: interceptors.map((name) => join(copy, name)),
    logger: { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: console.error },
  });
}

async function replay(bundle: { code: string }, name: string): Promise<void> {
  const history: unknown = JSON.parse(readFileSync(join(ROOT, 'test/histories', `${name}.json`), 'utf8'));
  await Worker.runReplayHistory({ workflowBundle: bundle }, historyFromJSON(history), name);
}

test('a timer before each call is noticed', async () => {
  const bundle = await bundleWith([
    { file: 'workflows/dispatch.ts', from: '  patched,', to: '  patched,\n  sleep,' },
    { file: 'workflows/dispatch.ts', from: 'const result = await (', to: 'await sleep(1);\n  const result = await (' },
  ]);
  for (const name of ['dispatch-call-local', 'user-workflow-local', 'user-workflow-activity']) {
    await expect(replay(bundle, name), name).rejects.toThrow(DeterminismViolationError);
  }
});

test('a reconciliation that no longer writes its search attributes is noticed', async () => {
  const bundle = await bundleWith([
    { file: 'workflows/reconcile-effect.ts', from: /upsertSearchAttributes\(\{/, to: 'void ({' },
  ]);
  await expect(replay(bundle, 'reconcile-effect-decided')).rejects.toThrow(DeterminismViolationError);
});

const NO_EAGER = ['test/replay/no-eager.ts'];

test('no activity of the recorded workflows may be dispatched eagerly, and one that may is noticed (case 5)', async () => {
  const names = [
    'dispatch-call-handed-over',
    'reconcile-effect-decided',
    'reconcile-effect-evidence',
    'sweep',
    'user-workflow-activity',
  ];
  const bundle = await bundleWith([], NO_EAGER);
  for (const name of names) await replay(bundle, name);
  const eager = ['workflows/dispatch.ts', 'workflows/reconcile-effect.ts', 'workflows/sweep.ts'].map((file) => ({
    file,
    from: 'allowEagerDispatch: false',
    to: 'allowEagerDispatch: true',
  }));
  const broken = await bundleWith(eager, NO_EAGER);
  for (const name of names) await expect(replay(broken, name), name).rejects.toThrow(DeterminismViolationError);
});
