import { DefaultLogger, type LogEntry } from '@temporalio/worker';
import { ERRORS } from '../effects/errors.ts';

/** Said by the SDK about every provider queue, on purpose without workflows. */
const EXPECTED = 'No workflows registered, not polling for workflow tasks';
/** What tells one call or effect from another. */
const NAMED = ['workflowId', 'activityType', 'taskQueue', 'attempt'] as const;

/**
 * The SDK's warnings and errors on standard error, a line each. A caller's own mistake (a refusal of the error table) is
 * told to the caller and is no trouble of this process, so it is left out. Stack traces only with `stacks`.
 */
export function workerLogger(stacks: boolean): DefaultLogger {
  return new DefaultLogger('WARN', (entry) => {
    const line = logLine(entry, stacks);
    if (line !== undefined) process.stderr.write(`${line}\n`);
  });
}

/** One entry as one line; undefined for what nobody needs to read. */
export function logLine({ level, message, meta, timestampNanos }: LogEntry, stacks: boolean): string | undefined {
  if (message === EXPECTED) return undefined;
  const { error, ...rest } = (meta ?? {}) as Record<string, unknown>;
  const root = rootOf(error);
  if (level === 'WARN' && isRefusal(root)) return undefined;
  const at = new Date(Number(timestampNanos / 1_000_000n)).toISOString();
  const names = NAMED.filter((name) => rest[name] !== undefined).map((name) => `${name}=${rest[name]}`);
  const why = root === undefined ? [] : [`error=${root.type ?? root.name}: ${oneLine(root.message)}`];
  const line = [at, level, oneLine(message), ...names, ...why].join(' ');
  return stacks && root?.stack !== undefined ? `${line}\n${root.stack}` : line;
}

interface Cause {
  readonly name: string;
  readonly message: string;
  readonly type?: string | null;
  readonly nonRetryable?: boolean | null;
  readonly stack?: string;
}

/** The innermost cause: what Temporal wraps around it says only where it passed. */
function rootOf(error: unknown): Cause | undefined {
  if (!(error instanceof Error)) return undefined;
  let root = error;
  for (let depth = 0; depth < 10 && root.cause instanceof Error; depth += 1) root = root.cause;
  return root as Cause;
}

/** Bad input or a refusal (exit codes 2 and 3 of the table): an answer, not a fault. */
function isRefusal(cause: Cause | undefined): boolean {
  const row = cause?.type == null ? undefined : (ERRORS as Record<string, { exit: number }>)[cause.type];
  return row !== undefined && (row.exit === 2 || row.exit === 3);
}

const oneLine = (text: string): string => text.replaceAll(/\s*[\r\n]+\s*/g, ' | ');
