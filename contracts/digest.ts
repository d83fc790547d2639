import { hash } from 'node:crypto';
import { HoldfastError } from '../effects/errors.ts';
import { canonicalJson } from './canonical-json.ts';
import type { Digest, JsonValue } from './contract.ts';

const PREFIX = 'sha256/v1:';
const SYNTAX = /^sha256\/v1:[0-9a-f]{64}$/;

/** Lower-case hex SHA-256 of a text's UTF-8 bytes. */
export function sha256Hex(text: string): string {
  return hash('sha256', text, 'hex');
}

/** The 32 bytes of the SHA-256 of a text's UTF-8 bytes. */
export function sha256Bytes(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

/** `sha256/v1:<hex>` over the canonical JSON of `value`. @throws HoldfastError `bad_input` where {@link canonicalJson} does. */
export function sha256v1(value: JsonValue): Digest {
  return `${PREFIX}${sha256Hex(canonicalJson(value))}` as Digest;
}

/** True for the exact text form of a digest: lower-case, 64 hex digits, version 1. */
export function isDigest(text: unknown): text is Digest {
  return typeof text === 'string' && SYNTAX.test(text);
}

/** The 32 bytes of a digest, as the ledger stores them. @throws HoldfastError `bad_input` for another text. */
export function digestBytes(digest: Digest): Buffer {
  if (!isDigest(digest)) throw new HoldfastError('bad_input', 'not a digest: expected sha256/v1:<64 hex digits>');
  return Buffer.from(digest.slice(PREFIX.length), 'hex');
}

/** The digest whose 32 bytes these are. @throws HoldfastError `bad_input` for another length. */
export function digestFromBytes(bytes: Uint8Array): Digest {
  if (bytes.length !== 32) throw new HoldfastError('bad_input', `a digest has 32 bytes, not ${bytes.length}`);
  return `${PREFIX}${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}` as Digest;
}
