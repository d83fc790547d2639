import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import postgres from 'postgres';
import { type Child, startChild, tailOf } from './child.ts';
import { preferPort } from './ports.ts';
import type { PostgresBinaries } from './postgres-binaries.ts';
import { bornAt, commandLine, type ProcessId } from './process.ts';
import { oneLine } from './roads.ts';
import { ownedDirectory, type RunAs } from './unprivileged.ts';

/** One data directory with its server. */
export interface Cluster {
  readonly url: string;
  readonly version: string;
  pid(): number | null;
  start(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

export interface ClusterOptions {
  readonly dataDir: string;
  readonly fastUnsafe?: boolean;
  readonly port?: number;
  readonly onSpawn?: (id: ProcessId) => void;
}

const USER = 'holdfast';
const DATABASE = 'holdfast';
const CONNECTIONS_MAX = 300;
/** Recovery after a crash may take a while; a server that needs longer is broken. */
const READY_WITHIN_MS = 60_000;
/** The shutdown checkpoint of a busy server on a slow disk. */
const STOP_WITHIN_MS = 30_000;

/**
 * Makes the cluster where there is none, starts its server and waits until it answers.
 *
 * `dataDir` holds `data` (the cluster) and `password`; the log lies beside it.
 *
 * @throws Error in one line.
 */
export async function openCluster(binaries: PostgresBinaries, as: RunAs, options: ClusterOptions): Promise<Cluster> {
  const dataDir = ownedDirectory(options.dataDir, as);
  const pgData = join(dataDir, 'data');
  if (!existsSync(pgData)) await makeCluster(binaries, as, dataDir);
  checkCluster(binaries, as, pgData);
  const password = readFileSync(join(dataDir, 'password'), 'utf8').trim();
  const port = await preferPort(options.port);
  const url = (database: string) => `postgres://${USER}:${password}@127.0.0.1:${port}/${database}`;
  let child: Child | null = null;

  const cluster: Cluster = {
    url: url(DATABASE),
    version: binaries.version,
    pid: () => (child === null || child.ended() !== null ? null : child.id.pid),
    async start() {
      child = await startServer(binaries, as, options, { pgData, port, url: url('postgres') });
    },
    async stop() {
      await child?.stop(STOP_WITHIN_MS);
    },
    async kill() {
      await child?.kill();
    },
  };
  await cluster.start();
  try {
    await createDatabase(url('postgres'));
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

/** `initdb` beside the final place, then one rename: a half made cluster never looks like a whole one. */
async function makeCluster(binaries: PostgresBinaries, as: RunAs, dataDir: string): Promise<void> {
  const half = join(dataDir, 'new');
  rmSync(half, { recursive: true, force: true });
  const passwordFile = join(dataDir, 'password');
  writeFileSync(passwordFile, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 });
  if (as.uid !== undefined && as.gid !== undefined) chownSync(passwordFile, as.uid, as.gid);
  const args = [
    `--pgdata=${half}`,
    `--username=${USER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--no-locale', // The same order of text on every machine.
    '--no-instructions',
    '--no-sync', // What follows a power cut here is another initdb.
  ];
  await run(binaries.initdb, args, as, dataDir);
  renameSync(half, join(dataDir, 'data'));
}

function checkCluster(binaries: PostgresBinaries, as: RunAs, pgData: string): void {
  const { uid } = statSync(pgData);
  const ours = as.uid ?? process.getuid?.() ?? uid;
  if (uid !== ours) throw new Error(`${pgData} belongs to uid ${uid}; run as that user, or remove it`);
  const made = readFileSync(join(pgData, 'PG_VERSION'), 'utf8').trim();
  const major = String(Number.parseInt(binaries.version, 10));
  if (made !== major) throw new Error(`${pgData} was made by PostgreSQL ${made}, and ${binaries.postgres} is ${major}`);
}

async function startServer(
  binaries: PostgresBinaries,
  as: RunAs,
  options: ClusterOptions,
  { pgData, port, url }: { pgData: string; port: number; url: string },
): Promise<Child> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    clearPidFile(pgData);
    const child = await startChild({
      command: binaries.postgres,
      args: serverArguments(pgData, port, options.fastUnsafe ?? false),
      logFile: `${options.dataDir}.log`,
      stopSignal: 'SIGINT', // "Fast": open transactions roll back.
      env: serverEnv(),
      cwd: pgData,
      ...as,
    });
    options.onSpawn?.(child.id);
    const failure = await untilReady(child, url, deadline);
    if (failure === null) return child;
    const log = tailOf(`${options.dataDir}.log`);
    await child.kill();
    // After a SIGKILL the last backends of the old server hold its shared memory for a moment.
    const passing = /pre-existing shared memory block|Address already in use/i.test(log);
    if (!passing || performance.now() >= deadline) throw new Error(`${failure}: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function serverArguments(pgData: string, port: number, fastUnsafe: boolean): string[] {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '', // Their default directory may be missing or closed to us.
    max_connections: CONNECTIONS_MAX,
    fsync: fastUnsafe ? 'off' : 'on',
    full_page_writes: fastUnsafe ? 'off' : 'on',
    timezone: 'UTC',
    log_timezone: 'UTC',
  };
  return ['-D', pgData, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/** Null once it answers; otherwise why it does not. */
async function untilReady(child: Child, url: string, deadline: number): Promise<string | null> {
  let last = 'no answer';
  while (performance.now() < deadline) {
    const ended = child.ended();
    if (ended !== null) return `postgres ended at once (${ended})`;
    const sql = postgres(url, { max: 1, connect_timeout: 5, onnotice: () => {} });
    try {
      await sql`select 1`;
      return null;
    } catch (error) {
      last = oneLine(error);
    } finally {
      await sql.end({ timeout: 1 }).catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  return `postgres was not ready after ${READY_WITHIN_MS / 1000} s (${last})`;
}

/**
 * Postgres removes a lock file whose process is gone by itself, but not one whose pid was given to a stranger since, as
 * happens in every restarted container.
 *
 * @throws Error when a live server uses the directory.
 */
function clearPidFile(pgData: string): void {
  const file = join(pgData, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  const command = Number.isInteger(pid) && pid > 0 && bornAt(pid) !== null ? (commandLine(pid) ?? '') : '';
  if (/postgres|postmaster/.test(command) && command.includes(pgData)) {
    throw new Error(`another Postgres (pid ${pid}) uses ${pgData}`);
  }
  rmSync(file, { force: true });
}

async function createDatabase(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    const found = await sql`select 1 from pg_database where datname = ${DATABASE}`;
    if (found.length === 0) await sql`create database ${sql(DATABASE)}`;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function run(program: string, args: readonly string[], as: RunAs, cwd: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { stdio: ['ignore', 'ignore', 'pipe'], cwd, env: serverEnv(), ...as });
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-4_000);
    });
    child.once('error', reject);
    child.once('close', (code, sig) => {
      if (code === 0) resolve();
      else reject(new Error(`${program} ended with ${sig ?? code}: ${stderr.trim()}`));
    });
  });
}

/** PG* variables of the user must not change what our server does. */
function serverEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}
