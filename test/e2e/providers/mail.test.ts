import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MailExecution } from '../../../contracts/contract.ts';
import { exampleContracts } from '../../../examples/contract-refs.ts';
import { mailProvider } from '../../../providers/mail.ts';
import type { ProviderAdapter, Scope, SendInput } from '../../../providers/provider.ts';
import { type Dovecot, dovecotMissing, startDovecot } from '../../support/dovecot.ts';
import { contractOf, inputOf, look, scope } from '../../unit/providers/support.ts';

const SEND: MailExecution = {
  kind: 'mail',
  send: { from: 'billing@example.org', to: '{args.to}', subject: 'Invoice {args.n}', text: 'Dear {args.to}' },
};
const FIND: MailExecution = { kind: 'mail', find: { messageId: '{args.key}', mailbox: 'INBOX' } };
const secretOf = (value: string) => ({ name: 'mailbox', version: '1', value });

const scopeOf = (effectKey: string, args: Scope['args']): Scope => ({ ...scope, effectKey, args });

function send(adapter: ProviderAdapter, effectKey: string, to: string, more: Partial<SendInput> = {}) {
  const contract = contractOf(SEND);
  return adapter.send(inputOf(contract, adapter.render(contract, scopeOf(effectKey, { to, n: '7' })), more));
}

function find(adapter: ProviderAdapter, key: string, more: Partial<SendInput> = {}) {
  const contract = contractOf(FIND, { effect: 'PURE' });
  return adapter.send(inputOf(contract, adapter.render(contract, scopeOf('look', { key })), more));
}

const missing = dovecotMissing();
if (missing !== null) {
  if (process.env.CI) throw new Error(missing);
  console.warn(`SKIPPED: mail against Dovecot (${missing})`);
}

describe.skipIf(missing !== null)('mail against Dovecot', () => {
  let server: Dovecot;
  let adapter: ProviderAdapter;
  beforeAll(async () => {
    server = await startDovecot();
    adapter = mailProvider({
      name: 'mail',
      smtp: { host: server.host, port: server.lmtpPort, lmtp: true },
      imap: { host: server.host, port: server.imapPort, user: server.user },
      domain: 'holdfast.example.org',
    });
  });
  afterAll(() => server?.stop());

  it('delivers one mail and finds it by its exact Message-ID', async () => {
    let writes = 0;
    const sent = await send(adapter, 'aa11', 'agent@example.org', {
      wrote: () => {
        writes++;
        return 'keep';
      },
    });
    expect(sent).toMatchObject({
      kind: 'response',
      status: 250,
      body: { command: 'DATA', accepted: ['agent@example.org'], rejected: [] },
    });
    expect({ writes, inBox: server.count() }).toEqual({ writes: 1, inBox: 1 });
    const found = await find(adapter, 'aa11', { secret: secretOf(server.password) });
    expect(found).toEqual({
      kind: 'response',
      status: 'ok',
      body: {
        count: 1,
        matches: [
          {
            messageId: '<aa11@holdfast.example.org>',
            uid: expect.any(Number),
            subject: 'Invoice 7',
            from: 'billing@example.org',
            to: ['agent@example.org'],
            size: expect.any(Number),
          },
        ],
      },
    });
  });

  it('proves by the example contracts that a mail was sent, and only suggests that one was not', async () => {
    const [finder, sender] = exampleContracts(join(import.meta.dirname, '../../../examples/mail-provider')).map(
      ({ contract }) => contract,
    );
    if (!finder || !sender) throw new Error('no example contracts');
    const args = { to: 'agent@example.org', subject: 'Grüße  aus Köln ', text: 'x' };
    const secret = secretOf(server.password);
    await adapter.send(inputOf(sender, adapter.render(sender, scopeOf('gg77', args)), { secret }));
    const seen = (key: string) => look(adapter, sender, finder, scopeOf(key, args), { secret });
    expect(await seen('gg77')).toEqual({
      kind: 'found',
      matches: 1,
      equal: true,
      reference: '<gg77@holdfast.example.org>',
    });
    expect(await seen('hh88')).toMatchObject({ kind: 'absent', complete: true });
    expect(sender.execution.evidence?.absence).toBe('suggests');
  });

  it('does not take a longer Message-ID that contains the wanted one', async () => {
    await send(adapter, 'xbb22', 'agent@example.org');
    const found = await find(adapter, 'bb22', { secret: secretOf(server.password) });
    expect(found).toEqual({ kind: 'response', status: 'ok', body: { count: 0, matches: [] } });
  });

  it('shows two mails with one Message-ID as two', async () => {
    await send(adapter, 'cc33', 'agent@example.org');
    await send(adapter, 'cc33', 'agent@example.org');
    const found = await find(adapter, 'cc33', { secret: secretOf(server.password) });
    expect(found).toMatchObject({ status: 'ok', body: { count: 2 } });
  });

  it('answers a refused login as an error without the password', async () => {
    const found = await find(adapter, 'aa11', { secret: secretOf('wrong-password') });
    expect(found).toMatchObject({ kind: 'response', status: 'error' });
    expect(JSON.stringify(found)).not.toContain('wrong-password');
  });

  it('answers a missing mailbox as an error, not as absence', async () => {
    const contract = contractOf({ kind: 'mail', find: { messageId: '{args.key}', mailbox: 'Nowhere' } });
    const request = adapter.render(contract, scopeOf('look', { key: 'aa11' }));
    const found = await adapter.send(inputOf(contract, request, { secret: secretOf(server.password) }));
    expect(found).toMatchObject({ kind: 'response', status: 'error' });
  });

  it('sends nothing when the gate says late', async () => {
    const before = server.count();
    expect(await send(adapter, 'dd44', 'agent@example.org', { gate: () => 'late' })).toEqual({
      kind: 'not_sent',
      why: 'the send-by time had passed when the connection stood',
      code: 'late',
    });
    expect(server.count()).toBe(before);
  });
});

