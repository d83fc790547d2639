import { describe, expect, test } from 'vitest';
import type { JsonSchema, JsonValue } from '../../../contracts/contract.ts';
import { compileSchema } from '../../../contracts/json-schema.ts';
import { HoldfastError } from '../../../effects/errors.ts';

const check = (schema: JsonSchema, value: JsonValue) => compileSchema(schema)(value);

function refusal(schema: JsonSchema): { code: string; place: string | undefined; message: string } {
  try {
    compileSchema(schema);
  } catch (error) {
    if (error instanceof HoldfastError) return { code: error.code, place: error.place, message: error.message };
    throw error;
  }
  throw new Error('no error');
}

function chain(length: number): JsonSchema {
  const $defs = Object.fromEntries(
    Array.from({ length }, (_, index) => [
      `d${index}`,
      index === length - 1
        ? { type: 'object' }
        : { allOf: [{ $ref: `#/$defs/d${index + 1}` }, { $ref: `#/$defs/d${index + 1}` }] },
    ]),
  );
  return { $ref: '#/$defs/d0', $defs };
}

describe('compileSchema', () => {
  test('names every problem with its pointer', () => {
    const schema = {
      type: 'object',
      required: ['a'],
      additionalProperties: false,
      properties: { a: { type: 'string' }, 'b/c': { enum: ['x', 'y'] } },
    };
    expect(check(schema, { a: 'ok' })).toEqual({ ok: true });
    expect(check(schema, { 'b/c': 'z', d: 1 })).toEqual({
      ok: false,
      problems: [
        { pointer: '', message: "must have required property 'a'" },
        { pointer: '', message: 'must NOT have additional properties: d' },
        { pointer: '/b~1c', message: 'must be equal to one of the allowed values: ["x","y"]' },
      ],
    });
  });

  test('only own properties count, for each name of Object.prototype', () => {
    for (const name of Object.getOwnPropertyNames(Object.prototype)) {
      expect([name, check({ required: [name] }, {}).ok]).toEqual([name, false]);
      if (name === '__proto__') continue;
      expect([name, check({ properties: { [name]: { type: 'string' } } }, {}).ok]).toEqual([name, true]);
    }
  });

  test('draft 2020-12 is the default, draft-07 is taken by its $schema', () => {
    const prefix = { prefixItems: [{ type: 'string' }] };
    const items = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }] };
    expect([check(prefix, [1]).ok, check(items, [1]).ok, check(items, ['a']).ok]).toEqual([false, false, true]);
  });

  test('formats are checked, unknown ones are not', () => {
    expect(check({ format: 'date' }, '2026-02-30').ok).toBe(false);
    expect(check({ format: 'no-such-format' }, 'x').ok).toBe(true);
  });

  test('19.99 is a multiple of 0.01, and 19.995 is not', () => {
    expect([check({ multipleOf: 0.01 }, 19.99).ok, check({ multipleOf: 0.01 }, 19.995).ok]).toEqual([true, false]);
  });

  test('nothing is coerced and no default is filled in', () => {
    const value = { n: '1' };
    const schema = { properties: { n: { type: 'number' }, d: { default: 5 } } };
    expect(check(schema, value).ok).toBe(false);
    expect(value).toEqual({ n: '1' });
  });

  test('uniqueItems compares content and stays quick on arrays as large as a payload may be', () => {
    const schema = { uniqueItems: true };
    expect(
      check(schema, [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ]),
    ).toEqual({
      ok: false,
      problems: [{ pointer: '', message: 'must NOT have duplicate items' }],
    });
    expect(
      check(
        schema,
        Array.from({ length: 100_000 }, (_, index) => [index]),
      ).ok,
    ).toBe(true);
  });

  test('a recursive schema works, and a value nested too deeply is a problem, not a crash', () => {
    const schema = {
      $defs: { n: { properties: { n: { $ref: '#/$defs/n' } }, additionalProperties: false } },
      $ref: '#/$defs/n',
    };
    expect([check(schema, { n: { n: {} } }).ok, check(schema, { n: { m: {} } }).ok]).toEqual([true, false]);
    const loop = { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' };
    expect(check(loop, 1)).toEqual({
      ok: false,
      problems: [{ pointer: '', message: 'the value is nested too deeply to be checked' }],
    });
  });

  test('two schemas with one $id, one inner $id or one anchor do not answer for each other', () => {
    const ask = (schema: JsonSchema) => [check(schema, 'a').ok, check(schema, 1).ok];
    const outer = (type: string) => ({ $id: 'http://example.org/x', type });
    const inner = (type: string) => ({
      $id: 'http://example.org/a',
      $ref: 'item',
      $defs: { i: { $id: 'item', type } },
    });
    const anchor = (type: string) => ({ $ref: '#t', $defs: { t: { $anchor: 't', type } } });
    for (const schema of [outer, inner, anchor]) {
      expect([ask(schema('string')), ask(schema('number'))]).toEqual([
        [true, false],
        [false, true],
      ]);
    }
  });

  test('a schema that calls itself as its dialect does not take the dialect away from the others', () => {
    for (const id of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
      const $schema = id;
      expect(check({ $schema, $id: id, type: 'string' }, 1).ok).toBe(false);
      expect(refusal({ $schema, type: 'no-type', title: id }).message).toContain('schema is invalid');
    }
  });

  test('a schema object that is changed after use is compiled anew', () => {
    const schema: { type: string } = { type: 'string' };
    expect(check(schema, 'a').ok).toBe(true);
    schema.type = 'number';
    expect(check(schema, 'a').ok).toBe(false);
  });

  test('six hundred schemas after another all stay right', () => {
    const verdicts = Array.from({ length: 600 }, (_, index) => check({ const: index }, index).ok);
    expect(verdicts.every(Boolean)).toBe(true);
    expect(check({ const: 0 }, 1).ok).toBe(false);
  });

  test.each<[string, JsonSchema, string]>([
    ['a remote $ref', { properties: { a: { $ref: 'https://example.org/s.json' } } }, '/properties/a/$ref'],
    ['a dangling $ref', { properties: { a: { $ref: '#/$defs/none' } } }, '/properties/a/$ref'],
    ['another dialect', { $schema: 'http://json-schema.org/draft-04/schema#' }, '/$schema'],
    ['an asynchronous schema', { $async: true }, '/$async'],
    ['a runaway pattern', { properties: { a: { pattern: '^(a+)+$' } } }, '/properties/a/pattern'],
    ['a runaway property pattern', { patternProperties: { '(x+x+)+y': {} } }, '/patternProperties/(x+x+)+y'],
    ['a runaway pattern where a $ref can reach it', { a: { b: { pattern: '(a+)+' } }, $ref: '#/a/b' }, '/a/b/pattern'],
    ['a pattern that is none', { pattern: '(' }, '/pattern'],
    ['NaN', { minimum: Number.NaN }, '/minimum'],
    ['an unknown type', { type: 'text' }, ''],
    ['more than 256 KiB', { description: 'x'.repeat(256 * 1024) }, ''],
  ])('refuses %s', (_, schema, place) => {
    expect(refusal(schema)).toMatchObject({ code: 'bad_contract', place });
  });

  test('refuses definitions that double at each step', () => {
    expect(refusal(chain(40)).message).toContain('expands to more than');
    expect(check(chain(8), {}).ok).toBe(true);
  });

  test('a pattern in data that is no schema does not matter', () => {
    expect(check({ enum: [{ pattern: '(a+)+', $ref: 'http://x' }] }, 1).ok).toBe(false);
    expect(
      check({ properties: { pattern: { type: 'string' }, $ref: { type: 'string' } } }, { pattern: '(a+)+' }).ok,
    ).toBe(true);
  });

  test('a text that is too long for its pattern is a problem instead of a long wait', () => {
    const schema = { pattern: '^[a-z]+[a-z]+[a-z]+$' };
    expect(check(schema, 'abc').ok).toBe(true);
    expect(check(schema, `${'a'.repeat(100_000)}1`)).toMatchObject({ ok: false });
  });

  test('a pattern with escapes that only the lenient syntax knows is taken', () => {
    expect(check({ pattern: '^a\\-b$' }, 'a-b').ok).toBe(true);
  });
});
