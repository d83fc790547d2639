import { type CallToolResult, isInputRequiredResult, ProtocolError } from '@modelcontextprotocol/client';
import type { JsonValue } from '../contracts/contract.ts';
import { BODY_BYTES_MAX, scrub } from './body.ts';
import type { Flight } from './mcp-flight.ts';
import type { ProviderAnswer, Secret } from './provider.ts';

const MESSAGE_CHARS_MAX = 2_000;

/** A result as an answer: `ok`, `error` for `isError`, `input_required` for a server that asks back. */
export function answerOfResult(result: CallToolResult, secret: Secret | null): ProviderAnswer {
  if (isInputRequiredResult(result)) {
    const { resultType: _, ...asked } = result as unknown as Record<string, JsonValue>;
    return bounded('input_required', asked, secret);
  }
  const { content, structuredContent, isError } = result;
  const body = { content, ...(structuredContent !== undefined && { structuredContent }) };
  return bounded(isError ? 'error' : 'ok', body, secret);
}

function bounded(status: string, body: object, secret: Secret | null): ProviderAnswer {
  const text = JSON.stringify(body);
  if (text.length > BODY_BYTES_MAX) return { kind: 'response', status, body: null, truncated: true };
  return { kind: 'response', status, body: JSON.parse(scrub(text, secret)) as JsonValue };
}

/**
 * What a failed call proves. A JSON-RPC error and an HTTP status are answers, whose meaning the contract
 * decides; before the hand-over nothing was sent; all else after it is no answer.
 */
export function answerOfError(error: Error, flight: Flight, secret: Secret | null): ProviderAnswer {
  const message = scrub(error.message, secret).slice(0, MESSAGE_CHARS_MAX);
  if (!flight.handed) return { kind: 'not_sent', ...(flight.notSent ?? { why: message }) };
  if (error instanceof ProtocolError) {
    return { kind: 'response', status: String(error.code), body: { message } };
  }
  const status = flight.httpStatus;
  if (status !== undefined && (status < 200 || status > 299)) {
    return { kind: 'response', status, body: { message } };
  }
  return { kind: 'no_answer', why: message };
}
