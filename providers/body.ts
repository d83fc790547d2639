import type { IncomingMessage } from 'node:http';
import type { JsonValue } from '../contracts/contract.ts';
import { whyNoAnswer } from './exchange.ts';
import type { Secret } from './provider.ts';

/** No provider's answer is read further than this. */
export const BODY_BYTES_MAX = 1024 * 1024;

/** A response's body: `whole` up to the limit, or `cut` by the connection. */
export type Body =
  | { readonly kind: 'whole'; readonly text: string; readonly truncated: boolean }
  | { readonly kind: 'cut'; readonly why: string };

/** Reads a response's body up to `bytesMax`; past it the socket is destroyed and the text is marked truncated. Never throws. */
export function readBody(response: IncomingMessage, bytesMax: number = BODY_BYTES_MAX): Promise<Body> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      const room = bytesMax - bytes;
      if (chunk.length > room) {
        chunks.push(chunk.subarray(0, room));
        resolve({ kind: 'whole', text: textOf(chunks), truncated: true });
        response.destroy();
        return;
      }
      bytes += chunk.length;
      chunks.push(chunk);
    });
    response.on('end', () => resolve({ kind: 'whole', text: textOf(chunks), truncated: false }));
    response.on('error', (error) => resolve({ kind: 'cut', why: whyNoAnswer(error) }));
    response.on('close', () => resolve({ kind: 'cut', why: 'the connection was closed in the middle of the answer' }));
  });
}

function textOf(chunks: readonly Buffer[]): string {
  const [only] = chunks;
  return chunks.length === 1 && only ? only.toString('utf8') : Buffer.concat(chunks).toString('utf8');
}

/** A body as JSON where its type says so or it looks like it, else as text; an empty one is null. */
export function parseBody(text: string, contentType: string | undefined): JsonValue {
  if (text === '') return null;
  const claimsJson = contentType !== undefined && /[/+]json\b/i.test(contentType);
  if (!claimsJson && !/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}

/** Shorter secrets may be ordinary words; replacing them would spoil answers and hide nothing. */
const SECRET_CHARS_MIN = 8;

/** Takes the secret out of a text that a provider echoes, so that it reaches neither ledger nor logs. */
export function scrub(text: string, secret: Secret | null): string {
  if (secret === null || secret.value.length < SECRET_CHARS_MIN || !text.includes(secret.value)) return text;
  return text.replaceAll(secret.value, '[secret]');
}
