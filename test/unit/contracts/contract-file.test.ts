import { describe, expect, test } from 'vitest';
import { canonicalJson } from '../../../contracts/canonical-json.ts';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { contractFromSource, parseContractFile } from '../../../contracts/contract-file.ts';
import { sha256v1 } from '../../../contracts/digest.ts';
import { HoldfastError } from '../../../effects/errors.ts';
import { contractWith, HTTP, INVOICE, textWith, ZERO_DIGEST } from './samples.ts';

interface Refusal {
  readonly code: string;
  readonly place: string | undefined;
  readonly lines: readonly string[];
}

function refusal(act: () => unknown): Refusal {
  try {
    act();
  } catch (error) {
    if (error instanceof HoldfastError)
      return { code: error.code, place: error.place, lines: error.message.split('\n') };
    throw error;
  }
  throw new Error('no error');
}

const parse = (text: string): Contract => parseContractFile(text, 'c.yaml');
const problems = (text: string): readonly string[] => refusal(() => parse(text)).lines;
const EVIDENCE = `call: "a.b@1.0.0#${ZERO_DIGEST}"`;

describe('parseContractFile', () => {
  test('reads every key of the file into the type, with units and defaults', () => {
    const { digests, digest, source, ...content } = parse(INVOICE);
    expect(content).toEqual({
      tool: 'billing.send_invoice',
      version: '2.1.0',
      owner: 'billing-platform',
      selection: {
        title: 'Send an invoice',
        description: 'Sends one invoice.',
        useWhen: ['the customer owes money'],
        doNotUseWhen: [],
      },
      parameters: source['parameters'],
      execution: {
        provider: 'billing',
        effect: 'IDEMPOTENT',
        capabilities: ['invoice:write:{tenant}'],
        credential: 'billing-writer',
        timeoutMs: 10_000,
        sendByMs: 5_000,
        inFlightMaxMs: 60_000,
        transport: {
          kind: 'http',
          method: 'POST',
          path: '/invoices/{args.invoice_id}',
          query: {},
          headers: {},
          body: { amount: '{args.amount}', note: '{args.note}' },
          secretAs: 'bearer',
        },
        idempotency: { sendAs: 'header Idempotency-Key', windowMs: 86_400_000 },
        key: { alphabet: 'hex', length: 64 },
        resource: ['invoice/{args.invoice_id}'],
        exclusiveWriter: false,
        concurrent: 'unsafe',
        repeats: 'refused',
        evidence: {
          call: { tool: 'billing.find_invoice', version: '1.3.0', digest: ZERO_DIGEST },
          by: 'key',
          with: { key: '{effect_key}' },
          found: { status: [200], where: { '/key': '{effect_key}' } },
          absent: { status: [404], where: { '/error': 'no_such_key' } },
          equals: { '/amount': '{args.amount}' },
          reference: '/id',
          absence: 'proves',
          lagMs: 2_000,
          retentionMs: 90 * 86_400_000,
        },
        answers: [
          { status: [400, 404, 422], means: 'refused' },
          { status: [202], means: 'accepted', ref: '/job/id' },
        ],
        onUnknown: { waitMs: 5_000 },
      },
      returns: { sizeMaxBytes: 16_384, redact: ['/secret'] },
      behaviour: {},
      compatibility: {},
    });
    expect(Object.keys(digests)).toEqual(['selection', 'parameters', 'execution', 'returns', 'behaviour']);
    expect(digest).toMatch(/^sha256\/v1:[0-9a-f]{64}$/);
  });

  test('an execution that says nothing but its transport gets the safe defaults', () => {
    expect(contractWith('mcp: { tool: do_it }').execution).toEqual({
      provider: 'sample',
      effect: 'UNKNOWN',
      capabilities: [],
      timeoutMs: 20_000,
      sendByMs: 5_000,
      inFlightMaxMs: 60_000,
      transport: { kind: 'mcp', tool: 'do_it', arguments: '{args}' },
      key: { alphabet: 'hex', length: 64 },
      resource: [],
      exclusiveWriter: false,
      concurrent: 'unsafe',
      repeats: 'refused',
      answers: [],
      onUnknown: { waitMs: 5_000 },
    });
  });

  test('a mail contract sends, or finds and is PURE', () => {
    const send = contractWith(
      'effect: IDEMPOTENT\nidempotency: { window: 1h }\nmail: { send: { from: a@b, to: c@d, subject: s, text: "{args.text}" } }',
    );
    expect(send.execution.transport).toEqual({
      kind: 'mail',
      send: { from: 'a@b', to: 'c@d', subject: 's', text: '{args.text}' },
    });
    const find = contractWith('effect: PURE\nmail: { find: { message_id: "{args.id}" } }');
    expect(find.execution.transport).toEqual({ kind: 'mail', find: { messageId: '{args.id}', mailbox: 'INBOX' } });
  });

  test('status takes one value or a list', () => {
    const contract = contractWith(
      `${HTTP}\nanswers: [{ status: 4xx, means: refused }, { status: [ok, 409, "-32602"], means: refused }]`,
    );
    expect(contract.execution.answers.map(({ status }) => status)).toEqual([['4xx'], ['ok', 409, '-32602']]);
  });

  test('the contract is frozen to its depth', () => {
    const contract = parse(INVOICE);
    const open: string[] = [];
    const walk = (value: unknown, at: string): void => {
      if (typeof value !== 'object' || value === null) return;
      if (!Object.isFrozen(value)) open.push(at);
      for (const [key, child] of Object.entries(value)) walk(child, `${at}/${key}`);
    };
    walk(contract, '');
    expect(open).toEqual([]);
  });

  test('every problem is told at once, each with line, column, pointer and hint', () => {
    const bad = INVOICE.replace('timeout: 10s', 'timeuot: 10s')
      .replace('window: 24h', 'window: 1y')
      .replace('status: 202', 'status: 2x2')
      .replace('title: Send', 'titel: Send');
    expect(refusal(() => parse(bad))).toEqual({
      code: 'bad_contract',
      place: 'c.yaml:5:3',
      lines: [
        'c.yaml:5:3 /selection/titel: unknown key "titel"; did you mean "title"?',
        'c.yaml:21:3 /execution/timeuot: unknown key "timeuot"; did you mean "timeout"?',
        'c.yaml:26:59 /execution/idempotency/window: expected a duration such as 250ms, 5s, 10m, 24h or 90d',
        'c.yaml:41:17 /execution/answers/1/status: expected a code such as 404, a class such as 4xx, a word such as ok, or a list of these',
      ],
    });
  });

  test('what is missing is told at the place where it belongs', () => {
    expect(problems('tool: a.b\nexecution: { provider: x }\n')).toEqual([
      'c.yaml:1:1 /version: is required: expected a semantic version such as 2.1.0',
      'c.yaml:1:1 /owner: is required: expected a text',
      'c.yaml:1:1 /selection: is required: expected an object',
      'c.yaml:1:1 /parameters: is required: expected an object',
    ]);
  });
});

