import type { AnswerRule, Contract, JsonValue } from '../contracts/contract.ts';
import { compileSchema, type SchemaProblem } from '../contracts/json-schema.ts';
import { headerOfPlace } from '../contracts/place.ts';
import { childOf, getPointer } from '../contracts/pointer.ts';
import type { Answer, ProviderAnswer, ResultNotes } from './answer.ts';
import { keep } from './kept-result.ts';
import { isSuccess, matchesStatus, matchWhere, type Response, referenceAt } from './match.ts';
import { soundAnswer } from './sound.ts';

const MESSAGE_CHARS_MAX = 300;
/** Codes that say "not now" and nothing about the call: even for a PURE call no refusal. */
const NOT_NOW = new Set([408, 425, 429, 499]);
/** JSON-RPC codes with which a server says that it did not understand the request. */
const RPC_REFUSALS = new Set(['-32700', '-32600', '-32601', '-32602']);

/**
 * What a provider's answer means under the contract (PROTOCOL 5.3). Pure; never throws.
 *
 * The contract's `answers` come first, in order. Then the defaults, which claim as little as they can: success is
 * applied, 202 is accepted, and everything else is no answer. A PURE call may hear "refused" more often, since
 * nothing hangs on it; a mail server's own 4yz or 5yz reply to the transaction is a refusal by RFC 5321, and a mail
 * taken for some recipients only is applied partly.
 *
 * Results are redacted by `returns.redact` and cut at `returns.size_max`. A result that does not fit
 * `returns.schema` is flagged and applied all the same: the provider has acted. For MCP the schema is held against
 * `structuredContent` where there is one.
 */
export function readAnswer(contract: Contract, given: ProviderAnswer): Answer {
  const answer = soundAnswer(given);
  if (answer.kind !== 'response') return answer;
  const rule = ruleFor(contract.execution.answers, answer);
  if (rule === 'unreadable') {
    return noAnswer(contract, answer, 'the body cannot be read, so the rules of the contract cannot be applied to it');
  }
  return rule === undefined ? byDefault(contract, answer) : byRule(contract, rule, answer);
}

/** First match wins. A rule that would look into a body that is not there to be looked into leaves all open. */
function ruleFor(rules: readonly AnswerRule[], answer: Response): AnswerRule | 'unreadable' | undefined {
  for (const rule of rules) {
    if (rule.status !== undefined && !matchesStatus(rule.status, answer.status)) continue;
    if (unreadable(rule, answer)) return 'unreadable';
    if (matchWhere(rule.where, answer) === 'yes') return rule;
  }
  return undefined;
}

function unreadable(rule: AnswerRule, { body, truncated }: Response): boolean {
  const inBody = Object.keys(rule.where ?? {}).filter((place) => headerOfPlace(place) === undefined);
  if (truncated === true) return inBody.length > 0;
  return (typeof body !== 'object' || body === null) && inBody.some((pointer) => pointer !== '');
}

function byRule(contract: Contract, rule: AnswerRule, answer: Response): Answer {
  const reference = referenceOf(contract, answer, rule.ref);
  switch (rule.means) {
    case 'applied':
      return { kind: 'applied', ...resultOf(contract, answer), reference };
    case 'applied_partly':
      return partly(contract, answer, rule.parts, rule.ref);
    case 'accepted':
      return { kind: 'accepted', reference };
    case 'refused':
      return refused(contract, answer);
    case 'no_answer':
      return noAnswer(contract, answer, `the contract reads ${answer.status} as no answer`, rule.ref);
  }
}

function byDefault(contract: Contract, answer: Response): Answer {
  const { status } = answer;
  if (isSuccess(status)) {
    const rejected = contract.execution.transport.kind === 'mail' ? childOf(answer.body, 'rejected') : undefined;
    if (Array.isArray(rejected) && rejected.length > 0) return partly(contract, answer, '');
    return { kind: 'applied', ...resultOf(contract, answer), reference: referenceOf(contract, answer) };
  }
  if (status === 202 && contract.execution.transport.kind === 'http') {
    return { kind: 'accepted', reference: referenceOf(contract, answer) };
  }
  if (isRefusal(contract, answer)) return refused(contract, answer);
  return noAnswer(contract, answer, `${status} does not say whether it happened`);
}

