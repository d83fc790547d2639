import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Contract } from '../../../contracts/contract.ts';
import { getPointer } from '../../../contracts/pointer.ts';
import { exampleContracts } from '../../../examples/contract-refs.ts';
import { createProvider } from '../../../providers/index.ts';
import type { ProviderAdapter, SendInput } from '../../../providers/provider.ts';
import { contractOf, inputOf, look, scope } from '../../unit/providers/support.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SERVER = join(ROOT, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js');
const contracts = new Map(
  exampleContracts(join(ROOT, 'examples/files-provider')).map(({ contract }) => [contract.tool, contract]),
);

function contractNamed(tool: string): Contract {
  const contract = contracts.get(tool);
  if (contract === undefined) throw new Error(`no example contract ${tool}`);
  return contract;
}

function stdio(args: readonly string[]): ProviderAdapter {
  return createProvider('files', { kind: 'mcp', era: '2025-11-25', stdio: { command: process.execPath, args } });
}

function send(
  adapter: ProviderAdapter,
  contract: Contract,
  args: Record<string, string>,
  more: Partial<SendInput> = {},
) {
  return adapter.send(
    inputOf(contract, adapter.render(contract, { ...scope, args }), { connectWithinMs: 10_000, ...more }),
  );
}

describe('the official filesystem server over stdio', () => {
  const directory = mkdtempSync(join(tmpdir(), 'hf-files-'));
  let adapter: ProviderAdapter;
  beforeAll(() => {
    adapter = stdio([SERVER, directory]);
  });
  afterAll(async () => {
    await adapter.close();
    rmSync(directory, { recursive: true });
  });

  it.each(['files.write_file', 'files.read_file'])('still has the definition that %s pins', async (tool) => {
    // A failure names the digest of today; take it into the contract after a look at what changed.
    expect(await adapter.verify(contractNamed(tool))).toEqual({ kind: 'same' });
  });

  it('writes a file once, and shows its content as evidence', async () => {
    const path = join(directory, 'a.txt');
    let writes = 0;
    const written = await send(
      adapter,
      contractNamed('files.write_file'),
      { path, content: 'ünïcode\n' },
      {
        wrote: () => {
          writes++;
          return 'keep';
        },
      },
    );
    expect(written).toEqual({
      kind: 'response',
      status: 'ok',
      body: {
        content: [{ type: 'text', text: `Successfully wrote to ${path}` }],
        structuredContent: { content: `Successfully wrote to ${path}` },
      },
    });
    expect({ writes, onDisk: readFileSync(path, 'utf8') }).toEqual({ writes: 1, onDisk: 'ünïcode\n' });
    expect(await send(adapter, contractNamed('files.read_file'), { path })).toEqual({
      kind: 'response',
      status: 'ok',
      body: { content: [{ type: 'text', text: 'ünïcode\n' }], structuredContent: { content: 'ünïcode\n' } },
    });
  });

  it('shows by its content whether a file was written, against what was there before', async () => {
    const write = contractNamed('files.write_file');
    const args = { path: join(directory, 'state.txt'), content: 'wanted' };
    const seen = (differedBefore: boolean) =>
      look(adapter, write, contractNamed('files.read_file'), { ...scope, args }, {}, { differedBefore });
    expect(await seen(false)).toEqual({ kind: 'state', equal: false, differedBefore: false });
    writeFileSync(args.path, 'something else');
    expect(await seen(false)).toEqual({ kind: 'state', equal: false, differedBefore: false });
    await send(adapter, write, args);
    expect(await seen(true)).toEqual({ kind: 'state', equal: true, differedBefore: true });
  });

  it('answers a missing file and an unknown tool as error, which proves nothing', async () => {
    const path = join(directory, 'missing.txt');
    expect(await send(adapter, contractNamed('files.read_file'), { path })).toMatchObject({
      kind: 'response',
      status: 'error',
    });
    const unknown = contractOf({ kind: 'mcp', tool: 'no_such_tool', arguments: {} });
    expect(await send(adapter, unknown, {})).toMatchObject({ kind: 'response', status: 'error' });
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A server that logs each tools/call to a file and then does what its mode says. */
const SCRIPT = `
const { appendFileSync } = require('node:fs');
const [log, mode] = process.argv.slice(2);
let rest = '';
const say = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
process.stdin.on('data', (chunk) => {
  rest += chunk;
  const lines = rest.split('\\n');
  rest = lines.pop();
  for (const line of lines) {
    const { id, method } = JSON.parse(line);
    if (method === 'initialize') say(id, { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } });
    if (method !== 'tools/call') continue;
    appendFileSync(log, 'call\\n');
    if (mode === 'die') process.exit(1);
    if (mode === 'garbage') process.stdout.write('{"jsonrpc":"2.0"}\\n');
    if (mode === 'env') say(id, { content: [{ type: 'text', text: process.env.API_TOKEN ?? 'none' }] });
    if (mode === 'pid') say(id, { content: [{ type: 'text', text: String(process.pid) }] });
  }
});
`;

describe('a stdio server that misbehaves', () => {
  const directory = mkdtempSync(join(tmpdir(), 'hf-stdio-'));
  const script = join(directory, 'server.cjs');
  writeFileSync(script, SCRIPT);
  const log = join(directory, 'log');
  const act = contractOf({ kind: 'mcp', tool: 'act', arguments: {} });
  const calls = () => readFileSync(log, 'utf8').split('\n').length - 1;
  afterAll(() => rmSync(directory, { recursive: true }));

  it.each([
    ['die', { kind: 'no_answer', why: 'Connection closed' }],
    ['garbage', { kind: 'no_answer', why: 'no answer within 200 ms' }],
    ['silence', { kind: 'no_answer', why: 'no answer within 200 ms' }],
  ])('gets one call, and is no answer, when its mode is %s', async (mode, expected) => {
    writeFileSync(log, '');
    const adapter = stdio([script, log, mode]);
    expect(await send(adapter, act, {}, { timeoutMs: 200 })).toEqual(expected);
    await adapter.close();
    expect(calls()).toBe(1);
  });

  it('is started again before the next send after it has died', async () => {
    writeFileSync(log, '');
    const adapter = stdio([script, log, 'pid']);
    const pidOf = async () => {
      const answer = await send(adapter, act, {});
      return answer.kind === 'response' ? Number(getPointer(answer.body, '/content/0/text')) : answer;
    };
    const first = await pidOf();
    process.kill(Number(first), 'SIGKILL');
    // Gone from the process table means that this process has heard of its end.
    await expect.poll(() => isAlive(Number(first)), { timeout: 10_000 }).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const second = await pidOf();
    await adapter.close();
    expect({ second, calls: calls() }).toEqual({ second: expect.any(Number), calls: 2 });
    expect(second).not.toBe(first);
  });

  it('gets the secret in its environment and is not quoted with it', async () => {
    const config = { kind: 'mcp', era: '2025-11-25', secret_as: 'env API_TOKEN' };
    const adapter = createProvider('s', {
      ...config,
      stdio: { command: process.execPath, args: [script, log, 'env'] },
    });
    const secret = { name: 's', version: '1', value: 'very-secret-token' };
    expect(await send(adapter, act, {}, { secret })).toMatchObject({ body: { content: [{ text: '[secret]' }] } });
    await adapter.close();
  });

  it('is not sent anything when a secret has no place to travel', async () => {
    const adapter = stdio([script, log, 'env']);
    const secret = { name: 's', version: '1', value: 'very-secret-token' };
    expect(await send(adapter, act, {}, { secret })).toMatchObject({ kind: 'not_sent' });
    await adapter.close();
  });

  it('that cannot be started is not sent anything, and says what it said', async () => {
    const adapter = stdio(['-e', 'console.error("no config"); process.exit(3)']);
    expect(await send(adapter, act, {})).toEqual({
      kind: 'not_sent',
      why: 'Connection closed; the server said: no config',
    });
    await adapter.close();
  });
});