describe('YAML that is refused', () => {
  test.each<[string, string, string]>([
    ['a duplicate key', 'a: 1\na: 2', 'c.yaml:2:1: Map keys must be unique'],
    [
      'an open bracket',
      'a: [b',
      'c.yaml:1:6: Flow sequence in block collection must be sufficiently indented and end with a ]',
    ],
    ['an empty file', '', 'c.yaml:1:1: the file is empty'],
    ['brackets without end', '['.repeat(20_000), 'nested deeper than 64'],
    ['an explicit tag', 'tool: !!str x', 'c.yaml:1:13 /tool: the tag tag:yaml.org,2002:str is not taken; remove it'],
    ['an unknown tag', 'tool: !js/function x', 'Unresolved tag: !js/function'],
    ['two documents', '--- {}\n--- {}', 'c.yaml:2:1: holds several documents; one file holds one contract'],
    ['a directive', '%YAML 1.1\n--- {}', 'c.yaml:1:1: directives are not taken; remove the lines that start with %'],
    ['__proto__', '__proto__: {}', 'c.yaml:1:1 /__proto__: the key __proto__ is not taken'],
    ['a number as key', '1: x', 'c.yaml:1:1: the key 1 is not a text; put it in quotes'],
    ['NaN', 'a: .nan', 'c.yaml:1:4 /a: NaN is not a JSON value'],
    [
      'an inexact number',
      'a: 12345678901234567890',
      'c.yaml:1:4 /a: 12345678901234567000 is too large to be exact; put it in quotes',
    ],
    ['an alias to itself', 'a: &x [*x]', 'nested deeper than 64'],
    ['an unknown alias', 'a: *x', 'c.yaml:1:4 /a: nothing is called *x'],
    [
      'more than 256 KiB',
      `# ${'x'.repeat(256 * 1024)}`,
      'c.yaml:1:1: the file has 262146 bytes; at most 262144 are read',
    ],
    ['a list', '- 1', 'c.yaml:1:1: expected an object'],
  ])('%s', (_, text, line) => {
    const found = problems(text);
    expect(found.find((each) => each.includes(line)) ?? found).toContain(line);
  });

  test('many aliases', () => {
    const text = `x: &a [1]\ny: [${'*a, '.repeat(101)}]`;
    expect(problems(text).some((line) => line.includes('more than 100 aliases'))).toBe(true);
  });

  test('aliases that multiply', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 10; i += 1)
      lines.push(
        `a${i}: &a${i} [${Array(9)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      );
    expect(refusal(() => parse(lines.join('\n'))).code).toBe('bad_contract');
  });

  test('yes and no stay texts, as YAML 1.2 has it', () => {
    expect(parse(textWith(HTTP, 'behaviour: { a: yes, b: no, c: on }')).behaviour).toEqual({
      a: 'yes',
      b: 'no',
      c: 'on',
    });
  });
});

describe('what the parts of a contract must agree on', () => {
  test.each<[string, string, string]>([
    ['no transport', 'effect: PURE', '/execution: needs exactly one of http, mcp and mail; there is none'],
    [
      'two transports',
      `${HTTP}\nmcp: { tool: x }`,
      '/execution: needs exactly one of http, mcp and mail; there are http and mcp',
    ],
    [
      'PURE with idempotency',
      `${HTTP}\neffect: PURE\nidempotency: { send_as: query k, window: 1h }`,
      '/execution/idempotency: a PURE contract has no effect, so it has no idempotency',
    ],
    [
      'PURE with evidence',
      `${HTTP}\neffect: PURE\nevidence: { ${EVIDENCE}, by: key, with: { k: "{effect_key}" }, found: { status: 200 }, absent: { status: 404 } }`,
      '/execution/evidence: a PURE contract has no effect, so it has no evidence',
    ],
    [
      'mail that is sent as PURE',
      'effect: PURE\nmail: { send: { from: a, to: b, subject: c, text: d } }',
      '/execution/effect: sending mail is not PURE',
    ],
    [
      'mail that is found as UNKNOWN',
      'mail: { find: { message_id: x } }',
      '/execution/effect: a contract that finds mail is PURE',
    ],
    [
      'IDEMPOTENT without a window',
      `${HTTP}\neffect: IDEMPOTENT\nidempotency: { send_as: query k }`,
      '/execution/idempotency/window: IDEMPOTENT needs the time for which the provider remembers a key',
    ],
    [
      'IDEMPOTENT without a travelling key',
      `${HTTP}\neffect: IDEMPOTENT\nidempotency: { window: 1h }`,
      '/execution/idempotency: IDEMPOTENT needs the effect key to travel',
    ],
    [
      'a key header that MCP has not',
      'mcp: { tool: x }\nidempotency: { send_as: header K, window: 1h }',
      '/execution/idempotency/send_as: a key cannot travel there; this transport has body',
    ],
    [
      'a key in the authorization header',
      `${HTTP}\nidempotency: { send_as: header Authorization, window: 1h }`,
      '/execution/idempotency/send_as: the header authorization is taken',
    ],
    [
      'a secret in a header',
      'http: { method: GET, path: /, headers: { Authorization: Bearer x } }',
      '/execution/http/headers/Authorization: this header is not for contracts; the credential travels as http.secret_as says',
    ],
    [
      'a query in the path',
      'http: { method: GET, path: "/a?b={args.b}" }',
      '/execution/http/path: holds a character that a path may not have; what follows "?" belongs under http.query',
    ],
    ['a dot segment', 'http: { method: GET, path: /a/%2E%2e/b }', '/execution/http/path: has a segment "." or ".."'],
    ['another host', 'http: { method: GET, path: //evil.example }', '/execution/http/path: must begin with one "/"'],
    [
      'a short key',
      `${HTTP}\nkey: { alphabet: hex, length: 8 }`,
      '/execution/key/length: a key of alphabet hex has 20 to 64 characters',
    ],
    [
      'evidence without absent',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: key, with: { k: "{effect_key}" }, found: { status: 200 } }`,
      '/execution/evidence/absent: is required: absence needs a positive pattern of its own',
    ],
    [
      'an empty absent',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: key, with: { k: "{effect_key}" }, found: { status: 200 }, absent: {} }`,
      '/execution/evidence/absent: needs status or where; an empty pattern fits every answer',
    ],
    [
      'a state that proves absence',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: state, found: { where: { /a: 1 } }, absence: proves, lag: 1s, retention: 1d }`,
      '/execution/evidence/absence: a state that differs proves nothing: it may have been changed since',
    ],
    [
      'proof without a lag',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: key, with: { k: "{effect_key}" }, found: { status: 200 }, absent: { status: 404 }, absence: proves, retention: 1d }`,
      '/execution/evidence/lag: absence that proves needs the time after which a look shows the effect',
    ],
    [
      'proof without a retention',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: key, with: { k: "{effect_key}" }, found: { status: 200 }, absent: { status: 404 }, absence: proves, lag: 1s }`,
      '/execution/evidence/retention: absence that proves needs the time for which the provider keeps the effect',
    ],
    [
      'evidence by key that names no key',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: key, with: { k: "{args.x}" }, found: { status: 200 }, absent: { status: 404 } }`,
      '/execution/evidence/with: evidence by key has to name {effect_key}; in "with", or in found.where',
    ],
    [
      'evidence by a reference nobody gives',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: ref, with: { k: "{ref}" }, found: { status: 200 }, absent: { status: 404 } }`,
      '/execution/evidence/by: no answer gives a reference; set "ref" in a rule of answers, or evidence.reference',
    ],
    [
      'a listing without items',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: listing, found: { where: { /a: 1 } }, absent: { status: 200 } }`,
      "/execution/evidence/items: evidence by listing needs the pointer to the page's list",
    ],
    [
      'pages without a cursor',
      `${HTTP}\nevidence: { ${EVIDENCE}, by: listing, items: /i, next: /n, found: { where: { /a: 1 } }, absent: { status: 200 } }`,
      '/execution/evidence/cursor_arg: a next page needs the argument that takes the cursor',
    ],
    [
      'a reference without digest',
      `${HTTP}\nevidence: { call: a.b@1.0.0, by: key, with: { k: "{effect_key}" }, found: { status: 200 }, absent: { status: 404 } }`,
      '/execution/evidence/call: not a contract reference: expected tool@version#sha256/v1:<64 hex digits>',
    ],
    [
      'an answer rule for everything',
      `${HTTP}\nanswers: [{ means: applied }]`,
      '/execution/answers/0: needs status or where; without both it fits every answer',
    ],
    [
      'parts without their meaning',
      `${HTTP}\nanswers: [{ status: 207, means: applied, parts: /p }]`,
      '/execution/answers/0: parts and "means: applied_partly" belong together',
    ],
    [
      'a placeholder in an answer',
      `${HTTP}\nanswers: [{ where: { /a: "{args.a}" }, means: refused }]`,
      '/execution/answers/0/where/~1a: placeholders are not filled in answers; compare with a literal value',
    ],
    [
      'an unknown placeholder',
      'http: { method: POST, path: /a, body: { x: ["{nope}"] } }',
      '/execution/http/body/x/0: unknown placeholder {nope}',
    ],
    [
      'a reference before there is one',
      'http: { method: GET, path: "/a/{ref}" }',
      '/execution/http/path: {ref} may not stand here',
    ],
    [
      'a resource named after the call',
      `${HTTP}\nresource: ["a/{effect_key}"]`,
      '/execution/resource/0: {effect_key} may not stand here; here are {tenant} {args}',
    ],
    [
      'a wildcard capability',
      `${HTTP}\ncapabilities: ["a:*"]`,
      '/execution/capabilities/0: a capability holds no "*"; wildcards belong into grants',
    ],
    [
      'an empty capability segment',
      `${HTTP}\ncapabilities: ["a::b"]`,
      '/execution/capabilities/0: a capability has no empty segment',
    ],
    [
      'a duration without unit',
      `${HTTP}\ntimeout: 20`,
      '/execution/timeout: expected a duration such as 250ms, 5s, 10m, 24h or 90d',
    ],
    ['a duration out of bounds', `${HTTP}\nsend_by: 2d`, '/execution/send_by: expected 1 to 3600000 milliseconds'],
  ])('%s', (_, execution, line) => {
    const found = problems(textWith(execution));
    expect(found.find((each) => each.includes(line)) ?? found).toContain(line);
  });

  test('a misspelt argument is found where the parameters are closed', () => {
    expect(problems(INVOICE.replace('"{args.amount}", note', '"{args.amuont}", note'))).toEqual([
      'c.yaml:25:21 /execution/http/body/amount: {args.amuont} names no property of the parameters; did you mean {args.amount}?',
    ]);
  });

  test.each([
    [
      'parameters of no object',
      'parameters: { type: object }',
      'parameters: { type: string }',
      '/parameters: must have "type: object"',
    ],
    [
      'a bad schema',
      'parameters: { type: object }',
      'parameters: { type: object, properties: { a: { type: tex } } }',
      '/parameters: schema is invalid',
    ],
    [
      'a runaway pattern',
      'parameters: { type: object }',
      'parameters: { type: object, properties: { a: { pattern: "(a+)+" } } }',
      '/parameters/properties/a/pattern',
    ],
    [
      'a version that is none',
      'version: 1.0.0',
      'version: "1.0"',
      '/version: expected a semantic version such as 2.1.0',
    ],
    [
      'a name without namespace',
      'tool: sample.tool',
      'tool: sample',
      '/tool: expected a dotted lower-case name such as billing.send_invoice',
    ],
  ])('%s', (_, from, to, line) => {
    expect(problems(textWith(HTTP).replace(from, to)).join('\n')).toContain(line);
  });

  test('a key that travels in a template, in a mail or in MCP arguments is enough for IDEMPOTENT', () => {
    const rest = '\neffect: IDEMPOTENT\nidempotency: { window: 1h }';
    const transports = [
      'http: { method: PUT, path: "/things/{effect_key}" }',
      'mcp: { tool: x, arguments: { key: "{effect_key}" } }',
      'mail: { send: { from: a, to: b, subject: c, text: d } }',
    ];
    expect(transports.map((transport) => contractWith(transport + rest).execution.effect)).toEqual(
      transports.map(() => 'IDEMPOTENT'),
    );
    expect(
      contractWith('mcp: { tool: x }\neffect: IDEMPOTENT\nidempotency: { send_as: body /key, window: 1h }').execution
        .idempotency,
    ).toEqual({
      sendAs: 'body /key',
      windowMs: 3_600_000,
    });
  });
});

describe('digests', () => {
  test("are over the file's own words: layers each by itself, the whole over them", () => {
    const { digests, digest, source } = parse(INVOICE);
    expect(digests).toEqual({
      selection: sha256v1(source['selection'] ?? {}),
      parameters: sha256v1(source['parameters'] ?? {}),
      execution: sha256v1(source['execution'] ?? {}),
      returns: sha256v1(source['returns'] ?? {}),
      behaviour: sha256v1({}),
    });
    const { tool, version, owner } = source;
    expect(digest).toBe(
      sha256v1({
        tool: tool ?? null,
        version: version ?? null,
        owner: owner ?? null,
        compatibility: {},
        layers: digests,
      }),
    );
  });

  test('stay the same for ever: golden values', () => {
    const { digests, digest } = contractWith(HTTP);
    expect({ ...digests, digest }).toEqual({
      behaviour: 'sha256/v1:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',
      digest: 'sha256/v1:479971e81690822a130b2be32f79d5dc3ad4dd5d0344cd650d9a9db7faabc2e3',
      execution: 'sha256/v1:090373d7245a4fc2a1017c48fe7acbafabcafcf575b483154959b2bbbdcbbaff',
      parameters: 'sha256/v1:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0',
      returns: 'sha256/v1:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',
      selection: 'sha256/v1:58b298e55637f12267b272f086cbd6f80cf25383daef74b5d8892d973a5411da',
    });
  });

  test('do not see comments, order, quotes or style', () => {
    const other = `# a comment\nowner: 'tests'\nversion: "1.0.0"\ntool: sample.tool\nselection:\n  description: A sample.\nparameters:\n  "type": object\nexecution:\n  http:\n    path: /things\n    method: POST\n  provider: sample\n`;
    expect(parse(other).digest).toBe(contractWith(HTTP).digest);
  });

  test('an alias is the same as what it stands for', () => {
    const aliased = textWith(HTTP, 'behaviour: { a: &x { k: 1 }, b: *x }');
    const written = textWith(HTTP, 'behaviour: { a: { k: 1 }, b: { k: 1 } }');
    expect(parse(aliased).digest).toBe(parse(written).digest);
  });

  test.each<[string, string, string, string]>([
    ['selection', 'A sample.', 'Another sample.', 'selection'],
    ['parameters', '{ type: object }', '{ type: object, title: x }', 'parameters'],
    ['execution', '/things', '/thing', 'execution'],
  ])('a change of %s moves that layer and the whole, and no other', (_, from, to, layer) => {
    const before = contractWith(HTTP);
    const after = parse(textWith(HTTP).replace(from, to));
    const moved = Object.entries(after.digests).filter(
      ([name, digest]) => before.digests[name as 'selection'] !== digest,
    );
    expect(moved.map(([name]) => name)).toEqual([layer]);
    expect(after.digest).not.toBe(before.digest);
  });

  test.each(['version: 1.0.0', 'owner: tests', 'tool: sample.tool'])('a change of %s moves the whole only', (line) => {
    const after = parse(
      textWith(HTTP).replace(line, line.replace('1.0.0', '1.0.1').replace(/([st])(ests|ample)/, '$1x$2')),
    );
    expect(after.digests).toEqual(contractWith(HTTP).digests);
    expect(after.digest).not.toBe(contractWith(HTTP).digest);
  });
});

