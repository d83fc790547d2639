import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import type { Ledger, PayloadCodec } from '../client/admin.ts';
import { findStack } from '../dev/stack-state.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { HoldfastConfig } from '../workers/config.ts';

/** What every command takes. */
export interface Common {
  readonly json: boolean;
  readonly debug: boolean;
  /** `holdfast.yaml` by another name. */
  readonly config?: string;
}

/** The options of a command together with the common ones, which may stand before or after its name. */
export function optionsOf<T extends object = object>(command: Command): Common & T {
  const { json = false, debug = false, ...rest } = command.optsWithGlobals();
  return { json, debug, ...rest } as Common & T;
}

/** Where things are: the file and the environment first, else the stack that `holdfast dev` runs here. */
export interface Places {
  readonly config: HoldfastConfig;
  /** Temporal's web UI, without a slash at the end; null when nobody knows one. */
  readonly uiUrl: string | null;
  readonly namespace: string;
}

const DEFAULT_NAMESPACE = 'default';

/** Reads the configuration and fills what it leaves open from the running stack. Throws `bad_config`. */
export async function places(common: Pick<Common, 'config'>): Promise<Places> {
  const { loadConfig } = await import('../workers/config.ts');
  const config = loadConfig(common.config);
  const stack = findStack();
  const database = config.database ?? (stack?.postgres ? { url: stack.postgres.url } : undefined);
  const ownTemporal = config.temporal.address !== undefined;
  const temporal =
    ownTemporal || !stack?.temporal
      ? config.temporal
      : { namespace: stack.temporal.namespace, ...config.temporal, address: stack.temporal.address };
  const uiUrl = config.temporal.ui_url ?? (ownTemporal ? null : (stack?.temporal?.uiUrl ?? null));
  return {
    config: { ...config, ...(database === undefined ? {} : { database }), temporal },
    uiUrl: uiUrl?.replace(/\/+$/, '') ?? null,
    namespace: temporal.namespace ?? DEFAULT_NAMESPACE,
  };
}

/** The URL of the ledger. Throws `bad_config` when there is none. */
export function databaseUrl({ config }: Places): string {
  const place = process.env['DATABASE_URL'] === undefined && config.file !== null ? config.file : 'DATABASE_URL';
  if (config.database !== undefined) {
    const { url } = config.database;
    if (/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return url;
    // Its text is not shown: it may hold a password.
    throw new HoldfastError('bad_config', 'the database URL is malformed', {
      place,
      next: 'write postgres://USER@HOST:PORT/DATABASE, the password in its usual place',
    });
  }
  throw new HoldfastError('bad_config', 'no database is configured, and no stack runs here', {
    place,
    next: 'start one: holdfast dev; or set DATABASE_URL, or database.url in holdfast.yaml',
  });
}

/** Opens the ledger for one command and closes it again. Needs neither Temporal nor the fleet. */
export async function withLedger<T>(at: Places, work: (ledger: Ledger) => Promise<T>): Promise<T> {
  const { checkDeployment, checkSchema, connect } = await import('../client/admin.ts');
  const ledger = connect(databaseUrl(at), { applicationName: 'holdfast cli', connectionsMax: 2 });
  try {
    await checkSchema(ledger);
    await checkDeployment(ledger, at.config.deployment);
    return await work(ledger);
  } finally {
    await ledger.close();
  }
}

/** What reads and writes payloads here, as the workers do: by `payload_keys_file`. Throws `bad_config`. */
export async function codecOf(at: Places): Promise<PayloadCodec> {
  const { openCodec } = await import('../workers/codec.ts');
  return openCodec(at.config);
}

const CONNECT_WITHIN_MS = 5_000;

/** Connects to Temporal for one command and closes the connection again. Throws `temporal_unreachable`. */
export async function withTemporal<T>(
  at: Places,
  work: (client: Client) => Promise<T>,
  connectWithinMs = CONNECT_WITHIN_MS,
): Promise<T> {
  const { Client, Connection } = await import('@temporalio/client');
  const { address = '127.0.0.1:7233', tls } = at.config.temporal;
  const connection = await Connection.connect({
    address,
    connectTimeout: connectWithinMs,
    ...(tls ? { tls: true } : {}),
  }).catch((error: unknown) => {
    throw new HoldfastError('temporal_unreachable', `no answer from Temporal at ${address}`, {
      place: address,
      cause: error,
    });
  });
  try {
    const { historyConverter } = await import('../client/history-codec.ts');
    const dataConverter = historyConverter(await codecOf(at));
    return await work(new Client({ connection, namespace: at.namespace, dataConverter }));
  } finally {
    await connection.close();
  }
}
