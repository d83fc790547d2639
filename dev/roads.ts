import { HoldfastError } from '../effects/errors.ts';

/** One way to get a server. Later roads are tried when earlier ones fail. */
export interface Road<T> {
  readonly name: string;
  /** Throws an Error whose message says in one line why this road is closed. */
  readonly take: () => Promise<T>;
}

/** Takes one-line progress messages; default: silence. */
export type Log = (line: string) => void;

/**
 * Takes the first road that leads somewhere.
 *
 * @throws HoldfastError `stack_unavailable` naming the reason of each road.
 */
export async function firstRoad<T>(what: string, roads: readonly Road<T>[], log: Log): Promise<T> {
  const reasons: string[] = [];
  for (const road of roads) {
    try {
      return await road.take();
    } catch (error) {
      const why = oneLine(error);
      const reason = why.includes(road.name) ? why : `${road.name}: ${why}`;
      log(`${what}: ${reason}`);
      reasons.push(reason);
    }
  }
  throw new HoldfastError('stack_unavailable', `no ${what} could be started: ${reasons.join('; ')}`, { place: what });
}

const LINE_CHARS_MAX = 400;

/** An error's message on one line of bounded length. */
export function oneLine(error: unknown): string {
  // A refused connection to several addresses is an AggregateError without a message of its own.
  const inner = error instanceof AggregateError && error.message === '' ? error.errors[0] : error;
  const text = inner instanceof Error ? inner.message : String(inner);
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)}…` : line;
}
