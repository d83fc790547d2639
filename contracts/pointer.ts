import type { JsonValue } from './contract.ts';

const SYNTAX = /^(?:\/(?:[^~/]|~[01])*)*$/;
const INDEX = /^(?:0|[1-9][0-9]*)$/;

/** True for a well-formed JSON Pointer (RFC 6901): empty, or `/`-led with `~` only as `~0` and `~1`. */
export function isPointer(text: string): boolean {
  return SYNTAX.test(text);
}

/** The unescaped segments of a pointer; the empty pointer has none. */
export function pointerSegments(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Builds a pointer from unescaped segments. */
export function pointerOf(segments: readonly (string | number)[]): string {
  return segments.map((segment) => `/${String(segment).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/**
 * The child called `segment`: an own property of an object, an element of an array, `undefined` when there is none.
 * Inherited names (`constructor`, `length`) are never found.
 */
export function childOf(value: JsonValue | undefined, segment: string): JsonValue | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) return INDEX.test(segment) ? (value[Number(segment)] as JsonValue | undefined) : undefined;
  return Object.hasOwn(value, segment) ? (value as { [key: string]: JsonValue })[segment] : undefined;
}

/** What stands at `pointer` (RFC 6901) inside `value`; `undefined` when nothing does. Never throws. */
export function getPointer(value: JsonValue | undefined, pointer: string): JsonValue | undefined {
  if (!isPointer(pointer)) return undefined;
  let at = value;
  for (const segment of pointerSegments(pointer)) at = childOf(at, segment);
  return at;
}
