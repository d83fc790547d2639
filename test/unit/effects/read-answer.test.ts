import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalJson } from '../../../contracts/canonical-json.ts';
import { EFFECT_CLASSES, type JsonValue } from '../../../contracts/contract.ts';
import { readAnswer } from '../../../effects/read-answer.ts';
import { contractOf, response } from './samples.ts';

const DOING = ['IDEMPOTENT', 'REPLAYABLE', 'NON_RETRYABLE', 'UNKNOWN'] as const;
const MCP = { mcp: { tool: 'x' } };
const MAIL = { mail: { send: { from: 'a@b', to: 'c@d', subject: 's', text: 't' } } };

function kindsOf(
  effect: (typeof EFFECT_CLASSES)[number],
  statuses: readonly (number | string)[],
  transport = {},
): string[] {
  return statuses.map((status) => readAnswer(contractOf(effect, transport), response(status)).kind);
}

describe('without rules of the contract', () => {
  test('what the adapter could not send or hear stays what it is', () => {
    const contract = contractOf('NON_RETRYABLE');
    const notSent = { kind: 'not_sent', why: 'refused', code: 'ECONNREFUSED' } as const;
    const silent = { kind: 'no_answer', why: 'reset' } as const;
    expect([readAnswer(contract, notSent), readAnswer(contract, silent)]).toEqual([notSent, silent]);
  });

  test.each(DOING)('a %s http call is applied by 2xx, accepted by 202, and by nothing else anything', (effect) => {
    for (let status = 100; status <= 599; status += 1) {
      const expected = status === 202 ? 'accepted' : status >= 200 && status < 300 ? 'applied' : 'no_answer';
      expect([status, readAnswer(contractOf(effect), response(status)).kind]).toEqual([status, expected]);
    }
  });

  test('a PURE http call may be refused by 4xx, but not by those that say "not now"', () => {
    const expected = (status: number) =>
      status === 202 ? 'accepted' : status < 300 && status >= 200 ? 'applied' : 'no_answer';
    for (let status = 100; status <= 599; status += 1) {
      const refused = status >= 400 && status < 500 && ![408, 425, 429, 499].includes(status);
      expect([status, readAnswer(contractOf('PURE'), response(status)).kind]).toEqual([
        status,
        refused ? 'refused' : expected(status),
      ]);
    }
  });

  test.each(DOING)('a %s MCP tool is applied by ok; an error, a question or a code proves nothing', (effect) => {
    const rest = effect === 'IDEMPOTENT' ? { ...MCP, idempotency: { send_as: 'body /key', window: '1h' } } : MCP;
    expect(kindsOf(effect, ['ok', 'error', 'input_required', '-32602', '-32603', 404, 500], rest)).toEqual([
      'applied',
      ...Array(6).fill('no_answer'),
    ]);
  });

  test('a PURE MCP tool is refused by an error result and by what the server did not understand', () => {
    expect(
      kindsOf('PURE', ['ok', 'error', 'input_required', '-32602', '-32601', '-32603', 404, 429, 500], MCP),
    ).toEqual([
      'applied',
      'refused',
      'no_answer',
      'refused',
      'refused',
      'no_answer',
      'refused',
      'no_answer',
      'no_answer',
    ]);
  });

  test("a mail is applied by 250, refused by the server's own reply in the transaction, and else open", () => {
    const contract = contractOf('NON_RETRYABLE', MAIL);
    const kind = (status: number | string, command?: string) =>
      readAnswer(contract, response(status, command === undefined ? {} : { command })).kind;
    expect([kind(250, 'DATA'), kind('ok')]).toEqual(['applied', 'applied']);
    expect([kind(550, 'RCPT TO'), kind(451, 'MAIL FROM'), kind(554, 'DATA')]).toEqual([
      'refused',
      'refused',
      'refused',
    ]);
    expect([kind(554), kind(421, 'QUIT'), kind(535, 'AUTH PLAIN'), kind('error')]).toEqual(Array(4).fill('no_answer'));
  });

  test('a mail that some recipients refused is applied partly', () => {
    const body = { command: 'DATA', response: '250 ok', accepted: ['a'], rejected: [{ recipient: 'b', status: 550 }] };
    expect(readAnswer(contractOf('NON_RETRYABLE', MAIL), response(250, body))).toEqual({
      kind: 'applied_partly',
      result: body,
      parts: body,
      reference: null,
    });
  });

  test('a redirect is no answer and never followed, whatever the class', () => {
    for (const effect of EFFECT_CLASSES) {
      expect(kindsOf(effect, [301, 302, 303, 307, 308])).toEqual(Array(5).fill('no_answer'));
    }
  });
});

