import type { AnswerPattern, Contract, EvidenceRule, JsonObject, JsonValue } from '../contracts/contract.ts';
import { getPointer } from '../contracts/pointer.ts';
import { placeholderValue, renderJson, type Scope, templatePlaceholders } from '../contracts/template.ts';
import type { ProviderAnswer } from './answer.ts';
import { isHoldfastError } from './errors.ts';
import type { Observation } from './judge.ts';
import { keep, redact } from './kept-result.ts';
import { isSuccess, lookAt, matchesStatus, matchOne, matchWhere, type Response, referenceAt } from './match.ts';
import { soundAnswer } from './sound.ts';

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
}

/** What a look showed, and what of it is kept. */
export interface Observed {
  readonly observation: Observation;
  /** The provider's own reference of what was found. */
  readonly reference: string | null;
  /** What is kept as the result of the effect when it was found; null otherwise. Redacted and cut to size. */
  readonly result: JsonValue;
}

/**
 * The arguments of one evidence call: the rule's `with`, filled, and the cursor of the page wanted.
 * @throws HoldfastError `request_not_renderable`, for instance while the provider's reference is not known.
 */
export function evidenceArguments(rule: EvidenceRule, scope: Scope, cursor?: string | number): JsonObject {
  const at: Scope = cursor === undefined ? scope : { ...scope, cursor };
  const args = renderJson(rule.with, at, '/execution/evidence/with') as JsonObject;
  return cursor === undefined || rule.cursorArg === undefined ? args : { ...args, [rule.cursorArg]: cursor };
}

/** The cursor with which to ask for the page after this one; `undefined` after the last page, and after one that cannot be read. */
export function nextCursor(rule: Pick<EvidenceRule, 'next'>, page: ProviderAnswer): string | number | undefined {
  const cursor = cursorOf(rule, page);
  return cursor.kind === 'next' ? cursor.cursor : undefined;
}

type Cursor =
  | { readonly kind: 'last' }
  | { readonly kind: 'next'; readonly cursor: string | number }
  | { readonly kind: 'broken'; readonly why: string };

/** Missing, null, false and empty mean the last page; anything else but a text or number is broken. */
function cursorOf(rule: Pick<EvidenceRule, 'next'>, page: ProviderAnswer): Cursor {
  if (page.kind !== 'response') return { kind: 'broken', why: page.why };
  if (page.truncated === true) return { kind: 'broken', why: 'the page was cut' };
  const cursor = rule.next === undefined ? undefined : getPointer(page.body, rule.next);
  if (cursor === undefined || cursor === null || cursor === '' || cursor === false) return { kind: 'last' };
  if (typeof cursor === 'number' || (typeof cursor === 'string' && cursor.length <= CURSOR_CHARS_MAX)) {
    return { kind: 'next', cursor };
  }
  return { kind: 'broken', why: `the cursor at ${rule.next} is neither a short text nor a number` };
}

/**
 * Reads what a look at the provider showed, by positive patterns only (PROTOCOL 6.1): an answer that fits neither
 * `found` nor `absent` says nothing. Pure, never throws, knows nothing of time. What is kept as the result is
 * redacted by the evidence contract's pointers and by the call contract's own, and cut at its `returns.size_max`.
 *
 * @param contract the effect's recorded contract; its `execution.evidence` is the rule.
 * @param given the answers of one look in order: one for key, ref and state, all pages read where there are `items`.
 */
export function observe(
  contract: Contract,
  scope: Scope,
  given: readonly ProviderAnswer[],
  context: LookContext = {},
): Observed {
  const pages = given.map(soundAnswer);
  const rule = contract.execution.evidence;
  if (rule === undefined) return nothing('the contract has no evidence rule');
  const look: Look = { rule, scope, context, returns: contract.returns };
  try {
    if (rule.items !== undefined) return observeItems(look, rule.items, pages);
    const [page] = pages;
    if (page?.kind !== 'response' || page.truncated === true || pages.length !== 1)
      return nothing(whyUnreadable(pages));
    return rule.by === 'state' ? observeState(look, page) : observeOne(look, page);
  } catch (error) {
    if (isHoldfastError(error)) return nothing(`the evidence rule cannot be filled: ${error.message}`);
    throw error;
  }
}

/** One look, as every step of reading it needs. */
interface Look {
  readonly rule: EvidenceRule;
  readonly scope: Scope;
  readonly context: LookContext;
  readonly returns: Contract['returns'];
}

