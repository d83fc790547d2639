import { randomBytes } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { Holdfast } from '../client/holdfast.ts';
import type { Contract } from '../contracts/contract.ts';
import { parseContractFile } from '../contracts/contract-file.ts';
import { connect, type Ledger } from '../db/connect.ts';
import { putCredential } from '../db/credentials.ts';
import { migrate } from '../db/migrate.ts';
import { publishContract } from '../db/registry.ts';
import { putTenant } from '../db/tenants.ts';
import { HoldfastError } from '../effects/errors.ts';
import { DemoChildren, type DemoProcess, stopLeftovers } from './demo-children.ts';
import type { Timeline } from './demo-print.ts';
import { type BillingBooks, billingBooks } from './demo-provider.ts';
import { identify, type ProcessId } from './process.ts';
import { type Stack, startStack, stopStack } from './stack.ts';
import { claimStack, defaultStackDir, releaseStack } from './stack-state.ts';

export const TENANT = 'acme';
const QUEUE_PREFIX = 'holdfast-demo';
const EXAMPLES = ['billing-provider', 'files-provider'];

const here = fileURLToPath(import.meta.url);
const root = resolve(dirname(here), '..');
/** `.ts` in the repository, `.js` when built. */
const extension = extname(here);

/** Everything the story plays on. */
export interface Stage {
  readonly dir: string;
  readonly stack: Stack;
  readonly ledger: Ledger;
  readonly holdfast: Holdfast;
  readonly children: DemoChildren;
  readonly books: BillingBooks;
  readonly contracts: ReadonlyMap<string, Contract>;
  /** Served by the official MCP filesystem server. */
  readonly filesDir: string;
  /** Name of this run: ids of two demos in one database never meet. */
  readonly run: string;
  /** Starts one more worker process and waits until it polls. */
  startWorker(name: string): Promise<DemoProcess>;
}

/** What has to be undone, in reverse order; grows while the stage is built, so that a failure half way undoes the half. */
export type Undo = (() => Promise<void>)[];

/** Builds the stage in `.holdfast/demo` on fresh data. Throws `stack_unavailable`. */
export async function buildStage(timeline: Timeline, undo: Undo): Promise<Stage> {
  const dir = join(defaultStackDir(), 'demo');
  const filesServer = findFilesServer();
  await freshDirectory(dir, timeline);
  timeline.line('stack', `starting Postgres and Temporal in ${dir}`);
  const children = new DemoChildren(dir);
  const token = randomBytes(12).toString('hex');
  const log = (line: string) => timeline.line('stack', line);
  const starting = startStack({ dir, log, binDir: join(defaultStackDir(), 'bin') });
  let connection: Connection | undefined;
  // Last of all: after a Ctrl-C there are calls in it, whose retries would throw on a closed channel.
  undo.push(async () => connection?.close());
  undo.push(async () => starting.then(stopStack, () => undefined));
  undo.push(() => children.stop());
  const [stack, provider] = await Promise.all([starting, startProvider(children, dir, token)]);
  const { postgres, temporal } = stack;
  timeline.line('stack', `Postgres ${postgres.version} and Temporal ${temporal.version} are up`);
  timeline.line('provider', `billing provider is up (pid ${provider.pid}), with books of its own`);
  await migrate(postgres.url);
  const ledger = connect(postgres.url, { applicationName: 'holdfast demo', connectionsMax: 4 });
  undo.push(() => ledger.close());
  const run = `demo-${Date.now().toString(36)}`;
  const contracts = await publishAll(ledger, run, timeline);
  const filesDir = join(dir, 'files');
  mkdirSync(filesDir, { recursive: true });
  const billingUrl = `http://127.0.0.1:${provider.ready['port']}`;
  const config = writeConfig(dir, { stack, billingUrl, filesServer, filesDir });
  connection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection, namespace: temporal.namespace });
  // On somebody else's Temporal the Schedule would fire for ever.
  undo.push(() =>
    client.schedule
      .getHandle(`${QUEUE_PREFIX}-sweep`)
      .delete()
      .catch(() => undefined),
  );
  return {
    dir,
    stack,
    ledger,
    holdfast: new Holdfast({ ledger, temporal: client, queuePrefix: QUEUE_PREFIX }),
    children,
    books: billingBooks(billingUrl),
    contracts,
    filesDir,
    run,
    startWorker: (name) =>
      children.start(name, join(root, 'cli', `main${extension}`), ['worker', '--json', '--config', config], {
        HOLDFAST_SECRET_BILLING: `${run}:${token}`,
      }),
  };
}

