import {
  Client,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { scrub } from './body.ts';
import { openOrigin } from './exchange.ts';
import { Definitions } from './mcp-definitions.ts';
import { fetchOver } from './mcp-fetch.ts';
import { flights } from './mcp-flight.ts';
import type { Secret } from './provider.ts';
import { isStdioSecretPlace, placeSecret } from './secret-place.ts';

/** Revisions of the protocol that are spoken. */
export const MCP_ERAS = ['2025-11-25', '2026-07-28'] as const;
/** One of {@link MCP_ERAS}. */
export type McpEra = (typeof MCP_ERAS)[number];

/** A server that is started as a child process; `env` is its whole environment beside the SDK's own safe list. */
export interface StdioServer {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** How an MCP server is reached. */
export interface LinkOptions {
  readonly era: McpEra;
  readonly transport:
    | { readonly stdio: StdioServer }
    | { readonly http: { readonly url: string; readonly headers?: Readonly<Record<string, string>> } };
  /** `bearer` or `header NAME` for HTTP, `env NAME` for stdio. */
  readonly secretAs: string;
  readonly definitionAgeMaxMs: number;
}

/** One connection to an MCP server under one secret. */
export interface Link {
  readonly client: Client;
  readonly definitions: Definitions;
  alive(): boolean;
  /** Calls under way; a link is never retired below them. */
  busy: number;
  close(): Promise<void>;
}

/** A message larger than this ends a stdio server's connection. */
const STDIO_MESSAGE_BYTES_MAX = 4 * 1024 * 1024;
const STDERR_CHARS_KEPT = 500;

/** Connects and shakes hands within `withinMs`. Throws an Error that says why not, without any secret. */
export async function openLink(options: LinkOptions, secret: Secret | null, withinMs: number): Promise<Link> {
  const { transport, close, said } = makeTransport(options, secret, withinMs);
  // No sampling, elicitation or roots: the server cannot ask back, so one call stays one request.
  const client = new Client(
    { name: 'holdfast', version: '0.1.0' },
    {
      capabilities: {},
      inputRequired: { autoFulfill: false },
      versionNegotiation: { mode: options.era === '2026-07-28' ? { pin: options.era } : 'legacy' },
    },
  );
  let alive = true;
  const definitions = new Definitions(options.definitionAgeMaxMs);
  client.onclose = () => {
    alive = false;
  };
  client.setNotificationHandler('notifications/tools/list_changed', () => definitions.forget());
  try {
    await client.connect(transport, { timeout: withinMs });
  } catch (error) {
    await transport.close().catch(() => undefined);
    close();
    const text = `${(error as Error).message}${said()}`;
    throw new Error(scrub(text, secret));
  }
  return {
    client,
    definitions,
    alive: () => alive,
    busy: 0,
    close: async () => {
      alive = false;
      await client.close().catch(() => undefined);
      close();
    },
  };
}

interface MadeTransport {
  readonly transport: Transport;
  /** What is left to release after the transport is closed. */
  close(): void;
  /** The end of what the server wrote to its stderr, for the error message. */
  said(): string;
}

function makeTransport(options: LinkOptions, secret: Secret | null, withinMs: number): MadeTransport {
  return 'http' in options.transport
    ? httpTransport(options.transport.http, options.secretAs, secret, withinMs)
    : stdioTransport(options.transport.stdio, options.secretAs, secret);
}

function httpTransport(
  server: { readonly url: string; readonly headers?: Readonly<Record<string, string>> },
  secretAs: string,
  secret: Secret | null,
  withinMs: number,
): MadeTransport {
  const url = new URL(server.url);
  const origin = openOrigin(url);
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: fetchOver(origin, withinMs),
    requestInit: { headers: { ...server.headers, ...placeSecret(secretAs, secret) }, redirect: 'manual' },
    // A stream that breaks is not resumed: the flight hears of it, and evidence decides.
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1_000,
      maxReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 1,
    },
  });
  // The SDK's class says `sessionId: string | undefined`, its interface `sessionId?: string`.
  return { transport: transport as Transport, close: () => origin.close(), said: () => '' };
}

/** Also keeps the SDK from starting a second process to probe the era, which it does for its own class only. */
class WatchedStdio extends StdioClientTransport {
  override async send(message: JSONRPCMessage): Promise<void> {
    const isCall = 'method' in message && message.method === 'tools/call';
    const flight = isCall ? flights.getStore() : undefined;
    if (flight === undefined) return super.send(message);
    if (this.pid === null) throw new Error('the server process has ended');
    if (flight.gate() !== 'go') throw new Error(flight.notSent?.why ?? 'a second request for one send is held back');
    await super.send(message);
    flight.wrote();
  }
}

function stdioTransport(server: StdioServer, secretAs: string, secret: Secret | null): MadeTransport {
  if (secret !== null && !isStdioSecretPlace(secretAs)) {
    throw new Error('a secret for a stdio server travels in its environment: set secret_as to env NAME');
  }
  const env = { ...server.env, ...(secret && { [secretAs.replace(/^env /, '')]: secret.value }) };
  const transport = new WatchedStdio({
    command: server.command,
    args: [...server.args],
    env,
    stderr: 'pipe',
    maxBufferSize: STDIO_MESSAGE_BYTES_MAX,
    ...(server.cwd !== undefined && { cwd: server.cwd }),
  });
  let tail = '';
  transport.stderr?.on('data', (chunk: Buffer) => {
    tail = (tail + chunk.toString('utf8')).slice(-STDERR_CHARS_KEPT);
  });
  return { transport, close: () => undefined, said: () => (tail === '' ? '' : `; the server said: ${tail.trim()}`) };
}
