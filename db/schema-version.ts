import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';

/**
 * The schema versions that this release can serve. The version is the number of migrations that the database has.
 *
 * Policy: migrations up to `max` only add (tables, columns that are null or have a default, indexes), so this
 * release goes on working beside a newer one until its turn to be replaced comes. A migration that takes something away or
 * changes a meaning needs a number above the `max` of every release that may still run.
 */
export const SCHEMA_VERSIONS: SchemaRange = { min: 2, max: 20 };

/** Schema versions that a release can serve, both ends included. */
export interface SchemaRange {
  readonly min: number;
  readonly max: number;
}

/** Number of migrations that the database has; 0 when it has none. @throws HoldfastError `ledger_unreachable`, … */
export async function schemaVersion(ledger: Ledger): Promise<number> {
  try {
    const [row] = await ledger.run(
      'read schema version',
      () => ledger.sql`SELECT count(*)::int AS version FROM holdfast.__drizzle_migrations`,
    );
    return row?.version as number;
  } catch (error) {
    // Neither the table nor its schema, or not even the role: never migrated.
    if (isHoldfastError(error) && error.code === 'schema_version_unsupported') return 0;
    throw error;
  }
}

/**
 * Refuses to work on a schema that this release cannot serve. Returns the version.
 * @throws HoldfastError `schema_version_unsupported`
 */
export async function checkSchema(ledger: Ledger, range: SchemaRange = SCHEMA_VERSIONS): Promise<number> {
  const version = await schemaVersion(ledger);
  if (version >= range.min && version <= range.max) return version;
  const found = version === 0 ? 'the database was never migrated' : `the database has schema version ${version}`;
  throw new HoldfastError('schema_version_unsupported', `${found}; this release serves ${range.min} to ${range.max}`, {
    place: ledger.address,
    next: version < range.min ? 'run holdfast db migrate' : 'deploy a newer release: this one is too old',
  });
}