/** Empties the directory. What a killed demo left running is stopped first; a running one keeps its own. */
async function freshDirectory(dir: string, timeline: Timeline): Promise<void> {
  const owner = identify(process.pid) as ProcessId;
  const state = { owner, startedAt: new Date().toISOString(), children: [], postgres: null, temporal: null };
  await claimStack(dir, state, (line) => timeline.line('cleaning', line));
  for (const name of await stopLeftovers(dir)) timeline.line('cleaning', `stopped ${name}, left by a demo that died`);
  for (const name of readdirSync(dir)) if (name !== 'stack.json') removeWithTargets(join(dir, name));
  releaseStack(dir, owner);
}

/** Root keeps Postgres's data behind a link, where the user that it lends can reach it. */
function removeWithTargets(path: string): void {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory()) for (const name of readdirSync(path)) removeLink(join(path, name));
  else removeLink(path);
  rmSync(path, { recursive: true, force: true });
}

function removeLink(path: string): void {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() || !existsSync(path)) return;
  rmSync(realpathSync(path), { recursive: true, force: true });
}

function startProvider(children: DemoChildren, dir: string, token: string): Promise<DemoProcess> {
  const script = join(root, 'examples/billing-provider', `server${extension}`);
  return children.start('provider', script, ['--port', '0', '--store', join(dir, 'billing'), '--token', token], {});
}

function findFilesServer(): string {
  const require = createRequire(import.meta.url);
  try {
    return join(dirname(require.resolve('@modelcontextprotocol/server-filesystem/package.json')), 'dist/index.js');
  } catch {
    throw new HoldfastError('stack_unavailable', 'the MCP filesystem server is not installed', {
      place: '@modelcontextprotocol/server-filesystem',
      next: 'run the demo in a checkout of the repository, after npm ci',
    });
  }
}

/** Publishes the example contracts, evidence calls first, and lets the demo's tenant and credential in. */
async function publishAll(ledger: Ledger, run: string, timeline: Timeline): Promise<Map<string, Contract>> {
  const contracts = EXAMPLES.flatMap((example) => {
    const folder = join(root, 'examples', example, 'contracts');
    return readdirSync(folder).map((name) => {
      const file = join(folder, name);
      return parseContractFile(readFileSync(file, 'utf8'), file);
    });
  });
  // Evidence calls are PURE and pin nothing themselves.
  contracts.sort((a, b) => Number(b.execution.effect === 'PURE') - Number(a.execution.effect === 'PURE'));
  for (const contract of contracts) await publishContract(ledger, contract, 'demo');
  await putTenant(ledger, { tenant: TENANT });
  // A new version and account for each run: the provider starts with empty books, so its references come again.
  const grants = ['invoice', 'payment', 'setting', 'note'].flatMap((kind) => [
    `${kind}:read:${TENANT}`,
    `${kind}:write:${TENANT}`,
  ]);
  await putCredential(ledger, { name: 'billing', version: run, account: run, grants });
  timeline.line('ledger', `${contracts.length} contracts published; tenant ${TENANT}, credential billing@${run}`);
  return new Map(contracts.map((contract) => [contract.tool, contract]));
}

interface ConfigFacts {
  readonly stack: Stack;
  readonly billingUrl: string;
  readonly filesServer: string;
  readonly filesDir: string;
}

/** `holdfast.yaml` of the demo's workers (JSON is YAML). It holds the database's password, so only its owner reads it. */
function writeConfig(dir: string, { stack, billingUrl, filesServer, filesDir }: ConfigFacts): string {
  const { temporal, postgres } = stack;
  const config = {
    database: { url: postgres.url },
    temporal: {
      address: temporal.address,
      namespace: temporal.namespace,
      ...(temporal.uiUrl === null ? {} : { ui_url: temporal.uiUrl }),
    },
    queue_prefix: QUEUE_PREFIX,
    worker: { health_port: 0 },
    providers: {
      billing: { kind: 'http', base_url: billingUrl },
      files: { kind: 'mcp', era: '2025-11-25', stdio: { command: process.execPath, args: [filesServer, filesDir] } },
    },
  };
  const file = join(dir, 'holdfast.yaml');
  writeFileSync(file, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600 });
  return file;
}
