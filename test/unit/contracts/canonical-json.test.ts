import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalJson, JSON_DEPTH_MAX, sameJson } from '../../../contracts/canonical-json.ts';
import type { JsonValue } from '../../../contracts/contract.ts';
import { HoldfastError } from '../../../effects/errors.ts';

const double = (hex: string): number => Buffer.from(hex, 'hex').readDoubleBE(0);

function nest(depth: number): JsonValue {
  return depth === 0 ? 0 : [nest(depth - 1)];
}

function problemOf(value: unknown): { code: string; place: string | undefined } {
  try {
    canonicalJson(value as JsonValue);
  } catch (error) {
    if (error instanceof HoldfastError) return { code: error.code, place: error.place };
    throw error;
  }
  throw new Error('no error');
}

describe('canonicalJson', () => {
  test('writes the example of RFC 8785 section 3.2.2', () => {
    const value = JSON.parse(
      '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
    );
    expect(canonicalJson(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  test('sorts members by UTF-16 code units, not by code points', () => {
    const value = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    };
    expect(Object.keys(JSON.parse(canonicalJson(value))).slice(1)).toEqual([
      '\r',
      '\u0080',
      '\u00f6',
      '\u20ac',
      '\ud83d\ude00',
      '\ufb33',
    ]);
    expect(canonicalJson(value).indexOf('Emoji')).toBeLessThan(canonicalJson(value).indexOf('Hebrew'));
  });

  test.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('writes the number %s of RFC 8785 appendix B as %s', (hex, text) => {
    expect(canonicalJson(double(hex))).toBe(text);
  });

  test('agrees with the npm package canonicalize on any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: 'grapheme' }), (value) => {
        expect(canonicalJson(value as JsonValue)).toBe(canonicalize(value));
      }),
    );
  });

  test('gives one text whatever the order of members, and parses back to the value', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (value) => {
        const object = value as { [key: string]: JsonValue };
        const text = canonicalJson(object);
        expect(canonicalJson(Object.fromEntries(Object.entries(object).reverse()))).toBe(text);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
      }),
    );
  });

  test.each([
    ['NaN', { a: [Number.NaN] }, '/a/0'],
    ['an infinity', [Number.POSITIVE_INFINITY], '/0'],
    ['undefined in an object', { a: { b: undefined } }, '/a/b'],
    ['undefined at the top', undefined, ''],
    ['a hole in an array', { a: new Array(1) }, '/a/0'],
    ['a lone surrogate in a text', { a: '\ud800' }, '/a'],
    ['a lone surrogate in a key', { '\udc00': 1 }, '/\udc00'],
    ['a function', { a: () => 1 }, '/a'],
    ['a bigint', [1n], '/0'],
    ['a date', { 'a/b': new Date(0) }, '/a~1b'],
    ['a map', [new Map()], '/0'],
    ['a buffer', [Buffer.from('x')], '/0'],
    ['a symbol key', { [Symbol('x')]: 1 }, ''],
  ])('refuses %s and names its place', (_, value, place) => {
    expect(problemOf(value)).toEqual({ code: 'bad_input', place });
  });

  test('takes nesting up to the limit and refuses one level more, and cycles', () => {
    expect(canonicalJson(nest(JSON_DEPTH_MAX))).toBe(`${'['.repeat(JSON_DEPTH_MAX)}0${']'.repeat(JSON_DEPTH_MAX)}`);
    expect(problemOf(nest(JSON_DEPTH_MAX + 1)).code).toBe('bad_input');
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    expect(problemOf(cycle).code).toBe('bad_input');
  });

  test('takes an object without prototype, and a member called __proto__', () => {
    const bare = Object.assign(Object.create(null), { b: 1, a: 2 });
    expect(canonicalJson(bare)).toBe('{"a":2,"b":1}');
    expect(canonicalJson(JSON.parse('{"__proto__":{"x":1}}'))).toBe('{"__proto__":{"x":1}}');
  });
});

test('sameJson compares content, not order or identity', () => {
  expect(sameJson({ a: 1, b: [1, -0] }, { b: [1, 0], a: 1 })).toBe(true);
  expect([sameJson(1, '1'), sameJson(null, {}), sameJson([1, 2], [2, 1]), sameJson('\ud800', 'x')]).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
