import type { Sql } from 'postgres';
import { HoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';

/**
 * Refuses a Postgres on which a commit may be lost (PROTOCOL 2.7): `fsync` or `full_page_writes` off,
 * `synchronous_commit` off, or waiting for less than the disk of the synchronous standbys where there are some.
 *
 * @param allowUnsafe - for tests on a throw-away server: returns the settings in question instead of throwing
 * @returns what is unsafe, like `fsync=off`; empty when all is well
 * @throws HoldfastError `unsafe_durability`
 */
export async function checkDurability(ledger: Ledger, allowUnsafe = false): Promise<readonly string[]> {
  // Read on a connection of the hot pool: a role or a database can have a setting of its own.
  const settings = await ledger.run('read durability', () => readDurability(ledger.sql));
  const unsafe = unsafeSettings(settings);
  if (unsafe.length > 0 && !allowUnsafe) {
    throw new HoldfastError('unsafe_durability', `a commit may be lost: Postgres runs with ${unsafe.join(', ')}`, {
      place: ledger.address,
    });
  }
  return unsafe;
}

/** What Postgres says of one connection about the fate of its commits, in Postgres's own words. */
export interface DurabilitySettings {
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly synchronous_commit: string;
  /** `synchronous_standby_names` is set. */
  readonly has_standbys: boolean;
}

/** Reads them on a connection of `sql`; the errors are the driver's own. */
export async function readDurability(sql: Sql): Promise<DurabilitySettings> {
  const [row] = await sql`
    SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
      current_setting('synchronous_commit') AS synchronous_commit,
      current_setting('synchronous_standby_names') <> '' AS has_standbys`;
  return row as DurabilitySettings;
}

/** Those of the settings that may lose a commit, like `fsync=off`. `local` is as good as `on` without standbys; with them a promoted one may lack the commit. */
export function unsafeSettings(settings: DurabilitySettings): string[] {
  const commit = settings.synchronous_commit;
  const weak = commit === 'off' || (settings.has_standbys && (commit === 'local' || commit === 'remote_write'));
  return [
    ...(settings.fsync === 'off' ? ['fsync=off'] : []),
    ...(settings.full_page_writes === 'off' ? ['full_page_writes=off'] : []),
    ...(weak ? [`synchronous_commit=${commit}`] : []),
  ];
}
