import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { parse } from 'yaml';
import type { Mutant } from './mutants/mutant.ts';
import { protocolTestsPage } from './mutants/page.ts';
import { startTestServers } from './test-servers.ts';

/**
 * `npm run mutants [-- RULE…]`: switches each numbered rule of PROTOCOL.md off, one after the other, in copies of the
 * tree, and runs the test that has to notice. A mutant that no test notices ends the run with code 1.
 *
 * `--check` only looks whether every mutant still fits the code; `--page` writes `docs/protocol-tests.md`.
 */
const ROOT = join(import.meta.dirname, '..');
const PAGE = 'docs/protocol-tests.md';
const DATA = join(import.meta.dirname, 'mutants');
/** A rule that is off often shows as a test that waits for ever. */
const TEST_TIMEOUT_MS = 20_000;
const RUN_TIMEOUT_MS = 150_000;
const LEFT_OUT = new Set(['node_modules', '.git', '.holdfast', 'dist', 'coverage']);

type Result = 'killed' | 'killed (hung)' | 'SURVIVED' | 'BROKEN';

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  const unknown = args.find((arg) => arg.startsWith('-') && !/^--(check|page|jobs=\d+)$/.test(arg));
  if (unknown !== undefined) {
    console.error(`${unknown} is no option. npm run mutants [-- RULE… --check --page --jobs=N]`);
    return 2;
  }
  const rules = args.filter((arg) => !arg.startsWith('--'));
  const jobs = Number(args.find((arg) => arg.startsWith('--jobs='))?.slice(7) ?? 2);
  const mutants = readMutants();
  const chosen = mutants.filter(({ rule, off }) => rules.length === 0 || rules.includes(rule) || rules.includes(off));
  const misfits = chosen.flatMap((mutant) => misfit(mutant) ?? []);
  for (const line of misfits) console.error(line);
  if (misfits.length > 0) return 1;
  if (args.includes('--page')) writeFileSync(join(ROOT, PAGE), protocolTestsPage(mutants));
  if (args.includes('--page') || args.includes('--check')) return 0;

  const servers = await startTestServers({ temporal: false });
  const copies = Array.from({ length: Math.max(1, jobs) }, () => copyTree());
  const env = { HOLDFAST_TEST_SERVERS: JSON.stringify({ postgresUrl: servers.postgres.url, temporalAddress: null }) };
  try {
    const unfit = await untouched(copies, chosen, env);
    for (const line of unfit) console.error(line);
    if (unfit.length > 0) return 1;
    const results: { mutant: Mutant; result: Result }[] = [];
    await inTurn(copies, chosen, async (copy, mutant) => {
      const result = await tryMutant(copy, mutant, env);
      results.push({ mutant, result });
      console.log(`${result.padEnd(13)} ${mutant.rule.padEnd(4)} ${mutant.off}`);
    });
    const bad = results.filter(({ result }) => !result.startsWith('killed'));
    for (const { mutant, result } of bad)
      console.log(`${result}: ${mutant.rule} ${mutant.off} (${mutant.test} > ${mutant.title})`);
    console.log(`${results.length - bad.length} killed, ${bad.length} not`);
    return bad.length === 0 ? 0 : 1;
  } finally {
    for (const copy of copies) rmSync(copy, { recursive: true, force: true });
    await servers.stop();
  }
}

/** The mutants of all data files, in the order of the rules. */
function readMutants(): readonly Mutant[] {
  const files = readdirSync(DATA).filter((name) => name.endsWith('.yaml'));
  return files.sort().flatMap((name) => parse(readFileSync(join(DATA, name), 'utf8')) as Mutant[]);
}

/** Why a mutant no longer fits the code it names. */
function misfit({ rule, off, file, find }: Mutant): string | undefined {
  const times = readFileSync(join(ROOT, file), 'utf8').split(find).length - 1;
  return times === 1 ? undefined : `${rule} ${off}: its text stands ${times} times in ${file}, not once`;
}

function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'holdfast-mutants-'));
  cpSync(ROOT, copy, { recursive: true, filter: (from) => from === ROOT || !LEFT_OUT.has(basename(from)) });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

/** Hands the things to the copies, one at a time each. */
async function inTurn<T>(
  copies: readonly string[],
  things: readonly T[],
  work: (copy: string, thing: T) => Promise<void>,
): Promise<void> {
  const waiting = [...things];
  await Promise.all(
    copies.map(async (copy) => {
      for (let thing = waiting.shift(); thing !== undefined; thing = waiting.shift()) await work(copy, thing);
    }),
  );
}

/** The tests with all rules in force: they have to pass, and each title has to be there. */
async function untouched(
  copies: readonly string[],
  mutants: readonly Mutant[],
  env: Record<string, string>,
): Promise<string[]> {
  const problems: string[] = [];
  await inTurn(copies, [...new Set(mutants.map(({ test }) => test))], async (copy, file) => {
    const tests = (await runTests(copy, file, undefined, env)) ?? { passed: [], failed: ['(it hung)'] };
    console.log(`${tests.passed.length} tests pass in ${file}`);
    for (const title of tests.failed) problems.push(`${file} fails with all rules in force: ${title}`);
    for (const { test, title, rule } of mutants) {
      if (test === file && !tests.passed.some((passed) => passed.includes(title)))
        problems.push(`${rule}: no test of ${file} has the title ${title}`);
    }
  });
  return problems;
}

async function tryMutant(copy: string, mutant: Mutant, env: Record<string, string>): Promise<Result> {
  const file = join(copy, mutant.file);
  const original = readFileSync(file, 'utf8');
  // A function, since a replacement text may hold $.
  writeFileSync(
    file,
    original.replace(mutant.find, () => mutant.replace),
  );
  try {
    const tests = await runTests(copy, mutant.test, mutant.title, env);
    if (tests === undefined) return 'killed (hung)';
    if (tests.failed.length > 0) return 'killed';
    return tests.passed.length > 0 ? 'SURVIVED' : 'BROKEN';
  } finally {
    writeFileSync(file, original);
  }
}

interface Tests {
  /** Titles. */
  readonly passed: readonly string[];
  readonly failed: readonly string[];
}

/** Tests of a file, those with `title` or all. `undefined` when the run did not end in time. */
async function runTests(
  copy: string,
  file: string,
  title: string | undefined,
  env: Record<string, string>,
): Promise<Tests | undefined> {
  const report = join(copy, '.mutant-report.json');
  rmSync(report, { force: true });
  const only = title === undefined ? [] : ['-t', title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')];
  const child = spawn(
    process.execPath,
    [
      join(ROOT, 'node_modules/vitest/vitest.mjs'),
      'run',
      ...['--project', file.split('/')[1] ?? '', '--reporter=json', `--outputFile=${report}`],
      `--testTimeout=${TEST_TIMEOUT_MS}`,
      ...only,
      file,
    ],
    { cwd: copy, env: { ...process.env, ...env }, stdio: 'ignore', detached: true },
  );
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, RUN_TIMEOUT_MS);
  await new Promise((resolve) => child.once('exit', resolve));
  clearTimeout(timer);
  return late ? undefined : testsOf(report);
}

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly title: string; readonly status: string }[];
  }[];
}

function testsOf(report: string): Tests {
  let tests: readonly { readonly title: string; readonly status: string }[] = [];
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
    tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  } catch {
    // Nothing ran at all: the mutant does not even load.
  }
  const titles = (status: string) => tests.filter((test) => test.status === status).map((test) => test.title);
  return { passed: titles('passed'), failed: titles('failed') };
}

if (process.argv[1] !== undefined && relative(process.argv[1], import.meta.filename) === '') process.exit(await main());
