import type { Contract, JsonObject, McpExecution } from '../contracts/contract.ts';
import { renderJson } from '../contracts/template.ts';
import { HoldfastError } from '../effects/errors.ts';
import { keyPlace, withKey } from './key-place.ts';
import { answerOfError, answerOfResult } from './mcp-answer.ts';
import { Flight, flights } from './mcp-flight.ts';
import type { Link, LinkOptions } from './mcp-link.ts';
import { Links } from './mcp-links.ts';
import type {
  LiveDefinition,
  ProviderAdapter,
  ProviderAnswer,
  RenderedRequest,
  Scope,
  Secret,
  SendInput,
} from './provider.ts';

export { upstreamDigest } from './mcp-definitions.ts';

/** One MCP server. */
export interface McpProviderOptions extends Omit<LinkOptions, 'definitionAgeMaxMs' | 'secretAs'> {
  readonly name: string;
  /** How old a look at the live definitions may be before a send. Default 60,000 ms. */
  readonly definitionAgeMaxMs?: number;
  /** Default `bearer` over HTTP; over stdio a secret needs `env NAME`. */
  readonly secretAs?: string;
}

/** How long `verify` may take to connect. */
const VERIFY_CONNECT_MS = 5_000;
const PLACE = '/execution/transport';

interface McpRequest {
  readonly tool: string;
  readonly arguments: JsonObject;
}

/**
 * An MCP server over stdio or Streamable HTTP. One `send` is one `tools/call` at the server: the SDK is
 * configured so that nothing makes it send again, and each call's flight holds back whatever still would.
 * Connects at first use, and again only before a send.
 */
export function mcpProvider(options: McpProviderOptions): ProviderAdapter {
  const links = new Links({
    era: options.era,
    transport: options.transport,
    definitionAgeMaxMs: options.definitionAgeMaxMs ?? 60_000,
    secretAs: options.secretAs ?? 'bearer',
  });
  return {
    name: options.name,
    kind: 'mcp',
    render: renderMcp,
    verify: (contract, secret = null) => verify(links, contract, secret),
    send: (input) => send(links, input),
    close: () => links.close(),
  };
}

function renderMcp(contract: Contract, scope: Scope): RenderedRequest {
  const transport = mcpOf(contract);
  const rendered = renderJson(transport.arguments, scope, `${PLACE}/arguments`);
  if (typeof rendered !== 'object' || rendered === null || Array.isArray(rendered)) {
    throw unfit(`${PLACE}/arguments`, 'the arguments of an MCP tool are an object');
  }
  const key = keyPlace(contract.execution.idempotency?.sendAs);
  if (key !== undefined && key.in !== 'body') {
    throw unfit('/execution/idempotency/send_as', 'an MCP call carries a key only in its arguments: body /pointer');
  }
  return { tool: transport.tool, arguments: key ? withKey(rendered, key.name, scope.effectKey) : rendered };
}

async function verify(links: Links, contract: Contract, secret: Secret | null): Promise<LiveDefinition> {
  const { tool, upstream } = mcpOf(contract);
  if (upstream === undefined) return { kind: 'not_checked' };
  try {
    const tools = await links.with(secret, VERIFY_CONNECT_MS, (link) => link.definitions.current(link.client));
    const live = tools.get(tool);
    if (live === undefined) return { kind: 'gone', why: `the server no longer lists the tool ${tool}` };
    if (live.digest === upstream) return { kind: 'same' };
    return { kind: 'drifted', why: `${tool} is now ${live.digest}, the contract pins ${upstream}` };
  } catch (error) {
    return { kind: 'unreachable', why: (error as Error).message };
  }
}

async function send(links: Links, input: SendInput): Promise<ProviderAnswer> {
  const connectBy = performance.now() + input.connectWithinMs;
  for (let attempt = 1; ; attempt++) {
    let link: Link;
    try {
      link = await links.take(input.secret, Math.max(1, connectBy - performance.now()));
    } catch (error) {
      return { kind: 'not_sent', why: (error as Error).message };
    }
    const answer = await sendOver(link, input);
    // A link that died while it was idle shows only now; nothing left, so one fresh link may be tried.
    const stale = answer.kind === 'not_sent' && answer.code !== 'late' && !link.alive();
    if (!stale || attempt > 1 || performance.now() >= connectBy) return answer;
  }
}

async function sendOver(link: Link, input: SendInput): Promise<ProviderAnswer> {
  const request = input.request as unknown as McpRequest;
  const flight = new Flight(input);
  const stop = new AbortController();
  const lost = flight.lost.then((why): ProviderAnswer => ({ kind: 'no_answer', why }));
  link.busy += 1;
  try {
    const call = flights.run(flight, () =>
      link.client.callTool(
        { name: request.tool, arguments: request.arguments },
        {
          toolDefinition: link.definitions.forCall(request.tool),
          allowInputRequired: true,
          signal: stop.signal,
          // The flight keeps the time, from the first byte; this only clears the SDK's own table.
          timeout: input.connectWithinMs + input.timeoutMs + 1_000,
        },
      ),
    );
    const answer = call.then(
      (result) => answerOfResult(result, input.secret),
      (error: Error) => answerOfError(error, flight, input.secret),
    );
    return await Promise.race([answer, lost]);
  } finally {
    link.busy -= 1;
    flight.close();
    stop.abort();
    // The server has forgotten this session: the next send begins with a new one.
    if (flight.httpStatus === 404) await link.close();
  }
}

function mcpOf(contract: Contract): McpExecution {
  const { transport } = contract.execution;
  if (transport.kind !== 'mcp') throw unfit(PLACE, `a contract of kind ${transport.kind} at an mcp provider`);
  return transport;
}

function unfit(place: string, why: string): HoldfastError {
  return new HoldfastError('request_not_renderable', why, { place });
}
