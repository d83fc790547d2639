import { HoldfastError } from '../effects/errors.ts';
import type { JsonObject, JsonValue } from './contract.ts';
import { childOf, pointerOf } from './pointer.ts';

/** Everything a template may name. */
export interface Scope {
  readonly tenant: string;
  readonly run: string;
  readonly call: string;
  readonly effectKey: string;
  readonly args: JsonObject;
  /** The provider's reference, in evidence rules only. */
  readonly ref?: string | null;
  /** The next page's cursor, in evidence rules only. */
  readonly cursor?: string | number | null;
}

/** The names a placeholder may start with. */
export const PLACEHOLDER_ROOTS = ['tenant', 'run', 'call', 'effect_key', 'ref', 'cursor', 'args'] as const;
/** One of {@link PLACEHOLDER_ROOTS}. */
export type PlaceholderRoot = (typeof PLACEHOLDER_ROOTS)[number];

/** One `{…}`: `{args.a.b}` has root `args` and path `['a', 'b']`. Only `args` takes a path. */
export interface Placeholder {
  readonly root: PlaceholderRoot;
  readonly path: readonly string[];
}

/** How a placeholder's value is made safe for the place it stands in. Literal text is never encoded. */
export type Encoder = 'plain' | 'urlPath' | 'header' | 'capability';

/** Longest text one template may render to, and most characters one JSON template may put in. */
export const RENDERED_CHARS_MAX = 4 * 1024 * 1024;

type Part = string | Placeholder;

const TOKEN = /\{\{|\}\}|\{([^{}]*)\}|[{}]/g;

/**
 * The parts of a template text: literals and placeholders, `{{` and `}}` being literal braces.
 * @throws HoldfastError `bad_contract` for an unknown placeholder or a brace that is neither.
 */
export function parseTemplate(template: string): readonly Part[] {
  const known = parsed.get(template);
  if (known !== undefined) return known;
  const parts = partsOf(template);
  if (parsed.size >= PARSED_MAX) parsed.clear();
  parsed.set(template, parts);
  return parts;
}

/** Contracts are few and their templates are filled for each call. */
const parsed = new Map<string, readonly Part[]>();
const PARSED_MAX = 5_000;

function partsOf(template: string): readonly Part[] {
  const parts: Part[] = [];
  let literal = '';
  let end = 0;
  for (const match of template.matchAll(TOKEN)) {
    literal += template.slice(end, match.index);
    end = match.index + match[0].length;
    if (match[0] === '{{' || match[0] === '}}') {
      literal += match[0][0];
    } else if (match[1] === undefined) {
      throw new HoldfastError(
        'bad_contract',
        `a lone "${match[0]}" in a template; write "${match[0]}${match[0]}" for a brace`,
      );
    } else {
      if (literal !== '') parts.push(literal);
      literal = '';
      parts.push(placeholder(match[1]));
    }
  }
  literal += template.slice(end);
  if (literal !== '') parts.push(literal);
  return parts;
}

function placeholder(name: string): Placeholder {
  const [root, ...path] = name.split('.');
  const known = PLACEHOLDER_ROOTS.find((candidate) => candidate === root);
  if (known === undefined || path.includes('') || (known !== 'args' && path.length > 0)) {
    const all = PLACEHOLDER_ROOTS.map((candidate) => `{${candidate}}`).join(' ');
    throw new HoldfastError('bad_contract', `unknown placeholder {${name}}; there are ${all} and {args.name}`);
  }
  return { root: known, path };
}

/** `{args.a.b}` as it is written. */
export function placeholderText(placeholder: Placeholder): string {
  return `{${[placeholder.root, ...placeholder.path].join('.')}}`;
}

/**
 * All placeholders in a text or in the texts (not the keys) of a JSON template, in order, with repeats.
 * @throws HoldfastError `bad_contract`, place = JSON Pointer inside the template, as {@link parseTemplate} does.
 */
export function templatePlaceholders(template: JsonValue): Placeholder[] {
  const found: Placeholder[] = [];
  collect(template, [], found);
  return found;
}

function collect(template: JsonValue, path: (string | number)[], found: Placeholder[]): void {
  if (typeof template === 'string') {
    for (const part of parseAt(template, path)) if (typeof part !== 'string') found.push(part);
  } else if (typeof template === 'object' && template !== null) {
    for (const [key, child] of Object.entries(template)) collect(child as JsonValue, [...path, key], found);
  }
}

function parseAt(template: string, path: readonly (string | number)[]): readonly Part[] {
  try {
    return parseTemplate(template);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    throw new HoldfastError('bad_contract', error.message, { place: pointerOf(path) });
  }
}

/** What a placeholder stands for; `undefined` when the call does not give it. */
export function placeholderValue(placeholder: Placeholder, scope: Scope): JsonValue | undefined {
  switch (placeholder.root) {
    case 'tenant':
    case 'run':
    case 'call':
      return scope[placeholder.root];
    case 'effect_key':
      return scope.effectKey;
    case 'ref':
      return scope.ref ?? undefined;
    case 'cursor':
      return scope.cursor ?? undefined;
    case 'args': {
      let value: JsonValue | undefined = scope.args;
      for (const segment of placeholder.path) value = childOf(value, segment);
      return value;
    }
  }
}

