import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { HttpExecution } from '../../../contracts/contract.ts';
import { httpProvider } from '../../../providers/http.ts';
import type { ProviderAdapter, SendInput } from '../../../providers/provider.ts';
import { contractOf, countRequests, inputOf, type RawServer, rawServer, scope } from './support.ts';

const POST: HttpExecution = {
  kind: 'http',
  method: 'POST',
  path: '/v1/things',
  query: {},
  headers: {},
  body: { a: 1 },
  secretAs: 'bearer',
};
const contract = contractOf(POST);
const JSON_OK =
  'HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 11\r\nx-other: 1\r\nlocation: /v1/things/7\r\n\r\n{"id":"t7"}';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(onText: Parameters<typeof rawServer>[0]): Promise<[RawServer, ProviderAdapter]> {
  const server = await rawServer(onText);
  const adapter = httpProvider({ name: 'test', baseUrl: `http://127.0.0.1:${server.port}/api/` });
  closing.push(
    () => adapter.close(),
    () => server.stop(),
  );
  return [server, adapter];
}

const send = (adapter: ProviderAdapter, more: Partial<SendInput> = {}, of = contract) =>
  adapter.send(inputOf(of, adapter.render(of, scope), more));

describe('one request', () => {
  it('sends what was rendered, with the secret added, and answers with picked headers', async () => {
    const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
    let writes = 0;
    const answer = await send(adapter, {
      secret: { name: 'w', version: '1', value: 's3cret-value' },
      wrote: () => {
        writes++;
        return 'keep';
      },
    });
    expect(answer).toEqual({
      kind: 'response',
      status: 201,
      body: { id: 't7' },
      headers: { 'content-type': 'application/json', location: '/v1/things/7' },
    });
    expect(writes).toBe(1);
    expect(server.texts[0]?.split('\r\n')).toEqual([
      'POST /api/v1/things HTTP/1.1',
      'accept: application/json',
      'content-type: application/json',
      'authorization: Bearer s3cret-value',
      'content-length: 7',
      `Host: 127.0.0.1:${server.port}`,
      'Connection: keep-alive',
      '',
      '{"a":1}',
    ]);
  });

  it('does not follow a redirect', async () => {
    const [server, adapter] = await serve((socket) =>
      socket.write('HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n'),
    );
    expect(await send(adapter)).toEqual({
      kind: 'response',
      status: 307,
      body: null,
      headers: { location: '/elsewhere' },
    });
    expect(countRequests(server.texts)).toBe(1);
  });

  it('does not try again after 401', async () => {
    const [server, adapter] = await serve((socket) =>
      socket.write('HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 2\r\n\r\nno'),
    );
    expect(await send(adapter)).toEqual({ kind: 'response', status: 401, body: 'no', headers: {} });
    expect(countRequests(server.texts)).toBe(1);
  });

  it('ignores 1xx answers', async () => {
    const [, adapter] = await serve((socket) =>
      socket.write(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${JSON_OK}`),
    );
    expect(await send(adapter)).toMatchObject({ kind: 'response', status: 201, body: { id: 't7' } });
  });

  it('takes the secret out of an answer that echoes it', async () => {
    const [, adapter] = await serve((socket) =>
      socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\nbad token s3cret-value'),
    );
    const answer = await send(adapter, { secret: { name: 'w', version: '1', value: 's3cret-value' } });
    expect(answer).toEqual({ kind: 'response', status: 400, body: 'bad token [secret]', headers: {} });
  });

  it('reads at most 1 MiB of an answer and says so', async () => {
    const [, adapter] = await serve((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n');
      socket.end('x'.repeat(1024 * 1024 + 10));
    });
    const answer = await send(adapter);
    expect(answer).toEqual({
      kind: 'response',
      status: 200,
      body: 'x'.repeat(1024 * 1024),
      headers: { 'content-type': 'text/plain' },
      truncated: true,
    });
  });
});

describe('nothing was sent', () => {
  it('says so when nobody listens, after it has tried until the time was over', async () => {
    const [server, adapter] = await serve(() => undefined);
    await server.stop();
    const answer = await send(adapter, { connectWithinMs: 100 });
    expect(answer).toEqual({
      kind: 'not_sent',
      why: `cannot connect to 127.0.0.1:${server.port}: connect ECONNREFUSED 127.0.0.1:${server.port}`,
      code: 'ECONNREFUSED',
    });
  });

  it('connects again while nothing was sent, and then sends once', async () => {
    const probe = await rawServer(() => undefined);
    const { port } = probe;
    await probe.stop();
    const adapter = httpProvider({ name: 'test', baseUrl: `http://127.0.0.1:${port}` });
    let gates = 0;
    const answer = send(adapter, { connectWithinMs: 5_000, gate: () => (++gates > 0 ? 'go' : 'late') });
    await sleep(100);
    let requests = 0;
    const late = createServer((socket) =>
      socket.once('data', () => {
        requests++;
        socket.write(JSON_OK);
      }),
    );
    await new Promise<void>((resolve) => late.listen(port, '127.0.0.1', resolve));
    expect(await answer).toMatchObject({ kind: 'response', status: 201 });
    expect({ requests, gates }).toEqual({ requests: 1, gates: 1 });
    await adapter.close();
    await new Promise((resolve) => late.close(resolve));
  });

  it('stays silent on a standing connection when the gate says late', async () => {
    const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
    let writes = 0;
    const answer = await send(adapter, {
      gate: () => 'late',
      wrote: () => {
        writes++;
        return 'keep';
      },
    });
    expect(answer).toEqual({
      kind: 'not_sent',
      why: 'the send-by time had passed when the connection stood',
      code: 'late',
    });
    await sleep(20);
    expect({ texts: server.texts.join(''), writes }).toEqual({ texts: '', writes: 0 });
  });

  it('drops the connection when the request turns out to have left too late', async () => {
    const [server, adapter] = await serve(() => undefined);
    const answer = await send(adapter, { wrote: () => 'drop' });
    expect(answer).toMatchObject({ kind: 'no_answer' });
    await sleep(20);
    expect(server.texts.join('')).toContain('HTTP/1.1');
  });

  it('does not ask the gate before the connection stands', async () => {
    const [server, adapter] = await serve(() => undefined);
    await server.stop();
    let asked = 0;
    await send(adapter, { connectWithinMs: 60, gate: () => (++asked > 0 ? 'go' : 'late') });
    expect(asked).toBe(0);
  });

  it('treats a TLS handshake that fails as not sent', async () => {
    const [server] = await serve((socket) => socket.end('this is not TLS'));
    const adapter = httpProvider({ name: 'test', baseUrl: `https://127.0.0.1:${server.port}` });
    expect(await send(adapter, { connectWithinMs: 200 })).toMatchObject({ kind: 'not_sent' });
    await adapter.close();
  });

  it('refuses a secret that no header can carry, without showing it', async () => {
    const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
    const answer = await send(adapter, { secret: { name: 'w', version: '1', value: 'line\r\nx: break' } });
    expect(answer).toEqual({
      kind: 'not_sent',
      why: 'Invalid character in header content ["authorization"]',
      code: 'ERR_REQUEST',
    });
    expect(server.connections()).toBe(0);
  });
});

describe('no answer after the request was handed over', () => {
  const cases: [string, Parameters<typeof rawServer>[0], string][] = [
    ['a reset', (socket) => socket.resetAndDestroy(), 'the connection was reset before a whole answer (ECONNRESET)'],
    ['a close without a byte', (socket) => socket.end(), 'the connection was reset before a whole answer (ECONNRESET)'],
    [
      'a close in the middle of the body',
      (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'),
      'the connection was reset before a whole answer (ECONNRESET)',
    ],
    [
      'text that is not HTTP',
      (socket) => socket.write('hello\r\n\r\n'),
      'the answer is malformed (HPE_INVALID_CONSTANT)',
    ],
    ['silence', () => undefined, 'no whole answer within 60 ms'],
    [
      'silence after the head',
      (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'),
      'no whole answer within 60 ms',
    ],
  ];
  it.each(cases)('%s is no answer, and the request is not repeated', async (_name, onText, why) => {
    const [server, adapter] = await serve(onText);
    let writes = 0;
    expect(
      await send(adapter, {
        timeoutMs: 60,
        wrote: () => {
          writes++;
          return 'keep';
        },
      }),
    ).toEqual({
      kind: 'no_answer',
      why,
    });
    await sleep(30);
    expect({ requests: countRequests(server.texts), writes }).toEqual({ requests: 1, writes: 1 });
  });
});

describe('idle sockets', () => {
  it('reuses a young one', async () => {
    const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
    await send(adapter);
    await send(adapter);
    expect({ connections: server.connections(), requests: countRequests(server.texts) }).toEqual({
      connections: 1,
      requests: 2,
    });
  });

  it.each(['NON_RETRYABLE', 'UNKNOWN', 'REPLAYABLE'] as const)(
    'never reuses one idle for more than a second for %s (REPLAYABLE without a resource is NON_RETRYABLE)',
    async (effect) => {
      const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
      const of = contractOf(POST, { effect });
      await send(adapter, {}, of);
      await sleep(1_050);
      await send(adapter, {}, of);
      expect(server.connections()).toBe(2);
    },
  );

  it('may reuse it for a call without effect', async () => {
    const [server, adapter] = await serve((socket) => socket.write(JSON_OK));
    const of = contractOf(POST, { effect: 'PURE' });
    await send(adapter, {}, of);
    await sleep(1_050);
    await send(adapter, {}, of);
    expect(server.connections()).toBe(1);
  });

  it('gives no answer, and no second request, when a reused socket dies', async () => {
    const [server, adapter] = await serve((socket, text) => {
      if (countRequests([text]) === 1) socket.write(JSON_OK);
      else socket.resetAndDestroy();
    });
    await send(adapter);
    expect(await send(adapter)).toMatchObject({ kind: 'no_answer' });
    expect({ connections: server.connections(), requests: countRequests(server.texts) }).toEqual({
      connections: 1,
      requests: 2,
    });
  });

  it('drops one on which the server talks out of turn, instead of reading that as the next answer', async () => {
    const forged = JSON_OK.replace('t7', 'xx');
    const [server, adapter] = await serve((socket) => {
      socket.write(JSON_OK);
      setTimeout(() => socket.write(forged), 20);
    });
    await send(adapter);
    await sleep(60);
    expect(await send(adapter)).toMatchObject({ body: { id: 't7' } });
    expect(server.connections()).toBe(2);
  });
});

describe('an adapter', () => {
  it.each(['ftp://x', 'nonsense', 'http://user:pw@x/', 'http://x/?a=1'])('refuses %s as base URL', (baseUrl) => {
    expect(() => httpProvider({ name: 'p', baseUrl })).toThrow(
      expect.objectContaining({ code: 'bad_config', place: 'providers.p.base_url' }),
    );
  });
});
