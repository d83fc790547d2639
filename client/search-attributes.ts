import type { Connection } from '@temporalio/client';
import { HoldfastError } from '../effects/errors.ts';

/** The search attributes of every Holdfast workflow, all of type Keyword. The dev server allows ten per namespace. */
export const SEARCH_ATTRIBUTES = [
  'EffectStatus',
  'EffectAttention',
  'EffectClass',
  'ToolName',
  'ToolVersion',
  'Tenant',
] as const;

/** One of {@link SEARCH_ATTRIBUTES}. */
export type SearchAttribute = (typeof SEARCH_ATTRIBUTES)[number];

/** `IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD` of Temporal's API. */
const KEYWORD = 2;
/** gRPC status code. */
const ALREADY_EXISTS = 6;

/**
 * Registers the missing search attributes in a namespace and waits until the server takes them.
 *
 * A server refuses an attribute for a while after it was registered, because each service keeps its own copy of the
 * list (temporalio/temporal#4017, #6195). So the attributes count as usable only when a query that names all of them
 * is answered. Idempotent; several processes may call it at once.
 *
 * @param deadlineMs how long to wait until they are usable, default 60000: servers refresh their copy once a minute.
 * @throws HoldfastError `temporal_unreachable` when the deadline passes or the server refuses to register them.
 */
export async function ensureSearchAttributes(
  connection: Connection,
  namespace: string,
  deadlineMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    // A server may forbid listing and registering and yet have them all (Temporal Cloud): the query alone decides.
    const registering = await registerMissing(connection, namespace).catch((error: unknown) => error);
    const asking = await connection.workflowService
      .countWorkflowExecutions({ namespace, query: probeQuery() })
      .then(() => null)
      .catch((error: unknown) => error);
    if (asking === null) return;
    if (performance.now() >= deadline) {
      const cause = registering ?? asking;
      throw new HoldfastError(
        'temporal_unreachable',
        `the search attributes ${SEARCH_ATTRIBUTES.join(', ')} are not usable: ${messageOf(cause)}`,
        { place: `namespace ${namespace}`, cause },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function registerMissing(connection: Connection, namespace: string): Promise<null> {
  const known = await connection.operatorService.listSearchAttributes({ namespace });
  const present = known.customAttributes ?? {};
  const missing = SEARCH_ATTRIBUTES.filter((name) => !(name in present));
  for (const name of missing) {
    try {
      // One at a time: a batch fails as a whole when another process registered one of them meanwhile.
      await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: { [name]: KEYWORD } });
    } catch (error) {
      if (codeOf(error) !== ALREADY_EXISTS) throw error;
    }
  }
  return null;
}

function probeQuery(): string {
  return SEARCH_ATTRIBUTES.map((name) => `${name} = 'probe'`).join(' AND ');
}

function codeOf(error: unknown): number | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
