import { canonicalJson } from '../contracts/canonical-json.ts';
import type { Execution } from '../contracts/contract.ts';
import { sha256Bytes } from '../contracts/digest.ts';
import type { EffectId, EffectKey } from './effect.ts';
import { HoldfastError } from './errors.ts';

/** Digits a SHA-256 needs in base 62. */
const BASE62_DIGITS = 43;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * The key the provider sees (PROTOCOL 1.1): SHA-256 over the canonical array [deployment, tenant, run, call],
 * written as the contract asks. Stable over attempts, processes and releases: the golden vectors in the tests
 * must never change.
 *
 * - `hex`: the first `length` hex digits, at most 64.
 * - `uuid`: the first 16 bytes in the shape of a version 8 UUID (RFC 9562 section 5.8); `length` is not looked at.
 * - `base62`: the last `length` digits, at most 43, of the whole hash as one number in base 62. The low digits of
 *   a 256-bit number are spread evenly (a digit per byte would favour some; the leading digit here would too).
 *
 * @throws HoldfastError `bad_contract` for a length outside 1 to the alphabet's limit.
 */
export function effectKey(deploymentId: string, id: EffectId, format: Execution['key']): EffectKey {
  const hash = sha256Bytes(canonicalJson([deploymentId, id.tenant, id.run, id.call]));
  return written(hash, format) as EffectKey;
}

function written(hash: Buffer, format: Execution['key']): string {
  switch (format.alphabet) {
    case 'hex':
      return hash.toString('hex').slice(0, bounded(format.length, 64));
    case 'uuid':
      return uuid(hash);
    case 'base62':
      return base62(hash).slice(-bounded(format.length, BASE62_DIGITS));
  }
}

function bounded(length: number, max: number): number {
  if (Number.isInteger(length) && length >= 1 && length <= max) return length;
  throw new HoldfastError('bad_contract', `a key length of ${length} is not within 1 to ${max}`);
}

function uuid(hash: Buffer): string {
  const bytes = Buffer.from(hash.subarray(0, 16));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function base62(hash: Buffer): string {
  let rest = BigInt(`0x${hash.toString('hex')}`);
  let text = '';
  while (rest > 0n) {
    text = BASE62.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text.padStart(BASE62_DIGITS, '0');
}
