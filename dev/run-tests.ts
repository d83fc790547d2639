import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LayerReport } from '../test/support/reporter.ts';
import { startTestServers, type TestServers } from './test-servers.ts';

/**
 * `npm test [-- LAYER…]`: all layers in their order, or the layers named. Prints what each of them did, every skip with
 * its reason, and as the last line `N passed, N failed`. With CI=true a skip is a failure.
 */
const LAYERS = ['lint', 'types', 'unit', 'replay', 'db', 'e2e', 'crash'] as const;
type Layer = (typeof LAYERS)[number];

/** What is broken there shows up in every later layer as noise, so the run ends. */
const ENDS_THE_RUN: readonly Layer[] = ['lint', 'types'];

interface LayerResult extends LayerReport {
  readonly layer: Layer;
  readonly seconds: number;
}

const strict = process.env['CI'] === 'true';
const bin = (name: string) => join('node_modules', '.bin', name);

async function main(): Promise<number> {
  const named = process.argv.slice(2);
  const unknown = named.filter((name) => !LAYERS.some((layer) => layer === name));
  if (unknown.length > 0) {
    console.error(`no layer ${unknown.join(', ')}; there are ${LAYERS.join(', ')}`);
    return 2;
  }
  const layers = named.length === 0 ? LAYERS : LAYERS.filter((layer) => named.includes(layer));
  const work = mkdtempSync(join(tmpdir(), 'holdfast-run-'));
  let servers: TestServers | null = null;
  const results: LayerResult[] = [];
  try {
    for (const layer of layers) {
      console.log(`\n== ${layer}`);
      if (servers === null && needsServers(layer)) servers = await startServers(layers);
      const result = await runLayer(layer, join(work, `${layer}.json`), servers);
      results.push(result);
      if (result.failed > 0 && ENDS_THE_RUN.includes(layer)) break;
    }
  } finally {
    await servers?.stop();
    rmSync(work, { recursive: true, force: true });
  }
  return summarize(results);
}

function needsServers(layer: Layer): boolean {
  return layer === 'db' || layer === 'e2e' || layer === 'crash';
}

function startServers(layers: readonly Layer[]): Promise<TestServers> {
  const temporal = layers.includes('e2e') || layers.includes('crash');
  return startTestServers({ temporal, log: (line) => console.log(line) });
}

async function runLayer(layer: Layer, reportFile: string, servers: TestServers | null): Promise<LayerResult> {
  const started = performance.now();
  const report = await reportOf(layer, reportFile, servers);
  return { layer, ...report, seconds: (performance.now() - started) / 1000 };
}

async function reportOf(layer: Layer, reportFile: string, servers: TestServers | null): Promise<LayerReport> {
  if (layer === 'lint') {
    const biome = await run(bin('biome'), ['check', '--error-on-warnings', '.']);
    const imports = await run(process.execPath, ['dev/check-imports.ts']);
    return oneCheck(biome && imports);
  }
  if (layer === 'types') {
    const sources = await run(bin('tsc'), ['--noEmit', '-p', '.']);
    // Some faults show only in the declarations that are published.
    const published = await run(bin('tsc'), ['--noEmit', '-p', 'tsconfig.build.json']);
    return oneCheck(sources && published);
  }
  const passed = await run(
    bin('vitest'),
    ['run', '--project', layer, '--passWithNoTests', '--reporter=default', '--reporter=./test/support/reporter.ts'],
    {
      HOLDFAST_TEST_REPORT: reportFile,
      ...(servers === null ? {} : { HOLDFAST_TEST_SERVERS: JSON.stringify(addressesOf(servers)) }),
    },
  );
  return judged(readReport(reportFile), passed);
}

function addressesOf({ postgres, temporal }: TestServers) {
  return { postgresUrl: postgres.url, temporalAddress: temporal?.address ?? null };
}

function oneCheck(passed: boolean): LayerReport {
  return { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: [], errors: [] };
}

function readReport(file: string): LayerReport {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as LayerReport;
  } catch {
    return { passed: 0, failed: 0, skipped: [], errors: ['vitest ended without a report'] };
  }
}

/** Everything that is no pass counts: broken files, stray errors, an empty layer and, in CI, a skip. */
function judged(report: LayerReport, exitedWell: boolean): LayerReport {
  const errors = [...report.errors];
  if (report.passed + report.failed === 0 && errors.length === 0) errors.push('the layer has no test');
  if (!exitedWell && report.failed + errors.length === 0) errors.push('vitest ended with an error');
  const skips = strict ? report.skipped.length : 0;
  return { ...report, errors, failed: report.failed + errors.length + skips };
}

function run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...env },
    });
    child.once('error', reject);
    child.once('close', (code) => resolve(code === 0));
  });
}

function summarize(results: readonly LayerResult[]): number {
  console.log(
    `\n${'layer'.padEnd(8)}${'passed'.padStart(8)}${'failed'.padStart(8)}${'skipped'.padStart(9)}${'time'.padStart(10)}`,
  );
  for (const { layer, passed, failed, skipped, seconds } of results) {
    const numbers = [String(passed).padStart(8), String(failed).padStart(8), String(skipped.length).padStart(9)];
    console.log(`${layer.padEnd(8)}${numbers.join('')}${`${seconds.toFixed(1)} s`.padStart(10)}`);
  }
  for (const { layer, errors } of results) for (const error of errors) console.log(`error in ${layer}: ${error}`);
  for (const { layer, skipped } of results) {
    for (const { name, reason } of skipped) console.log(`skipped in ${layer}: ${name}: ${reason}`);
  }
  const sum = (key: 'passed' | 'failed') => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
}

process.exitCode = await main();
