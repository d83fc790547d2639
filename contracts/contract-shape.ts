import { z } from 'zod';
import {
  ANSWER_MEANINGS,
  type ContractRef,
  type Digest,
  EFFECT_CLASSES,
  type JsonObject,
  type JsonValue,
} from './contract.ts';
import { isToolName, isVersion, parseContractRef } from './contract-ref.ts';
import { isDigest } from './digest.ts';
import { isPlace } from './place.ts';
import { isPointer } from './pointer.ts';
import { parseDuration, parseSize } from './units.ts';

/**
 * The keys of a contract file, as zod schemas: snake_case, unknown keys refused, units read. The defaults here are
 * not part of any digest, so they may never change: a published contract has to keep meaning what it meant.
 */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A strict object whose complaint about unknown keys lists the known ones, from which the hint is made. */
function strict<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? Object.keys(shape).join(' ') : 'expected an object'),
  });
}

function text(charsMax: number, charsMin = 1) {
  return z
    .string({ error: 'expected a text' })
    .min(charsMin, { error: 'must not be empty' })
    .max(charsMax, { error: `longer than ${charsMax} characters` });
}

function matching(test: (text: string) => boolean, expected: string) {
  return z.string({ error: `expected ${expected}` }).refine(test, { error: `expected ${expected}` });
}

function list<Item extends z.ZodType>(item: Item, itemsMax: number) {
  return z.array(item, { error: 'expected a list' }).max(itemsMax, { error: `more than ${itemsMax} entries` });
}

function duration(msMin: number, msMax: number) {
  const expected = 'expected a duration such as 250ms, 5s, 10m, 24h or 90d';
  return z.string({ error: expected }).transform((value, context) => {
    const ms = parseDuration(value);
    if (ms !== undefined && ms >= msMin && ms <= msMax) return ms;
    context.addIssue({
      code: 'custom',
      message: ms === undefined ? expected : `expected ${msMin} to ${msMax} milliseconds`,
    });
    return z.NEVER;
  });
}

const size = z.string({ error: 'expected a size such as 16KiB or 1MiB' }).transform((value, context) => {
  const bytes = parseSize(value);
  if (bytes !== undefined && bytes >= 1 && bytes <= 16 * 1024 * 1024) return bytes;
  context.addIssue({ code: 'custom', message: 'expected a size from 1B to 16MiB, such as 16KiB' });
  return z.NEVER;
});

/** The reader has made sure that everything is JSON; here only the kind is asked. */
const json = z.custom<JsonValue>((value) => value !== undefined, { error: 'expected a value' });
const object = z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
  error: 'expected an object',
});
const flag = z.boolean({ error: 'expected true or false' });
const pointer = matching(isPointer, 'a JSON Pointer such as /invoice/id');
const place = matching(isPlace, 'a JSON Pointer such as /invoice/id, or "header NAME"');

const word = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: `expected one of ${values.join(', ')}` });

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;
const CREDENTIAL = /^[A-Za-z0-9._-]{1,64}$/;
const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const STATUS = /^(?:[1-5]xx|-?[0-9]{1,6}|[a-z][a-z_]{0,31})$/;

/** True for an HTTP header's name of 1 to 128 characters (RFC 9110 token). */
export const isHeaderName = (name: string): boolean => HEADER.test(name);

type Status = number | string;

const isStatus = (value: unknown): value is Status =>
  typeof value === 'number' ? Number.isInteger(value) : typeof value === 'string' && STATUS.test(value);

/** One status or a list of them. */
const status = z
  .custom<Status | readonly Status[]>(
    (value) =>
      Array.isArray(value) ? value.length > 0 && value.length <= 64 && value.every(isStatus) : isStatus(value),
    { error: 'expected a code such as 404, a class such as 4xx, a word such as ok, or a list of these' },
  )
  .transform((value): readonly Status[] => (Array.isArray(value) ? value : [value as Status]));

const wherePairs = z
  .record(place, json, { error: 'expected an object of JSON Pointers' })
  .refine((value) => Object.keys(value).length <= 32, { error: 'more than 32 entries' });

const pattern = strict({ status: status.optional(), where: wherePairs.optional() });

const answer = strict({
  status: status.optional(),
  where: wherePairs.optional(),
  means: word(ANSWER_MEANINGS),
  ref: place.optional(),
  parts: pointer.optional(),
});

