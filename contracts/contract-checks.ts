import { HoldfastError } from '../effects/errors.ts';
import type { JsonObject } from './contract.ts';
import type { ContractShape } from './contract-shape.ts';
import { compileSchema } from './json-schema.ts';
import { pointerOf } from './pointer.ts';
import type { Problem } from './problem.ts';
import { carriesKey, isObjectSchema, placeholdersOf, sentPlaceholders, templateProblems } from './template-checks.ts';

type Shape = ContractShape;
type Evidence = NonNullable<Shape['execution']['evidence']>;

/** Headers that belong to the connection or carry secrets; a contract names neither. */
const RESERVED_HEADERS = new Set([
  'authorization',
  'connection',
  'content-length',
  'cookie',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const KEY_LENGTHS = { hex: [20, 64], uuid: [36, 36], base62: [14, 43] } as const;

/** What one layer cannot see by itself: rules across keys, templates, schemas. All problems, in the order of the file. */
export function contractProblems(shape: Shape): Problem[] {
  return [
    ...schemaProblems(shape),
    ...transportProblems(shape),
    ...httpProblems(shape),
    ...classProblems(shape),
    ...keyProblems(shape),
    ...evidenceProblems(shape),
    ...answerProblems(shape),
    ...templateProblems(shape),
  ];
}

function schemaProblems({ parameters, returns }: Shape): Problem[] {
  const problems: Problem[] = [];
  if (!isObjectSchema(parameters)) problems.push({ pointer: '/parameters', message: 'must have "type: object"' });
  problems.push(...compileProblems(parameters, '/parameters'));
  if (returns?.schema !== undefined) problems.push(...compileProblems(returns.schema, '/returns/schema'));
  return problems;
}

function compileProblems(schema: JsonObject, pointer: string): Problem[] {
  try {
    compileSchema(schema);
    return [];
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return [{ pointer: pointer + (error.place ?? ''), message: error.message }];
  }
}

function transportProblems({ execution }: Shape): Problem[] {
  const given = (['http', 'mcp', 'mail'] as const).filter((kind) => execution[kind] !== undefined);
  if (given.length !== 1) {
    const found = given.length === 0 ? 'there is none' : `there are ${given.join(' and ')}`;
    return [{ pointer: '/execution', message: `needs exactly one of http, mcp and mail; ${found}` }];
  }
  const { mail, effect } = execution;
  if (mail === undefined) return [];
  if ((mail.send === undefined) === (mail.find === undefined)) {
    return [{ pointer: '/execution/mail', message: 'needs exactly one of send and find' }];
  }
  if (mail.find !== undefined && effect !== 'PURE') {
    return [{ pointer: '/execution/effect', message: 'a contract that finds mail is PURE' }];
  }
  return [];
}

function httpProblems({ execution }: Shape): Problem[] {
  const { http } = execution;
  if (http === undefined) return [];
  const problems: Problem[] = [];
  const pointer = '/execution/http/path';
  if (!/^\/(?!\/)/.test(http.path)) problems.push({ pointer, message: 'must begin with one "/"' });
  if (!/^[A-Za-z0-9._~!$&'()*+,;=:@%/{}-]*$/.test(http.path.replace(/\{[^{}]*\}/g, ''))) {
    const hint = http.path.includes('?') ? 'what follows "?" belongs under http.query' : 'percent-encode it';
    problems.push({ pointer, message: 'holds a character that a path may not have', hint });
  }
  if (http.path.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment))) {
    problems.push({ pointer, message: 'has a segment "." or ".."' });
  }
  const seen = new Set<string>();
  for (const name of Object.keys(http.headers)) {
    const at = `/execution/http/headers${pointerOf([name])}`;
    const lower = name.toLowerCase();
    const hint = 'the credential travels as http.secret_as says';
    if (RESERVED_HEADERS.has(lower))
      problems.push({ pointer: at, message: 'this header is not for contracts', hint, atKey: true });
    if (seen.has(lower)) problems.push({ pointer: at, message: 'this header stands twice', atKey: true });
    seen.add(lower);
  }
  return problems;
}

function classProblems(shape: Shape): Problem[] {
  const { effect, idempotency, evidence, mail } = shape.execution;
  if (effect === 'PURE') {
    const problems: Problem[] = [];
    const message = 'a PURE contract has no effect, so it has no';
    if (idempotency !== undefined)
      problems.push({ pointer: '/execution/idempotency', message: `${message} idempotency`, atKey: true });
    if (evidence !== undefined)
      problems.push({ pointer: '/execution/evidence', message: `${message} evidence`, atKey: true });
    if (mail?.send !== undefined) problems.push({ pointer: '/execution/effect', message: 'sending mail is not PURE' });
    return problems;
  }
  if (effect !== 'IDEMPOTENT') return [];
  const problems: Problem[] = [];
  if (idempotency?.window === undefined) {
    problems.push({
      pointer: '/execution/idempotency/window',
      message: 'IDEMPOTENT needs the time for which the provider remembers a key',
      hint: 'for example: idempotency: { send_as: header Idempotency-Key, window: 24h }',
    });
  }
  const carried = sentPlaceholders(shape).some(({ root }) => root === 'effect_key');
  if (idempotency?.send_as === undefined && !carried && mail?.send === undefined) {
    problems.push({
      pointer: '/execution/idempotency',
      message: 'IDEMPOTENT needs the effect key to travel',
      hint: 'set idempotency.send_as, or put {effect_key} into the request',
    });
  }
  return problems;
}

function keyProblems({ execution }: Shape): Problem[] {
  const { key, idempotency, http } = execution;
  const problems: Problem[] = [];
  if (key?.length !== undefined) {
    const [min, max] = KEY_LENGTHS[key.alphabet];
    if (key.length < min || key.length > max) {
      const message = `a key of alphabet ${key.alphabet} has ${min === max ? min : `${min} to ${max}`} characters`;
      problems.push({ pointer: '/execution/key/length', message });
    }
  }
  const sendAs = idempotency?.send_as;
  const pointer = '/execution/idempotency/send_as';
  if (sendAs === undefined) return problems;
  const places = http !== undefined ? ['header', 'query', 'body'] : execution.mcp !== undefined ? ['body'] : [];
  if (!places.some((each) => sendAs.startsWith(`${each} `))) {
    const message = `a key cannot travel there; this transport has ${places.join(', ') || 'no such place'}`;
    problems.push({
      pointer,
      message,
      hint: 'for MCP: body /pointer into the arguments; a mail carries its key by itself',
    });
  }
  if (sendAs.startsWith('header ')) {
    const name = sendAs.slice(7).toLowerCase();
    const taken = Object.keys(http?.headers ?? {}).some((other) => other.toLowerCase() === name);
    const secret = http?.secret_as.toLowerCase() === `header ${name}`;
    if (taken || secret || RESERVED_HEADERS.has(name))
      problems.push({ pointer, message: `the header ${name} is taken` });
  }
  return problems;
}

function evidenceProblems(shape: Shape): Problem[] {
  const { evidence, http, mcp, mail, answers } = shape.execution;
  if (evidence === undefined || [http, mcp, mail].every((transport) => transport === undefined)) return [];
  const problems: Problem[] = [...patternProblems(evidence), ...pagingProblems(evidence)];
  const add = (key: string, message: string, hint?: string): void => {
    problems.push({ pointer: `/execution/evidence/${key}`, message, ...(hint !== undefined && { hint }) });
  };
  if (evidence.absence === 'proves') {
    if (evidence.by === 'state') add('absence', 'a state that differs proves nothing: it may have been changed since');
    if (evidence.lag === undefined)
      add('lag', 'absence that proves needs the time after which a look shows the effect');
    if (evidence.retention === undefined)
      add('retention', 'absence that proves needs the time for which the provider keeps the effect');
  }
  const asked = placeholdersOf(evidence.with);
  const identified = carriesKey(evidence.with) || carriesKey(evidence.found.where);
  if (evidence.by === 'key' && !identified)
    add('with', 'evidence by key has to name {effect_key}', 'in "with", or in found.where');
  if (evidence.by === 'ref' && !asked.some(({ root }) => root === 'ref'))
    add('with', 'evidence by ref has to name {ref}');
  if (evidence.by === 'ref' && evidence.reference === undefined && answers.every((rule) => rule.ref === undefined)) {
    add('by', 'no answer gives a reference', 'set "ref" in a rule of answers, or evidence.reference');
  }
  return problems;
}

function patternProblems(evidence: Evidence): Problem[] {
  const { by, found, absent, items } = evidence;
  const pointer = '/execution/evidence';
  const problems: Problem[] = [];
  const paged = items !== undefined;
  const empty = (pattern: typeof found): boolean =>
    pattern.status === undefined && Object.keys(pattern.where ?? {}).length === 0;
  if (absent === undefined && by !== 'state') {
    problems.push({
      pointer: `${pointer}/absent`,
      message: 'is required: absence needs a positive pattern of its own',
    });
  }
  if (empty(found) || ((paged || by === 'state') && Object.keys(found.where ?? {}).length === 0)) {
    const message =
      paged || by === 'state' ? 'needs "where": what an item or the state looks like' : 'needs status or where';
    problems.push({ pointer: `${pointer}/found`, message });
  }
  if (absent !== undefined && !paged && by !== 'state' && empty(absent)) {
    problems.push({
      pointer: `${pointer}/absent`,
      message: 'needs status or where; an empty pattern fits every answer',
    });
  }
  return problems;
}

function pagingProblems(evidence: Evidence): Problem[] {
  const { by, items, next, cursor_arg } = evidence;
  const pointer = '/execution/evidence';
  const problems: Problem[] = [];
  if ((by === 'listing' || by === 'search') && items === undefined) {
    problems.push({ pointer: `${pointer}/items`, message: `evidence by ${by} needs the pointer to the page's list` });
  }
  if (by === 'state' && items !== undefined)
    problems.push({ pointer: `${pointer}/items`, message: 'a state is no list' });
  if (next !== undefined && items === undefined)
    problems.push({ pointer: `${pointer}/next`, message: 'pages need "items"' });
  const takesCursor = cursor_arg !== undefined || placeholdersOf(evidence.with).some(({ root }) => root === 'cursor');
  if (next !== undefined && !takesCursor) {
    problems.push({
      pointer: `${pointer}/cursor_arg`,
      message: 'a next page needs the argument that takes the cursor',
    });
  }
  if (next === undefined && takesCursor) {
    problems.push({ pointer: `${pointer}/next`, message: 'a cursor needs the pointer at which pages give it' });
  }
  return problems;
}

function answerProblems({ execution }: Shape): Problem[] {
  return execution.answers.flatMap((rule, index) => {
    const pointer = `/execution/answers/${index}`;
    const problems: Problem[] = [];
    if (rule.status === undefined && Object.keys(rule.where ?? {}).length === 0) {
      problems.push({ pointer, message: 'needs status or where; without both it fits every answer' });
    }
    if ((rule.parts !== undefined) !== (rule.means === 'applied_partly')) {
      problems.push({ pointer, message: 'parts and "means: applied_partly" belong together' });
    }
    return problems;
  });
}
