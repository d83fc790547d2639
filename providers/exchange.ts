import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import { elapsedMs, type Mark, markNow } from './clock.ts';
import type { Gate } from './provider.ts';

/** Sockets idle for longer than this never carry a request that must not happen twice (PROTOCOL 5.2). */
export const IDLE_STRICT_MS = 1_000;
/** Idle sockets are closed after this, whoever asks. Most servers keep theirs for 5 s or more. */
const IDLE_MAX_MS = 4_000;
const RETRY_FIRST_MS = 20;
const RETRY_MAX_MS = 500;

/** Where one provider's requests go, with the sockets kept for it. */
export interface Origin {
  readonly url: URL;
  readonly secure: boolean;
  readonly agent: HttpAgent;
  close(): void;
}

/** One HTTP request, to be made exactly once. */
export interface Order {
  readonly method: string;
  /** Path and query, already encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Reuse an idle socket only when it is younger than this. */
  readonly idleMaxMs: number;
  readonly connectWithinMs: number;
  /** From the hand-over to the last byte of the answer; undefined: no limit (an open event stream). */
  readonly timeoutMs: number | undefined;
  readonly gate: Gate;
  readonly wrote: () => 'keep' | 'drop';
  /** Ends connecting and waiting; what was handed over stays handed over. */
  readonly signal?: AbortSignal;
}

/** `head`: the status line came; the body is still to be read, and its stream ends with an error when it is cut. */
export type Exchanged =
  | { readonly kind: 'head'; readonly response: IncomingMessage }
  | { readonly kind: 'not_sent'; readonly why: string; readonly code?: string }
  | { readonly kind: 'no_answer'; readonly why: string };

/** The error that a body stream carries when the holder stopped waiting. */
class AnswerTimeout extends Error {}

const idleSince = new WeakMap<Duplex, Mark>();

/** A server that talks out of turn could have its text read as the next answer. Node 24 ends such a socket itself, Node 20 keeps it. */
function endOutOfTurn(this: Duplex): void {
  this.destroy();
}

function park(socket: Duplex): void {
  idleSince.set(socket, markNow());
  socket.on('data', endOutOfTurn);
}

function unpark(socket: Duplex): void {
  idleSince.delete(socket);
  socket.off('data', endOutOfTurn);
}

class PlainSockets extends HttpAgent {
  override keepSocketAlive(socket: Duplex): boolean {
    park(socket);
    return super.keepSocketAlive(socket) as unknown as boolean;
  }
  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    unpark(socket);
    super.reuseSocket(socket, request);
  }
}

class TlsSockets extends HttpsAgent {
  override keepSocketAlive(socket: Duplex): boolean {
    park(socket);
    return super.keepSocketAlive(socket) as unknown as boolean;
  }
  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    unpark(socket);
    super.reuseSocket(socket, request);
  }
}

/** Opens an origin with sockets of its own. Nothing connects yet. */
export function openOrigin(url: URL): Origin {
  const secure = url.protocol === 'https:';
  const options = { keepAlive: true, timeout: IDLE_MAX_MS, scheduling: 'lifo' } as const;
  const agent = secure ? new TlsSockets(options) : new PlainSockets(options);
  return { url, secure, agent, close: () => agent.destroy() };
}

/**
 * Makes one request. Connecting may be tried again until `connectWithinMs`; after the request was
 * handed to a connected socket nothing is repeated. No redirects, no pipelining, no `Expect`.
 * Never throws.
 */
export function exchange(origin: Origin, order: Order): Promise<Exchanged> {
  const connectBy = performance.now() + order.connectWithinMs;
  return new Promise((resolve) => {
    let pauseMs = RETRY_FIRST_MS;
    const attempt = (): void => {
      attemptOnce(origin, order, connectBy, (outcome) => {
        if (outcome.kind !== 'not_connected') return resolve(outcome);
        if (!outcome.mayPass || performance.now() + pauseMs >= connectBy) {
          return resolve({ kind: 'not_sent', why: outcome.why, code: outcome.code });
        }
        setTimeout(attempt, pauseMs);
        pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS);
      });
    };
    attempt();
  });
}

interface NotConnected {
  readonly kind: 'not_connected';
  readonly why: string;
  readonly code: string;
  readonly mayPass: boolean;
}

