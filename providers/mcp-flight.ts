import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage } from 'node:http';
import { BODY_BYTES_MAX } from './body.ts';
import { whyNoAnswer } from './exchange.ts';
import type { Gate, SendInput } from './provider.ts';

/** The parser of the stream runs behind the socket; an answer that came last has this long to be read. */
const PARSE_GRACE_MS = 250;

/**
 * One `tools/call` on its way. The SDK's layers lie between the adapter and the socket, so the flight
 * travels with the async context and is asked where the bytes leave: it lets one request pass, ever.
 */
export class Flight {
  /** True from the moment the request was given to a connected socket or pipe. */
  handed = false;
  /** Set when the exchange ended before that moment. */
  notSent: { readonly why: string; readonly code?: string } | undefined;
  /** Status line of the HTTP answer, where there is one. */
  httpStatus: number | undefined;
  /** Resolves with the reason when no answer can come any more. */
  readonly lost: Promise<string>;
  #lose: (why: string) => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #input: SendInput;

  constructor(input: SendInput) {
    this.#input = input;
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
  }

  /** Asked right before the first byte. */
  readonly gate: Gate = () => {
    if (this.handed) return 'late';
    if (this.#input.gate() !== 'go') {
      this.notSent = { why: 'the send-by time had passed when the connection stood', code: 'late' };
      return 'late';
    }
    this.handed = true;
    const { timeoutMs } = this.#input;
    this.#timer = setTimeout(() => this.lose(`no answer within ${timeoutMs} ms`), timeoutMs);
    return 'go';
  };

  get connectWithinMs(): number {
    return this.#input.connectWithinMs;
  }

  wrote(): 'keep' | 'drop' {
    const verdict = this.#input.wrote();
    if (verdict === 'drop') this.lose('the request left after its send-by time, so its answer is not waited for');
    return verdict;
  }

  lose(why: string): void {
    this.#lose(why);
  }

  /** Follows an HTTP answer to its end, so that a cut stream is noticed at once and not at the time-out. */
  follow(response: IncomingMessage): void {
    this.httpStatus = response.statusCode;
    let why = 'the answer ended without a result';
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > BODY_BYTES_MAX) response.destroy(new Error('the answer is larger than 1 MiB'));
    });
    response.on('error', (error) => {
      why = whyNoAnswer(error);
    });
    response.on('close', () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.lose(why), PARSE_GRACE_MS);
    });
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}

/** The flight of the call that is being made in this async context. */
export const flights = new AsyncLocalStorage<Flight>();
