import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { HoldfastError } from '../effects/errors.ts';

/**
 * The one hook for payloads, in the ledger and in Temporal's history. Texts are canonical JSON.
 * Synchronous, so that it can stand anywhere; `decode` undoes `encode`.
 */
export interface PayloadCodec {
  encode(text: string, context: PayloadContext): string;
  /** @throws HoldfastError `payload_unreadable` */
  decode(text: string, context: PayloadContext): string;
}

/** Whose payload it is. */
export interface PayloadContext {
  /** Null for payloads that belong to no tenant. */
  readonly tenant: string | null;
}

/** JSON never begins with a letter `h`, so a coded text is told from a plain one by this. */
const MARK = 'hf1:';
const CODED = /^hf1:([A-Za-z0-9._-]{1,64}):([A-Za-z0-9_-]+)$/;
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Leaves texts as they are: the default until keys are configured. Refuses coded ones, whose keys it lacks. */
export const passThrough: PayloadCodec = {
  encode: (text) => text,
  decode(text) {
    if (text.startsWith(MARK)) throw unreadable('the payload is encrypted, and no keys are configured', keyIdOf(text));
    return text;
  },
};

/** The keys, and which of them is used. */
export interface AesGcmOptions {
  /** Key id (`[A-Za-z0-9._-]{1,64}`, stands in front of each coded text) → 32 bytes. Keep old keys as long as rows name them. */
  readonly keys: Readonly<Record<string, Buffer>>;
  /** The key id for a tenant's new payloads; null leaves them plain. */
  readonly keyFor: (tenant: string | null) => string | null;
  /** Take plain texts, as written before keys were configured. Default true; false once all rows are coded. */
  readonly acceptPlain?: boolean;
}

/**
 * AES-256-GCM with a random nonce. Key id and tenant are authenticated, so a text moved to another tenant does
 * not open. A coded text is `hf1:<key id>:<base64url of nonce, tag, cipher text>`: about 4/3 of the plain one and 60 bytes.
 *
 * @throws HoldfastError `bad_config` for a malformed key or key id, also from `encode` when `keyFor` names no known key
 */
export function aesGcmCodec(options: AesGcmOptions): PayloadCodec {
  const keys = new Map(Object.entries(options.keys));
  for (const [id, key] of keys) {
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(id)) throw new HoldfastError('bad_config', `the key id "${id}" is malformed`);
    if (key.length !== KEY_BYTES) {
      throw new HoldfastError('bad_config', `key "${id}" has ${key.length} bytes; AES-256 needs ${KEY_BYTES}`);
    }
  }
  return {
    encode(text, { tenant }) {
      const id = options.keyFor(tenant);
      if (id === null) return text;
      const key = keys.get(id);
      if (key === undefined) throw new HoldfastError('bad_config', `the key "${id}" of a tenant is not configured`);
      return seal(text, id, key, tenant);
    },
    decode(text, { tenant }) {
      if (!text.startsWith(MARK)) {
        if (options.acceptPlain ?? true) return text;
        throw unreadable('the payload is not encrypted, and plain ones are refused');
      }
      const [, id = '', body = ''] = CODED.exec(text) ?? [];
      const key = keys.get(id);
      if (key === undefined) throw unreadable('its key is not configured here', id);
      return open(body, id, key, tenant);
    },
  };
}

function seal(text: string, id: string, key: Buffer, tenant: string | null): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(boundTo(id, tenant));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return `${MARK}${id}:${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')}`;
}

function open(body: string, id: string, key: Buffer, tenant: string | null): string {
  const bytes = Buffer.from(body, 'base64url');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) throw unreadable('it is cut', id);
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(boundTo(id, tenant)).setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8');
  } catch {
    throw unreadable('it was changed, belongs to another tenant, or the key has other bytes', id);
  }
}

function boundTo(id: string, tenant: string | null): Buffer {
  return Buffer.from(JSON.stringify(['holdfast/v1', id, tenant]), 'utf8');
}

function keyIdOf(text: string): string | undefined {
  return CODED.exec(text)?.[1];
}

function unreadable(why: string, keyId?: string): HoldfastError {
  const named = keyId === undefined || keyId === '' ? '' : ` (key "${keyId}")`;
  return new HoldfastError('payload_unreadable', `the payload cannot be read: ${why}${named}`);
}
