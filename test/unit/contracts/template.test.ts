import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonValue } from '../../../contracts/contract.ts';
import {
  type Encoder,
  parseTemplate,
  RENDERED_CHARS_MAX,
  renderJson,
  renderJsonOptional,
  renderText,
  type Scope,
  templatePlaceholders,
} from '../../../contracts/template.ts';
import { HoldfastError } from '../../../effects/errors.ts';
import { SCOPE } from './samples.ts';

function problemOf(act: () => unknown): { code: string; place: string | undefined; message: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof HoldfastError) return { code: error.code, place: error.place, message: error.message };
    throw error;
  }
  throw new Error('no error');
}

const withArg = (value: JsonValue): Scope => ({ ...SCOPE, args: { x: value } });

describe('parseTemplate', () => {
  test('parts literals from placeholders and reads doubled braces as braces', () => {
    expect(parseTemplate('{{a}} {tenant}/{args.a.b}{{{run}}}')).toEqual([
      '{a} ',
      { root: 'tenant', path: [] },
      '/',
      { root: 'args', path: ['a', 'b'] },
      '{',
      { root: 'run', path: [] },
      '}',
    ]);
  });

  test.each(['{', '}', 'a}b', '{tenant', '{}', '{nope}', '{tenant.x}', '{args.}', '{args..a}', '{ tenant }', '{{{'])(
    'refuses %j',
    (template) => {
      expect(problemOf(() => parseTemplate(template)).code).toBe('bad_contract');
    },
  );

  test('any text survives when its braces are doubled', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const escaped = text.replaceAll('{', '{{').replaceAll('}', '}}');
        expect(renderText(escaped, SCOPE, 'plain')).toBe(text);
      }),
    );
  });

  test('templatePlaceholders lists them in order and names the place of a malformed one', () => {
    expect(templatePlaceholders({ a: ['{run}', { b: 'x{args.q}{run}' }], n: 1 })).toEqual([
      { root: 'run', path: [] },
      { root: 'args', path: ['q'] },
      { root: 'run', path: [] },
    ]);
    expect(problemOf(() => templatePlaceholders({ a: ['{run}', '{bad}'] }))).toMatchObject({
      code: 'bad_contract',
      place: '/a/1',
    });
  });
});

