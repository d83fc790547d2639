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
  return write(value, []);
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

type Path = (string | number)[];

function write(value: unknown, path: Path): string {
  switch (typeof value) {
    case 'string':
      return text(value, path);
    case 'number':
      if (!Number.isFinite(value)) throw refuse(path, `${value} is not a JSON number`);
      return String(value === 0 ? 0 : value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (path.length >= JSON_DEPTH_MAX) throw refuse(path, `nested deeper than ${JSON_DEPTH_MAX}`);
      return Array.isArray(value) ? array(value, path) : object(value, path);
    default:
      throw refuse(path, `a value of type ${typeof value} is not JSON`);
  }
}

function text(value: string, path: Path): string {
  // JSON.stringify writes a lone surrogate as an escape, so two sides could digest different bytes.
  if (!value.isWellFormed()) throw refuse(path, 'a text with a lone surrogate has no UTF-8 form');
  return JSON.stringify(value);
}

function array(value: readonly unknown[], path: Path): string {
  const parts: string[] = [];
  for (let index = 0; index < value.length; index += 1) {
    path.push(index);
    parts.push(write(value[index], path));
    path.pop();
  }
  return `[${parts.join(',')}]`;
}

function object(value: object, path: Path): string {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw refuse(path, 'not a plain object');
  if (Object.getOwnPropertySymbols(value).length > 0) throw refuse(path, 'an object with symbol keys is not JSON');
  // The default sort compares UTF-16 code units, which is what RFC 8785 section 3.2.3 asks for.
  const parts = Object.keys(value)
    .sort()
    .map((key) => {
      path.push(key);
      const member = `${text(key, path)}:${write((value as Record<string, unknown>)[key], path)}`;
      path.pop();
      return member;
    });
  return `{${parts.join(',')}}`;
}

function refuse(path: Path, why: string): HoldfastError {
  const place = pointerOf(path);
  return new HoldfastError('bad_input', `${place === '' ? 'the value' : place}: ${why}`, { place });
}
