import { HoldfastError } from '../effects/errors.ts';
import type { JsonObject, JsonValue } from './contract.ts';
import type { ContractShape } from './contract-shape.ts';
import { nearest } from './did-you-mean.ts';
import { getPointer, pointerOf } from './pointer.ts';
import type { Problem } from './problem.ts';
import {
  type Placeholder,
  type PlaceholderRoot,
  parseTemplate,
  placeholderText,
  templatePlaceholders,
} from './template.ts';

const CALL: readonly PlaceholderRoot[] = ['tenant', 'run', 'call', 'effect_key', 'args'];
const EVIDENCE: readonly PlaceholderRoot[] = [...CALL, 'ref'];
const PLACEHOLDERS_MAX = 256;

interface Place {
  readonly pointer: string;
  readonly template: JsonValue;
  readonly roots: readonly PlaceholderRoot[];
}

/** Checks every template of a contract: its syntax, and that each placeholder may stand where it stands. */
export function templateProblems(shape: ContractShape): Problem[] {
  const problems: Problem[] = [];
  let count = 0;
  for (const { pointer, template, roots } of templatesOf(shape).flatMap(textsOf)) {
    try {
      const found = templatePlaceholders(template);
      count += found.length;
      for (const placeholder of found) {
        const problem = placeholderProblem(placeholder, pointer, roots, shape.parameters);
        if (problem !== undefined) problems.push(problem);
      }
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      problems.push({ pointer, message: error.message });
    }
  }
  if (count > PLACEHOLDERS_MAX)
    problems.push({ pointer: '/execution', message: `more than ${PLACEHOLDERS_MAX} placeholders` });
  return [...problems, ...capabilityProblems(shape), ...answerProblems(shape)];
}

/** The placeholders of what is sent, for the check that a key travels. Malformed templates count as none. */
export function sentPlaceholders(shape: ContractShape): Placeholder[] {
  return templatesOf(shape)
    .filter(({ pointer }) => /^\/execution\/(?:http|mcp|mail)\b/.test(pointer))
    .flatMap(({ template }) => placeholdersOf(template));
}

/** As {@link templatePlaceholders}, with none for a malformed template, which is a problem told elsewhere. */
export function placeholdersOf(template: JsonValue): Placeholder[] {
  try {
    return templatePlaceholders(template);
  } catch {
    return [];
  }
}

function templatesOf(shape: ContractShape): Place[] {
  const { http, mcp, mail, evidence, capabilities, resource } = shape.execution;
  const places: Place[] = [];
  const add = (pointer: string, template: JsonValue | undefined, roots: readonly PlaceholderRoot[]): void => {
    if (template !== undefined) places.push({ pointer: `/execution${pointer}`, template, roots });
  };
  add('/http/path', http?.path, CALL);
  add('/http/query', http?.query, CALL);
  add('/http/headers', http?.headers, CALL);
  add('/http/body', http?.body, CALL);
  add('/mcp/arguments', mcp?.arguments, CALL);
  add('/mail/send', mail?.send, CALL);
  add('/mail/find', mail?.find, CALL);
  add('/capabilities', capabilities, ['tenant', 'run', 'args']);
  // A resource names the thing, not the call: two calls have to meet on it.
  add('/resource', resource, ['tenant', 'args']);
  add('/evidence/with', evidence?.with, [...EVIDENCE, 'cursor']);
  add('/evidence/found/where', evidence?.found.where, EVIDENCE);
  add('/evidence/absent/where', evidence?.absent?.where, EVIDENCE);
  add('/evidence/equals', evidence?.equals, EVIDENCE);
  return places;
}

/** The texts inside a template, each with its own pointer. */
function textsOf({ pointer, template, roots }: Place): Place[] {
  if (typeof template === 'string') return [{ pointer, template, roots }];
  if (typeof template !== 'object' || template === null) return [];
  return Object.entries(template).flatMap(([key, child]) =>
    textsOf({ pointer: pointer + pointerOf([key]), template: child as JsonValue, roots }),
  );
}

function placeholderProblem(
  placeholder: Placeholder,
  pointer: string,
  roots: readonly PlaceholderRoot[],
  parameters: JsonObject,
): Problem | undefined {
  const name = placeholderText(placeholder);
  if (!roots.includes(placeholder.root)) {
    const allowed = roots.map((root) => `{${root}}`).join(' ');
    return { pointer, message: `${name} may not stand here`, hint: `here are ${allowed}` };
  }
  const [argument] = placeholder.path;
  const properties = parameters['properties'];
  if (argument === undefined || parameters['additionalProperties'] !== false) return undefined;
  if (typeof properties !== 'object' || properties === null || Object.hasOwn(properties, argument)) return undefined;
  const near = nearest(argument, Object.keys(properties));
  return {
    pointer,
    message: `${name} names no property of the parameters`,
    ...(near !== undefined && { hint: `did you mean {args.${near}}?` }),
  };
}

/** A capability names one concrete thing; wildcards belong to grants. */
function capabilityProblems(shape: ContractShape): Problem[] {
  return shape.execution.capabilities.flatMap((template, index) => {
    const pointer = `/execution/capabilities/${index}`;
    let literal: string;
    try {
      literal = parseTemplate(template)
        .map((part) => (typeof part === 'string' ? part : 'x'))
        .join('');
    } catch {
      return [];
    }
    if (literal.includes('*'))
      return [{ pointer, message: 'a capability holds no "*"', hint: 'wildcards belong into grants' }];
    if (literal.split(':').includes('')) return [{ pointer, message: 'a capability has no empty segment' }];
    return [];
  });
}

/** The answers are read without the call at hand, so what stands in their `where` is literal. */
function answerProblems(shape: ContractShape): Problem[] {
  return shape.execution.answers.flatMap((rule, index) =>
    Object.entries(rule.where ?? {}).flatMap(([place, value]) =>
      placeholdersOf(value).length === 0
        ? []
        : [
            {
              pointer: `/execution/answers/${index}/where${pointerOf([place])}`,
              message: 'placeholders are not filled in answers',
              hint: 'compare with a literal value',
            },
          ],
    ),
  );
}

/** True when `{effect_key}` stands somewhere in the template. */
export function carriesKey(template: JsonValue | undefined): boolean {
  return template !== undefined && placeholdersOf(template).some(({ root }) => root === 'effect_key');
}

/** True when the parameters describe an object. */
export function isObjectSchema(parameters: JsonObject): boolean {
  return getPointer(parameters, '/type') === 'object';
}