function attemptOnce(
  origin: Origin,
  order: Order,
  connectBy: number,
  settle: (outcome: Exchanged | NotConnected) => void,
): void {
  dropStale(origin.agent, Math.min(order.idleMaxMs, IDLE_MAX_MS));
  let handed = false;
  let settled = false;
  let wrote = false;
  let timer: NodeJS.Timeout | undefined;
  let answer: IncomingMessage | undefined;
  const end = (outcome: Exchanged | NotConnected): void => {
    if (settled) return;
    settled = true;
    settle(outcome);
  };
  const written = (): void => {
    if (wrote) return;
    wrote = true;
    if (order.wrote() === 'drop')
      stop(new Error('the request left after its send-by time, so the connection was dropped'));
  };
  const fail = (error: Error): void => {
    clearTimeout(timer);
    if (handed) end({ kind: 'no_answer', why: whyNoAnswer(error) });
    else end(notConnected(origin, error));
  };

  let request: ClientRequest;
  try {
    request = open(origin, order);
  } catch (error) {
    // Node refuses characters that would break the header block; its message names the header only.
    end({ kind: 'not_sent', why: (error as Error).message, code: 'ERR_REQUEST' });
    return;
  }

  const stop = (error: Error): void => {
    // Once the head is there the reader of the body has to hear the reason.
    if (answer === undefined) request.destroy(error);
    else answer.destroy(error);
  };
  const giveUp = (): void => stop(new AnswerTimeout(`no whole answer within ${order.timeoutMs} ms`));
  const aborted = (): void => stop(new Error('the caller ended the exchange'));
  const hand = (): void => {
    clearTimeout(timer);
    if (settled || request.destroyed) return;
    if (order.gate() !== 'go') {
      end({ kind: 'not_sent', why: 'the send-by time had passed when the connection stood', code: 'late' });
      request.destroy();
      return;
    }
    handed = true;
    const { timeoutMs } = order;
    if (timeoutMs !== undefined) timer = setTimeout(giveUp, timeoutMs);
    request.end(order.body, written);
  };

  timer = setTimeout(
    () => request.destroy(Object.assign(new Error('connecting took too long'), { code: 'ETIMEDOUT' })),
    Math.max(0, connectBy - performance.now()),
  );
  if (order.signal?.aborted) aborted();
  else order.signal?.addEventListener('abort', aborted);
  request.on('error', fail);
  request.on('close', () => {
    clearTimeout(timer);
    order.signal?.removeEventListener('abort', aborted);
    if (!settled) fail(new Error('the connection was closed before an answer'));
  });
  request.on('response', (response) => {
    // An answer may come before the last byte of the request was flushed.
    written();
    answer = response;
    end({ kind: 'head', response });
  });
  request.on('socket', (socket) => {
    if (request.reusedSocket) hand();
    else socket.once(origin.secure ? 'secureConnect' : 'connect', hand);
  });
}

function open(origin: Origin, order: Order): ClientRequest {
  const { url } = origin;
  const request = origin.secure ? httpsRequest : httpRequest;
  return request({
    agent: origin.agent,
    // An IPv6 literal stands in brackets in a URL, but not at connect().
    hostname: url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname,
    port: url.port === '' ? undefined : url.port,
    method: order.method,
    path: order.path,
    headers: order.headers as Record<string, string>,
  });
}

/** Asked at the moment of reuse, since a timer may come late. */
function dropStale(agent: HttpAgent, idleMaxMs: number): void {
  for (const sockets of Object.values(agent.freeSockets)) {
    if (sockets === undefined) continue;
    // Parked one behind the other and taken from the end: when the last one is young enough, it is the one to be taken.
    const last = sockets.at(-1);
    if (last === undefined || !isOld(last, idleMaxMs)) continue;
    // destroy() takes a socket out of this very list, so walk over a copy.
    for (const socket of [...sockets]) if (isOld(socket, idleMaxMs)) socket.destroy();
  }
}

function isOld(socket: Duplex, idleMaxMs: number): boolean {
  const since = idleSince.get(socket);
  return since === undefined || elapsedMs(since) > idleMaxMs;
}

/** Causes that a second try may not meet again; everything else (a bad certificate, say) is told at once. */
const PASSING = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EMFILE',
]);

function notConnected(origin: Origin, error: Error): NotConnected {
  const code = (error as NodeJS.ErrnoException).code ?? 'ERR_CONNECT';
  // Happy eyeballs wraps the causes of several addresses in one error without a text.
  const text = error.message || code;
  return {
    kind: 'not_connected',
    why: `cannot connect to ${origin.url.host}: ${text}`,
    code,
    mayPass: PASSING.has(code),
  };
}

/** Says what happened to an exchange after the request was handed over, without quoting any byte of it. */
export function whyNoAnswer(error: Error): string {
  if (error instanceof AnswerTimeout) return error.message;
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code === 'ECONNRESET' || code === 'EPIPE') return `the connection was reset before a whole answer (${code})`;
  if (code.startsWith('HPE_')) return `the answer is malformed (${code})`;
  return code === '' ? error.message : `${error.message} (${code})`;
}
