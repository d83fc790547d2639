import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Contract, JsonValue } from '../../../contracts/contract.ts';
import type { ProviderAnswer } from '../../../effects/answer.ts';
import type { Observation } from '../../../effects/judge.ts';
import { evidenceArguments, type LookContext, nextCursor, observe } from '../../../effects/read-evidence.ts';
import { asking, contractOf, response, ruleOf, SCOPE } from './samples.ts';

const see = (
  contract: Contract,
  pages: ProviderAnswer | ProviderAnswer[],
  context: LookContext = {},
  scope = SCOPE,
): Observation => observe(contract, scope, Array.isArray(pages) ? pages : [pages], context).observation;
const inconclusive = (why: string): Observation => ({ kind: 'inconclusive', why });
const ABSENT: Observation = { kind: 'absent', complete: true, passes: 1, passesApartMs: 0 };

describe('by key', () => {
  const BY_KEY = {
    by: 'key',
    with: { key: '{effect_key}' },
    found: { status: 200, where: { '/key': '{effect_key}' } },
    absent: { status: 404, where: { '/error': 'no_such_key' } },
    equals: { '/amount': '{args.amount}', '/to': '{args.to}', '/note': '{args.note}' },
    reference: '/id',
  };
  const contract = asking(BY_KEY);
  const INVOICE = { key: 'KEY', id: 'inv-1', amount: 10, to: 'ann', note: 'of the provider' };

  test('found and equal: the reference and the answer are kept; an argument that was not given is not compared', () => {
    expect(observe(contract, SCOPE, [response(200, INVOICE)])).toEqual({
      observation: { kind: 'found', matches: 1, equal: true, reference: 'inv-1' },
      reference: 'inv-1',
      result: INVOICE,
    });
  });

  test('found with other content is found, and not equal', () => {
    expect(see(contract, response(200, { ...INVOICE, amount: 11 }))).toEqual({
      kind: 'found',
      matches: 1,
      equal: false,
      reference: 'inv-1',
    });
    expect(see(contract, response(200, { ...INVOICE, amount: '10' }))).toMatchObject({ equal: false });
  });

  test('absent by its own pattern is absent', () => {
    expect(see(contract, response(404, { error: 'no_such_key' }))).toEqual(ABSENT);
  });

  test.each<[string, ProviderAnswer, string]>([
    [
      'a plain 404 page',
      response(404, '<html>'),
      'the answer (404) fits neither pattern, found or absent; a field that the rule compares is missing',
    ],
    [
      'another 404',
      response(404, { error: 'no_such_tenant' }),
      'the answer (404) fits neither pattern, found or absent',
    ],
    [
      'a lost permission',
      response(403, { error: 'no_such_key' }),
      'the answer (403) fits neither pattern, found or absent',
    ],
    [
      'a renamed key field',
      response(200, { reference_key: 'KEY' }),
      'the answer (200) fits neither pattern, found or absent; a field that the rule compares is missing',
    ],
    [
      "another one's artefact",
      response(200, { ...INVOICE, key: 'OTHER' }),
      'the answer (200) fits neither pattern, found or absent',
    ],
    [
      'an empty success',
      response(200, null),
      'the answer (200) fits neither pattern, found or absent; a field that the rule compares is missing',
    ],
    ['a server error', response(500, INVOICE), 'the answer (500) fits neither pattern, found or absent'],
    ['a redirect', response(302, INVOICE), 'the answer (302) fits neither pattern, found or absent'],
    [
      'a renamed field of the content',
      response(200, { key: 'KEY', id: 'inv-1', sum: 10, to: 'ann' }),
      'found, but a field to compare is missing',
    ],
    ['a lost reference', response(200, { ...INVOICE, id: null }), 'found, but without a reference at /id'],
    ['a cut answer', response(200, INVOICE, { truncated: true }), 'the answer was cut at the size limit'],
    ['silence', { kind: 'no_answer', why: 'reset' }, 'the provider gave no answer: reset'],
    ['a provider that is down', { kind: 'not_sent', why: 'refused' }, 'the provider gave no answer: refused'],
  ])('%s says nothing', (_, page, why) => {
    expect(observe(contract, SCOPE, [page])).toEqual({ observation: inconclusive(why), reference: null, result: null });
  });

  test('both patterns at once say nothing', () => {
    const both = asking({ ...BY_KEY, absent: { status: 200, where: { '/deleted': true } } });
    expect(see(both, response(200, { ...INVOICE, deleted: true }))).toEqual(
      inconclusive('the answer fits both patterns, found and absent'),
    );
  });

  test('a pattern without status is held against successes only', () => {
    const open = asking({
      ...BY_KEY,
      absent: { where: { '/count': 0 } },
      found: { where: { '/key': '{effect_key}' } },
    });
    expect([200, 500, 404, 202, 'ok', 'error'].map((status) => see(open, response(status, { count: 0 })).kind)).toEqual(
      ['absent', 'inconclusive', 'inconclusive', 'inconclusive', 'absent', 'inconclusive'],
    );
  });

  test('a pattern that compares with an argument that was not given cannot be read as absence', () => {
    const odd = asking({ ...BY_KEY, found: { where: { '/note': '{args.note}' } } });
    expect(see(odd, response(404, { error: 'no_such_key' })).kind).toBe('absent');
    expect(see(odd, response(200, { note: 'x' }))).toEqual(
      inconclusive('the evidence rule cannot be filled: {args.note} is missing'),
    );
  });

  test('no answer, or several, are no evidence', () => {
    expect([see(contract, []), see(contract, [response(200, INVOICE), response(200, INVOICE)])]).toEqual([
      inconclusive('nothing was asked'),
      inconclusive('2 answers where one was expected'),
    ]);
  });

  test('a contract without a rule has no evidence', () => {
    expect(see(contractOf('NON_RETRYABLE'), response(200, {}))).toEqual(
      inconclusive('the contract has no evidence rule'),
    );
  });

  test('the result is what the rule points at, without secrets of either contract, cut to size', () => {
    const pointed = asking({ ...BY_KEY, result: '/data' }, { redact: ['/pin'], size_max: '100B' });
    const body = { ...INVOICE, data: { pin: 1, token: 2, ok: true } };
    expect(observe(pointed, SCOPE, [response(200, body)], { redactPage: ['/data/token'] }).result).toEqual({
      pin: '[redacted]',
      token: '[redacted]',
      ok: true,
    });
    expect(observe(pointed, SCOPE, [response(200, { ...body, data: 'x'.repeat(200) })]).result).toEqual({
      truncated: true,
      bytes: 202,
    });
  });

  test('what is redacted is still compared', () => {
    const look = observe(contract, SCOPE, [response(200, INVOICE)], { redactPage: ['/key', '/amount', '/id'] });
    expect(look.observation).toEqual({ kind: 'found', matches: 1, equal: true, reference: 'inv-1' });
    expect(look.result).toMatchObject({ key: '[redacted]', amount: '[redacted]' });
  });
});

