import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, type Worker } from '@temporalio/worker';
import { Holdfast } from '../client/index.ts';
import type { Contract } from '../contracts/contract.ts';
import { parseContractFile } from '../contracts/contract-file.ts';
import { connect, type Ledger } from '../db/connect.ts';
import { putCredential } from '../db/credentials.ts';
import { migrate } from '../db/migrate.ts';
import { publishContract } from '../db/registry.ts';
import { putTenant } from '../db/tenants.ts';
import { defaultStackDir, type Stack, startStack, stopStack } from '../dev/stack.ts';
import { exampleContracts } from '../examples/contract-refs.ts';
import { checkConfig, type HoldfastConfig } from '../workers/config.ts';
import { Fleet } from '../workers/fleet.ts';
import { plainCall } from './plain.ts';
import { createPlainWorker, type WorkerOrder } from './worker.ts';

export const TENANT = 'bench';
export const TOOL = { tool: 'billing.send_invoice', version: '1.0.0-bench' } as const;
/** Task queues: a worker in its own process, or in the caller's; the plain workflow's, or (the prefix of) Holdfast's. */
export const QUEUES = { ownPlain: 'own-plain', own: 'own', herePlain: 'here-plain', here: 'here' } as const;

/** Everything that the measurements need, up and polling. */
export interface Stage {
  readonly postgresUrl: string;
  readonly ledger: Ledger;
  readonly providerUrl: string;
  /** A caller without a worker, as both contenders have it. */
  readonly client: Client;
  /** Holdfast's client without a worker, and with one in this very process. */
  readonly holdfast: Holdfast;
  readonly holdfastHere: Holdfast;
  /** A client on the connection of this process's workers. */
  readonly clientHere: Client;
  readonly config: HoldfastConfig;
  /** Stops all workers, so that nothing but the caller writes to the ledger. Idempotent. */
  stopWorkers(): Promise<void>;
  close(): Promise<void>;
}

/** Starts a stack of its own with fsync on, as `holdfast dev`, a provider and the workers. Throws what the parts throw. */
export async function openStage(log: (line: string) => void): Promise<Stage> {
  const dir = join(defaultStackDir(), 'bench');
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  const undo: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const step of undo.splice(0).reverse()) await step().catch((error: Error) => log(error.message));
  };
  try {
    return await build(dir, undo, close, log);
  } catch (error) {
    await close();
    throw error;
  }
}

async function build(
  dir: string,
  undo: (() => Promise<unknown>)[],
  close: () => Promise<void>,
  log: (line: string) => void,
): Promise<Stage> {
  const stack = await startStack({ dir, binDir: join(defaultStackDir(), 'bin'), ui: false, log });
  undo.push(() => stopStack(stack));
  const bundlePath = join(dir, 'workflows.js');
  const provider = child('provider.ts', []);
  undo.push(provider.stop);
  const { port } = JSON.parse(await provider.firstLine) as { port: number };
  const providerUrl = `http://127.0.0.1:${port}`;
  await Promise.all([publish(stack.postgres.url), bundle(bundlePath)]);

  const ledger = connect(stack.postgres.url);
  undo.push(() => ledger.close());
  const order = (queue: string): Omit<WorkerOrder, 'kind' | 'plainQueue'> => ({
    config: configFor(stack, providerUrl, queue),
    bundlePath,
    cacheDir: join(dir, 'cache'),
    providerUrl,
  });
  const workers = await startWorkers(order, undo);
  const connection = await Connection.connect({ address: stack.temporal.address });
  undo.push(() => connection.close());
  const client = new Client({ connection, namespace: stack.temporal.namespace });
  const { fleet } = workers;
  const clientHere = fleet.temporal.client;
  return {
    postgresUrl: stack.postgres.url,
    ledger,
    providerUrl,
    client,
    clientHere,
    holdfast: new Holdfast({ ledger, temporal: client, queuePrefix: QUEUES.own }),
    holdfastHere: new Holdfast({
      ledger,
      temporal: clientHere,
      dispatcher: fleet.dispatcher,
      hostsWorker: true,
      queuePrefix: QUEUES.here,
    }),
    config: fleet.config,
    stopWorkers: workers.stop,
    close,
  };
}

