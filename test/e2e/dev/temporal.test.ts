import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { startTemporal, type TemporalHandle, temporalRoads } from '../../../dev/temporal.ts';
import { serverDirectory } from '../../support/stack.ts';

let dir: string;
let server: TemporalHandle;

beforeEach(() => {
  vi.stubEnv('TEMPORAL_ADDRESS', undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});
beforeAll(async () => {
  dir = serverDirectory();
  const roads = temporalRoads({});
  server = await startTemporal({ dataDir: join(dir, 'temporal'), namespace: 'kept', ui: true, roads });
});
afterAll(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true });
});

async function withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address: server.address });
  try {
    return await work(new Client({ connection, namespace: 'kept' }));
  } finally {
    await connection.close();
  }
}

test('the UI answers where the handle says', async () => {
  const answer = await fetch(server.uiUrl as string);
  expect(answer.status).toBe(200);
});

test('a workflow started before a SIGKILL still runs after the restart, at the same address', async () => {
  await withClient((client) => client.workflow.start('waits', { taskQueue: 'none', workflowId: 'survivor' }));
  await server.kill();
  expect(server.pid).toBe(null);
  await server.restart();
  const { status } = await withClient((client) => client.workflow.getHandle('survivor').describe());
  expect(status.name).toBe('RUNNING');
});

test('restart works from the running and from the stopped state, and stop may be repeated', async () => {
  await server.restart();
  await server.stop();
  await server.stop();
  expect(server.pid).toBe(null);
  await server.restart();
  const { status } = await withClient((client) => client.workflow.getHandle('survivor').describe());
  expect(status.name).toBe('RUNNING');
});

test('a program that is no Temporal closes its road with a reason, and the next road is taken', async () => {
  const binDir = join(dir, 'bin');
  mkdirSync(binDir);
  writeFileSync(join(binDir, 'temporal'), '#!/bin/sh\necho something else\n');
  chmodSync(join(binDir, 'temporal'), 0o755);
  const lines: string[] = [];
  const roads = ['.holdfast/bin', "the SDK's cached download"] as const;
  vi.stubEnv('TMPDIR', binDir);
  const start = startTemporal({ dataDir: join(dir, 'none'), binDir, roads, log: (line) => lines.push(line) });
  const failure = await start.catch((error: Error) => error.message);
  const reasons = [
    `.holdfast/bin: ${join(binDir, 'temporal')} --version says "something else"`,
    `the SDK's cached download: no temporal-sdk-* in ${binDir}`,
  ];
  expect({ failure, lines }).toEqual({
    failure: `no Temporal could be started: ${reasons.join('; ')}`,
    lines: reasons.map((reason) => `Temporal: ${reason}`),
  });
});

test('a TEMPORAL_ADDRESS that does not answer is an error, and no other road is taken', async () => {
  vi.stubEnv('TEMPORAL_ADDRESS', '127.0.0.1:1');
  const roads = temporalRoads();
  const failure = await startTemporal({ dataDir: join(dir, 'none') }).catch((error: Error) => error.message);
  expect(roads).toEqual(['TEMPORAL_ADDRESS']);
  expect(failure).toContain('TEMPORAL_ADDRESS: 127.0.0.1:1 (namespace default) does not answer: ');
});

test('a server behind TEMPORAL_ADDRESS is used, and stop leaves it running', async () => {
  vi.stubEnv('TEMPORAL_ADDRESS', server.address);
  const found = await startTemporal({ dataDir: join(dir, 'none'), namespace: 'kept' });
  await found.stop();
  const { status } = await withClient((client) => client.workflow.getHandle('survivor').describe());
  expect({ road: found.road, pid: found.pid, status: status.name }).toEqual({
    road: 'TEMPORAL_ADDRESS',
    pid: null,
    status: 'RUNNING',
  });
});