/**
 * Fills a text template. Placeholders take texts, numbers and booleans.
 * @param place JSON Pointer of the template, for the error.
 * @throws HoldfastError `request_not_renderable` for a missing or unfit value, with place.
 */
export function renderText(template: string, scope: Scope, encode: Encoder, place = ''): string {
  let out = '';
  for (const part of parseTemplate(template)) {
    out += typeof part === 'string' ? part : encoded(part, scope, encode, place);
    if (out.length > RENDERED_CHARS_MAX) throw unfit(place, `renders to more than ${RENDERED_CHARS_MAX} characters`);
  }
  // A value alone may be harmless and complete a dot segment beside literal text or another value.
  if (encode === 'urlPath' && out.split('/').some((segment) => segment === '.' || segment === '..')) {
    throw unfit(place, 'the path would contain the segment "." or ".."');
  }
  return out;
}

function encoded(part: Placeholder, scope: Scope, encode: Encoder, place: string): string {
  const value = placeholderValue(part, scope);
  const name = placeholderText(part);
  if (value === undefined || value === null) throw unfit(place, `${name} is missing`);
  if (typeof value === 'object')
    throw unfit(place, `${name} is ${Array.isArray(value) ? 'a list' : 'an object'}, not a text`);
  const text = typeof value === 'number' ? JSON.stringify(value) : String(value);
  if (!text.isWellFormed()) throw unfit(place, `${name} holds a lone surrogate`);
  switch (encode) {
    case 'plain':
      return text;
    case 'urlPath':
      // An empty segment would address the collection instead of the thing.
      if (text === '') throw unfit(place, `${name} is empty`);
      return encodeURIComponent(text);
    case 'header':
      if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) throw unfit(place, `${name} holds a character no header may carry`);
      return text;
    case 'capability':
      if (text === '') throw unfit(place, `${name} is empty`);
      return percentEncode(text);
  }
}

/** Leaves only `A-Z a-z 0-9 . _ ~ @ -`, so that no value can add a segment or a wildcard. */
function percentEncode(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%40', '@');
}

/**
 * Fills a JSON template. A text that is exactly one placeholder keeps the value's JSON type; a property whose
 * only content is a missing `{args…}` or `{cursor}` is dropped. Keys are literal.
 * @param place JSON Pointer of the template, for the error.
 * @throws HoldfastError `request_not_renderable` for what is missing anywhere else, or too large, with place.
 */
export function renderJson(template: JsonValue, scope: Scope, place = ''): JsonValue {
  const value = fill(template, scope, place, { left: RENDERED_CHARS_MAX });
  if (value === undefined) throw unfit(place, `${String(template)} is missing`);
  return value;
}

/** Like {@link renderJson}, but `undefined` when the whole template is one missing optional placeholder. */
export function renderJsonOptional(template: JsonValue, scope: Scope, place = ''): JsonValue | undefined {
  return fill(template, scope, place, { left: RENDERED_CHARS_MAX });
}

interface Budget {
  left: number;
}

function fill(template: JsonValue, scope: Scope, place: string, budget: Budget): JsonValue | undefined {
  if (typeof template === 'string') return fillText(template, scope, place, budget);
  if (typeof template !== 'object' || template === null) return template;
  if (Array.isArray(template)) {
    return template.map((item: JsonValue, index) => {
      const at = `${place}/${index}`;
      const value = fill(item, scope, at, budget);
      // Dropping an element would move its neighbours to other positions.
      if (value === undefined) throw unfit(at, `${String(item)} is missing`);
      return value;
    });
  }
  const members: [string, JsonValue][] = [];
  for (const [key, child] of Object.entries(template as JsonObject)) {
    const value = fill(child, scope, place + pointerOf([key]), budget);
    if (value !== undefined) members.push([key, value]);
  }
  return Object.fromEntries(members);
}

function fillText(template: string, scope: Scope, place: string, budget: Budget): JsonValue | undefined {
  const parts = parseTemplate(template);
  const [only] = parts;
  if (parts.length !== 1 || only === undefined || typeof only === 'string') {
    const text = renderText(template, scope, 'plain', place);
    spend(budget, text, place);
    return text;
  }
  const value = placeholderValue(only, scope);
  if (value === undefined) {
    // A look without its reference would ask about everything, so only these two may be left out.
    if (only.root === 'args' || only.root === 'cursor') return undefined;
    throw unfit(place, `${placeholderText(only)} is missing`);
  }
  spend(budget, value, place);
  return value;
}

/** Counts characters put in, so that a template that repeats `{args}` cannot multiply them without end. */
function spend(budget: Budget, value: JsonValue, place: string): void {
  budget.left -= typeof value === 'string' ? value.length : 8;
  if (budget.left < 0) throw unfit(place, `renders to more than ${RENDERED_CHARS_MAX} characters`);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of Object.entries(value)) {
    budget.left -= key.length;
    spend(budget, child as JsonValue, place);
  }
}

function unfit(place: string, why: string): HoldfastError {
  return new HoldfastError('request_not_renderable', place === '' ? why : `${place}: ${why}`, { place });
}
