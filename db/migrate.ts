import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { drizzle } from 'drizzle-orm/postgres-js';
import { migrate as runMigrations } from 'drizzle-orm/postgres-js/migrator';
import postgres from 'postgres';
import { HoldfastError } from '../effects/errors.ts';
import { addressOf } from './connect.ts';
import { translate } from './errors.ts';

/** Where the migrations and their journal are. */
export const MIGRATIONS_DIR = fileURLToPath(new URL('./migrations', import.meta.url));
const TABLE = '__drizzle_migrations';
/** Any fixed number: the name of the lock under which one migrator runs. */
const LOCK = 4_711_038_221;

/** What a migration run did. */
export interface Migrated {
  /** Names of the migrations that this run applied, in order. */
  readonly applied: readonly string[];
  /** Schema version afterwards: the number of migrations the database has. */
  readonly version: number;
  /** How many of them this release does not know: the database is newer. */
  readonly ahead: number;
}

interface MigrationFile {
  readonly tag: string;
  readonly when: number;
  readonly hash: string;
}

/**
 * Brings the database to this release's schema; does nothing when it is there. Safe to race: one runs, the others
 * wait and find nothing to do. All of a run's migrations commit together. The URL's role must own the schema, or be allowed
 * to create it and the role `holdfast_app`.
 *
 * @throws HoldfastError `bad_config` when a migration that the database has was edited, or files are out of order;
 * `ledger_unreachable`, `ledger_refused`
 */
export async function migrate(url: string, options: { readonly dir?: string } = {}): Promise<Migrated> {
  const address = addressOf(url);
  const dir = options.dir ?? MIGRATIONS_DIR;
  const files = readJournal(dir);
  const sql = postgres(url, {
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    connect_timeout: 5,
    connection: { application_name: 'holdfast migrate', statement_timeout: 0, lock_timeout: 60_000 },
  });
  try {
    // Held by the session, which is this client's only connection: it falls with it.
    await sql`SELECT pg_advisory_lock(${LOCK}::bigint)`;
    const before = await appliedIn(sql);
    checkHistory(files, before);
    await runMigrations(drizzle(sql), { migrationsFolder: dir, migrationsSchema: 'holdfast', migrationsTable: TABLE });
    const after = await appliedIn(sql);
    return {
      applied: files.filter((file) => !before.some((row) => row.when === file.when)).map((file) => file.tag),
      version: after.length,
      ahead: after.filter((row) => !files.some((file) => file.when === row.when)).length,
    };
  } catch (error) {
    throw translate(error, { what: 'migrate', address });
  } finally {
    await sql.end({ timeout: 2 });
  }
}

/** The release's own migrations, oldest first. */
function readJournal(dir: string): MigrationFile[] {
  const journal = `${dir}/meta/_journal.json`;
  if (!existsSync(journal)) throw new HoldfastError('bad_config', 'the migrations are missing', { place: journal });
  const { entries } = JSON.parse(readFileSync(journal, 'utf8')) as { entries: { tag: string; when: number }[] };
  const files = entries.map(({ tag, when }) => {
    const path = `${dir}/${tag}.sql`;
    if (!existsSync(path))
      throw new HoldfastError('bad_config', 'a migration of the journal is missing', { place: path });
    // The same hash that drizzle writes into its table.
    return { tag, when, hash: createHash('sha256').update(readFileSync(path, 'utf8')).digest('hex') };
  });
  const unordered = files.find((file, index) => index > 0 && file.when <= (files[index - 1] as MigrationFile).when);
  if (unordered) {
    throw new HoldfastError('bad_config', 'the migration is out of order: its time is not after the one before it', {
      place: `${dir}/${unordered.tag}.sql`,
      next: 'generate it again on top of the newest migration',
    });
  }
  return files;
}

/** What the database has, oldest first; empty when it was never migrated. */
async function appliedIn(sql: postgres.Sql): Promise<{ when: number; hash: string }[]> {
  const [found] = await sql`SELECT to_regclass(${`holdfast.${TABLE}`}) IS NOT NULL AS yes`;
  if (!found?.yes) return [];
  const rows = await sql`SELECT created_at, hash FROM ${sql(`holdfast.${TABLE}`)} ORDER BY created_at`;
  return rows.map((row) => ({ when: Number(row.created_at), hash: String(row.hash) }));
}

/** Drizzle compares only the newest time, so an edited file and one that came late would pass in silence. */
function checkHistory(files: readonly MigrationFile[], applied: readonly { when: number; hash: string }[]): void {
  const newest = applied.at(-1)?.when ?? 0;
  for (const file of files) {
    const row = applied.find(({ when }) => when === file.when);
    if (row !== undefined && row.hash !== file.hash) {
      throw new HoldfastError('bad_config', 'a migration was edited after this database applied it', {
        place: `${file.tag}.sql`,
        next: 'restore the file as released, and write the change as a new migration',
      });
    }
    if (row === undefined && file.when < newest) {
      throw new HoldfastError(
        'bad_config',
        'a migration is older than the newest one applied, so it would be skipped',
        {
          place: `${file.tag}.sql`,
          next: 'generate it again on top of the newest migration',
        },
      );
    }
  }
}