async function startWorkers(
  order: (queue: string) => Omit<WorkerOrder, 'kind' | 'plainQueue'>,
  undo: (() => Promise<unknown>)[],
): Promise<{ fleet: Fleet; stop: () => Promise<void> }> {
  const own: WorkerOrder[] = (['holdfast', 'plain'] as const).map((kind) => ({
    ...order(QUEUES.own),
    kind,
    plainQueue: QUEUES.ownPlain,
  }));
  const children = own.map((one) => child('worker.ts', [JSON.stringify(one)]));
  undo.push(...children.map((one) => one.stop));
  const here = { ...order(QUEUES.here), plainQueue: QUEUES.herePlain };
  const { bundlePath: codePath, cacheDir } = here;
  const fleet = await Fleet.open(here.config, { workflowBundle: { codePath }, cacheDir });
  const plain: Worker = await createPlainWorker(here, fleet.temporal.connection);
  const running = plain.run();
  const fleetRunning = fleet.run();
  let stopping: Promise<void> | undefined;
  const stopAll = async () => {
    await Promise.all(children.map((one) => one.stop()));
    plain.shutdown();
    await running;
    await fleet.stop();
    await fleetRunning;
  };
  const stop = () => {
    stopping ??= stopAll();
    return stopping;
  };
  undo.push(stop);
  await Promise.all(children.map((one) => one.firstLine));
  return { fleet, stop };
}

function configFor(stack: Stack, providerUrl: string, queuePrefix: string): HoldfastConfig {
  const file = {
    database: { url: stack.postgres.url },
    temporal: { address: stack.temporal.address, namespace: stack.temporal.namespace },
    queue_prefix: queuePrefix,
    providers: { billing: { kind: 'http', base_url: providerUrl } },
  };
  return checkConfig(file, null, {});
}

/** Schema, contracts, tenant and credential, and the table of the unprotected call. */
export async function publish(url: string): Promise<void> {
  await migrate(url);
  const ledger = connect(url, { role: null });
  try {
    const contracts = exampleContracts(join(import.meta.dirname, '../examples/billing-provider'));
    // Evidence calls have to be there before the contracts that pin them.
    const evidenceFirst = contracts.sort((a, b) => Number(!isPure(a.contract)) - Number(!isPure(b.contract)));
    for (const { contract } of evidenceFirst) await publishContract(ledger, contract, 'bench');
    await publishContract(ledger, shortCall(contracts), 'bench');
    await putTenant(ledger, { tenant: TENANT });
    await putCredential(ledger, { name: 'billing', version: 'v1', account: 'bench', grants: ['**'] });
    await ledger.sql`CREATE TABLE public.plain_calls (id text PRIMARY KEY, request text NOT NULL, answer text)`;
  } finally {
    await ledger.close();
  }
}

/** The example's invoice, declared short enough for the `local` lane. */
function shortCall(contracts: ReturnType<typeof exampleContracts>): Contract {
  const example = contracts.find(({ contract }) => contract.tool === TOOL.tool);
  const text = example?.text
    .replace('\nversion: 1.0.0\n', `\nversion: ${TOOL.version}\n`)
    .replace('\n  timeout: 10s\n', '\n  timeout: 5s\n');
  const contract = parseContractFile(text ?? '', `${TOOL.tool} for the bench`);
  if (contract.version === TOOL.version && contract.execution.timeoutMs === 5_000) return contract;
  throw new Error('the example contract has changed its shape: see shortCall in bench/stage.ts');
}

const isPure = (contract: { execution: { effect: string } }): boolean => contract.execution.effect === 'PURE';

async function bundle(path: string): Promise<void> {
  const quiet = () => {};
  const logger = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: console.error };
  const { code } = await bundleWorkflowCode({ workflowsPath: join(import.meta.dirname, 'workflows.ts'), logger });
  writeFileSync(path, code);
}

interface Child {
  readonly firstLine: Promise<string>;
  /** Closes its standard input and waits for its end. Idempotent. */
  readonly stop: () => Promise<void>;
}

function child(file: string, args: readonly string[]): Child {
  const started: ChildProcess = spawn(process.execPath, [join(import.meta.dirname, file), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, HOLDFAST_SECRET_BILLING: 'v1:bench' },
  });
  const ended = new Promise<void>((resolve) => started.once('exit', () => resolve()));
  const firstLine = new Promise<string>((resolve, reject) => {
    createInterface({ input: started.stdout as NodeJS.ReadableStream }).once('line', resolve);
    started.once('error', reject);
    void ended.then(() => reject(new Error(`${file} ended before it was ready`)));
  });
  firstLine.catch(() => undefined);
  const stop = async () => {
    started.stdin?.end();
    await ended;
  };
  return { firstLine, stop };
}

/** The unprotected call with the two commits that everybody would write: prepared, on the same pool options. */
export function plainTwoCommits(url: string, providerUrl: string) {
  const { sql, close } = connect(url, { role: null });
  const call = plainCall(providerUrl);
  const run = async (id: string, invoice: Parameters<typeof call>[0]): Promise<void> => {
    await sql`INSERT INTO public.plain_calls (id, request) VALUES (${id}, ${JSON.stringify(invoice)})`;
    const answer = await call(invoice);
    await sql`UPDATE public.plain_calls SET answer = ${JSON.stringify(answer)} WHERE id = ${id}`;
  };
  return { run, close };
}
