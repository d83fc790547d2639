/** What a room may import from another one: all of it, its types only, or nothing. */
export type Permission = 'all' | 'types';

interface Room {
  /** Rooms, or single files, it may import from besides itself. */
  readonly may: Readonly<Record<string, Permission>>;
  /** Packages it must not load, by prefix. */
  readonly withoutPackages?: readonly string[];
}

/**
 * The rooms of the house and the doors between them, as `docs/architecture.md` draws them. The pure rooms, `contracts` and
 * `effects`, are open to everybody: they hold the words of the house.
 */
export const ROOMS: Readonly<Record<string, Room>> = {
  contracts: { may: { 'effects/errors.ts': 'all' } },
  effects: { may: { contracts: 'all' } },
  db: { may: { contracts: 'all', effects: 'all' } },
  providers: { may: { contracts: 'all', effects: 'all' } },
  dispatcher: { may: { contracts: 'all', effects: 'all', db: 'all', providers: 'all' } },
  activities: { may: { contracts: 'all', effects: 'all', dispatcher: 'all' } },
  workflows: {
    may: { contracts: 'all', effects: 'all', activities: 'types' },
    // Workflow code is deterministic, and cached workflows that load zod run out of memory.
    withoutPackages: ['node:', 'zod', 'ai', 'postgres', 'drizzle-orm', '@temporalio/client', '@temporalio/worker'],
  },
  client: {
    may: {
      contracts: 'all',
      effects: 'all',
      db: 'all',
      dispatcher: 'all',
      workflows: 'types',
      // Names of task queues; imports nothing.
      'workflows/queues.ts': 'all',
    },
  },
  workers: {
    may: {
      contracts: 'all',
      effects: 'all',
      db: 'all',
      providers: 'all',
      dispatcher: 'all',
      activities: 'all',
      workflows: 'all',
      client: 'all',
    },
  },
  gateway: { may: { contracts: 'all', effects: 'all', client: 'all' } },
  dev: { may: { contracts: 'all', effects: 'all', db: 'all', client: 'all', workers: 'all', test: 'types' } },
  cli: { may: { contracts: 'all', effects: 'all', client: 'all', workers: 'all', dev: 'all' } },
};

/** Rooms that may look into every other one: they prove or show the house and nothing in it needs them. */
export const OPEN_ROOMS = ['test', 'examples', 'bench'] as const;
