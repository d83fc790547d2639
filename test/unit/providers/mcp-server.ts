import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

interface Message {
  readonly id?: number;
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

export interface Call {
  readonly message: Message;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Answers as JSON-RPC, either as one JSON document or as one event of a stream. */
  result(result: object): void;
  error(code: number, message: string): void;
}

export interface ScriptedMcp {
  readonly url: string;
  /** Methods in the order in which they came in; `GET` and `DELETE` for those requests. */
  readonly seen: string[];
  calls(): number;
  tools: object[][];
  stop(): Promise<void>;
}

/** An MCP server over Streamable HTTP that speaks both eras by hand, so that a test sees every request. */
export async function scriptedMcp(onCall: (call: Call) => void): Promise<ScriptedMcp> {
  const seen: string[] = [];
  const scripted = { tools: [[{ name: 'act', inputSchema: { type: 'object' } }]] as object[][] };
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') {
      seen.push(request.method ?? '');
      response.writeHead(405).end();
      return;
    }
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const message = JSON.parse(text) as Message;
    seen.push(message.method);
    const say = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's-1' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body }));
    };
    if (message.id === undefined) return void response.writeHead(202).end();
    switch (message.method) {
      case 'initialize':
        return say({
          result: {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 's', version: '1' },
          },
        });
      case 'server/discover':
        return say({
          result: {
            resultType: 'complete',
            supportedVersions: ['2026-07-28'],
            capabilities: { tools: {} },
            serverInfo: { name: 's', version: '1' },
          },
        });
      case 'tools/list': {
        const page = Number(message.params?.cursor ?? 0);
        const next = page + 1 < scripted.tools.length ? { nextCursor: String(page + 1) } : {};
        return say({ result: { resultType: 'complete', tools: scripted.tools[page], ...next } });
      }
      case 'tools/call':
        return onCall({
          message,
          request,
          response,
          result: (result) => say({ result }),
          error: (code, words) => say({ error: { code, message: words } }),
        });
      default:
        return say({ error: { code: -32601, message: 'no such method' } });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return Object.assign(scripted, {
    url: `http://127.0.0.1:${port}/mcp`,
    seen,
    calls: () => seen.filter((method) => method === 'tools/call').length,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}
