import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { doctor } from '../../../dev/doctor.ts';
import { maskUrl } from '../../../dev/postgres.ts';
import { type FreshDatabase, freshDatabase } from '../../support/stack.ts';

let database: FreshDatabase;
let dir: string;

beforeAll(async () => {
  database = await freshDatabase();
  dir = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'));
  vi.stubEnv('DATABASE_URL', database.url);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true });
  await database?.drop();
});

test('a database that workers would refuse, since it may lose commits, is a fault that names each setting', async () => {
  const { lines } = await doctor(dir);
  const found = lines.find(({ topic }) => topic === 'database');
  expect(found).toEqual({
    topic: 'database',
    name: 'Postgres',
    state: 'fault',
    detail: expect.stringMatching(/^\d+\.\d+ answers at .*; a commit may be lost: fsync=off, full_page_writes=off$/),
  });
  expect(found?.detail).toContain(maskUrl(database.url));
});
