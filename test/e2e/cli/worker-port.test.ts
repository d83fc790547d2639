import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connect } from '../../../db/connect.ts';
import { type FreshDatabase, type FreshNamespace, freshDatabase, freshNamespace } from '../../support/stack.ts';
import { errorIn, shippedCommand } from './command.ts';

const holdfast = shippedCommand();
let database: FreshDatabase;
let temporal: FreshNamespace;
let taken: Server;

beforeAll(async () => {
  [database, temporal] = await Promise.all([freshDatabase(), freshNamespace()]);
  taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', () => resolve()));
});
afterAll(async () => {
  taken?.close();
  await database?.drop();
  holdfast.remove();
});

test('a worker whose health port is taken says so, ends its lease and ends', async () => {
  const { port } = taken.address() as AddressInfo;
  const config = {
    database: { url: database.url },
    temporal: { address: temporal.address, namespace: temporal.namespace },
    worker: { health_port: port },
    allow_unsafe_durability: true,
  };
  writeFileSync(join(holdfast.dir, 'taken.yaml'), JSON.stringify(config));
  const ran = await holdfast.run(['worker', '--config', 'taken.yaml']);
  expect({ exit: ran.exit, ...errorIn(ran) }).toMatchObject({ exit: 2, code: 'bad_config' });
  const ledger = connect(database.url);
  const leases = await ledger.sql`SELECT ended_at IS NOT NULL AS ended FROM holdfast.processes`;
  await ledger.close();
  expect([...leases]).toEqual([{ ended: true }]);
});