function nothing(why: string): Observed {
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

function observeOne(look: Look, response: Response): Observed {
  const { rule, scope, context } = look;
  const found = fits(rule.found, response, scope);
  const absent = fits(rule.absent, response, scope);
  if (found === 'yes' && absent === 'yes') return nothing('the answer fits both patterns, found and absent');
  if (found === 'yes') return foundOf(look, [{ seen: response, body: redacted(response, context) }]);
  if (absent === 'yes') return absentOf(true, context);
  const drift = found === 'missing' || absent === 'missing' ? '; a field that the rule compares is missing' : '';
  return nothing(`the answer (${response.status}) fits neither pattern, found or absent${drift}`);
}

/** Different means: read as it should be, and not as wanted. A field that is gone is not a difference. */
function observeState(look: Look, response: Response): Observed {
  const { rule, scope, context } = look;
  const found = fits(rule.found, response, scope);
  const named = rule.absent.status !== undefined || rule.absent.where !== undefined;
  const absent = named && fits(rule.absent, response, scope) === 'yes';
  const readable = fits({ ...rule.found, where: {} }, response, scope) === 'yes';
  if (found === 'yes' && absent) return nothing('the answer fits both patterns, found and absent');
  if (found !== 'yes' && !absent && !(found === 'no' && readable)) {
    return nothing(`the answer (${response.status}) does not show the state`);
  }
  const same = found === 'yes' ? equality(look, response) : 'no';
  if (same === 'missing') return nothing('the state was shown, but a field to compare is missing');
  const differedBefore = context.differedBefore === true;
  const observation: Observation = { kind: 'state', equal: same === 'yes', differedBefore };
  if (same === 'no') return { observation, reference: null, result: null };
  return { observation, ...kept(look, { seen: response, body: redacted(response, context) }) };
}

/** Something that matched: as it was seen, and its body as it may be kept. */
interface Match {
  readonly seen: Pick<Response, 'body' | 'headers'>;
  readonly body: JsonValue;
}

function observeItems(look: Look, items: string, pages: readonly ProviderAnswer[]): Observed {
  const matches: Match[] = [];
  let doubt: string | undefined = pages.length === 0 ? whyUnreadable(pages) : undefined;
  for (const page of pages) {
    const whole = page.kind === 'response' && page.truncated !== true;
    const read = whole ? readPage(look, items, page) : { matches: [], doubt: whyUnreadable([page]) };
    matches.push(...read.matches);
    doubt ??= read.doubt;
  }
  // What was found stands, whatever else could not be read; only absence needs every page.
  if (matches.length > 0) return foundOf(look, distinct(look.rule, matches));
  if (doubt !== undefined) return nothing(doubt);
  const complete = allPages(look.rule, pages);
  return typeof complete === 'boolean' ? absentOf(complete, look.context) : nothing(complete.why);
}

interface PageRead {
  readonly matches: readonly Match[];
  /** Why this page cannot speak for absence. */
  readonly doubt: string | undefined;
}

function readPage({ rule, scope, context }: Look, items: string, page: Response): PageRead {
  const status = rule.absent.status ?? rule.found.status;
  const readAsItShould: AnswerPattern = { ...rule.absent, ...(status !== undefined && { status }) };
  if (fits(readAsItShould, page, scope) !== 'yes') {
    return { matches: [], doubt: `a page (${page.status}) was not read as it should be` };
  }
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

/** True when the last page says that it is the last, false when there are more; a cursor that comes twice does not advance. */
function allPages(rule: EvidenceRule, pages: readonly ProviderAnswer[]): boolean | { readonly why: string } {
  const seen = new Set<string>();
  for (const [index, page] of pages.entries()) {
    const next = cursorOf(rule, page);
    if (next.kind === 'broken') return { why: next.why };
    if (next.kind === 'last') return index === pages.length - 1 ? true : { why: 'a page after the last one' };
    const text = JSON.stringify(next.cursor);
    if (seen.has(text)) return { why: 'the provider gave the same cursor twice' };
    seen.add(text);
  }
  return false;
}

function absentOf(complete: boolean, { passes = 1, passesApartMs = 0 }: LookContext): Observed {
  return { observation: { kind: 'absent', complete, passes, passesApartMs }, reference: null, result: null };
}

function foundOf(look: Look, matches: readonly Match[]): Observed {
  const [match] = matches;
  if (match === undefined) return nothing('nothing was found');
  const equal = equality(look, match.seen);
  if (matches.length === 1 && equal === 'missing') return nothing('found, but a field to compare is missing');
  const { reference, result } = kept(look, match);
  if (look.rule.reference !== undefined && reference === null) {
    return nothing(`found, but without a reference at ${look.rule.reference}`);
  }
  const observation: Observation = { kind: 'found', matches: matches.length, equal: equal === 'yes', reference };
  return { observation, reference, result };
}

/** Whether `equals` holds. What the call did not give is not compared: the provider may have its own default. */
function equality({ rule, scope }: Look, seen: Match['seen']): 'yes' | 'no' | 'missing' {
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

function kept({ rule, returns }: Look, { seen, body }: Match): { reference: string | null; result: JsonValue } {
  const result = rule.result === undefined ? body : (getPointer(body, rule.result) ?? null);
  return {
    reference: referenceAt(seen, rule.reference),
    result: keep(result, returns.redact, returns.sizeMaxBytes).result,
  };
}

function redacted(response: Response, context: LookContext): JsonValue {
  return context.redactPage === undefined ? response.body : redact(response.body, context.redactPage);
}
