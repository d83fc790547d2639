import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, expect, test } from 'vitest';

const made: string[] = [];
afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true });
});

/** A repository with the layers' configuration of this one and test files of its own. */
function repository(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'holdfast-runner-'));
  made.push(root);
  symlinkSync(resolve('node_modules'), join(root, 'node_modules'));
  for (const file of ['vitest.config.ts', 'test/support/reporter.ts']) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    cpSync(file, join(root, file));
  }
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

function runTests(root: string, layers: readonly string[], ci: boolean) {
  const { HOLDFAST_TEST_REPORT: _, CI: __, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, [resolve('dev/run-tests.ts'), ...layers], {
    cwd: root,
    env: { ...env, ...(ci ? { CI: 'true' } : {}) },
  });
  const lines = stdout.toString().trimEnd().split('\n');
  return {
    status,
    last: lines.at(-1),
    notes: lines.filter((line) => /^(error|skipped) in /.test(line)),
  };
}

const PASSES = "import { test } from 'vitest';\ntest('passes', () => {});\n";
const SKIPS = "import { test } from 'vitest';\ntest('needs a thing', ({ skip }) => skip('the thing is missing'));\n";

test('passes and skips are counted, and a skip is printed with its reason', () => {
  const root = repository({ 'test/unit/a.test.ts': PASSES, 'test/unit/b.test.ts': SKIPS });
  expect(runTests(root, ['unit'], false)).toEqual({
    status: 0,
    last: '1 passed, 0 failed',
    notes: ['skipped in unit: test/unit/b.test.ts > needs a thing: the thing is missing'],
  });
});

test('in CI a skip is a failure', () => {
  const root = repository({ 'test/unit/a.test.ts': PASSES, 'test/unit/b.test.ts': SKIPS });
  expect(runTests(root, ['unit'], true)).toEqual({
    status: 1,
    last: '1 passed, 1 failed',
    notes: ['skipped in unit: test/unit/b.test.ts > needs a thing: the thing is missing'],
  });
});

test('a layer without any test fails, and the layers after a failed one still run', () => {
  const root = repository({ 'test/replay/a.test.ts': PASSES });
  expect(runTests(root, ['replay', 'unit'], false)).toEqual({
    status: 1,
    last: '1 passed, 1 failed',
    notes: ['error in unit: the layer has no test'],
  });
});

test('failed tests, files that cannot be loaded and errors outside of a test all count', () => {
  const root = repository({
    'test/unit/a.test.ts': "import { expect, test } from 'vitest';\ntest('fails', () => expect(1).toBe(2));\n",
    'test/unit/b.test.ts': "throw new Error('broken file');\n",
    'test/unit/c.test.ts': `${PASSES}setTimeout(() => { throw new Error('stray'); }, 0);\ntest('waits', () => new Promise((done) => setTimeout(done, 50)));\n`,
  });
  expect(runTests(root, ['unit'], false)).toEqual({
    status: 1,
    last: '2 passed, 3 failed',
    notes: ['error in unit: test/unit/b.test.ts: broken file', 'error in unit: stray'],
  });
});

test('a layer that does not exist is bad usage', () => {
  expect(runTests(repository({}), ['unti'], false).status).toBe(2);
});
