import type { AnswerPattern, EvidenceRule, JsonObject, JsonValue } from '../contracts/contract.ts';
import { getPointer } from '../contracts/pointer.ts';
import { placeholderValue, renderJson, type Scope, templatePlaceholders } from '../contracts/template.ts';
import type { ProviderAnswer } from './answer.ts';
import { isHoldfastError } from './errors.ts';
import type { Observation } from './judge.ts';
import { keep, redact } from './kept-result.ts';
import { isSuccess, lookAt, matchesStatus, matchOne, matchWhere, type Response, referenceAt } from './match.ts';

const CURSOR_CHARS_MAX = 4096;

/** What the caller of {@link observe} knows and the pages do not say. */
export interface LookContext {
  /** Listings: full passes made so far, this one counted, each of which was complete and found nothing. Default 1. */
  readonly passes?: number;
  /** Milliseconds between the starts of the first and the last pass. Default 0. */
  readonly passesApartMs?: number;
  /** Source `state`: the state was recorded as different before the send. Default false. */
  readonly differedBefore?: boolean;
  /** `returns.redact` of the evidence contract: pointers into a page. */
  readonly redactPage?: readonly string[];
  /** `returns.redact` of the call's own contract: pointers into the result. */
  readonly redactResult?: readonly string[];
  /** Largest result kept, in bytes. Default 1 MiB. */
  readonly resultBytesMax?: number;
}

export interface Look {
  readonly observation: Observation;
  /** The provider's own reference of what was found. */
  readonly reference: string | null;
  /** What is kept as the result of the effect when it was found; null otherwise. Redacted and cut to size. */
  readonly result: JsonValue;
}

export type Cursor =
  | { readonly kind: 'last' }
  | { readonly kind: 'next'; readonly cursor: string | number }
  | { readonly kind: 'broken'; readonly why: string };

/**
 * The arguments of one evidence call: the rule's `with`, filled, and the cursor of the page wanted.
 * @throws HoldfastError `request_not_renderable`, for instance while the provider's reference is not known.
 */
export function evidenceArguments(rule: EvidenceRule, scope: Scope, cursor?: string | number): JsonObject {
  const at: Scope = cursor === undefined ? scope : { ...scope, cursor };
  const args = renderJson(rule.with, at, '/execution/evidence/with') as JsonObject;
  return cursor === undefined || rule.cursorArg === undefined ? args : { ...args, [rule.cursorArg]: cursor };
}

/** Whether a page names a next one. Missing, null, false and empty mean the last page; anything but a text or number is broken. */
export function nextCursor(rule: Pick<EvidenceRule, 'next'>, page: ProviderAnswer): Cursor {
  if (page.kind !== 'response') return { kind: 'broken', why: page.why };
  if (page.truncated === true) return { kind: 'broken', why: 'the page was cut' };
  const cursor = rule.next === undefined ? undefined : getPointer(page.body, rule.next);
  if (cursor === undefined || cursor === null || cursor === '' || cursor === false) return { kind: 'last' };
  if (typeof cursor === 'number' || (typeof cursor === 'string' && cursor.length <= CURSOR_CHARS_MAX)) {
    return { kind: 'next', cursor };
  }
  return { kind: 'broken', why: `the cursor at ${rule.next} is neither a text nor a number` };
}

/**
 * Reads what a look at the provider showed, by positive patterns only (PROTOCOL 6.1): an answer that fits neither
 * `found` nor `absent` says nothing. Pure, never throws, knows nothing of time.
 *
 * @param pages the answers of one look in order: one for key, ref and state, all pages read for a listing.
 */
export function observe(
  rule: EvidenceRule,
  scope: Scope,
  pages: readonly ProviderAnswer[],
  context: LookContext = {},
): Look {
  try {
    const responses: Response[] = [];
    for (const page of pages) {
      if (page.kind === 'response' && page.truncated !== true) responses.push(page);
    }
    const [first] = responses;
    if (rule.items !== undefined) return observeItems(rule, rule.items, scope, pages, responses, context);
    if (first === undefined || pages.length !== 1) return nothing(whyUnreadable(pages));
    return rule.by === 'state' ? observeState(rule, scope, first, context) : observeOne(rule, scope, first, context);
  } catch (error) {
    if (isHoldfastError(error)) return nothing(`the evidence rule cannot be filled: ${error.message}`);
    throw error;
  }
}

