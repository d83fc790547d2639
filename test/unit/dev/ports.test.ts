import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort, preferPort } from '../../../dev/ports.ts';

test('no port is handed out twice while nobody listens on it yet', async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()));
  expect(new Set(ports).size).toBe(50);
});

test('a preferred port is taken when it is free', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const port = (server.address() as { port: number }).port;
  await new Promise((resolve) => server.close(resolve));
  expect(await preferPort(port)).toBe(port);
});

test('a preferred port that somebody listens on is replaced by another one', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const port = (server.address() as { port: number }).port;
  expect(await preferPort(port)).not.toBe(port);
  await new Promise((resolve) => server.close(resolve));
});
