import { defineConfig } from 'vitest/config';

/** One project per layer of tests, in the order in which `npm test` runs them. */
const layers = [
  { name: 'unit', testTimeout: 20_000, servers: false, oneByOne: false },
  { name: 'replay', testTimeout: 60_000, servers: false, oneByOne: false },
  { name: 'db', testTimeout: 60_000, servers: true, oneByOne: false },
  // Each file has workers of its own; two at once would starve each other's leases on a small machine.
  { name: 'e2e', testTimeout: 120_000, servers: true, oneByOne: true },
  { name: 'crash', testTimeout: 300_000, servers: true, oneByOne: true },
] as const;

export default defineConfig({
  test: {
    projects: layers.map(({ name, testTimeout, servers, oneByOne }) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout,
        hookTimeout: 120_000,
        pool: 'forks' as const,
        fileParallelism: !oneByOne,
        ...(servers ? { globalSetup: './test/support/global-setup.ts' } : {}),
      },
    })),
  },
});
