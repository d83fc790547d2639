import { Readable } from 'node:stream';
import type { FetchLike } from '@modelcontextprotocol/client';
import { exchange, IDLE_STRICT_MS, type Order, type Origin } from './exchange.ts';
import { type Flight, flights } from './mcp-flight.ts';

/** For what is not a tool call: initialize, tools/list, notifications. */
const HOUSEKEEPING_TIMEOUT_MS = 30_000;
const NULL_BODY = new Set([204, 205, 304]);

/**
 * A `fetch` for the SDK's Streamable HTTP transport that makes one exchange per call, streams the
 * answer, follows no redirect, and lets each flight's `tools/call` out once.
 */
export function fetchOver(origin: Origin, connectWithinMs: number): FetchLike {
  return async (target, init = {}) => {
    const url = new URL(target);
    if (url.origin !== origin.url.origin) throw new TypeError(`${url.origin} is not this provider`);
    const method = init.method ?? 'GET';
    const body = typeof init.body === 'string' ? init.body : undefined;
    const flight = flightOf(body);
    const outcome = await exchange(origin, {
      method,
      path: url.pathname + url.search,
      headers: Object.fromEntries(new Headers(init.headers)),
      body,
      idleMaxMs: IDLE_STRICT_MS,
      connectWithinMs: flight?.connectWithinMs ?? connectWithinMs,
      ...(init.signal && { signal: init.signal }),
      ...limitsOf(flight, method),
    });
    if (outcome.kind === 'head') {
      flight?.follow(outcome.response);
      return responseOf(outcome.response);
    }
    if (flight && outcome.kind === 'not_sent') flight.notSent ??= outcome;
    throw new TypeError(outcome.why);
  };
}

function limitsOf(flight: Flight | undefined, method: string): Pick<Order, 'gate' | 'wrote' | 'timeoutMs'> {
  // A flight keeps its own time, which also covers the parsing of a stream.
  if (flight) return { gate: flight.gate, wrote: () => flight.wrote(), timeoutMs: undefined };
  // A GET opens the server's event stream, which stays open.
  return {
    gate: () => 'go',
    wrote: () => 'keep',
    timeoutMs: method === 'GET' ? undefined : HOUSEKEEPING_TIMEOUT_MS,
  };
}

/** The flight, when this very request is its tool call; a cancellation runs in the same context. */
function flightOf(body: string | undefined): Flight | undefined {
  const flight = flights.getStore();
  if (flight === undefined || body === undefined) return undefined;
  const message = JSON.parse(body) as { method?: string };
  return message.method === 'tools/call' ? flight : undefined;
}

function responseOf(response: Parameters<Flight['follow']>[0]): Response {
  const status = response.statusCode ?? 500;
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  if (NULL_BODY.has(status)) {
    response.resume();
    return new Response(null, { status, headers });
  }
  const body = Readable.toWeb(response) as ReadableStream<Uint8Array>;
  return new Response(body, { status, statusText: response.statusMessage ?? '', headers });
}