describe('rules of the contract', () => {
  const kind = (answers: JsonValue, status: number | string, body: JsonValue = {}, extra = {}) =>
    readAnswer(contractOf('NON_RETRYABLE', { answers }), response(status, body, extra)).kind;

  test('the first that fits wins, before the defaults', () => {
    const answers = [
      { status: 200, where: { '/state': 'queued' }, means: 'accepted' },
      { status: 200, where: { '/state': 'failed' }, means: 'refused' },
      { status: 409, means: 'applied' },
      { status: '2xx', means: 'no_answer' },
      { status: 409, means: 'refused' },
    ];
    const states = ['queued', 'failed', 'done'].map((state) => kind(answers, 200, { state }));
    expect([...states, kind(answers, 409), kind(answers, 500)]).toEqual([
      'accepted',
      'refused',
      'no_answer',
      'applied',
      'no_answer',
    ]);
  });

  test('a class never speaks for 408, 409, 423, 425, 429 and 499; named one by one they count', () => {
    const never = [408, 409, 423, 425, 429, 499];
    for (let status = 400; status < 500; status += 1) {
      const byClass = kind([{ status: '4xx', means: 'refused' }], status);
      expect([status, byClass]).toEqual([status, never.includes(status) ? 'no_answer' : 'refused']);
      expect(kind([{ status: ['4xx', status], means: 'refused' }], status)).toBe('refused');
    }
  });

  test('a rule looks into body and headers, for values, presence and parts of texts', () => {
    const rule = (where: JsonValue) => [{ where, means: 'refused' }];
    const body = { error: { code: 'E1', note: 'no such thing' }, n: 1, none: null };
    const extra = { headers: { 'x-state': 'failed' } };
    const yes = [
      { '/error/code': 'E1' },
      { '/n': 1 },
      { '/error': { code: 'E1', note: 'no such thing' } },
      { '/error/code': { exists: true } },
      { '/none': { exists: false } },
      { '/error/note': { matches: 'no such' } },
      { 'header X-State': 'failed' },
      { '': { exists: true } },
    ];
    const no = [
      { '/error/code': 'E2' },
      { '/n': '1' },
      { '/nothing': 'x' },
      { '/none': { exists: true } },
      { '/error/note': { matches: 'NO SUCH' } },
      { 'header x-other': 'failed' },
      { '/constructor': { exists: true } },
      { '/n': 1, '/error/code': 'E2' },
    ];
    expect(yes.map((where) => kind(rule(where), 500, body, extra))).toEqual(yes.map(() => 'refused'));
    expect(no.map((where) => kind(rule(where), 500, body, extra))).toEqual(no.map(() => 'no_answer'));
  });

  test('a body that cannot be read leaves open what a rule would have said of it', () => {
    const answers = [{ status: 200, where: { '/ok': false }, means: 'refused' }];
    expect([
      kind(answers, 200, null, { truncated: true }),
      kind(answers, 200, '<html>'),
      kind(answers, 200, null),
      kind(answers, 201, null),
      kind(answers, 200, { ok: true }),
    ]).toEqual(['no_answer', 'no_answer', 'no_answer', 'applied', 'applied']);
  });

  test('an MCP error may be declared a refusal', () => {
    const contract = contractOf('NON_RETRYABLE', {
      ...MCP,
      answers: [{ status: ['error', '-32602'], means: 'refused' }],
    });
    expect(['error', '-32602'].map((status) => readAnswer(contract, response(status)).kind)).toEqual([
      'refused',
      'refused',
    ]);
  });
});

describe('references', () => {
  const contract = contractOf('NON_RETRYABLE', {
    answers: [
      { status: 202, means: 'accepted', ref: 'header location' },
      { status: 503, means: 'no_answer', ref: '/job' },
      { status: 207, means: 'applied_partly', parts: '/parts', ref: '/id' },
    ],
  });
  const read = (status: number, body: JsonValue, headers = {}) =>
    readAnswer(contract, response(status, body, { headers }));

  test('are kept as soon as they are seen, whatever the answer means', () => {
    expect([
      read(202, null, { location: '/jobs/7' }),
      read(503, { job: 12 }),
      read(207, { id: 'x', parts: [1, 2] }),
    ]).toEqual([
      { kind: 'accepted', reference: '/jobs/7' },
      { kind: 'no_answer', why: 'the contract reads 503 as no answer', reference: '12' },
      { kind: 'applied_partly', result: { id: 'x', parts: [1, 2] }, parts: [1, 2], reference: 'x' },
    ]);
  });

  test.each([[null], [{}], [''], [true], ['x'.repeat(257)], ['\ud800']])('%j is no reference', (job) => {
    expect(read(503, { job })).toEqual({ kind: 'no_answer', why: 'the contract reads 503 as no answer' });
  });

  test('evidence.reference serves where a rule has no pointer of its own', () => {
    const asked = contractOf('NON_RETRYABLE', {
      evidence: {
        call: `a.b@1.0.0#sha256/v1:${'0'.repeat(64)}`,
        by: 'ref',
        with: { id: '{ref}' },
        found: { status: 200 },
        absent: { status: 404 },
        reference: '/id',
      },
    });
    expect(readAnswer(asked, response(200, { id: 'i1' }))).toEqual({
      kind: 'applied',
      result: { id: 'i1' },
      reference: 'i1',
    });
    expect(readAnswer(asked, response(202, { id: 'i1' }))).toEqual({ kind: 'accepted', reference: 'i1' });
  });
});