describe('renderText', () => {
  test('fills every placeholder with texts, numbers and booleans', () => {
    const scope: Scope = { ...SCOPE, ref: 'r-9', cursor: 7 };
    const template =
      '{tenant} {run} {call} {effect_key} {ref} {cursor} {args.count} {args.flag} {args.deep.name} {args.list.1}';
    expect(renderText(template, scope, 'plain')).toBe('acme run-1 call-1 key-1 r-9 7 3 true x 2');
  });

  test.each<[string, string]>([
    ['{args.missing}', '{args.missing} is missing'],
    ['{args.none}', '{args.none} is missing'],
    ['{args.deep}', '{args.deep} is an object, not a text'],
    ['{args.list}', '{args.list} is a list, not a text'],
    ['{args.list.length}', '{args.list.length} is missing'],
    ['{args.constructor}', '{args.constructor} is missing'],
    ['{ref}', '{ref} is missing'],
    ['{cursor}', '{cursor} is missing'],
  ])('refuses %s inside a text', (template, why) => {
    expect(problemOf(() => renderText(`x ${template}`, SCOPE, 'plain', '/execution/http/path'))).toEqual({
      code: 'request_not_renderable',
      place: '/execution/http/path',
      message: `/execution/http/path: ${why}`,
    });
  });

  test.each<[Encoder, JsonValue, string]>([
    ['plain', 'a/b c', 'a/b c'],
    ['urlPath', 'a/b?c#d %', 'a%2Fb%3Fc%23d%20%25'],
    ['urlPath', '...', '...'],
    ['urlPath', 'ä', '%C3%A4'],
    ['header', 'caf\u00e9\t1', 'caf\u00e9\t1'],
    ['capability', "a:b*c/d'(e)!", 'a%3Ab%2Ac%2Fd%27%28e%29%21'],
    ['capability', 'me@example.org~1-_', 'me@example.org~1-_'],
    ['capability', 12.5, '12.5'],
  ])('encodes for %s: %j as %j', (encoder, value, text) => {
    expect(renderText('{args.x}', withArg(value), encoder)).toBe(text);
  });

  test.each<[Encoder, string]>([
    ['urlPath', '.'],
    ['urlPath', '..'],
    ['urlPath', ''],
    ['urlPath', '\ud800'],
    ['header', 'a\r\nb'],
    ['header', 'a\nb'],
    ['header', 'a\0b'],
    ['header', '\u0100'],
    ['header', '\u007f'],
    ['capability', ''],
    ['plain', '\ud800'],
  ])('refuses for %s: %j', (encoder, value) => {
    expect(problemOf(() => renderText('/a/{args.x}', withArg(value), encoder)).code).toBe('request_not_renderable');
  });

  test('two values cannot complete a dot segment together', () => {
    const scope: Scope = { ...SCOPE, args: { a: '.', b: '.' } };
    expect(problemOf(() => renderText('/x/{args.a}{args.b}/y', scope, 'urlPath')).code).toBe('request_not_renderable');
    expect(problemOf(() => renderText('/x/.{args.b}', scope, 'urlPath')).code).toBe('request_not_renderable');
    expect(renderText('/x/{args.a}a', scope, 'urlPath')).toBe('/x/.a');
  });

  test('no argument can add a path segment, a query or a wildcard', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, unit: 'binary' }), (value) => {
        let path: string;
        try {
          path = renderText('/x/{args.x}/y', withArg(value), 'urlPath');
        } catch {
          return;
        }
        expect(path).toMatch(/^\/x\/[^/?#\s]+\/y$/);
        expect(renderText('a:{args.x}:b', withArg(value), 'capability')).toMatch(/^a:[A-Za-z0-9._~@%-]+:b$/);
      }),
    );
  });

  test('a rendered text has a limit', () => {
    const scope = withArg('x'.repeat(RENDERED_CHARS_MAX));
    expect(problemOf(() => renderText('{args.x}{args.x}', scope, 'plain')).message).toContain('more than');
  });
});

describe('renderJson', () => {
  test('keeps the JSON type of a lone placeholder and drops a property whose argument is missing', () => {
    const template = {
      whole: '{args.deep}',
      count: '{args.count}',
      none: '{args.none}',
      text: 'n={args.count}',
      gone: '{args.missing}',
      inner: { gone: '{args.missing}', kept: 1 },
      list: ['{args.flag}', null, '{{}}'],
      page: '{cursor}',
    };
    expect(renderJson(template, SCOPE)).toEqual({
      whole: { name: 'x' },
      count: 3,
      none: null,
      text: 'n=3',
      inner: { kept: 1 },
      list: [true, null, '{}'],
    });
    expect(renderJson('{args}', SCOPE)).toEqual(SCOPE.args);
  });

  test.each<[JsonValue, string]>([
    [{ a: ['{args.missing}'] }, '/b/a/0'],
    [{ a: 'x{args.missing}' }, '/b/a'],
    [{ 'k/1': '{ref}' }, '/b/k~11'],
    ['{args.missing}', '/b'],
  ])('refuses %j where nothing can be dropped, with its place', (template, place) => {
    expect(problemOf(() => renderJson(template, SCOPE, '/b'))).toMatchObject({ code: 'request_not_renderable', place });
  });

  test('renderJsonOptional says undefined for a template that is one missing argument', () => {
    expect(renderJsonOptional('{args.missing}', SCOPE)).toBeUndefined();
    expect(problemOf(() => renderJsonOptional('{ref}', SCOPE)).code).toBe('request_not_renderable');
  });

  test('templates in argument values are not filled', () => {
    expect(renderJson({ a: '{args.x}', b: 'x{args.x}' }, withArg('{tenant}'))).toEqual({
      a: '{tenant}',
      b: 'x{tenant}',
    });
  });

  test('repeating a large argument meets the limit', () => {
    const scope = withArg(['y'.repeat(RENDERED_CHARS_MAX / 2)]);
    expect(problemOf(() => renderJson(['{args}', '{args}', '{args}'], scope)).message).toContain('more than');
  });
});
