import { expect, test } from 'vitest';
import type { Digest } from '../../../contracts/contract.ts';
import { formatContractRef, isToolName, isVersion, parseContractRef } from '../../../contracts/contract-ref.ts';
import { digestBytes, digestFromBytes, isDigest, sha256Bytes, sha256Hex, sha256v1 } from '../../../contracts/digest.ts';
import { ZERO_DIGEST } from './samples.ts';

// SHA-256 of the empty text and of "{}", as sha256sum prints them.
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const BRACES = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a';

test('a digest is SHA-256 over the canonical text, with its algorithm in front', () => {
  expect(sha256Hex('')).toBe(EMPTY);
  expect(sha256v1({})).toBe(`sha256/v1:${BRACES}`);
  expect(sha256v1({ b: 1, a: -0 })).toBe(`sha256/v1:${sha256Hex('{"a":0,"b":1}')}`);
});

test('a digest and its 32 bytes turn into each other', () => {
  const digest = sha256v1({});
  expect(digestBytes(digest)).toEqual(sha256Bytes('{}'));
  expect(digestFromBytes(digestBytes(digest))).toBe(digest);
  expect(() => digestFromBytes(Buffer.alloc(31))).toThrow('a digest has 32 bytes, not 31');
  expect(() => digestBytes('sha256/v1:00' as Digest)).toThrow('not a digest');
});

test.each([
  `sha256/v1:${EMPTY.toUpperCase()}`,
  EMPTY,
  `sha256/v2:${EMPTY}`,
  `sha256/v1:${EMPTY}0`,
  ` sha256/v1:${EMPTY}`,
  7,
])('%j is no digest', (text) => {
  expect(isDigest(text)).toBe(false);
});

test('a contract reference names tool, version and digest, and nothing less', () => {
  const text = `billing.find_invoice@1.3.0-rc.1#${ZERO_DIGEST}`;
  const ref = parseContractRef(text);
  expect(ref).toEqual({ tool: 'billing.find_invoice', version: '1.3.0-rc.1', digest: ZERO_DIGEST });
  expect(formatContractRef(ref)).toBe(text);
});

test.each([
  'billing.find_invoice',
  'billing.find_invoice@1.3.0',
  `billing.find_invoice#${ZERO_DIGEST}`,
  `Billing.find@1.0.0#${ZERO_DIGEST}`,
  `billing@1.0.0#${ZERO_DIGEST}`,
  `billing.find@1.0#${ZERO_DIGEST}`,
  `billing.find@1.0.0#${ZERO_DIGEST}#`,
  `billing.find@01.0.0#${ZERO_DIGEST}`,
  '',
])('%j is no contract reference', (text) => {
  expect(() => parseContractRef(text)).toThrow('not a contract reference');
});

test('tool names are dotted and lower-case, versions semantic', () => {
  expect(['a.b', 'a.b-c.d_9', 'a', 'a.', '.b', 'A.b', 'a.9', 'a b.c'].map(isToolName)).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
  expect(['0.0.1', '1.2.3-a.1+b', '1.2', 'v1.2.3', '1.2.3-01', '^1.2.3', 'latest'].map(isVersion)).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
    false,
  ]);
});
