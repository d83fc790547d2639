import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { aesGcmCodec, type PayloadCodec, passThrough } from '../db/codec.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { HoldfastConfig } from './config.ts';

const keysFile = z.strictObject({
  /** Key id → 32 bytes in base64. Old keys stay as long as rows name them. */
  keys: z.record(z.string(), z.base64()),
  /** Key id for tenants without one of their own, and for Temporal's history. */
  default: z.string(),
  /** Tenant → key id. */
  tenants: z.record(z.string(), z.string()).default({}),
});

/**
 * The payload codec of `payload_keys_file`; a pass-through where none is configured.
 * Throws `bad_config`; the message never holds a key.
 */
export function openCodec(config: HoldfastConfig): PayloadCodec {
  const file = config.payload_keys_file;
  if (file === undefined) return passThrough;
  const checked = keysFile.safeParse(readJson(file));
  if (!checked.success) {
    const paths = checked.error.issues.map((issue) => issue.path.join('.') || '(root)');
    throw new HoldfastError('bad_config', `the keys file is malformed at ${paths.join(', ')}`, { place: file });
  }
  const { keys, default: fallback, tenants } = checked.data;
  for (const id of [fallback, ...Object.values(tenants)]) {
    if (!Object.hasOwn(keys, id))
      throw new HoldfastError('bad_config', `the keys file has no key "${id}"`, { place: file });
  }
  return aesGcmCodec({
    keys: Object.fromEntries(Object.entries(keys).map(([id, text]) => [id, Buffer.from(text, 'base64')])),
    keyFor: (tenant) => (tenant !== null && Object.hasOwn(tenants, tenant) ? (tenants[tenant] ?? fallback) : fallback),
  });
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    // The parser's own message would quote the text, which holds keys.
    throw new HoldfastError('bad_config', 'the keys file cannot be read as JSON', { place: file });
  }
}
