import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Execution } from '../../../contracts/contract.ts';
import { effectKey } from '../../../effects/effect-key.ts';

const ID = { tenant: 'acme', run: 'run-1', call: 'call-1' };
const format = (alphabet: Execution['key']['alphabet'], length: number): Execution['key'] => ({ alphabet, length });

// A provider remembers keys for years: these values may never change.
test.each([
  ['hex', 64, '360fc9be8514b3c36d0b1c3f47bc629207af4fc1cd51f34489d4b0c9be38ccc6'],
  ['hex', 32, '360fc9be8514b3c36d0b1c3f47bc6292'],
  ['uuid', 36, '360fc9be-8514-83c3-ad0b-1c3f47bc6292'],
  ['base62', 43, 'CoosUTn93yCIPX3n2f6w8FRLg8O4vn5A5DVrCD8Fb1C'],
  ['base62', 22, 'FRLg8O4vn5A5DVrCD8Fb1C'],
] as const)('golden vector: %s of %i characters', (alphabet, length, key) => {
  expect(effectKey('prod', ID, format(alphabet, length))).toBe(key);
});

test('the key is SHA-256 over the canonical array of deployment, tenant, run and call', () => {
  const hash = createHash('sha256').update('["prod","acme","run-1","call-1"]').digest('hex');
  expect(effectKey('prod', ID, format('hex', 64))).toBe(hash);
});

test('each part makes another key, and parts cannot flow into each other', () => {
  const keys = [
    effectKey('prod', ID, format('hex', 64)),
    effectKey('staging', ID, format('hex', 64)),
    effectKey('prod', { ...ID, tenant: 'acme2' }, format('hex', 64)),
    effectKey('prod', { ...ID, run: 'run-2' }, format('hex', 64)),
    effectKey('prod', { ...ID, call: 'call-2' }, format('hex', 64)),
    effectKey('prod', { tenant: 'ac', run: 'me', call: 'x' }, format('hex', 64)),
    effectKey('prod', { tenant: 'a', run: 'cme', call: 'x' }, format('hex', 64)),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});

test('a uuid has version 8 and the variant of RFC 9562, whatever the hash', () => {
  fc.assert(
    fc.property(fc.string(), (call) => {
      fc.pre(call.isWellFormed());
      expect(effectKey('d', { ...ID, call }, format('uuid', 36))).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    }),
  );
});

test('base62 holds the whole hash in 43 digits, and a shorter key is its end', () => {
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 1, max: 43 }), (n, length) => {
      const id = { ...ID, call: `c${n}` };
      const whole = effectKey('d', id, format('base62', 43));
      const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
      const value = [...whole].reduce((sum, char) => sum * 62n + BigInt(digits.indexOf(char)), 0n);
      expect(value).toBe(BigInt(`0x${effectKey('d', id, format('hex', 64))}`));
      expect(effectKey('d', id, format('base62', length))).toBe(whole.slice(-length));
    }),
  );
});

test('the digits of a short base62 key are spread evenly', () => {
  const counts = new Map<string, number>();
  for (let n = 0; n < 6_200; n += 1) {
    for (const char of effectKey('d', { ...ID, call: `c${n}` }, format('base62', 10))) {
      counts.set(char, (counts.get(char) ?? 0) + 1);
    }
  }
  // 62,000 digits, 1,000 expected of each; deterministic input, five standard deviations allowed.
  expect(counts.size).toBe(62);
  expect(Math.max(...counts.values())).toBeLessThan(1_160);
  expect(Math.min(...counts.values())).toBeGreaterThan(840);
});

test.each([
  ['hex', 0],
  ['hex', 65],
  ['hex', 1.5],
  ['base62', 44],
  ['base62', Number.NaN],
] as const)('refuses %s of length %d', (alphabet, length) => {
  expect(() => effectKey('d', ID, format(alphabet, length))).toThrow('is not within 1 to');
});