function partly(contract: Contract, answer: Response, partsAt: string | undefined, ref?: string): Answer {
  const { result, ...notes } = resultOf(contract, answer);
  const parts = partsAt === undefined ? null : (getPointer(result, partsAt) ?? null);
  return { kind: 'applied_partly', result, parts, reference: referenceOf(contract, answer, ref), ...notes };
}

function isRefusal(contract: Contract, { status, body }: Response): boolean {
  const { transport, effect } = contract.execution;
  if (transport.kind === 'mail') return isMailRefusal(status, body);
  if (effect !== 'PURE') return false;
  if (transport.kind === 'mcp' && (status === 'error' || RPC_REFUSALS.has(String(status)))) return true;
  return typeof status === 'number' && status >= 400 && status < 500 && !NOT_NOW.has(status);
}

/** RFC 5321 section 4.2.1: after a 4yz or 5yz reply to the transaction the server has not taken the mail. */
function isMailRefusal(status: number | string, body: JsonValue): boolean {
  const command = childOf(body, 'command');
  const inTransaction = typeof command === 'string' && /^(?:MAIL|RCPT|DATA)\b/i.test(command);
  return inTransaction && typeof status === 'number' && status >= 400 && status <= 599;
}

function refused(contract: Contract, answer: Response): Answer {
  const { result } = resultOf(contract, answer, false);
  return { kind: 'refused', code: 'refused_by_provider', message: messageOf(answer.status, result), result };
}

/** Says the status and, where the (redacted) body has the usual fields, the provider's own words. */
function messageOf(status: number | string, result: JsonValue): string {
  const said = ['/message', '/error/message', '/error', '/detail', '/title', '/response', '/content/0/text']
    .map((pointer) => getPointer(result, pointer))
    .find((value) => typeof value === 'string' && value !== '');
  // Postgres takes no NUL in a text, and nobody wants the others in an error.
  const words = (typeof said === 'string' ? said : typeof result === 'string' ? result : '').replace(/\p{Cc}+/gu, ' ');
  const short = words.length > MESSAGE_CHARS_MAX ? `${words.slice(0, MESSAGE_CHARS_MAX).toWellFormed()}…` : words;
  return short === '' ? `the provider answered ${status}` : `the provider answered ${status}: ${short}`;
}

function noAnswer(contract: Contract, answer: Response, why: string, ref?: string): Answer {
  const reference = referenceOf(contract, answer, ref);
  return { kind: 'no_answer', why, ...(reference !== null && { reference }) };
}

/** The provider's own id is kept as soon as it is seen, whatever the answer means. */
function referenceOf(contract: Contract, answer: Response, ref?: string): string | null {
  return referenceAt(answer, ref ?? contract.execution.evidence?.reference);
}

function resultOf(contract: Contract, answer: Response, checked = true): { result: JsonValue } & ResultNotes {
  const { redact, sizeMaxBytes, schema } = contract.returns;
  // Half a body is no value; that it happened stands all the same, since the status says so.
  if (answer.truncated === true) return { result: null, resultTruncated: true };
  const { result, cut } = keep(answer.body, redact, sizeMaxBytes);
  const mismatch = checked && schema !== undefined ? mismatchOf(contract, answer.body) : [];
  return {
    result,
    ...(cut && { resultTruncated: true as const }),
    ...(mismatch.length > 0 && { returnsMismatch: mismatch }),
  };
}

function mismatchOf(contract: Contract, body: JsonValue): readonly SchemaProblem[] {
  const { schema } = contract.returns;
  if (schema === undefined) return [];
  const structured = contract.execution.transport.kind === 'mcp' ? childOf(body, 'structuredContent') : undefined;
  try {
    const verdict = compileSchema(schema)(structured ?? body);
    return verdict.ok ? [] : verdict.problems;
  } catch (error) {
    return [{ pointer: '', message: error instanceof Error ? error.message : 'the schema cannot be used' }];
  }
}
