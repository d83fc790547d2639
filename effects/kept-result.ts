import { JSON_DEPTH_MAX } from '../contracts/canonical-json.ts';
import type { JsonObject, JsonValue } from '../contracts/contract.ts';
import { pointerSegments } from '../contracts/pointer.ts';

/** What stands where a redacted value stood. */
export const REDACTED = '[redacted]';

/**
 * A copy without what the pointers name. A `*` segment stands for every element or property. What is not there is
 * not put there.
 */
export function redact(value: JsonValue, pointers: readonly string[]): JsonValue {
  return pointers.reduce((copy, pointer) => without(copy, pointerSegments(pointer)), value);
}

function without(value: JsonValue, segments: readonly string[]): JsonValue {
  const [segment, ...rest] = segments;
  if (segment === undefined) return REDACTED;
  if (typeof value !== 'object' || value === null) return value;
  const hit = (key: string): boolean => segment === '*' || segment === key;
  if (Array.isArray(value)) {
    return value.map((item: JsonValue, index) => (hit(String(index)) ? without(item, rest) : item));
  }
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, child]) => [key, hit(key) ? without(child, rest) : child]),
  );
}

/** A result as the ledger may hold it, and whether it was cut to that. */
export interface Kept {
  readonly result: JsonValue;
  readonly cut: boolean;
}

/**
 * Makes a provider's value fit to be kept: redacted, with whole characters, nested no deeper than canonical JSON
 * takes, at most `bytesMax` bytes as JSON; else `{ truncated: true, bytes }` stands for it. Never throws.
 */
export function keep(value: JsonValue, pointers: readonly string[], bytesMax: number): Kept {
  const depth = depthOf(value, JSON_DEPTH_MAX + 1);
  if (depth > JSON_DEPTH_MAX) return { result: { truncated: true, bytes: null }, cut: true };
  const clean = redact(value, pointers);
  const text = JSON.stringify(clean);
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax) return { result: { truncated: true, bytes }, cut: true };
  // JSON.stringify escapes lone surrogates, so a well-formed text with such an escape is looked at more closely.
  return { result: /\\u[dD][89a-fA-F]/.test(text) ? wholeCharacters(clean) : clean, cut: false };
}

function depthOf(value: JsonValue, stopAt: number): number {
  if (typeof value !== 'object' || value === null || stopAt === 0) return 0;
  let deepest = 0;
  for (const child of Object.values(value)) deepest = Math.max(deepest, depthOf(child as JsonValue, stopAt - 1));
  return deepest + 1;
}

function wholeCharacters(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item: JsonValue) => wholeCharacters(item));
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, child]) => [key.toWellFormed(), wholeCharacters(child)]),
  );
}
