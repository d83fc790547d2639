import { type ErrorCode, HoldfastError, isHoldfastError } from '../effects/errors.ts';

/** Where a statement ran. */
export interface Where {
  /** Name of the statement. */
  readonly what?: string;
  /** `host:port/database`. */
  readonly address?: string;
  /** Known to the caller: the statement was never given to a connection. */
  readonly unsent?: boolean;
}

/** The harmless part of a driver's error. Message, detail, hint, query and parameters stay behind: they hold values. */
interface Fault {
  /** SQLSTATE, a code of postgres.js, or one of Node's. */
  readonly code: string;
  readonly fromServer: boolean;
  readonly fatal: boolean;
  readonly constraint: string | undefined;
  readonly table: string | undefined;
}

/** Errors after which the statement certainly did not commit. */
const definite = new WeakSet<HoldfastError>();
const constraints = new WeakMap<HoldfastError, string>();
const states = new WeakMap<HoldfastError, string>();

/**
 * Turns whatever postgres.js, drizzle or a socket threw into a HoldfastError: the one place that
 * reads driver errors. The result holds SQLSTATE, constraint, table and address; never a parameter, a value, query text or
 * a password, and no `cause`. A HoldfastError passes unchanged.
 */
export function translate(error: unknown, where: Where = {}): HoldfastError {
  if (isHoldfastError(error)) {
    if (where.unsent) definite.add(error);
    return error;
  }
  const fault = faultOf(error);
  if (fault === undefined)
    return new HoldfastError('internal', `${nameOf(error)} in the ledger's code`, placeOf(where, frameOf(error)));
  const { code, message } = fault.fromServer ? fromServer(fault, where) : fromConnection(fault, where);
  const translated = new HoldfastError(code, message, placeOf(where));
  if (where.unsent || !inDoubt(fault)) definite.add(translated);
  if (fault.constraint !== undefined) constraints.set(translated, fault.constraint);
  if (fault.fromServer) states.set(translated, fault.code);
  return translated;
}

/**
 * True when the statement may or may not have committed: the connection was lost under it, or nobody waited for the
 * answer. Takes a driver's error or a translated one; what it does not know is in doubt.
 */
export function isConnectionDoubt(error: unknown): boolean {
  if (isHoldfastError(error)) return error.code === 'ledger_unreachable' && !definite.has(error);
  const fault = faultOf(error);
  return fault !== undefined && inDoubt(fault);
}

/** Name of the constraint or guard that refused the statement, of a driver's error or a translated one. */
export function constraintOf(error: unknown): string | undefined {
  return isHoldfastError(error) ? constraints.get(error) : faultOf(error)?.constraint;
}

/** SQLSTATE of a driver's error or a translated one; `undefined` when the server did not speak. */
export function sqlStateOf(error: unknown): string | undefined {
  if (isHoldfastError(error)) return states.get(error);
  const fault = faultOf(error);
  return fault?.fromServer ? fault.code : undefined;
}

/** Codes by SQLSTATE, then by its class. What is not here is `ledger_refused`. */
const BY_STATE: Readonly<Record<string, { readonly code: ErrorCode; readonly says: string }>> = {
  '57014': { code: 'ledger_unreachable', says: 'the statement was cancelled at its time limit' },
  '57P01': { code: 'ledger_unreachable', says: 'Postgres ended the connection' },
  '57P02': { code: 'ledger_unreachable', says: 'Postgres crashed' },
  '57P03': { code: 'ledger_unreachable', says: 'Postgres is starting up or shutting down' },
  '40001': { code: 'ledger_unreachable', says: 'the statement lost against another one' },
  '40P01': { code: 'ledger_unreachable', says: 'the statement lost against another one' },
  '40003': { code: 'ledger_unreachable', says: 'the outcome of the statement is not known' },
  '55P03': { code: 'ledger_unreachable', says: 'a lock was not to be had' },
  '25006': { code: 'ledger_unreachable', says: 'Postgres takes no writes: a standby, or read-only' },
  '3D000': { code: 'bad_config', says: 'the database does not exist' },
  '22023': { code: 'ledger_refused', says: 'a parameter is not valid' },
  '22021': { code: 'bad_input', says: 'a text holds a character that Postgres cannot store' },
  '22P05': { code: 'bad_input', says: 'a text holds a character that Postgres cannot store' },
  '42501': { code: 'ledger_refused', says: 'the role may not do this' },
  '3F000': { code: 'schema_version_unsupported', says: 'the schema is missing' },
  '42P01': { code: 'schema_version_unsupported', says: 'a table is missing' },
  '42703': { code: 'schema_version_unsupported', says: 'a column is missing' },
  '42883': { code: 'schema_version_unsupported', says: 'a function is missing' },
  '08': { code: 'ledger_unreachable', says: 'the connection failed' },
  '28': { code: 'bad_config', says: 'Postgres refused the user or the password' },
  '53': { code: 'ledger_unreachable', says: 'Postgres is out of connections, memory or disk' },
  '57': { code: 'ledger_unreachable', says: 'Postgres ended the statement' },
  '58': { code: 'ledger_unreachable', says: 'Postgres has trouble with its machine' },
};

