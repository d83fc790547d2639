import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** The user a server runs as. Empty: ourselves. */
export interface RunAs {
  readonly uid?: number;
  readonly gid?: number;
}

/** Where root puts what an unprivileged user cannot reach, such as a checkout below /root. */
const ROOT_STORE = '/var/lib/holdfast';

/**
 * Postgres refuses to run as root, so root lends it a user: the owner of data that is already there, `postgres` where the
 * system has one, otherwise `nobody`. No user is created.
 */
export function unprivileged(existingData: string): RunAs {
  if (process.getuid?.() !== 0) return {};
  if (existsSync(existingData)) {
    const { uid, gid } = statSync(existingData);
    if (uid !== 0) return { uid, gid };
  }
  for (const name of ['postgres', 'nobody']) {
    const uid = idOf('-u', name);
    const gid = idOf('-g', name);
    if (uid !== null && gid !== null && uid !== 0) return { uid, gid };
  }
  throw new Error('running as root, and the system has neither a user postgres nor nobody to run Postgres as');
}

function idOf(flag: '-u' | '-g', name: string): number | null {
  try {
    return Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }).toString());
  } catch {
    return null;
  }
}

/** Whether the user can execute (or, for a directory, enter) `path`. */
export function canReach(path: string, as: RunAs): boolean {
  return as.uid === undefined || spawnSync('test', ['-x', path], { ...as, cwd: '/' }).status === 0;
}

/**
 * Makes a directory at `path` that the user owns, where there is none, and says where it really is: when the user cannot
 * enter the way to `path`, it becomes a link to a directory below /var/lib/holdfast.
 */
export function ownedDirectory(path: string, as: RunAs): string {
  mkdirSync(dirname(path), { recursive: true });
  if (!existsSync(path)) {
    rmSync(path, { force: true }); // A link to data that somebody removed.
    mkdirSync(path, { mode: 0o700 });
    if (as.uid !== undefined && !giveAway(path, as)) linkElsewhere(path, as);
  }
  return realpathSync(path);
}

function linkElsewhere(path: string, as: RunAs): void {
  rmSync(path, { recursive: true });
  const elsewhere = join(ROOT_STORE, createHash('sha256').update(path).digest('hex').slice(0, 16));
  // The link was gone, so whoever removed it meant the data to go as well.
  rmSync(elsewhere, { recursive: true, force: true });
  mkdirSync(ROOT_STORE, { recursive: true, mode: 0o755 });
  mkdirSync(elsewhere, { mode: 0o700 });
  if (!giveAway(elsewhere, as)) throw new Error(`uid ${as.uid} can enter neither ${path} nor ${elsewhere}`);
  symlinkSync(elsewhere, path);
}

function giveAway(path: string, as: RunAs): boolean {
  try {
    chownSync(path, as.uid as number, as.gid as number);
  } catch {
    return false; // A mount that knows no owners.
  }
  return canReach(path, as);
}

/** `directory` itself when the user can enter it, otherwise a copy of it, made once per `label`. */
export function reachableCopy(directory: string, label: string, as: RunAs): string {
  if (canReach(directory, as)) return directory;
  const copy = join(ROOT_STORE, label);
  if (!existsSync(copy)) {
    const half = `${copy}.${process.pid}`;
    mkdirSync(ROOT_STORE, { recursive: true, mode: 0o755 });
    cpSync(directory, half, { recursive: true, verbatimSymlinks: true });
    try {
      renameSync(half, copy);
    } catch {
      rmSync(half, { recursive: true, force: true }); // Another process was first.
    }
  }
  if (!canReach(copy, as)) throw new Error(`uid ${as.uid} can enter neither ${directory} nor ${copy}`);
  return copy;
}
