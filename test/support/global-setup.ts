import { randomBytes } from 'node:crypto';
import postgres from 'postgres';
import type { TestProject } from 'vitest/node';
import { startTestServers, type TestServers } from '../../dev/test-servers.ts';

/** What a test file needs to know about the servers of the run. */
export interface SharedServers {
  /** May create and drop databases. */
  readonly postgresUrl: string;
  /** A migrated, empty database to clone. */
  readonly template: string;
  /** Null in layers that run without Temporal. */
  readonly temporalAddress: string | null;
}

declare module 'vitest' {
  interface ProvidedContext {
    servers: SharedServers;
  }
}

/** `npm test` starts the servers once for all layers and says where they are. */
interface Given {
  readonly postgresUrl: string;
  readonly temporalAddress: string | null;
}

/** Vitest's global setup of the layers db, e2e and crash: servers for the run and one migrated template database. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const needsTemporal = project.name !== 'db';
  const given = process.env['HOLDFAST_TEST_SERVERS'];
  const started = given ? null : await startTestServers({ temporal: needsTemporal, log: console.error });
  const { postgresUrl, temporalAddress } = given ? (JSON.parse(given) as Given) : addressesOf(started);
  const template = `holdfast_template_${randomBytes(6).toString('hex')}`;
  const admin = postgres(postgresUrl, { max: 1, onnotice: () => {} });
  try {
    await admin`create database ${admin(template)}`;
    // Loaded here and not above, so that a fault in the ledger's code fails these layers only.
    const { migrate } = await import('../../db/migrate.ts');
    await migrate(databaseUrl(postgresUrl, template));
  } catch (error) {
    await admin.end({ timeout: 1 });
    await started?.stop();
    throw error;
  }
  project.provide('servers', { postgresUrl, template, temporalAddress });
  return async () => {
    await admin`drop database if exists ${admin(template)} with (force)`;
    await admin.end({ timeout: 1 });
    await started?.stop();
  };
}

function addressesOf(servers: TestServers | null): Given {
  if (servers === null) throw new Error('no servers were started');
  return { postgresUrl: servers.postgres.url, temporalAddress: servers.temporal?.address ?? null };
}

/** The same server and user, another database. */
export function databaseUrl(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.toString();
}