describe('contractFromSource', () => {
  test('rebuilds the same contract from stored JSON, in any order of members', () => {
    for (const text of [INVOICE, textWith('mcp: { tool: x }'), textWith(HTTP, 'behaviour: { golden: [1, 2.5] }')]) {
      const contract = parse(text);
      expect(contractFromSource(JSON.parse(JSON.stringify(contract.source)))).toEqual(contract);
      expect(contractFromSource(JSON.parse(canonicalJson(contract.source)))).toEqual(contract);
    }
  });

  test('leaves the given object as it was', () => {
    const source = JSON.parse(JSON.stringify(parse(INVOICE).source));
    contractFromSource(source);
    expect(Object.isFrozen(source)).toBe(false);
  });

  test('refuses what the file form refuses, with a pointer for place', () => {
    const source = parse(INVOICE).source;
    const execution = source['execution'] as JsonObject;
    expect(refusal(() => contractFromSource({ ...source, execution: { ...execution, timeuot: '1s' } }))).toEqual({
      code: 'bad_contract',
      place: '/execution/timeuot',
      lines: ['/execution/timeuot: unknown key "timeuot"; did you mean "timeout"?'],
    });
    expect(refusal(() => contractFromSource(JSON.parse('{"__proto__":{}}'))).place).toBe('/__proto__');
    expect(refusal(() => contractFromSource({ a: Number.NaN })).code).toBe('bad_contract');
  });
});
