import { createServer, type Server, type Socket } from 'node:net';
import type { Contract, Execution, Transport } from '../../../contracts/contract.ts';
import type { EffectKey } from '../../../effects/effect.ts';
import { evidenceArguments, type LookContext, type Observation, observe } from '../../../effects/index.ts';
import type { ProviderAdapter, Scope, SendInput } from '../../../providers/provider.ts';

/** A contract with nothing but what an adapter reads. */
export function contractOf(transport: Transport, more: Partial<Execution> = {}): Contract {
  const digest = `sha256/v1:${'0'.repeat(64)}` as Contract['digest'];
  return {
    tool: 'test.tool',
    version: '1.0.0',
    owner: 'test',
    selection: { description: 'test', useWhen: [], doNotUseWhen: [] },
    parameters: {},
    execution: {
      provider: 'test',
      effect: 'NON_RETRYABLE',
      capabilities: [],
      timeoutMs: 2_000,
      sendByMs: 2_000,
      inFlightMaxMs: 2_000,
      transport,
      key: { alphabet: 'hex', length: 64 },
      resource: [],
      exclusiveWriter: false,
      concurrent: 'unsafe',
      repeats: 'refused',
      answers: [],
      onUnknown: { waitMs: 0 },
      ...more,
    },
    returns: { sizeMaxBytes: 16_384, redact: [] },
    behaviour: {},
    compatibility: {},
    digests: { selection: digest, parameters: digest, execution: digest, returns: digest, behaviour: digest },
    digest,
    source: {},
  };
}

export const scope: Scope = { tenant: 't', run: 'r', call: 'c', effectKey: 'k-1', args: {} };

export function inputOf(contract: Contract, request: SendInput['request'], more: Partial<SendInput> = {}): SendInput {
  return {
    contract,
    request,
    effectKey: 'k-1' as EffectKey,
    secret: null,
    timeoutMs: 2_000,
    connectWithinMs: 500,
    gate: () => 'go',
    wrote: () => 'keep',
    ...more,
  };
}

/** One look as the dispatcher makes it: the pinned contract is asked, the answer read under the asking one. */
export async function look(
  adapter: ProviderAdapter,
  contract: Contract,
  asked: Contract,
  of: Scope,
  more: Partial<SendInput> = {},
  context: LookContext = {},
): Promise<Observation> {
  const rule = contract.execution.evidence;
  if (rule === undefined) throw new Error(`${contract.tool} has no evidence rule`);
  const request = adapter.render(asked, { ...of, args: evidenceArguments(rule, of) });
  const page = await adapter.send(inputOf(asked, request, more));
  return observe(contract, of, [page], context).observation;
}

export interface RawServer {
  readonly port: number;
  /** Connections accepted so far. */
  connections(): number;
  /** Whole text that came in, per connection. */
  readonly texts: string[];
  stop(): Promise<void>;
}

/** A bare TCP server: `onText` sees everything a connection has sent so far. */
export async function rawServer(
  onText: (socket: Socket, text: string, connection: number) => void,
): Promise<RawServer> {
  const texts: string[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    const connection = texts.push('') - 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      texts[connection] += chunk.toString('latin1');
      onText(socket, texts[connection] ?? '', connection);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    connections: () => texts.length,
    texts,
    stop: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

export const countRequests = (texts: readonly string[]): number =>
  texts.join('').match(/(?:GET|POST|PUT|PATCH|DELETE) \S+ HTTP\/1\.1\r\n/g)?.length ?? 0;
