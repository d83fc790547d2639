import type { Payload, PayloadCodec as TemporalCodec } from '@temporalio/common';
import { type PayloadCodec, passThrough } from '../db/codec.ts';

const ENCODING = 'encoding';
const OURS = 'binary/holdfast';
const NO_TENANT = { tenant: null };

/**
 * The payload codec as Temporal's: the same hook covers history. Temporal does not say whose payload it is, so the
 * key of "no tenant" is used. Payloads written before keys were configured stay readable.
 *
 * @returns a data converter to give to clients and workers alike; empty (Temporal's default) for {@link passThrough}.
 */
export function historyConverter(codec: PayloadCodec): { payloadCodecs: TemporalCodec[] } {
  if (codec === passThrough) return { payloadCodecs: [] };
  return {
    payloadCodecs: [
      {
        encode: async (payloads) => payloads.map((payload) => seal(codec, payload)),
        decode: async (payloads) => payloads.map((payload) => open(codec, payload)),
      },
    ],
  };
}

/** What is encoded: a payload as JSON, its bytes in base64. */
interface Sealed {
  readonly metadata: Readonly<Record<string, string>>;
  readonly data: string;
}

function seal(codec: PayloadCodec, payload: Payload): Payload {
  const metadata = Object.entries(payload.metadata ?? {}).map(([key, value]) => [key, base64(value)]);
  const sealed: Sealed = { metadata: Object.fromEntries(metadata), data: base64(payload.data) };
  const text = codec.encode(JSON.stringify(sealed), NO_TENANT);
  return { metadata: { [ENCODING]: Buffer.from(OURS) }, data: Buffer.from(text) };
}

function open(codec: PayloadCodec, payload: Payload): Payload {
  const encoding = payload.metadata?.[ENCODING];
  if (encoding == null || Buffer.from(encoding).toString() !== OURS) return payload;
  const text = Buffer.from(payload.data ?? new Uint8Array()).toString();
  const { metadata, data } = JSON.parse(codec.decode(text, NO_TENANT)) as Sealed;
  return {
    metadata: Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, Buffer.from(value, 'base64')])),
    data: Buffer.from(data, 'base64'),
  };
}

const base64 = (bytes: Uint8Array | null | undefined): string =>
  Buffer.from(bytes ?? new Uint8Array()).toString('base64');
