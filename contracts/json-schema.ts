import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as formats from 'ajv-formats';
import { HoldfastError } from '../effects/errors.ts';
import { canonicalJson } from './canonical-json.ts';
import type { JsonSchema, JsonValue } from './contract.ts';
import { sha256Hex } from './digest.ts';
import { patternRisk } from './pattern-risk.ts';
import { checkSchemaShape, SCHEMA_BYTES_MAX, type SchemaDraft } from './schema-shape.ts';

/** One way in which a value does not fit its schema. */
export interface SchemaProblem {
  /** JSON Pointer into the value. */
  readonly pointer: string;
  readonly message: string;
}

/** Whether a value fits; with at most 20 problems. */
export type SchemaVerdict = { readonly ok: true } | { readonly ok: false; readonly problems: readonly SchemaProblem[] };
/** Checks one value. Never throws. */
export type SchemaCheck = (value: JsonValue) => SchemaVerdict;

/** Most problems told about one value. */
const PROBLEMS_MAX = 20;
/** Compiled validators kept. */
const CACHE_MAX = 500;
/** Ajv keeps every compiled schema's constants in its scope for ever, so an instance is left to the collector after this many. */
const COMPILES_PER_INSTANCE = 200;

const byDigest = new Map<string, SchemaCheck>();
/** Contracts are frozen, so one schema object never changes its content: this saves the hot path a digest. */
const byObject = new WeakMap<object, SchemaCheck>();
const shared = new Map<SchemaDraft, { ajv: Ajv; compiles: number }>();

/**
 * Compiles a JSON Schema (2020-12, or draft-07 where `$schema` says so) to a check that never throws. Compiled
 * checks are cached by content. No defaults are filled in, nothing is coerced, only own properties count.
 *
 * @throws HoldfastError `bad_contract`, place = JSON Pointer, for a schema that is malformed, larger than 256 KiB,
 * nested or expanding without measure, of another dialect, with a remote `$ref`, or with a pattern that can run away.
 */
export function compileSchema(schema: JsonSchema): SchemaCheck {
  const known = byObject.get(schema);
  if (known !== undefined) return known;
  const text = canonicalText(schema);
  const digest = sha256Hex(text);
  const check = byDigest.get(digest) ?? compile(JSON.parse(text) as JsonSchema);
  byDigest.delete(digest);
  byDigest.set(digest, check);
  for (const oldest of byDigest.keys()) {
    if (byDigest.size <= CACHE_MAX) break;
    byDigest.delete(oldest);
  }
  if (Object.isFrozen(schema)) byObject.set(schema, check);
  return check;
}

function canonicalText(schema: JsonSchema): string {
  let text: string;
  try {
    text = canonicalJson(schema);
  } catch (error) {
    const place = error instanceof HoldfastError ? error.place : undefined;
    throw badSchema(place ?? '', error instanceof Error ? error.message : String(error));
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > SCHEMA_BYTES_MAX)
    throw badSchema('', `a schema of ${bytes} bytes; at most ${SCHEMA_BYTES_MAX} are taken`);
  return text;
}

function compile(schema: JsonSchema): SchemaCheck {
  const shape = checkSchemaShape(schema);
  // Ids and anchors register globally in an Ajv instance, so two schemas could answer each other's references.
  const ajv = shape.hasIds ? newAjv(shape.draft) : sharedAjv(shape.draft);
  let validate: ValidateFunction;
  try {
    validate = ajv.compile(schema);
  } catch (error) {
    throw badSchema('', error instanceof Error ? error.message : String(error));
  } finally {
    ajv.removeSchema(schema);
  }
  return (value) => {
    try {
      return validate(value) ? { ok: true } : { ok: false, problems: problemsOf(validate.errors) };
    } catch (error) {
      // Recursion through the value ends here, as do texts that are too long for their pattern.
      const message = error instanceof TextTooLong ? error.message : 'the value is nested too deeply to be checked';
      if (!(error instanceof RangeError || error instanceof TextTooLong)) throw error;
      return { ok: false, problems: [{ pointer: '', message }] };
    }
  };
}

function sharedAjv(draft: SchemaDraft): Ajv {
  const held = shared.get(draft);
  if (held !== undefined && held.compiles < COMPILES_PER_INSTANCE) {
    held.compiles += 1;
    return held.ajv;
  }
  const ajv = newAjv(draft);
  shared.set(draft, { ajv, compiles: 1 });
  return ajv;
}

function newAjv(draft: SchemaDraft): Ajv {
  const options: Options = {
    strict: false,
    logger: false,
    allErrors: true,
    // `required: ["valueOf"]` would accept {} otherwise.
    ownProperties: true,
    addUsedSchema: false,
    // A large definition that is referred to often would be copied into the code each time.
    inlineRefs: false,
    // 19.99 is a multiple of 0.01.
    multipleOfPrecision: 10,
    code: { regExp: Object.assign(boundedRegExp, { code: 'boundedRegExp' }) },
  };
  const ajv = draft === '2020-12' ? new Ajv2020(options) : new Ajv(options);
  formats.default.default(ajv);
  // Ajv compares each pair of objects, which takes minutes on an array that fits the payload limit.
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (wanted: boolean, items: readonly JsonValue[]) =>
      !wanted || new Set(items.map((item) => canonicalJson(item))).size === items.length,
  });
  return ajv as Ajv;
}

class TextTooLong extends Error {}

/** What Ajv runs patterns with: refuses dangerous ones, and texts on which a slow one could take seconds. */
function boundedRegExp(pattern: string, flags: string): { test(text: string): boolean; toString(): string } {
  const risk = patternRisk(pattern);
  if (!risk.safe) throw new Error(`the pattern ${JSON.stringify(pattern.slice(0, 80))} ${risk.why}`);
  const regExp = lenientRegExp(pattern, flags);
  return {
    test(text) {
      if (text.length > risk.charsMax) {
        throw new TextTooLong(
          `a text of ${text.length} characters is too long for the pattern ${pattern.slice(0, 80)}`,
        );
      }
      return regExp.test(text);
    },
    toString: () => String(regExp),
  };
}

/** Foreign schemas escape characters that flag `u` forbids to escape. */
function lenientRegExp(pattern: string, flags: string): RegExp {
  try {
    return new RegExp(pattern, flags);
  } catch {
    return new RegExp(pattern);
  }
}

function problemsOf(errors: readonly ErrorObject[] | null | undefined): SchemaProblem[] {
  return (errors ?? [])
    .slice(0, PROBLEMS_MAX)
    .map((error) => ({ pointer: error.instancePath, message: messageOf(error) }));
}

function messageOf(error: ErrorObject): string {
  const message = error.message ?? `fails ${error.keyword}`;
  const { additionalProperty, unevaluatedProperty, allowedValues } = error.params as Record<string, unknown>;
  const extra = additionalProperty ?? unevaluatedProperty;
  if (typeof extra === 'string') return `${message}: ${extra.slice(0, 80)}`;
  return Array.isArray(allowedValues) ? `${message}: ${JSON.stringify(allowedValues).slice(0, 200)}` : message;
}

function badSchema(place: string, why: string): HoldfastError {
  return new HoldfastError('bad_contract', place === '' ? why : `${place}: ${why}`, { place });
}
