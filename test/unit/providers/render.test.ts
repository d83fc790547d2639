import { describe, expect, it } from 'vitest';
import type { Execution, HttpExecution, JsonObject, MailExecution } from '../../../contracts/contract.ts';
import { renderHttp } from '../../../providers/http-render.ts';
import { renderMail } from '../../../providers/mail-render.ts';
import { contractOf, scope } from './support.ts';

const HTTP: HttpExecution = { kind: 'http', method: 'POST', path: '/v1/a', query: {}, headers: {}, secretAs: 'bearer' };

function http(transport: Partial<HttpExecution>, args: JsonObject = {}, more: Partial<Execution> = {}) {
  return renderHttp(contractOf({ ...HTTP, ...transport }, more), { ...scope, args });
}

describe('an http request', () => {
  it('is filled from the call, with what may not be read as syntax encoded', () => {
    const rendered = http(
      {
        path: '/v1/files/{args.name}',
        query: { q: '{args.q}', tags: '{args.tags}', none: '{args.missing}', off: false },
        headers: { 'X-Run': '{run}' },
        body: '{args}',
      },
      { name: 'a/b?c#d é', q: 'x&y=1', tags: ['t1', 't2'] },
    );
    expect(rendered).toEqual({
      method: 'POST',
      path: '/v1/files/a%2Fb%3Fc%23d%20%C3%A9?q=x%26y%3D1&tags=t1&tags=t2&off=false',
      headers: { accept: 'application/json', 'x-run': 'r', 'content-type': 'application/json' },
      body: '{"name":"a/b?c#d é","q":"x&y=1","tags":["t1","t2"]}',
    });
  });

  it.each([
    ['header Idempotency-Key', { headers: { accept: 'application/json', 'idempotency-key': 'k-1' } }],
    ['query key', { path: '/v1/a?key=k-1' }],
    ['body /meta/key', { body: '{"meta":{"key":"k-1"}}' }],
  ])('carries the effect key as %s', (sendAs, expected) => {
    expect(http({}, {}, { idempotency: { sendAs, windowMs: 1 } })).toMatchObject(expected);
  });

  it('replaces what an argument put at the place of the key', () => {
    const rendered = http(
      { body: '{args}' },
      { reference: 'forged' },
      { idempotency: { sendAs: 'body /reference', windowMs: 1 } },
    );
    expect(rendered.body).toBe('{"reference":"k-1"}');
  });

  it('is a form where the contract says so, and plain text where it says that', () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    expect(http({ headers: form, body: { a: '{args.a}', b: 2 } }, { a: 'x y&z' }).body).toBe('a=x+y%26z&b=2');
    expect(http({ headers: { 'content-type': 'text/plain' }, body: '{args.a}' }, { a: 'x y' }).body).toBe('x y');
  });

  it.each([
    ['a value that would break out of a header', { headers: { 'X-A': '{args.v}' } }, { v: 'a\r\nX-B: c' }],
    ['a header of the connection', { headers: { Expect: '100-continue' } }, {}],
    ['another length', { headers: { 'Content-Length': '1' } }, {}],
    ['a path that climbs', { path: '/v1/{args.v}' }, { v: '..' }],
    ['a missing value in the path', { path: '/v1/{args.v}' }, {}],
    ['an object in the query', { query: { a: '{args.v}' } }, { v: { b: 1 } }],
    ['a key below a text', { body: '{args}' }, { key: 'x' }],
  ] as const)('is refused with %s', (what, transport, args) => {
    const more: Partial<Execution> =
      what === 'a key below a text' ? { idempotency: { sendAs: 'body /key/id', windowMs: 1 } } : {};
    expect(() => http(transport, args, more)).toThrow(expect.objectContaining({ code: 'request_not_renderable' }));
  });

  it('never holds a secret, whatever the scope', () => {
    expect(JSON.stringify(http({ body: '{args}' }))).not.toContain('authorization');
  });
});

const SEND: NonNullable<MailExecution['send']> = {
  from: 'Billing <billing@example.org>',
  to: '{args.to}',
  subject: 'Invoice for {args.who}',
  text: 'Dear {args.who},\nthanks.',
};
const mail = (send: Partial<typeof SEND>, args: JsonObject) =>
  renderMail(contractOf({ kind: 'mail', send: { ...SEND, ...send } }), { ...scope, args }, 'holdfast.example.org');

describe('a mail', () => {
  it('has a Message-ID made from the effect key', () => {
    expect(mail({}, { to: 'Ann <ann@example.org>', who: 'Ann' })).toEqual({
      kind: 'send',
      messageId: '<k-1@holdfast.example.org>',
      from: 'billing@example.org',
      to: ['ann@example.org'],
      subject: 'Invoice for Ann',
      text: 'Dear Ann,\nthanks.',
    });
  });

  it.each([
    ['another header in the subject', {}, { to: 'ann@example.org', who: 'x\r\nBcc: eve@example.org' }],
    ['another header in the address', {}, { to: 'ann@example.org\r\nBcc: eve@example.org', who: 'x' }],
    ['another recipient by a comma', {}, { to: 'ann@example.org, eve@example.org', who: 'x' }],
    ['another recipient by a semicolon', {}, { to: 'ann@example.org; eve@example.org', who: 'x' }],
    ['a group of recipients', {}, { to: 'all: ann@example.org, eve@example.org;', who: 'x' }],
    ['an SMTP command in the address', {}, { to: '"ann> SIZE=1"@example.org', who: 'x' }],
    ['no address', {}, { to: 'nobody', who: 'x' }],
    ['another sender', { from: '{args.to}' }, { to: 'a@b.c, d@e.f', who: 'x' }],
  ] as const)('is refused with %s', (_what, send, args) => {
    expect(() => mail(send, args)).toThrow(expect.objectContaining({ code: 'request_not_renderable' }));
  });

  it('goes to as many as the template lists', () => {
    const { to } = mail({ to: '{args.to}, archive@example.org' }, { to: 'ann@example.org', who: 'x' });
    expect(to).toEqual(['ann@example.org', 'archive@example.org']);
  });

  it('is looked for by a whole Message-ID or by the key alone', () => {
    const find = (messageId: string) =>
      renderMail(contractOf({ kind: 'mail', find: { messageId, mailbox: 'INBOX' } }), scope, 'holdfast.example.org');
    const expected = { kind: 'find', messageId: '<k-1@holdfast.example.org>', mailbox: 'INBOX' };
    expect(find('{effect_key}')).toEqual(expected);
    expect(find('<{effect_key}@holdfast.example.org>')).toEqual(expected);
  });
});
