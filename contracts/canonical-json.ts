import { HoldfastError } from '../effects/errors.ts';
import type { JsonValue } from './contract.ts';
import { pointerOf } from './pointer.ts';

/** Deepest nesting of arrays and objects that may be digested. */
export const JSON_DEPTH_MAX = 64;

/**
 * The canonical text of a JSON value by RFC 8785: no white space, members sorted by UTF-16 code units,
 * numbers and strings as ECMAScript writes them, `-0` as `0`.
 *
 * @throws HoldfastError `bad_input`, place = JSON Pointer, for what JSON cannot say without loss: NaN, infinities,
 * lone surrogates, `undefined`, functions, symbols, bigints, objects with a prototype of their own, holes in arrays,
 * symbol keys, cycles and nesting deeper than {@link JSON_DEPTH_MAX}.
 */
export function canonicalJson(value: JsonValue): string {
  try {
    return write(value, 0);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const place = pointerOf(error.path);
    throw new HoldfastError('bad_input', `${place === '' ? 'the value' : place}: ${error.message}`, { place });
  }
}

/** Why a value has no canonical text. Its place is put together on the way out, so that a good value pays nothing for it. */
class Refusal extends Error {
  readonly path: (string | number)[] = [];
}

/** Equal as JSON: same canonical text. Never throws; values that have no canonical text equal nothing. */
export function sameJson(a: JsonValue, b: JsonValue): boolean {
  if (a === b) return true;
  if (typeof a !== typeof b || a === null || b === null) return false;
  try {
    return canonicalJson(a) === canonicalJson(b);
  } catch {
    return false;
  }
}

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case 'string':
      return text(value);
    case 'number':
      if (!Number.isFinite(value)) throw new Refusal(`${value} is not a JSON number`);
      return String(value === 0 ? 0 : value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (depth >= JSON_DEPTH_MAX) throw new Refusal(`nested deeper than ${JSON_DEPTH_MAX}`);
      return Array.isArray(value) ? array(value, depth + 1) : object(value, depth + 1);
    default:
      throw new Refusal(`a value of type ${typeof value} is not JSON`);
  }
}

/** ASCII that needs no escape: most keys and many values. */
const PLAIN = /^[ !#-[\]-~]*$/;

function text(value: string): string {
  if (PLAIN.test(value)) return `"${value}"`;
  // JSON.stringify writes a lone surrogate as an escape, so two sides could digest different bytes.
  if (!value.isWellFormed()) throw new Refusal('a text with a lone surrogate has no UTF-8 form');
  return JSON.stringify(value);
}

function array(value: readonly unknown[], depth: number): string {
  let out = '[';
  for (let index = 0; index < value.length; index += 1) {
    if (index > 0) out += ',';
    out += member(value[index], index, depth);
  }
  return `${out}]`;
}

function object(value: object, depth: number): string {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new Refusal('not a plain object');
  if (Object.getOwnPropertySymbols(value).length > 0) throw new Refusal('an object with symbol keys is not JSON');
  let out = '{';
  // The default sort compares UTF-16 code units, which is what RFC 8785 section 3.2.3 asks for.
  for (const key of Object.keys(value).sort()) {
    if (out !== '{') out += ',';
    out += `${member(key, key, depth)}:${member((value as Record<string, unknown>)[key], key, depth)}`;
  }
  return `${out}}`;
}

function member(value: unknown, segment: string | number, depth: number): string {
  try {
    return write(value, depth);
  } catch (error) {
    if (error instanceof Refusal) error.path.unshift(segment);
    throw error;
  }
}
