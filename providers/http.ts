import type { IncomingMessage } from 'node:http';
import type { Contract } from '../contracts/contract.ts';
import { effectiveClass } from '../contracts/effective-class.ts';
import { HoldfastError } from '../effects/errors.ts';
import { parseBody, readBody, scrub } from './body.ts';
import { exchange, IDLE_STRICT_MS, type Origin, openOrigin } from './exchange.ts';
import { type HttpRequest, renderHttp } from './http-render.ts';
import type { LiveDefinition, ProviderAdapter, ProviderAnswer, RenderedRequest, Scope, SendInput } from './provider.ts';
import { isHttpSecretPlace, placeSecret } from './secret-place.ts';

/** One HTTP API. */
export interface HttpProviderOptions {
  readonly name: string;
  /** `http://` or `https://`, with an optional path in front of every contract's path. */
  readonly baseUrl: string;
  /** Sent with every request, below the contract's own headers. Never secrets: those are credentials. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The headers of an answer that contracts may look at. */
const KEPT_HEADERS = ['content-type', 'location', 'retry-after', 'idempotent-replayed'] as const;

/**
 * A plain HTTP API. One `send` is one request on an own keep-alive agent: no redirects followed, no
 * retry after 401, answers read up to 1 MiB.
 * Throws HoldfastError `bad_config` for a base URL that is not plain http or https.
 */
export function httpProvider(options: HttpProviderOptions): ProviderAdapter {
  const origin = openOrigin(parseBaseUrl(options));
  const base = origin.url.pathname.replace(/\/$/, '');
  const own = lowerCased(options.headers ?? {});
  return {
    name: options.name,
    kind: 'http',
    render: (contract: Contract, scope: Scope): RenderedRequest => renderHttp(contract, scope),
    verify: async (): Promise<LiveDefinition> => ({ kind: 'not_checked' }),
    send: (input: SendInput) => sendHttp(origin, base, own, input),
    close: async () => origin.close(),
  };
}

async function sendHttp(
  origin: Origin,
  base: string,
  own: Readonly<Record<string, string>>,
  input: SendInput,
): Promise<ProviderAnswer> {
  const request = input.request as unknown as HttpRequest;
  const { transport } = input.contract.execution;
  const secretAs = transport.kind === 'http' ? transport.secretAs : 'bearer';
  // render() has refused every other place, so an unknown one means that the request was not made here.
  if (!isHttpSecretPlace(secretAs)) return { kind: 'not_sent', why: 'no known place for the secret' };
  const headers = { ...own, ...request.headers, ...placeSecret(secretAs, input.secret) };
  if (request.body !== undefined) headers['content-length'] = String(Buffer.byteLength(request.body));
  const effect = effectiveClass(input.contract);
  const strict = effect === 'NON_RETRYABLE' || effect === 'UNKNOWN';
  const outcome = await exchange(origin, {
    method: request.method,
    path: base + request.path,
    headers,
    body: request.body,
    idleMaxMs: strict ? IDLE_STRICT_MS : Number.POSITIVE_INFINITY,
    connectWithinMs: input.connectWithinMs,
    timeoutMs: input.timeoutMs,
    gate: input.gate,
    wrote: input.wrote,
  });
  return outcome.kind === 'head' ? answerOf(outcome.response, input) : outcome;
}

async function answerOf(response: IncomingMessage, input: SendInput): Promise<ProviderAnswer> {
  const body = await readBody(response);
  if (body.kind === 'cut') return { kind: 'no_answer', why: body.why };
  const headers = keptHeaders(response, input);
  return {
    kind: 'response',
    status: response.statusCode ?? 0,
    body: parseBody(scrub(body.text, input.secret), headers['content-type']),
    headers,
    ...(body.truncated && { truncated: true }),
  };
}

function keptHeaders(response: IncomingMessage, input: SendInput): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of KEPT_HEADERS) {
    const value = response.headers[name];
    if (value !== undefined) kept[name] = scrub(String(value), input.secret);
  }
  return kept;
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function parseBaseUrl({ name, baseUrl }: HttpProviderOptions): URL {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const place = `providers.${name}.base_url`;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new HoldfastError('bad_config', `the base URL of provider ${name} is not an http or https URL`, { place });
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new HoldfastError(
      'bad_config',
      `the base URL of provider ${name} may hold neither user, password, query nor fragment`,
      { place, next: 'put secrets into a credential, and queries into the contracts' },
    );
  }
  return url;
}
