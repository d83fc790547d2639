import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonValue } from '../../../contracts/contract.ts';
import { getPointer, isPointer, pointerOf, pointerSegments } from '../../../contracts/pointer.ts';

const RFC: JsonValue = {
  foo: ['bar', 'baz'],
  '': 0,
  'a/b': 1,
  'c%d': 2,
  'e^f': 3,
  'g|h': 4,
  'i\\j': 5,
  'k"l': 6,
  ' ': 7,
  'm~n': 8,
};

test.each([
  ['', RFC],
  ['/foo', ['bar', 'baz']],
  ['/foo/0', 'bar'],
  ['/', 0],
  ['/a~1b', 1],
  ['/c%d', 2],
  ['/e^f', 3],
  ['/g|h', 4],
  ['/i\\j', 5],
  ['/k"l', 6],
  ['/ ', 7],
  ['/m~0n', 8],
])('the pointer %j of RFC 6901 section 5 finds its value', (pointer, value) => {
  expect(getPointer(RFC, pointer)).toEqual(value);
});

test.each([
  '/nope',
  '/foo/2',
  '/foo/01',
  '/foo/-',
  '/foo/length',
  '/foo/0/x',
  '/constructor',
  '/__proto__',
  'foo',
  '/~2',
])('the pointer %j finds nothing', (pointer) => {
  expect(getPointer(RFC, pointer)).toBeUndefined();
});

test('nothing inherited is found, whatever the name of Object.prototype', () => {
  const names = Object.getOwnPropertyNames(Object.prototype);
  expect(names.map((name) => getPointer({}, `/${name}`))).toEqual(names.map(() => undefined));
});

test('pointers and segments turn into each other', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1 }), (segments) => {
      const pointer = pointerOf(segments);
      expect(isPointer(pointer)).toBe(true);
      expect(pointerSegments(pointer)).toEqual(segments);
    }),
  );
});