const contractRef = z.string({ error: 'expected tool@version#digest' }).transform((value, context): ContractRef => {
  try {
    return parseContractRef(value);
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : String(error) });
    return z.NEVER;
  }
});

const evidence = strict({
  call: contractRef,
  by: word(['key', 'ref', 'listing', 'search', 'state']),
  with: object.default({}),
  found: pattern,
  absent: pattern.optional(),
  items: pointer.optional(),
  next: pointer.optional(),
  cursor_arg: text(128).optional(),
  equals: wherePairs.default({}),
  reference: place.optional(),
  result: pointer.optional(),
  absence: word(['proves', 'suggests']).default('suggests'),
  lag: duration(0, 30 * DAY).optional(),
  retention: duration(1, 3650 * DAY).optional(),
});

const http = strict({
  method: word(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: text(2048),
  query: object.default({}),
  headers: z
    .record(matching(isHeaderName, 'a header name'), text(4096, 0), { error: 'expected an object of header values' })
    .default({}),
  body: json.optional(),
  secret_as: matching(
    (value) => value === 'bearer' || (value.startsWith('header ') && isHeaderName(value.slice(7))),
    'bearer, or "header NAME"',
  ).default('bearer'),
});

const mcp = strict({
  tool: text(128),
  arguments: json.default('{args}'),
  upstream: z.custom<Digest>(isDigest, { error: 'expected a digest sha256/v1:<64 hex digits>' }).optional(),
});

const mail = strict({
  send: strict({ from: text(512), to: text(512), subject: text(2048, 0), text: text(65_536, 0) }).optional(),
  find: strict({ message_id: text(512), mailbox: text(256).default('INBOX') }).optional(),
});

const execution = strict({
  provider: matching((value) => NAME.test(value), 'a provider name: lower-case letters, digits, _ and -'),
  effect: word(EFFECT_CLASSES).default('UNKNOWN'),
  capabilities: list(text(256), 64).default([]),
  credential: matching((value) => CREDENTIAL.test(value), 'a credential name').optional(),
  timeout: duration(1, DAY).default(20_000),
  send_by: duration(1, HOUR).default(5_000),
  in_flight_max: duration(0, 7 * DAY).default(60_000),
  http: http.optional(),
  mcp: mcp.optional(),
  mail: mail.optional(),
  idempotency: strict({
    send_as: matching(
      (value) =>
        (value.startsWith('header ') && isHeaderName(value.slice(7))) ||
        /^query \S{1,128}$/.test(value) ||
        (value.startsWith('body /') && isPointer(value.slice(5)) && !/\s/.test(value.slice(5))),
      '"header NAME", "query NAME" or "body /pointer"',
    ).optional(),
    window: duration(1, 3650 * DAY).optional(),
    on_mismatch: word(['error']).default('error'),
  }).optional(),
  key: strict({
    alphabet: word(['hex', 'uuid', 'base62']),
    length: z.int({ error: 'expected a whole number' }).optional(),
  }).optional(),
  resource: list(text(256), 16).default([]),
  exclusive_writer: flag.default(false),
  concurrent: word(['safe', 'unsafe']).default('unsafe'),
  repeats: word(['allowed', 'refused']).default('refused'),
  evidence: evidence.optional(),
  answers: list(answer, 64).default([]),
  on_unknown: strict({ wait: duration(0, 30 * DAY).default(5_000) }).optional(),
});

/** The whole file. */
export const contractShape = strict({
  tool: matching(isToolName, 'a dotted lower-case name such as billing.send_invoice'),
  version: matching(isVersion, 'a semantic version such as 2.1.0'),
  owner: text(128),
  selection: strict({
    title: text(200).optional(),
    description: text(8192),
    use_when: list(text(1024), 32).default([]),
    do_not_use_when: list(text(1024), 32).default([]),
  }),
  parameters: object,
  execution,
  returns: strict({
    schema: object.optional(),
    size_max: size.default(1024 * 1024),
    redact: list(pointer, 64).default([]),
  }).optional(),
  behaviour: object.optional(),
  compatibility: object.optional(),
});

/** What {@link contractShape} gives: the file's keys, units read and defaults in place. */
export type ContractShape = z.output<typeof contractShape>;
