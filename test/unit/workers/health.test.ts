import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import type { Fleet } from '../../../workers/fleet.ts';
import { serveHealth } from '../../../workers/health.ts';

test('a port that somebody else has is told as the key to be corrected', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  // Nobody asks the probes here, so no fleet is needed.
  const refused = await serveHealth({} as Fleet, '127.0.0.1', port).catch((error: unknown) => error);
  other.close();
  expect(refused).toMatchObject({
    code: 'bad_config',
    message: `the probes cannot listen on 127.0.0.1:${port} (EADDRINUSE)`,
    place: 'worker.health_port',
  });
});
