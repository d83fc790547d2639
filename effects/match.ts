import { sameJson } from '../contracts/canonical-json.ts';
import type { AnswerPattern, JsonObject, JsonValue } from '../contracts/contract.ts';
import { headerOfPlace } from '../contracts/place.ts';
import { getPointer } from '../contracts/pointer.ts';
import { renderJson, renderText, type Scope } from '../contracts/template.ts';
import type { ProviderAnswer } from './answer.ts';

/** An answer that has a status and a body. */
export type Response = Extract<ProviderAnswer, { kind: 'response' }>;

/** "Did not happen, or did, or ask again": no class of codes speaks for these (PROTOCOL 5.3). */
const NEVER_BY_CLASS = new Set([408, 409, 423, 425, 429, 499]);
const REFERENCE_CHARS_MAX = 256;

/** True when `status` is one of those listed, or in a listed class such as `4xx`. */
export function matchesStatus(listed: readonly (number | string)[], status: number | string): boolean {
  return listed.some((each) => {
    const group = /^([1-5])xx$/.exec(String(each))?.[1];
    if (group === undefined) return String(each) === String(status);
    return typeof status === 'number' && Math.floor(status / 100) === Number(group) && !NEVER_BY_CLASS.has(status);
  });
}

/** The provider says that it did what it was asked: 2xx but not 202, `ok`. */
export function isSuccess(status: number | string): boolean {
  return typeof status === 'number' ? status >= 200 && status < 300 && status !== 202 : status === 'ok';
}

/** What a place (JSON Pointer into the body, or `header NAME`) shows; `undefined` for nothing. */
export function lookAt(response: Pick<Response, 'body' | 'headers'>, place: string): JsonValue | undefined {
  const header = headerOfPlace(place);
  if (header === undefined) return getPointer(response.body, place);
  const { headers } = response;
  return headers !== undefined && Object.hasOwn(headers, header) ? headers[header] : undefined;
}

/** The provider's own reference at a place: a text or number of at most 256 characters, none of them a control, else null. */
export function referenceAt(response: Pick<Response, 'body' | 'headers'>, place: string | undefined): string | null {
  const value = place === undefined ? undefined : lookAt(response, place);
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  const text = String(value);
  return text !== '' && text.length <= REFERENCE_CHARS_MAX && text.isWellFormed() && !/\p{Cc}/u.test(text)
    ? text
    : null;
}

/**
 * How a pattern's `where` fits: `missing` when something it compares is not there at all, which is not the same as
 * being otherwise (a field may have been renamed). Templates are filled from `scope` when there is one.
 * @throws HoldfastError `request_not_renderable` for a template that cannot be filled: what is compared with a value
 * the call did not give would never match, and so look absent.
 */
export function matchWhere(
  where: AnswerPattern['where'],
  seen: Pick<Response, 'body' | 'headers'>,
  scope?: Scope,
): 'yes' | 'no' | 'missing' {
  let result: 'yes' | 'no' | 'missing' = 'yes';
  for (const [place, wanted] of Object.entries(where ?? {})) {
    const one = matchOne(lookAt(seen, place), wanted, scope);
    if (one === 'no') return 'no';
    if (one === 'missing') result = 'missing';
  }
  return result;
}

/** One entry of {@link matchWhere}. */
export function matchOne(
  value: JsonValue | undefined,
  wanted: JsonValue,
  scope: Scope | undefined,
): 'yes' | 'no' | 'missing' {
  const test = testOf(wanted);
  if (test?.kind === 'exists') return (value !== undefined && value !== null) === test.wanted ? 'yes' : 'no';
  if (value === undefined) return 'missing';
  if (test?.kind === 'matches') {
    const part = scope === undefined ? test.text : renderText(test.text, scope, 'plain');
    // An empty text is found in everything.
    return typeof value === 'string' && part !== '' && value.includes(part) ? 'yes' : 'no';
  }
  return sameJson(value, scope === undefined ? wanted : renderJson(wanted, scope)) ? 'yes' : 'no';
}

type Test = { readonly kind: 'exists'; readonly wanted: boolean } | { readonly kind: 'matches'; readonly text: string };

/** `{ exists: true }` and `{ matches: "…" }` ask; every other value is compared. */
function testOf(wanted: JsonValue): Test | undefined {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return undefined;
  const [key, ...more] = Object.keys(wanted);
  if (more.length > 0) return undefined;
  const { exists, matches } = wanted as JsonObject;
  if (key === 'exists' && typeof exists === 'boolean') return { kind: 'exists', wanted: exists };
  return key === 'matches' && typeof matches === 'string' ? { kind: 'matches', text: matches } : undefined;
}
