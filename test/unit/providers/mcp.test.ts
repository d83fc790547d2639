import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Digest, McpExecution } from '../../../contracts/contract.ts';
import { mcpProvider, upstreamDigest } from '../../../providers/mcp.ts';
import type { ProviderAdapter, SendInput } from '../../../providers/provider.ts';
import { type Call, type ScriptedMcp, scriptedMcp } from './mcp-server.ts';
import { contractOf, inputOf, scope } from './support.ts';

const ACT: McpExecution = { kind: 'mcp', tool: 'act', arguments: { n: 1 } };
const ERAS = ['2025-11-25', '2026-07-28'] as const;
const OK = { resultType: 'complete', content: [{ type: 'text', text: 'done' }] };

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(
  era: (typeof ERAS)[number],
  onCall: (call: Call) => void,
): Promise<[ScriptedMcp, ProviderAdapter]> {
  const server = await scriptedMcp(onCall);
  const adapter = mcpProvider({ name: 'm', era, transport: { http: { url: server.url } } });
  closing.push(
    () => adapter.close(),
    () => server.stop(),
  );
  return [server, adapter];
}

function send(adapter: ProviderAdapter, more: Partial<SendInput> = {}, transport = ACT) {
  const contract = contractOf(transport);
  return adapter.send(inputOf(contract, adapter.render(contract, scope), more));
}