function fromServer(fault: Fault, where: Where): { code: ErrorCode; message: string } {
  if (isMissingRole(fault)) {
    return {
      code: 'schema_version_unsupported',
      message: 'the database is not prepared: role holdfast_app is missing or not granted',
    };
  }
  const row = BY_STATE[fault.code] ?? BY_STATE[fault.code.slice(0, 2)];
  const named = [
    `SQLSTATE ${fault.code}`,
    fault.constraint && `constraint ${fault.constraint}`,
    fault.table && `table ${fault.table}`,
  ];
  const message = `${row?.says ?? 'Postgres refused the statement'} (${named.filter(Boolean).join(', ')})`;
  return { code: row?.code ?? 'ledger_refused', message: at(message, where) };
}

function fromConnection(fault: Fault, where: Where): { code: ErrorCode; message: string } {
  if (
    fault.code === 'UNDEFINED_VALUE' ||
    fault.code === 'MAX_PARAMETERS_EXCEEDED' ||
    fault.code === 'NOT_TAGGED_CALL'
  ) {
    return { code: 'internal', message: `a statement was built wrongly (${fault.code})` };
  }
  return { code: 'ledger_unreachable', message: at(`no connection to Postgres (${fault.code})`, where) };
}

/** Refused while the connection was being made: by a set-up without the role, or a login without its membership. */
function isMissingRole(fault: Fault): boolean {
  return fault.fatal && (fault.code === '22023' || fault.code === '42501' || fault.code === '42704');
}

/** SQLSTATEs that Postgres sends, as FATAL, before it takes any statement. */
const BEFORE_ANY_STATEMENT = /^(28|3D000$|53300$|57P03$|22023$|42501$|42704$)/;
/** Raised by postgres.js or Node before anything was written to a server. */
const NEVER_WRITTEN = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
  'EACCES',
  'CONNECT_TIMEOUT',
  'CONNECTION_ENDED',
  'UNDEFINED_VALUE',
  'MAX_PARAMETERS_EXCEEDED',
  'NOT_TAGGED_CALL',
  'SASL_SIGNATURE_MISMATCH',
]);

function inDoubt(fault: Fault): boolean {
  if (!fault.fromServer) return !NEVER_WRITTEN.has(fault.code);
  if (fault.code.startsWith('08') || fault.code === '40003') return true;
  // An ERROR rolled the statement back. A FATAL ends the session, and can come after the local commit
  // (57P01 while waiting for a synchronous standby).
  return fault.fatal && !BEFORE_ANY_STATEMENT.test(fault.code);
}

/** Digs through drizzle's wrapper to the driver's error; `undefined` for a fault of our own code. */
function faultOf(error: unknown): Fault | undefined {
  let current = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth += 1) {
    const { code, severity, constraint_name, table_name } = current as Error & Record<string, unknown>;
    if (typeof code === 'string' && code !== '') {
      const fromServer = typeof severity === 'string';
      return {
        code,
        fromServer,
        fatal: severity === 'FATAL' || severity === 'PANIC',
        constraint: typeof constraint_name === 'string' ? constraint_name : undefined,
        table: typeof table_name === 'string' ? table_name : undefined,
      };
    }
    current = current.cause;
  }
  return undefined;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

/** The first line of the stack that names a place. The lines above it are the message, which can hold values. */
function frameOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return /^\s+at .*?([^/\\(\s]+:\d+):\d+\)?$/m.exec(error.stack ?? '')?.[1];
}

function placeOf(where: Where, frame?: string): { place?: string } {
  const place = [where.what, frame].filter((part) => part !== undefined).join(' ');
  return place === '' ? {} : { place };
}

function at(message: string, where: Where): string {
  return where.address === undefined ? message : `${message}, at ${where.address}`;
}
