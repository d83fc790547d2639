import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { aesGcmCodec, passThrough } from '../../../db/codec.ts';

const key = (byte: number) => Buffer.alloc(32, byte);
const codec = aesGcmCodec({
  keys: { old: key(1), 'acme.2026': key(2) },
  keyFor: (tenant) => (tenant === 'acme' ? 'acme.2026' : tenant === 'plain' ? null : 'old'),
});
const acme = { tenant: 'acme' };

test('pass-through leaves texts alone, and refuses coded ones by name of their key', () => {
  expect(passThrough.encode('{"a":1}', acme)).toBe('{"a":1}');
  expect(passThrough.decode('{"a":1}', acme)).toBe('{"a":1}');
  expect(() => passThrough.decode(codec.encode('{}', acme), acme)).toThrow(
    expect.objectContaining({ code: 'payload_unreadable', message: expect.stringContaining('key "acme.2026"') }),
  );
});

describe('AES-GCM', () => {
  test('gives back any text, for any tenant, and shows only the key id', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom('acme', 'beta', null), (text, tenant) => {
        const coded = codec.encode(text, { tenant });
        expect(codec.decode(coded, { tenant })).toBe(text);
        expect(coded).toMatch(tenant === 'acme' ? /^hf1:acme\.2026:[\w-]+$/ : /^hf1:old:[\w-]+$/);
      }),
    );
  });

  test('codes equal texts differently', () => {
    expect(codec.encode('{}', acme)).not.toBe(codec.encode('{}', acme));
  });

  test('leaves the texts of a tenant without a key plain, and reads plain ones written before there were keys', () => {
    expect(codec.encode('{"a":1}', { tenant: 'plain' })).toBe('{"a":1}');
    expect(codec.decode('{"a":1}', acme)).toBe('{"a":1}');
  });

  test('refuses plain texts when told to', () => {
    const strict = aesGcmCodec({ keys: { k: key(1) }, keyFor: () => 'k', acceptPlain: false });
    expect(() => strict.decode('{"a":1}', acme)).toThrow(expect.objectContaining({ code: 'payload_unreadable' }));
  });

  test('notices a change of any single character', () => {
    const coded = codec.encode('{"amount":100}', acme);
    const start = 'hf1:acme.2026:'.length;
    for (let index = start; index < coded.length; index += 1) {
      // The last character of base64url has bits that mean nothing; Z and z differ in those that do.
      const other = coded[index] === 'A' ? 'z' : 'A';
      const changed = coded.slice(0, index) + other + coded.slice(index + 1);
      if (Buffer.from(changed.slice(start), 'base64url').equals(Buffer.from(coded.slice(start), 'base64url'))) continue;
      expect(() => codec.decode(changed, acme), `character ${index}`).toThrow(
        expect.objectContaining({ code: 'payload_unreadable' }),
      );
    }
  });

  test.each([
    ['cut', (coded: string) => coded.slice(0, 30)],
    ['without a body', () => 'hf1:acme.2026:'],
    ['with nothing but the mark', () => 'hf1:'],
    ['moved under another key id', (coded: string) => coded.replace('acme.2026', 'old')],
  ])('does not open a text %s', (_, change) => {
    expect(() => codec.decode(change(codec.encode('{}', acme)), acme)).toThrow(
      expect.objectContaining({ code: 'payload_unreadable' }),
    );
  });

  test("does not open another tenant's text", () => {
    const shared = aesGcmCodec({ keys: { k: key(1) }, keyFor: () => 'k' });
    const coded = shared.encode('{}', acme);
    for (const tenant of ['beta', null]) {
      expect(() => shared.decode(coded, { tenant })).toThrow(expect.objectContaining({ code: 'payload_unreadable' }));
    }
  });

  test('names a key that it does not know', () => {
    const coded = aesGcmCodec({ keys: { gone: key(3) }, keyFor: () => 'gone' }).encode('{}', acme);
    expect(() => codec.decode(coded, acme)).toThrow(
      expect.objectContaining({
        code: 'payload_unreadable',
        message: 'the payload cannot be read: its key is not configured here (key "gone")',
      }),
    );
  });

  test.each([
    ['a short key', { k: Buffer.alloc(16) }],
    ['a malformed key id', { 'a:b': key(1) }],
  ])('refuses %s at the start', (_, keys) => {
    expect(() => aesGcmCodec({ keys, keyFor: () => null })).toThrow(expect.objectContaining({ code: 'bad_config' }));
  });

  test('refuses to write with a key that is not configured', () => {
    const wrong = aesGcmCodec({ keys: {}, keyFor: () => 'nope' });
    expect(() => wrong.encode('{}', acme)).toThrow(expect.objectContaining({ code: 'bad_config' }));
  });
});
