import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly ports?: readonly string[];
  readonly healthcheck?: { readonly test: readonly unknown[] };
  readonly restart?: string;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly configs?: readonly { readonly source: string }[];
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly configs: Readonly<Record<string, unknown>>;
}

/** What `docker compose config` does not check, and the little of it that our file relies on. */
const { services, configs } = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as Compose;
const entries = Object.entries(services);

test('every image is pinned to an exact version', () => {
  const loose = entries.filter(
    ([, { image }]) => image !== 'holdfast:local' && !/:\d+\.\d+(\.\d+)?$/.test(image ?? ''),
  );
  expect(loose.map(([name]) => name)).toEqual([]);
});

test('a service that waits for another one waits for a health check that exists, or for the end of a one-shot', () => {
  const broken = entries.flatMap(([name, { depends_on: needs = {} }]) =>
    Object.entries(needs).flatMap(([other, { condition }]) => {
      const target = services[other];
      const healthy = condition === 'service_healthy' && target?.healthcheck !== undefined;
      const oneShot = condition === 'service_completed_successfully' && target?.restart?.startsWith('on-failure');
      return healthy || oneShot ? [] : [`${name} → ${other} (${condition})`];
    }),
  );
  expect(broken).toEqual([]);
});

test('ports are open on the loopback only', () => {
  const ports = entries.flatMap(([, service]) => service.ports ?? []);
  expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
});

test('health checks are lists of words and configs exist', () => {
  const words = entries.flatMap(([, { healthcheck }]) => healthcheck?.test ?? []);
  const sources = entries.flatMap(([, service]) => service.configs ?? []).map(({ source }) => source);
  expect({
    noWords: words.filter((word) => typeof word !== 'string'),
    missing: sources.filter((source) => !(source in configs)),
  }).toEqual({ noWords: [], missing: [] });
});