describe('results', () => {
  const read = (returns: { [key: string]: JsonValue }, body: JsonValue, extra = {}) =>
    readAnswer(contractOf('NON_RETRYABLE', {}, returns), response(200, body, extra));

  test('lose what is redacted, also below every element, and also when refused', () => {
    const body = { token: 's3', user: { name: 'a', pin: '1' }, list: [{ k: 1 }, { k: 2, v: 3 }, 4] };
    const redact = ['/token', '/user/pin', '/list/*/k', '/none', '/list/9'];
    const clean = {
      token: '[redacted]',
      user: { name: 'a', pin: '[redacted]' },
      list: [{ k: '[redacted]' }, { k: '[redacted]', v: 3 }, 4],
    };
    expect(read({ redact }, body)).toEqual({ kind: 'applied', result: clean, reference: null });
    const refused = readAnswer(contractOf('PURE', {}, { redact: ['/message'] }), response(404, { message: 's3' }));
    expect(refused).toEqual({
      kind: 'refused',
      code: 'refused_by_provider',
      message: 'the provider answered 404: [redacted]',
      result: { message: '[redacted]' },
    });
  });

  test('above their limit are cut to their size in bytes, and are applied all the same', () => {
    const body = { text: 'ä'.repeat(50) };
    expect(read({ size_max: '64B' }, body)).toEqual({
      kind: 'applied',
      result: { truncated: true, bytes: 111 },
      reference: null,
      resultTruncated: true,
    });
    expect(read({ size_max: '111B' }, body)).toEqual({ kind: 'applied', result: body, reference: null });
  });

  test('of a cut body are null, and applied all the same', () => {
    expect(read({}, 'half', { truncated: true })).toEqual({
      kind: 'applied',
      result: null,
      reference: null,
      resultTruncated: true,
    });
  });

  test('that do not fit the schema are applied and flagged', () => {
    const schema = { type: 'object', required: ['id'] };
    expect(read({ schema }, {})).toEqual({
      kind: 'applied',
      result: {},
      reference: null,
      returnsMismatch: [{ pointer: '', message: "must have required property 'id'" }],
    });
    expect(read({ schema, redact: ['/id'] }, { id: 1 })).toEqual({
      kind: 'applied',
      result: { id: '[redacted]' },
      reference: null,
    });
  });

  test('of MCP are held against the schema by their structured content', () => {
    const contract = contractOf('PURE', MCP, { schema: { type: 'object', required: ['n'] } });
    const flagged = (body: JsonValue) => 'returnsMismatch' in readAnswer(contract, response('ok', body));
    expect([
      flagged({ content: [], structuredContent: { n: 1 } }),
      flagged({ content: [], structuredContent: {} }),
      flagged({ content: [] }),
    ]).toEqual([false, true, true]);
  });

  test("hold the provider's words in a refusal, at most 300 characters of them", () => {
    const contract = contractOf('PURE');
    const message = (body: JsonValue) => {
      const answer = readAnswer(contract, response(422, body));
      return answer.kind === 'refused' ? answer.message : '';
    };
    expect([
      message({ error: { message: 'no' } }),
      message({ detail: 'bad' }),
      message(null),
      message('plain'),
    ]).toEqual([
      'the provider answered 422: no',
      'the provider answered 422: bad',
      'the provider answered 422',
      'the provider answered 422: plain',
    ]);
    expect(message('x'.repeat(1000))).toBe(`the provider answered 422: ${'x'.repeat(300)}…`);
  });

  test('can always be written as canonical JSON, whatever the provider sent', () => {
    const deep = JSON.parse(`${'['.repeat(500)}${']'.repeat(500)}`) as JsonValue;
    for (const body of [deep, { '\ud800': '\udfff' }, '\ud83d', JSON.parse('{"__proto__":{"a":1}}')]) {
      const answer = read({}, body as JsonValue);
      expect(() => canonicalJson((answer as { result: JsonValue }).result)).not.toThrow();
    }
    expect(read({}, deep)).toEqual({
      kind: 'applied',
      result: { truncated: true, bytes: null },
      reference: null,
      resultTruncated: true,
    });
  });

  test('no answer makes the reader throw', () => {
    const contracts = [
      contractOf(
        'NON_RETRYABLE',
        { answers: [{ where: { '/a': 1 }, means: 'applied' }] },
        { redact: ['/a/*/b'], schema: { type: 'object' } },
      ),
      contractOf('PURE', MCP),
      contractOf('UNKNOWN', MAIL),
    ];
    fc.assert(
      fc.property(
        fc.oneof(fc.integer({ min: -40_000, max: 999 }), fc.string()),
        fc.jsonValue({ stringUnit: 'binary' }),
        fc.boolean(),
        (status, body, truncated) => {
          for (const contract of contracts) {
            const answer = readAnswer(contract, response(status, body as JsonValue, { truncated }));
            if ('result' in answer) canonicalJson(answer.result);
          }
        },
      ),
    );
  });
});
