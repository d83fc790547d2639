import type { JsonObject, JsonValue } from '../contracts/contract.ts';
import { childOf, isPointer, pointerSegments } from '../contracts/pointer.ts';
import { HoldfastError } from '../effects/errors.ts';
import { isHttpSecretPlace } from './secret-place.ts';

/** These belong to the connection; a contract that set them could break "one request". */
export const CONNECTION_HEADERS = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Where the effect key travels in an HTTP request. */
export interface KeyPlace {
  readonly in: 'header' | 'query' | 'body';
  readonly name: string;
}

/**
 * Reads `idempotency.send_as`: `header NAME`, `query NAME` or `body /pointer`.
 * Throws HoldfastError `request_not_renderable` for anything else.
 */
export function keyPlace(sendAs: string | undefined): KeyPlace | undefined {
  if (sendAs === undefined) return undefined;
  const match = /^(header|query|body) (\S+)$/.exec(sendAs);
  const [, where, name = ''] = match ?? [];
  if (where === 'query' || (where === 'body' && isPointer(name) && name !== '')) return { in: where, name };
  if (where === 'header' && isHttpSecretPlace(sendAs) && !CONNECTION_HEADERS.has(name.toLowerCase())) {
    return { in: where, name };
  }
  throw unfit('/execution/idempotency/send_as', `"${sendAs}" is neither header NAME, query NAME nor body /pointer`);
}

/**
 * A copy of `body` with the key at `pointer`; missing objects on the way are made.
 * Throws HoldfastError `request_not_renderable` where something else than an object stands in the way.
 */
export function withKey(body: JsonValue, pointer: string, key: string): JsonValue {
  const [segment = '', ...rest] = pointerSegments(pointer);
  return put(body, segment, rest, key);
}

function put(value: JsonValue | undefined, segment: string, rest: readonly string[], key: string): JsonValue {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw unfit('/execution/idempotency/send_as', 'the body has no object at that place');
  }
  const [next, ...below] = rest;
  const child = next === undefined ? key : put(childOf(value, segment) ?? {}, next, below, key);
  return { ...(value as JsonObject), [segment]: child };
}

function unfit(place: string, why: string): HoldfastError {
  return new HoldfastError('request_not_renderable', why, { place });
}
