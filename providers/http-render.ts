import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Contract, HttpExecution, JsonObject, JsonValue } from '../contracts/contract.ts';
import { renderJson, renderJsonOptional, renderText } from '../contracts/template.ts';
import { HoldfastError } from '../effects/errors.ts';
import { CONNECTION_HEADERS, keyPlace, withKey } from './key-place.ts';
import type { RenderedRequest, Scope } from './provider.ts';
import { isHttpSecretPlace } from './secret-place.ts';

/** A rendered HTTP request. The body is kept as the exact text, so that a stored request is sent byte for byte. */
export interface HttpRequest {
  readonly method: HttpExecution['method'];
  /** Path and query, encoded. */
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const PLACE = '/execution/transport';

/** Fills an HTTP contract's templates. Pure. Throws HoldfastError `request_not_renderable`, place = JSON Pointer. */
export function renderHttp(contract: Contract, scope: Scope): RenderedRequest {
  const { transport, idempotency } = contract.execution;
  if (transport.kind !== 'http') throw unfit(PLACE, `a contract of kind ${transport.kind} at an http provider`);
  if (!isHttpSecretPlace(transport.secretAs)) {
    throw unfit(`${PLACE}/secret_as`, `"${transport.secretAs}" is neither bearer nor header NAME`);
  }
  const key = keyPlace(idempotency?.sendAs);
  const headers = renderHeaders(transport, scope);
  if (key?.in === 'header') headers[key.name.toLowerCase()] = scope.effectKey;
  const query = renderQuery(transport.query, scope);
  if (key?.in === 'query') query.set(key.name, scope.effectKey);
  const path = renderText(transport.path, scope, 'urlPath', `${PLACE}/path`);
  const body = renderBody(transport, headers, scope, key?.in === 'body' ? key.name : undefined);
  return {
    method: transport.method,
    path: query.size === 0 ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`,
    headers,
    ...(body !== undefined && { body }),
  };
}

function renderHeaders(transport: HttpExecution, scope: Scope): Record<string, string> {
  const headers: Record<string, string> = { accept: 'application/json' };
  for (const [name, template] of Object.entries(transport.headers)) {
    const place = `${PLACE}/headers/${name}`;
    const value = renderText(template, scope, 'header', place);
    const lower = name.toLowerCase();
    if (CONNECTION_HEADERS.has(lower)) throw unfit(place, 'this header belongs to the connection');
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch {
      throw unfit(place, 'not a header that HTTP can carry');
    }
    headers[lower] = value;
  }
  return headers;
}

function renderQuery(template: JsonObject, scope: Scope): URLSearchParams {
  const query = new URLSearchParams();
  if (Object.keys(template).length === 0) return query;
  appendAll(query, renderJson(template, scope, `${PLACE}/query`) as JsonObject, `${PLACE}/query`);
  return query;
}

/** Lists are repeated; null is left out; objects have no agreed form. */
function appendAll(query: URLSearchParams, members: JsonObject, place: string): void {
  for (const [name, value] of Object.entries(members)) {
    for (const one of Array.isArray(value) ? (value as readonly JsonValue[]) : [value]) {
      if (one === null) continue;
      if (typeof one === 'object') throw unfit(`${place}/${name}`, 'an object cannot stand here');
      query.append(name, String(one));
    }
  }
}

/** Sets `content-type` where the contract did not. */
function renderBody(
  transport: HttpExecution,
  headers: Record<string, string>,
  scope: Scope,
  keyPointer: string | undefined,
): string | undefined {
  const place = `${PLACE}/body`;
  let body = transport.body === undefined ? undefined : renderJsonOptional(transport.body, scope, place);
  if (keyPointer !== undefined) body = withKey(body ?? {}, keyPointer, scope.effectKey);
  if (body === undefined) return undefined;
  headers['content-type'] ??= 'application/json';
  const type = headers['content-type'].toLowerCase();
  if (type.startsWith('application/x-www-form-urlencoded')) {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) throw unfit(place, 'a form needs an object');
    const form = new URLSearchParams();
    appendAll(form, body as JsonObject, place);
    return form.toString();
  }
  const isJson = /[/+]json\b/.test(type);
  return !isJson && typeof body === 'string' ? body : JSON.stringify(body);
}

function unfit(place: string, why: string): HoldfastError {
  return new HoldfastError('request_not_renderable', why, { place });
}