function nothing(why: string): Look {
  return { observation: { kind: 'inconclusive', why }, reference: null, result: null };
}

function whyUnreadable(pages: readonly ProviderAnswer[]): string {
  if (pages.length === 0) return 'nothing was asked';
  const bad = pages.find((page) => page.kind !== 'response' || page.truncated === true);
  if (bad === undefined) return `${pages.length} answers where one was expected`;
  return bad.kind === 'response' ? 'the answer was cut at the size limit' : `the provider gave no answer: ${bad.why}`;
}

/** A status that no pattern names has to be a success, so that an error page is never read as evidence. */
function fits(pattern: AnswerPattern, response: Response, scope: Scope): 'yes' | 'no' | 'missing' {
  const { status, where } = pattern;
  if (!(status === undefined ? isSuccess(response.status) : matchesStatus(status, response.status))) return 'no';
  return matchWhere(where, response, scope);
}

function observeOne(rule: EvidenceRule, scope: Scope, response: Response, context: LookContext): Look {
  const found = fits(rule.found, response, scope);
  const absent = fits(rule.absent, response, scope);
  if (found === 'yes' && absent === 'yes') return nothing('the answer fits both patterns, found and absent');
  if (found === 'yes') return foundLook(rule, scope, [{ seen: response, body: redacted(response, context) }], context);
  if (absent === 'yes') {
    return { observation: { kind: 'absent', complete: true, ...passesOf(context) }, reference: null, result: null };
  }
  const drift = found === 'missing' || absent === 'missing' ? '; a field that the rule compares is missing' : '';
  return nothing(`the answer (${response.status}) fits neither pattern, found or absent${drift}`);
}

/** Different means: read as it should be, and not as wanted. A field that is gone is not a difference. */
function observeState(rule: EvidenceRule, scope: Scope, response: Response, context: LookContext): Look {
  const found = fits(rule.found, response, scope);
  const named = rule.absent.status !== undefined || rule.absent.where !== undefined;
  const absent = named && fits(rule.absent, response, scope) === 'yes';
  const readable = fits({ ...rule.found, where: {} }, response, scope) === 'yes';
  if (found === 'yes' && absent) return nothing('the answer fits both patterns, found and absent');
  if (found !== 'yes' && !absent && !(found === 'no' && readable)) {
    return nothing(`the answer (${response.status}) does not show the state`);
  }
  const same = found === 'yes' ? equality(rule, scope, response) : 'no';
  if (same === 'missing') return nothing('the state was shown, but a field to compare is missing');
  const observation: Observation = {
    kind: 'state',
    equal: same === 'yes',
    differedBefore: context.differedBefore === true,
  };
  if (same === 'no') return { observation, reference: null, result: null };
  return { observation, ...kept(rule, response, redacted(response, context), context) };
}

/** Something that matched: as it was seen, and its body as it may be kept. */
interface Match {
  readonly seen: Pick<Response, 'body' | 'headers'>;
  readonly body: JsonValue;
}

function observeItems(
  rule: EvidenceRule,
  items: string,
  scope: Scope,
  pages: readonly ProviderAnswer[],
  responses: readonly Response[],
  context: LookContext,
): Look {
  const matches: Match[] = [];
  let doubt = responses.length === pages.length && pages.length > 0 ? undefined : whyUnreadable(pages);
  for (const page of responses) {
    const read = readPage(rule, items, scope, page, context);
    matches.push(...read.matches);
    doubt ??= read.doubt;
  }
  // What was found stands, whatever else could not be read; only absence needs every page.
  if (matches.length > 0) return foundLook(rule, scope, distinct(rule, matches), context);
  if (doubt !== undefined) return nothing(doubt);
  const complete = allPages(rule, pages);
  if (complete !== true && complete !== false) return nothing(complete.why);
  return { observation: { kind: 'absent', complete, ...passesOf(context) }, reference: null, result: null };
}