describe('by reference', () => {
  const contract = asking({
    by: 'ref',
    with: { id: '{ref}' },
    found: { where: { '/id': '{ref}', '/state': 'done' } },
    absent: { status: 410 },
    reference: '/id',
  });

  test('the question needs the reference', () => {
    expect(() => evidenceArguments(ruleOf(contract), SCOPE)).toThrow('{ref} is missing');
    expect(evidenceArguments(ruleOf(contract), { ...SCOPE, ref: 'j1' })).toEqual({ id: 'j1' });
  });

  test('a job that is still running is neither found nor absent', () => {
    const scope = { ...SCOPE, ref: 'j1' };
    const states = ['done', 'running'].map(
      (state) => see(contract, response(200, { id: 'j1', state }), {}, scope).kind,
    );
    expect([...states, see(contract, response(410), {}, scope).kind]).toEqual(['found', 'inconclusive', 'absent']);
  });
});

describe('by listing', () => {
  const contract = asking({
    by: 'listing',
    with: { since: 'x' },
    items: '/items',
    next: '/next',
    cursor_arg: 'page',
    found: { where: { '/key': '{effect_key}' } },
    absent: { status: 200, where: { '/kind': 'list' } },
    equals: { '/amount': '{args.amount}' },
    reference: '/id',
  });
  const rule = ruleOf(contract);
  const page = (items: JsonValue, next: JsonValue = null): ProviderAnswer =>
    response(200, { kind: 'list', items, next });
  const MINE = { key: 'KEY', id: 'i1', amount: 10 };
  const OTHER = { key: 'OTHER', id: 'i2', amount: 10 };

  test('all pages read and nothing found is absent, with the passes that the caller counted', () => {
    const pages = [page([OTHER], 'a'), page([], 'b'), page([OTHER])];
    expect([see(contract, pages), see(contract, pages, { passes: 2, passesApartMs: 3_000 })]).toEqual([
      ABSENT,
      { kind: 'absent', complete: true, passes: 2, passesApartMs: 3_000 },
    ]);
  });

  test('a page that names a next one leaves absence incomplete', () => {
    expect(see(contract, [page([OTHER], 'a')])).toEqual({ ...ABSENT, complete: false });
  });

  test('a match counts wherever it is, whatever else could not be read', () => {
    const found: Observation = { kind: 'found', matches: 1, equal: true, reference: 'i1' };
    expect([
      see(contract, [page([OTHER], 'a'), page([OTHER, MINE])]),
      see(contract, [page([MINE], 'a')]),
      see(contract, [page([MINE], 'a'), { kind: 'no_answer', why: 'reset' }]),
      see(contract, [response(500), page([MINE])]),
    ]).toEqual([found, found, found, found]);
    expect(
      observe(contract, SCOPE, [page([OTHER, { ...MINE, pin: 1 }])], { redactPage: ['/items/*/pin'] }).result,
    ).toEqual({
      ...MINE,
      pin: '[redacted]',
    });
  });

  test('two artefacts are two, one artefact seen on two pages is one', () => {
    expect(see(contract, [page([MINE, { ...MINE, id: 'i9' }])])).toMatchObject({ kind: 'found', matches: 2 });
    expect(see(contract, [page([MINE], 'a'), page([MINE])])).toMatchObject({ kind: 'found', matches: 1 });
  });

  test('a match with other content is not equal', () => {
    expect(see(contract, [page([{ ...MINE, amount: 9 }])])).toMatchObject({ kind: 'found', equal: false });
  });

  test.each<[string, ProviderAnswer[], string]>([
    ['a renamed field in the items', [page([{ ref: 'OTHER' }])], 'an item lacks a field that the rule compares'],
    ['items that are no objects', [page(['x'])], 'an item lacks a field that the rule compares'],
    ['a renamed list', [response(200, { kind: 'list', data: [] })], 'a page has no list at /items'],
    ['a list that became an object', [page({})], 'a page has no list at /items'],
    [
      'a page of another kind',
      [response(200, { kind: 'error', items: [] })],
      'a page (200) was not read as it should be',
    ],
    ['a lost permission', [response(403, { kind: 'list', items: [] })], 'a page (403) was not read as it should be'],
    [
      'a page that failed',
      [page([OTHER], 'a'), { kind: 'no_answer', why: 'reset' }],
      'the provider gave no answer: reset',
    ],
    [
      'a cut page',
      [response(200, { kind: 'list', items: [] }, { truncated: true })],
      'the answer was cut at the size limit',
    ],
    [
      'a cursor that does not advance',
      [page([OTHER], 'a'), page([OTHER], 'b'), page([OTHER], 'a')],
      'the provider gave the same cursor twice',
    ],
    [
      'a cursor that is an object',
      [page([OTHER], { at: 1 })],
      'the cursor at /next is neither a short text nor a number',
    ],
    ['a page after the last', [page([OTHER]), page([OTHER])], 'a page after the last one'],
    ['no page at all', [], 'nothing was asked'],
  ])('%s says nothing', (_, pages, why) => {
    expect(see(contract, pages)).toEqual(inconclusive(why));
  });

  test('nextCursor gives the cursor of the next page, or none', () => {
    const cursors: [JsonValue, string | number | undefined][] = [
      ['a', 'a'],
      [7, 7],
      [0, 0],
      ['', undefined],
      [null, undefined],
      [false, undefined],
      [{ x: 1 }, undefined],
      ['x'.repeat(5_000), undefined],
    ];
    expect(cursors.map(([next]) => nextCursor(rule, page([], next)))).toEqual(cursors.map(([, cursor]) => cursor));
    expect(nextCursor(rule, response(200, {}))).toBeUndefined();
    expect(nextCursor(rule, { kind: 'no_answer', why: 'x' })).toBeUndefined();
  });

  test('the cursor goes where the rule says', () => {
    expect([evidenceArguments(rule, SCOPE), evidenceArguments(rule, SCOPE, 'a')]).toEqual([
      { since: 'x' },
      { since: 'x', page: 'a' },
    ]);
    const templated = ruleOf(
      asking({
        by: 'search',
        with: { q: '{effect_key}', at: { page: '{cursor}' } },
        items: '',
        next: '/n',
        found: { where: { '/k': 1 } },
        absent: { status: 200 },
      }),
    );
    expect([evidenceArguments(templated, SCOPE), evidenceArguments(templated, SCOPE, 2)]).toEqual([
      { q: 'KEY', at: {} },
      { q: 'KEY', at: { page: 2 } },
    ]);
  });

  test('absence is only ever said of pages that were all read and hold no match', () => {
    const item = fc.constantFrom<JsonValue>(MINE, OTHER, { id: 'x' }, 'x', null);
    const anyPage: fc.Arbitrary<ProviderAnswer> = fc.oneof(
      fc
        .tuple(fc.array(item, { maxLength: 3 }), fc.constantFrom<JsonValue>(null, 'a', 'b', {}))
        .map(([items, next]) => page(items, next)),
      fc.constant(response(500)),
      fc.constant<ProviderAnswer>({ kind: 'no_answer', why: 'x' }),
    );
    fc.assert(
      fc.property(fc.array(anyPage, { maxLength: 4 }), (pages) => {
        const seen = see(contract, pages);
        if (seen.kind !== 'absent') return;
        const all = pages.flatMap((each) => (each.kind === 'response' ? [each] : []));
        expect(all).toHaveLength(pages.length);
        expect(all.every(({ status }) => status === 200)).toBe(true);
        const items = all.flatMap(({ body }) => (body as unknown as { items: JsonValue[] }).items);
        expect(items.every((each) => each === OTHER || JSON.stringify(each) === JSON.stringify(OTHER))).toBe(true);
        const last = all.at(-1)?.body as { next: JsonValue } | undefined;
        expect(seen.complete).toBe(last?.next === null);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('by key, in a list', () => {
  const contract = asking({
    by: 'key',
    with: { key: '{effect_key}' },
    items: '/data',
    found: { where: { '/key': '{effect_key}' } },
    absent: { status: 200 },
  });

  test('counts the matches, and an empty list read as it should be is absent', () => {
    const seen = [[], [{ key: 'KEY' }], [{ key: 'KEY' }, { key: 'KEY' }]].map((data) =>
      see(contract, response(200, { data })),
    );
    expect(seen).toEqual([
      ABSENT,
      { kind: 'found', matches: 1, equal: true, reference: null },
      { kind: 'found', matches: 2, equal: true, reference: null },
    ]);
  });
});

describe('by state', () => {
  const contract = asking({
    by: 'state',
    with: { path: '{args.to}' },
    found: { status: 'ok', where: { '/structuredContent/content': '{args.to}' } },
    absent: { status: 'error', where: { '/content/0/text': { matches: 'ENOENT' } } },
  });
  const file = (content: JsonValue) => response('ok', { structuredContent: { content } });
  const missing = response('error', { content: [{ text: 'Error: ENOENT: no such file' }] });

  test("equal, different and not there are states; what was before is the caller's to say", () => {
    expect([
      see(contract, file('ann'), { differedBefore: true }),
      see(contract, file('ann')),
      see(contract, file('bob'), { differedBefore: true }),
      see(contract, missing),
    ]).toEqual([
      { kind: 'state', equal: true, differedBefore: true },
      { kind: 'state', equal: true, differedBefore: false },
      { kind: 'state', equal: false, differedBefore: true },
      { kind: 'state', equal: false, differedBefore: false },
    ]);
  });

  test.each<[string, ProviderAnswer, string]>([
    [
      'another error',
      response('error', { content: [{ text: 'Error: EACCES' }] }),
      'the answer (error) does not show the state',
    ],
    [
      'a renamed field',
      response('ok', { structuredContent: { text: 'bob' } }),
      'the answer (ok) does not show the state',
    ],
    ['a cut answer', response('ok', null, { truncated: true }), 'the answer was cut at the size limit'],
  ])('%s is no difference', (_, page, why) => {
    expect(see(contract, page)).toEqual(inconclusive(why));
  });

  test('the state that is kept is kept only when it is as wanted', () => {
    expect([file('ann'), file('bob')].map((page) => observe(contract, SCOPE, [page]).result)).toEqual([
      { structuredContent: { content: 'ann' } },
      null,
    ]);
  });
});

test('no page makes the reader throw', () => {
  const contracts = [
    asking({
      by: 'key',
      with: { k: '{effect_key}' },
      found: { where: { '/a': '{effect_key}' } },
      absent: { where: { '/b': 1 } },
      equals: { '/c': '{args.x.y}' },
    }),
    asking({
      by: 'listing',
      items: '',
      found: { where: { '/a': { matches: '{effect_key}' } } },
      absent: { status: 200 },
    }),
    asking({ by: 'state', found: { where: { '/a': '{args}' } } }),
  ];
  fc.assert(
    fc.property(
      fc.jsonValue({ stringUnit: 'binary' }),
      fc.constantFrom<number | string>(200, 404, 'ok'),
      (body, status) => {
        for (const contract of contracts) see(contract, response(status, body as JsonValue));
      },
    ),
  );
});
