import type { PostgresType } from 'postgres';

/** `infinity` in the database, and what it is in JavaScript: the last moment a Date can hold. */
export const FOREVER = new Date(8_640_000_000_000_000);

/** The type ids are fixed in Postgres's own catalogue (pg_type.dat), the same in every database. */
const OID = { int8: 20, timestamptz: 1184 };
const ARRAY_OID = { bytea: 1001, int4: 1007, text: 1009, int8: 1016, uuid: 2951 };

/**
 * The types of the raw client beyond postgres.js's own. Arrays of text, uuid, integers and bytea work
 * as plain parameters when the statement tells the type (`${ids}::uuid[]`).
 */
export const LEDGER_TYPES: Record<string, PostgresType> = {
  bigint: {
    to: OID.int8,
    from: [OID.int8],
    serialize: (value: number | bigint | string) => String(value),
    parse: readSafeInteger,
  },
  timestamptz: { to: OID.timestamptz, from: [OID.timestamptz], serialize: writeTime, parse: readTime },
  textArray: arrayOf(ARRAY_OID.text, (text) => text, String),
  uuidArray: arrayOf(ARRAY_OID.uuid, (text) => text, String),
  int4Array: arrayOf(ARRAY_OID.int4, Number, String),
  int8Array: arrayOf(ARRAY_OID.int8, readSafeInteger, String),
  byteaArray: arrayOf(
    ARRAY_OID.bytea,
    (text) => Buffer.from(text.slice(2), 'hex'),
    (value) => `\\x${value.toString('hex')}`,
  ),
};

function readSafeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError('a bigint of the ledger is beyond 2^53');
  return value;
}

function readTime(text: string): Date {
  return text === 'infinity' ? FOREVER : new Date(text);
}

function writeTime(value: Date | string | number): string {
  const at = value instanceof Date ? value : new Date(value);
  return at.getTime() === FOREVER.getTime() ? 'infinity' : at.toISOString();
}

function arrayOf<T>(oid: number, read: (text: string) => T, write: (value: T) => string): PostgresType {
  return {
    to: oid,
    from: [oid],
    serialize: (values: readonly (T | null)[] | string) =>
      typeof values === 'string' ? values : writeArray(values, write),
    parse: (text: string) => readArray(text).map((item) => (item === null ? null : read(item))),
  };
}

/** An array literal of one dimension. */
function writeArray<T>(values: readonly (T | null)[], write: (value: T) => string): string {
  const items = values.map((value) =>
    value === null ? 'NULL' : `"${write(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`,
  );
  return `{${items.join(',')}}`;
}

/** Reads an array literal of one dimension: items are bare, or quoted with backslash escapes. */
function readArray(text: string): (string | null)[] {
  const items = text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs);
  return Array.from(items, ([, quoted, bare]) => {
    if (quoted !== undefined) return quoted.replaceAll(/\\(.)/gs, '$1');
    return bare === 'NULL' ? null : (bare as string);
  });
}
