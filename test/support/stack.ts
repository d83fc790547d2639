import { randomBytes } from 'node:crypto';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import postgres from 'postgres';
import { inject } from 'vitest';
import { ensureSearchAttributes } from '../../client/search-attributes.ts';
import { databaseUrl } from './global-setup.ts';

export { serverDirectory } from '../../dev/test-servers.ts';

/** A migrated database of one test file's own. */
export interface FreshDatabase {
  readonly url: string;
  /** Ends all connections to it and removes it. */
  drop(): Promise<void>;
}

/** SQLSTATE object_in_use: somebody is still leaving the template. */
const OBJECT_IN_USE = '55006';

/** Clones the run's template database; some 50 ms. Call it once per test file and `drop` in `afterAll`. */
export async function freshDatabase(): Promise<FreshDatabase> {
  return clone(inject('servers').template);
}

/** The same without any table, for tests of the migrations themselves. */
export async function emptyDatabase(): Promise<FreshDatabase> {
  return clone('template1');
}

async function clone(template: string): Promise<FreshDatabase> {
  const { postgresUrl } = inject('servers');
  const name = `holdfast_test_${randomBytes(6).toString('hex')}`;
  await asAdmin(postgresUrl, async (admin) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await admin`create database ${admin(name)} template ${admin(template)}`;
        return;
      } catch (error) {
        if ((error as { code?: string }).code !== OBJECT_IN_USE || attempt === 50) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  });
  return {
    url: databaseUrl(postgresUrl, name),
    drop: () =>
      asAdmin(postgresUrl, async (admin) => {
        await admin`drop database if exists ${admin(name)} with (force)`;
      }),
  };
}

async function asAdmin(url: string, work: (admin: postgres.Sql) => Promise<void>): Promise<void> {
  const admin = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await work(admin);
  } finally {
    await admin.end({ timeout: 1 });
  }
}

/** A Temporal namespace of one test file's own, with the search attributes usable. */
export interface FreshNamespace {
  readonly address: string;
  readonly namespace: string;
}

/** Registers a namespace on the run's Temporal; some 20 ms. It goes with the server. */
export async function freshNamespace(): Promise<FreshNamespace> {
  const address = inject('servers').temporalAddress;
  if (address === null) throw new Error('the layer db runs without Temporal: put the test under e2e or crash');
  const namespace = `test-${randomBytes(6).toString('hex')}`;
  const connection = await Connection.connect({ address });
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs('1 day'),
    });
    await ensureSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
  return { address, namespace };
}