/** An SMTP server that says what the script tells it to, by the first word of each line. */
async function scripted(replies: Record<string, string | ((socket: Socket) => void)>) {
  const lines: string[] = [];
  const server = createServer((socket) => {
    let rest = '';
    const say = (word: string): void => {
      const reply = replies[word];
      if (typeof reply === 'string') socket.write(`${reply}\r\n`);
      else reply?.(socket);
    };
    socket.on('error', () => undefined);
    say('GREETING');
    socket.on('data', (chunk) => {
      rest += chunk.toString();
      for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 2);
        lines.push(line);
        const word = line === '.' ? '.' : (line.split(/[ :]/)[0] ?? '');
        if (word in replies) say(word);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const adapter = mailProvider({ name: 'mail', smtp: { host: '127.0.0.1', port }, domain: 'example.org' });
  return { adapter, lines, stop: () => new Promise((resolve) => server.close(resolve)) };
}

const POLITE = {
  GREETING: '220 hi',
  EHLO: '250 hi',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go',
  '.': '250 queued',
  QUIT: '221 bye',
};
const drop = (socket: Socket): void => {
  socket.destroy();
};

describe('what an SMTP conversation proves', () => {
  const cases: [string, Parameters<typeof scripted>[0], object][] = [
    [
      'acceptance',
      {},
      {
        kind: 'response',
        status: 250,
        body: { command: 'DATA', response: '250 queued', accepted: ['a@b.org'], rejected: [] },
      },
    ],
    [
      'a refused sender',
      { MAIL: '550 no' },
      { kind: 'response', status: 550, body: { command: 'MAIL FROM', response: '550 no' } },
    ],
    [
      'a recipient refused for now',
      { RCPT: '451 later' },
      { kind: 'response', status: 451, body: { command: 'RCPT TO', response: '451 later' } },
    ],
    [
      'a refused message',
      { '.': '554 spam' },
      { kind: 'response', status: 554, body: { command: 'DATA', response: '554 spam' } },
    ],
    [
      'DATA refused',
      { DATA: '503 no' },
      { kind: 'response', status: 503, body: { command: 'DATA', response: '503 no' } },
    ],
    ['a shutdown notice after the message', { '.': '421 closing' }, { kind: 'no_answer' }],
    ['a drop after the message', { '.': drop }, { kind: 'no_answer' }],
    [
      'silence after the message',
      { '.': () => undefined },
      { kind: 'no_answer', why: 'no answer within the time limit' },
    ],
    ['a drop before DATA', { RCPT: drop }, { kind: 'not_sent' }],
    ['a drop at DATA', { DATA: drop }, { kind: 'not_sent' }],
    ['a server that is not ready', { GREETING: '554 go away' }, { kind: 'not_sent' }],
    ['a drop instead of a greeting', { GREETING: drop }, { kind: 'not_sent' }],
  ];
  it.each(cases)('%s', async (_name, replies, expected) => {
    const { adapter, lines, stop } = await scripted({ ...POLITE, ...replies });
    const answer = await send(adapter, 'ee55', 'a@b.org', { timeoutMs: 200, connectWithinMs: 300 });
    await stop();
    expect(answer).toMatchObject(expected);
    expect(lines.filter((line) => line.startsWith('MAIL FROM')).length).toBeLessThanOrEqual(1);
    expect(lines.filter((line) => line === '.').length).toBeLessThanOrEqual(1);
  });

  it('says not sent when nobody listens', async () => {
    const { adapter, stop } = await scripted(POLITE);
    await stop();
    expect(await send(adapter, 'ff66', 'a@b.org', { connectWithinMs: 150 })).toMatchObject({
      kind: 'not_sent',
      code: 'ESOCKET',
    });
  });
});
