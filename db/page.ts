import { HoldfastError } from '../effects/errors.ts';

const PAGE_MAX = 500;

/** A page's size: `fallback` when not given. @throws HoldfastError `bad_input` outside 1 to 500 */
export function pageLimit(limit: number | undefined, fallback: number): number {
  const size = limit ?? fallback;
  if (!Number.isInteger(size) || size < 1 || size > PAGE_MAX) {
    throw new HoldfastError('bad_input', `limit is a whole number from 1 to ${PAGE_MAX}`, { place: 'limit' });
  }
  return size;
}

/** The place after which the next page begins, as one opaque word. */
export function writeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts), 'utf8').toString('base64url');
}

/** @throws HoldfastError `bad_input` when it is not a cursor of `count` parts */
export function readCursor(cursor: string, count: number): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (Array.isArray(parts) && parts.length === count && parts.every((part) => typeof part === 'string')) return parts;
  } catch {
    // Falls through to the one error.
  }
  throw new HoldfastError('bad_input', 'not a cursor of this list', {
    place: 'after',
    next: 'take `next` of the page before',
  });
}
