import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js';
import postgres, { type Options, type PostgresType, type Sql } from 'postgres';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { sqlStateOf, translate } from './errors.ts';
import { type HotPath, hotPath } from './hot.ts';
import * as schema from './schema.ts';
import { SocketWatch } from './socket.ts';
import { LEDGER_TYPES } from './types.ts';

/** The raw client: prepared statements, `timestamptz` as Date, `bigint` as number, `bytea` as Buffer, `text[]` as string[]. */
export type LedgerSql = Sql;
/** The drizzle client for cold queries. */
export type LedgerDb = PostgresJsDatabase<typeof schema>;

/** A single connection of its own. Whoever asked for it closes it. */
export interface LedgerConnection {
  readonly sql: LedgerSql;
  close(): Promise<void>;
}

/** One process's way to the ledger. */
export interface Ledger {
  /** `host:port/database`, safe to print. */
  readonly address: string;
  /** For hot statements, as tagged templates. Wrap each call in {@link Ledger.run}. */
  readonly sql: LedgerSql;
  /** The two statements of a healthy effect; not to be wrapped. */
  readonly hot: HotPath;
  /** For cold queries. On a client of its own, because drizzle changes the one it is given. */
  readonly db: LedgerDb;
  /**
   * Runs one statement with a deadline and with its errors translated. Let `statement` return the query itself (and
   * not an async function around it): then an error knows whether the statement was ever sent, and a statement
   * given up on while still queued is never sent later. What was sent may still commit: see `isConnectionDoubt`.
   *
   * @param what - name of the statement, stands in errors as `place`
   * @param deadlineMs - default {@link LedgerOptions.deadlineMs}
   * @throws HoldfastError of `translate`
   */
  run<T>(what: string, statement: () => PromiseLike<T>, deadlineMs?: number): Promise<T>;
  /** A new connection, used by nobody else: for read-backs in doubt and for the lease. Connects at its first statement. */
  fresh(): LedgerConnection;
  /** Waits up to 2 s for open statements, then drops them. */
  close(): Promise<void>;
}

/** How a ledger is opened; everything has a default. */
export interface LedgerOptions {
  /** Shows in pg_stat_activity. Default `holdfast`. */
  readonly applicationName?: string;
  /** Connections for hot statements. Default 20. Raise it with the number of flights; each costs a backend. */
  readonly connectionsMax?: number;
  /** Connections for cold queries. Default 2. */
  readonly coldConnectionsMax?: number;
  /** Server-side limit of a statement. Default 5 s; also the admission limit of PROTOCOL 2.6. */
  readonly statementTimeoutMs?: number;
  /** How long a caller waits for one statement, queueing and connecting included. Default the statement time-out and 3 s. */
  readonly deadlineMs?: number;
  /** Default 2 s, below the lease's ttl. */
  readonly connectTimeoutMs?: number;
  /** Act as this role. Default `holdfast_app`; null keeps the role of the URL (migrations). */
  readonly role?: string | null;
}

/** Default limit of a statement on the server, in milliseconds. */
export const STATEMENT_TIMEOUT_MS = 5_000;
const CLOSE_WAIT_S = 2;

/**
 * Opens the ledger. Nothing is connected before the first statement.
 *
 * @param url - `postgres://user:password@host:port/database`, with `?sslmode=` where wanted
 * @throws HoldfastError `bad_config` when the URL is malformed; the message never holds it
 */
export function connect(url: string, options: LedgerOptions = {}): Ledger {
  const address = addressOf(url);
  const statementTimeoutMs = options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS;
  const deadlineMs = options.deadlineMs ?? statementTimeoutMs + 3_000;
  const sockets = new SocketWatch(statementTimeoutMs + 1_000);
  const open = (max: number, pipelineMax = 0): LedgerSql =>
    postgres(url, clientOptions(options, statementTimeoutMs, sockets, max, pipelineMax)) as unknown as LedgerSql;
  const sql = withoutTransactions(open(options.connectionsMax ?? 20));
  // Transactions need room for one statement behind BEGIN: postgres.js 3.4 reserves the connection in that step.
  const cold = open(options.coldConnectionsMax ?? 2, 1);
  const others = new Set<LedgerSql>();
  const run: Ledger['run'] = (what, statement, waitMs = deadlineMs) =>
    runStatement({ what, address, waitMs, sockets }, statement);
  return {
    address,
    sql,
    hot: hotPath(run, sql),
    db: drizzle(cold, { schema }),
    run,
    fresh() {
      const own = withoutTransactions(open(1));
      others.add(own);
      return {
        sql: own,
        async close() {
          others.delete(own);
          await own.end({ timeout: CLOSE_WAIT_S });
        },
      };
    },
    async close() {
      await Promise.all([sql, cold, ...others].map((client) => client.end({ timeout: CLOSE_WAIT_S })));
    },
  };
}

/**
 * A claim is one autocommit statement, never inside a transaction block (DESIGN, rule 2). And on a client without
 * pipelining `begin` would end the process: postgres.js 3.4 never tells it the connection.
 */
function withoutTransactions(sql: LedgerSql): LedgerSql {
  const refuse = () =>
    Promise.reject(new HoldfastError('internal', 'no transactions on the hot client; use ledger.db.transaction'));
  return watched(Object.assign(sql, { begin: refuse }));
}

/**
 * The query made last. Statements are async functions, whose promise hides the query that postgres.js queues: what has
 * become of it is asked of the query itself.
 */