describe.each(ERAS)('one send is one tools/call (%s)', (era) => {
  const stream = (call: Call, events: string): void => {
    call.response.writeHead(200, { 'content-type': 'text/event-stream' });
    call.response.write(events);
  };
  const cases: [string, (call: Call) => void, object][] = [
    ['a result', (call) => call.result(OK), { kind: 'response', status: 'ok', body: { content: OK.content } }],
    [
      'a result with structure that fits no output schema here',
      (call) => call.result({ ...OK, structuredContent: { a: 1 } }),
      { kind: 'response', status: 'ok', body: { content: OK.content, structuredContent: { a: 1 } } },
    ],
    [
      'isError',
      (call) => call.result({ ...OK, isError: true }),
      { kind: 'response', status: 'error', body: { content: OK.content } },
    ],
    [
      'a JSON-RPC error',
      (call) => call.error(-32602, 'bad arguments'),
      { kind: 'response', status: '-32602', body: { message: expect.stringContaining('bad arguments') } },
    ],
    [
      'a header mismatch, on which the SDK would list and call again',
      (call) => call.error(-32020, 'header mismatch'),
      { kind: 'response', status: '-32020' },
    ],
    ['401', (call) => call.response.writeHead(401).end('no'), { kind: 'response', status: 401 }],
    [
      '401 with a challenge',
      (call) => call.response.writeHead(401, { 'www-authenticate': 'Bearer realm="x"' }).end('no'),
      { kind: 'response', status: 401 },
    ],
    [
      '403 that asks for more scope',
      (call) =>
        call.response.writeHead(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="x"' }).end('no'),
      { kind: 'response', status: 403 },
    ],
    [
      'a redirect',
      (call) => call.response.writeHead(307, { location: '/mcp' }).end(),
      { kind: 'response', status: 307 },
    ],
    ['500', (call) => call.response.writeHead(500).end('broken'), { kind: 'response', status: 500 }],
    ['a dropped socket', (call) => call.request.socket.destroy(), { kind: 'no_answer' }],
    [
      'a stream that breaks',
      (call) => {
        stream(call, 'id: 1\ndata: \n\n');
        setTimeout(() => call.request.socket.destroy(), 10);
      },
      { kind: 'no_answer' },
    ],
    [
      'a stream that ends without a result',
      (call) => {
        stream(call, 'id: 1\ndata: \n\n');
        call.response.end();
      },
      { kind: 'no_answer', why: 'the answer ended without a result' },
    ],
    [
      'a result in a stream that breaks right behind it',
      (call) => {
        stream(call, `data: ${JSON.stringify({ jsonrpc: '2.0', id: call.message.id, result: OK })}\n\n`);
        setTimeout(() => call.request.socket.destroy(), 10);
      },
      { kind: 'response', status: 'ok' },
    ],
    ['silence', () => undefined, { kind: 'no_answer', why: 'no answer within 150 ms' }],
    [
      'an answer above 1 MiB',
      (call) => call.result({ ...OK, content: [{ type: 'text', text: 'x'.repeat(1_100_000) }] }),
      { kind: 'no_answer' },
    ],
  ];
  it.each(cases)('%s', async (_name, onCall, expected) => {
    const [server, adapter] = await serve(era, onCall);
    let writes = 0;
    const answer = await send(adapter, {
      timeoutMs: 150,
      wrote: () => {
        writes++;
        return 'keep';
      },
    });
    expect(answer).toMatchObject(expected);
    await sleep(50);
    expect({ calls: server.calls(), writes }).toEqual({ calls: 1, writes: 1 });
  });

  it('session lost: one send, and the next send begins a new session', async () => {
    let calls = 0;
    const [server, adapter] = await serve(era, (call) =>
      calls++ === 0 ? call.response.writeHead(404).end('session not found') : call.result(OK),
    );
    expect(await send(adapter)).toMatchObject({ kind: 'response', status: 404 });
    expect(server.calls()).toBe(1);
    expect(await send(adapter)).toMatchObject({ kind: 'response', status: 'ok' });
    const hello = era === '2025-11-25' ? 'initialize' : 'server/discover';
    expect(server.seen.filter((method) => method === hello)).toHaveLength(2);
  });

  it('sends nothing when the gate says late', async () => {
    const [server, adapter] = await serve(era, (call) => call.result(OK));
    expect(await send(adapter, { gate: () => 'late' })).toEqual({
      kind: 'not_sent',
      why: 'the send-by time had passed when the connection stood',
      code: 'late',
    });
    expect(server.calls()).toBe(0);
  });

  it('is not sent when nobody listens', async () => {
    const [server, adapter] = await serve(era, (call) => call.result(OK));
    await server.stop();
    expect(await send(adapter, { connectWithinMs: 100 })).toMatchObject({ kind: 'not_sent' });
  });

  it('is not sent when the server is gone between two sends', async () => {
    const [server, adapter] = await serve(era, (call) => call.result(OK));
    expect(await send(adapter)).toMatchObject({ status: 'ok' });
    await server.stop();
    // Once the end of the idle connection has come in; before that it would be no answer.
    await sleep(20);
    expect(await send(adapter, { connectWithinMs: 100 })).toMatchObject({ kind: 'not_sent', code: 'ECONNREFUSED' });
    expect(server.calls()).toBe(1);
  });

  it('carries the secret in each request and takes it out of answers', async () => {
    let authorization: string | undefined;
    const [, adapter] = await serve(era, (call) => {
      authorization = call.request.headers.authorization;
      call.result({ ...OK, content: [{ type: 'text', text: 'hello t0ken-value' }] });
    });
    const answer = await send(adapter, { secret: { name: 's', version: '1', value: 't0ken-value' } });
    expect(authorization).toBe('Bearer t0ken-value');
    expect(answer).toEqual({
      kind: 'response',
      status: 'ok',
      body: { content: [{ type: 'text', text: 'hello [secret]' }] },
    });
  });

  it('keeps calls that run at the same time apart', async () => {
    const [server, adapter] = await serve(era, (call) => {
      const n = Number((call.message.params?.arguments as { n?: number } | undefined)?.n);
      setTimeout(() => call.result({ ...OK, content: [{ type: 'text', text: String(n) }] }), 30 - n * 10);
    });
    const texts = await Promise.all(
      [0, 1, 2].map(async (n) => {
        const answer = await send(adapter, {}, { ...ACT, arguments: { n } });
        return answer.kind === 'response' ? answer.body : answer;
      }),
    );
    expect(texts).toEqual([0, 1, 2].map((n) => ({ content: [{ type: 'text', text: String(n) }] })));
    expect(server.calls()).toBe(3);
  });
});

describe('a server that asks back (2026-07-28)', () => {
  it('is answered to once, as input_required', async () => {
    const asked = { requestState: 'state', inputRequests: { who: { method: 'elicitation/create', params: {} } } };
    const [server, adapter] = await serve('2026-07-28', (call) =>
      call.result({ resultType: 'input_required', ...asked }),
    );
    expect(await send(adapter)).toMatchObject({
      kind: 'response',
      status: 'input_required',
      body: { requestState: 'state' },
    });
    await sleep(50);
    expect(server.calls()).toBe(1);
  });
});

describe('the live definition', () => {
  const definition = {
    name: 'act',
    title: 'Act',
    description: 'acts',
    inputSchema: { type: 'object', properties: { n: { type: 'integer', 'x-own': true } } },
    outputSchema: { type: 'object' },
    annotations: { destructiveHint: true },
  };
  const pinned = (upstream: Digest) => contractOf({ ...ACT, upstream });

  it('is the same whatever stands on other pages or in keys that are not pinned', async () => {
    const [server, adapter] = await serve('2025-11-25', () => undefined);
    server.tools = [
      [{ name: 'other', inputSchema: { type: 'object' } }],
      [{ ...definition, _meta: { a: 1 }, icons: [] }],
    ];
    expect(await adapter.verify(pinned(upstreamDigest(definition)))).toEqual({ kind: 'same' });
  });

  it.each([
    ['description', { ...definition, description: 'acts, and deletes' }],
    ['input schema', { ...definition, inputSchema: { type: 'object' } }],
    ['output schema', { ...definition, outputSchema: { type: 'object', title: 'x' } }],
    ['annotations', { ...definition, annotations: {} }],
  ])('has drifted when its %s changed', async (_part, live) => {
    const [server, adapter] = await serve('2025-11-25', () => undefined);
    server.tools = [[live]];
    const pin = upstreamDigest(definition);
    expect(await adapter.verify(pinned(pin))).toEqual({
      kind: 'drifted',
      why: `act is now ${upstreamDigest(live)}, the contract pins ${pin}`,
    });
  });

  it('is gone when the server does not list it, unreachable when there is no server', async () => {
    const [server, adapter] = await serve('2025-11-25', () => undefined);
    server.tools = [[]];
    const contract = pinned(upstreamDigest(definition));
    expect(await adapter.verify(contract)).toEqual({ kind: 'gone', why: 'the server no longer lists the tool act' });
    const nobody = mcpProvider({
      name: 'n',
      era: '2025-11-25',
      transport: { stdio: { command: '/no/such/program', args: [] } },
    });
    expect(await nobody.verify(contract)).toMatchObject({
      kind: 'unreachable',
      why: expect.stringContaining('ENOENT'),
    });
  });

  it('is looked at once by many who ask together, and again when the look is too old', async () => {
    const server = await scriptedMcp(() => undefined);
    server.tools = [[definition]];
    const adapter = mcpProvider({
      name: 'm',
      era: '2025-11-25',
      transport: { http: { url: server.url } },
      definitionAgeMaxMs: 40,
    });
    closing.push(
      () => adapter.close(),
      () => server.stop(),
    );
    const contract = pinned(upstreamDigest(definition));
    const looks = () => server.seen.filter((method) => method === 'tools/list').length;
    await Promise.all([1, 2, 3, 4].map(() => adapter.verify(contract)));
    expect(looks()).toBe(1);
    await sleep(60);
    server.tools = [[{ ...definition, description: 'new' }]];
    expect(await adapter.verify(contract)).toMatchObject({ kind: 'drifted' });
    expect(looks()).toBe(2);
  });

  it('does not end in a server that pages without end', async () => {
    const [server, adapter] = await serve('2025-11-25', () => undefined);
    server.tools = Array.from({ length: 100 }, () => []);
    expect(await adapter.verify(pinned(upstreamDigest(definition)))).toMatchObject({ kind: 'unreachable' });
  });

  it('is not looked at for a contract that pins none', async () => {
    const [server, adapter] = await serve('2025-11-25', () => undefined);
    expect(await adapter.verify(contractOf(ACT))).toEqual({ kind: 'not_checked' });
    expect(server.seen).toEqual([]);
  });
});

describe('rendering', () => {
  const adapter = mcpProvider({ name: 'm', era: '2025-11-25', transport: { stdio: { command: 'x', args: [] } } });

  it('puts the key into the arguments where the contract says so', () => {
    const contract = contractOf(
      { ...ACT, arguments: '{args}' },
      { idempotency: { sendAs: 'body /meta/key', windowMs: 1 } },
    );
    expect(adapter.render(contract, { ...scope, args: { a: 1 } })).toEqual({
      tool: 'act',
      arguments: { a: 1, meta: { key: 'k-1' } },
    });
  });

  it('refuses a key in a header, which a tool never sees', () => {
    const contract = contractOf(ACT, { idempotency: { sendAs: 'header X', windowMs: 1 } });
    expect(() => adapter.render(contract, scope)).toThrow(expect.objectContaining({ code: 'request_not_renderable' }));
  });
});