function readPage(
  rule: EvidenceRule,
  items: string,
  scope: Scope,
  page: Response,
  context: LookContext,
): { matches: Match[]; doubt: string | undefined } {
  const readAsItShould: AnswerPattern =
    rule.absent.status === undefined && rule.found.status !== undefined
      ? { ...rule.absent, status: rule.found.status }
      : rule.absent;
  if (fits(readAsItShould, page, scope) !== 'yes')
    return { matches: [], doubt: `a page (${page.status}) was not read as it should be` };
  const list = getPointer(page.body, items);
  if (!Array.isArray(list)) return { matches: [], doubt: `a page has no list at ${items || 'its root'}` };
  const clean = getPointer(redacted(page, context), items);
  const matches: Match[] = [];
  let doubt: string | undefined;
  list.forEach((item: JsonValue, index) => {
    const fit = matchWhere(rule.found.where, { body: item }, scope);
    const body = Array.isArray(clean) ? ((clean[index] as JsonValue | undefined) ?? null) : null;
    if (fit === 'yes') matches.push({ seen: { body: item }, body });
    // A renamed field would make every item look like another one.
    if (fit === 'missing') doubt = 'an item lacks a field that the rule compares';
  });
  return { matches, doubt };
}

/** Pages shift while they are read: one artefact seen on two pages is one. */
function distinct(rule: EvidenceRule, matches: readonly Match[]): Match[] {
  const seen = new Set<string>();
  return matches.filter((match) => {
    const reference = referenceAt(match.seen, rule.reference);
    if (reference === null) return true;
    const fresh = !seen.has(reference);
    seen.add(reference);
    return fresh;
  });
}

/** True when the last page says that it is the last; a cursor that comes twice does not advance. */
function allPages(rule: EvidenceRule, pages: readonly ProviderAnswer[]): boolean | { readonly why: string } {
  const seen = new Set<string>();
  for (const [index, page] of pages.entries()) {
    const next = nextCursor(rule, page);
    if (next.kind === 'broken') return { why: next.why };
    if (next.kind === 'last') return index === pages.length - 1 ? true : { why: 'a page after the last one' };
    const text = JSON.stringify(next.cursor);
    if (seen.has(text)) return { why: 'the provider gave the same cursor twice' };
    seen.add(text);
  }
  return false;
}

function foundLook(rule: EvidenceRule, scope: Scope, matches: readonly Match[], context: LookContext): Look {
  const [match] = matches;
  if (match === undefined) return nothing('nothing was found');
  const equal = equality(rule, scope, match.seen);
  if (matches.length === 1 && equal === 'missing') return nothing('found, but a field to compare is missing');
  const { reference, result } = kept(rule, match.seen, match.body, context);
  if (rule.reference !== undefined && reference === null)
    return nothing(`found, but without a reference at ${rule.reference}`);
  return {
    observation: { kind: 'found', matches: matches.length, equal: equal === 'yes', reference },
    reference,
    result,
  };
}

/** Whether `equals` holds. What the call did not give is not compared: the provider may have its own default. */
function equality(
  rule: EvidenceRule,
  scope: Scope,
  seen: Pick<Response, 'body' | 'headers'>,
): 'yes' | 'no' | 'missing' {
  let result: 'yes' | 'no' | 'missing' = 'yes';
  for (const [place, wanted] of Object.entries(rule.equals)) {
    if (notGiven(wanted, scope)) continue;
    const one = matchOne(lookAt(seen, place), wanted, scope);
    if (one === 'no') return 'no';
    if (one === 'missing') result = 'missing';
  }
  return result;
}

/** True when an argument that the comparison names was not part of the call. */
function notGiven(wanted: JsonValue, scope: Scope): boolean {
  return templatePlaceholders(wanted).some(
    (placeholder) => placeholder.root === 'args' && placeholderValue(placeholder, scope) === undefined,
  );
}

function kept(
  rule: EvidenceRule,
  seen: Pick<Response, 'body' | 'headers'>,
  body: JsonValue,
  context: LookContext,
): { reference: string | null; result: JsonValue } {
  const result = rule.result === undefined ? body : (getPointer(body, rule.result) ?? null);
  const { redactResult = [], resultBytesMax = 1024 * 1024 } = context;
  return { reference: referenceAt(seen, rule.reference), result: keep(result, redactResult, resultBytesMax).result };
}

function redacted(response: Response, context: LookContext): JsonValue {
  return context.redactPage === undefined ? response.body : redact(response.body, context.redactPage);
}

function passesOf(context: LookContext): { passes: number; passesApartMs: number } {
  return { passes: context.passes ?? 1, passesApartMs: context.passesApartMs ?? 0 };
}