let made: unknown;

function watched(sql: LedgerSql): LedgerSql {
  const noting =
    <Args extends unknown[], Query>(make: (...args: Args) => Query) =>
    (...args: Args): Query => {
      const query = make(...args);
      made = query;
      return query;
    };
  return new Proxy(sql, {
    apply: (make, self, args) => noting((...given: unknown[]) => Reflect.apply(make, self, given))(...args),
    get: (client, name, self) => (name === 'unsafe' ? noting(client.unsafe) : Reflect.get(client, name, self)),
  });
}

interface RunContext {
  readonly what: string;
  readonly address: string;
  readonly waitMs: number;
  readonly sockets: SocketWatch;
}

async function runStatement<T>(context: RunContext, statement: () => PromiseLike<T>, again = true): Promise<T> {
  const { what, address, waitMs, sockets } = context;
  made = undefined;
  const answer = statement();
  // Up to its first wait a statement runs at once: what it made by then is the query that waits its turn.
  const query = made ?? answer;
  try {
    return await withDeadline(answer, waitMs, what);
  } catch (error) {
    const unsent = isUnsent(query);
    // postgres.js keeps a FATAL of a connection's former life and gives it to the first statement of the next
    // one, which it then never sends.
    if (unsent && again && sqlStateOf(error)?.startsWith('57P')) return runStatement(context, statement, false);
    if (isHoldfastError(error) && error.code === 'ledger_unreachable') {
      // Still in the queue: it must not be sent when nobody waits for it any more.
      if (unsent) blank(query);
      else sockets.suspect();
    }
    throw translate(error, { what, address, unsent });
  }
}

/**
 * Makes a statement that waits its turn do nothing. Not by `cancel()`: when the statement is the one that a new
 * connection waits to begin with, postgres.js never uses that connection again.
 */
function blank(query: UnsentQuery): void {
  query.strings = NOTHING;
  query.args = [];
}

/** The parts of postgres.js 3.4's Query (query.js) that are read when the statement is written, and not before. */
interface UnsentQuery extends Promise<unknown> {
  state: null;
  strings: readonly string[];
  args: readonly unknown[];
}
const NOTHING = Object.assign(['SELECT'], { raw: ['SELECT'] });

/** A statement that postgres.js has not given to any connection. False when that cannot be told. */
function isUnsent(query: unknown): query is UnsentQuery {
  // `state` names the backend from the moment the statement is written.
  return query instanceof Promise && 'state' in query && query.state === null;
}

/**
 * Gives up waiting after `ms`: postgres.js can wait for ever on a connection that died (porsager/postgres#1186, #1216).
 * A rejection that comes later is swallowed.
 *
 * @throws HoldfastError `ledger_unreachable`, in doubt: the statement may still commit
 */
export async function withDeadline<T>(promise: PromiseLike<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new HoldfastError('ledger_unreachable', `Postgres did not answer within ${ms} ms`, { place: what })),
      ms,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Options of postgres.js 3.4 that its types leave out. */
interface Undeclared {
  readonly max_pipeline: number;
  readonly socket: SocketWatch['open'];
}

function clientOptions(
  options: LedgerOptions,
  statementTimeoutMs: number,
  sockets: SocketWatch,
  max: number,
  pipelineMax: number,
): Options<Record<string, PostgresType>> & Undeclared {
  const role = options.role === undefined ? 'holdfast_app' : options.role;
  return {
    max,
    types: LEDGER_TYPES,
    // The types that we use are declared in types.ts, so the look-up costs a round trip for nothing. And postgres.js
    // does not catch its failure: a backend killed in that moment ends the process by an unhandled rejection.
    fetch_types: false,
    // No pipelining: a statement never waits behind another one's lock, nor falls with another one's connection.
    // Measured at 32 in flight: 20 connections without it do as many inserts as 10 with it.
    max_pipeline: pipelineMax,
    prepare: true,
    idle_timeout: 60,
    keep_alive: 10,
    connect_timeout: (options.connectTimeoutMs ?? 2_000) / 1_000,
    // Seconds, at most 0.5: a restarted Postgres is found again well within a lease's ttl of 3 s.
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 0.4) * (1 + Math.random() / 4),
    onnotice: () => {},
    socket: sockets.open,
    connection: {
      application_name: options.applicationName ?? 'holdfast',
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: statementTimeoutMs * 2,
      // The protocol's statements count on it, whatever the database's default is.
      default_transaction_isolation: 'read committed',
      TimeZone: 'UTC',
      // Every statement here finds its rows by an index. A plan made while a table was small must not scan it, or hash it,
      // once it has grown: prepared plans live as long as the connection, or until Postgres counts the table again.
      enable_seqscan: 'off',
      enable_hashjoin: 'off',
      enable_mergejoin: 'off',
      ...(role === null ? {} : { role }),
    },
  };
}

/** `host:port/database` of a URL: the only part of it that may be shown. @throws HoldfastError `bad_config` */
export function addressOf(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    // The reason is left out on purpose: Node puts the whole URL, with its password, into its error.
    throw new HoldfastError(
      'bad_config',
      'the database URL is malformed: expected postgres://user:password@host:port/database',
    );
  }
  if (!/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw new HoldfastError('bad_config', 'the database URL must start with postgres://');
  }
  return `${parsed.hostname || 'localhost'}:${parsed.port || '5432'}${parsed.pathname}`;
}
