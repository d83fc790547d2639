import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { HoldfastConfig } from '../workers/config.ts';
import { Fleet } from '../workers/fleet.ts';
import { plainCall } from './plain.ts';

/** What a worker process of the bench is told on its command line, as JSON. */
export interface WorkerOrder {
  readonly kind: 'holdfast' | 'plain';
  readonly config: HoldfastConfig;
  readonly bundlePath: string;
  readonly cacheDir: string;
  readonly providerUrl: string;
  /** Task queue of the plain worker. */
  readonly plainQueue: string;
}

/** The unprotected worker, with the options that Holdfast's own workers have (workers/fleet.ts). */
export async function createPlainWorker(
  order: Omit<WorkerOrder, 'kind'>,
  connection: NativeConnection,
): Promise<Worker> {
  const { config } = order;
  return Worker.create({
    connection,
    namespace: config.temporal.namespace ?? 'default',
    taskQueue: order.plainQueue,
    workflowBundle: { codePath: order.bundlePath },
    activities: { callProvider: plainCall(order.providerUrl) },
    maxCachedWorkflows: 1_000,
    maxConcurrentActivityTaskExecutions: config.worker.activities_max,
    maxConcurrentLocalActivityExecutions: config.worker.activities_max,
    shutdownGraceTime: config.settings.shutdownMs,
  });
}

/** Says that it polls, then works until its standard input ends. */
async function serve(start: () => Promise<{ run(): Promise<void>; stop(): Promise<void> }>): Promise<void> {
  const { run, stop } = await start();
  const running = run();
  process.stdout.write('ready\n');
  const told = new Promise<void>((resolve) => process.stdin.resume().on('end', resolve));
  await Promise.race([told, running]);
  await stop();
  await running;
}

async function holdfast(order: WorkerOrder) {
  const workflowBundle = { codePath: order.bundlePath };
  const fleet = await Fleet.open(order.config, { workflowBundle, cacheDir: order.cacheDir });
  return { run: () => fleet.run(), stop: () => fleet.stop() };
}

async function plain(order: WorkerOrder) {
  const connection = await NativeConnection.connect({ address: order.config.temporal.address ?? '127.0.0.1:7233' });
  const worker = await createPlainWorker(order, connection);
  const running = worker.run();
  return {
    run: () => running,
    stop: async () => {
      worker.shutdown();
      await running;
      await connection.close();
    },
  };
}

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? '') as WorkerOrder;
  Runtime.install({ logger: new DefaultLogger('WARN'), shutdownSignals: [] });
  await serve(() => (order.kind === 'holdfast' ? holdfast(order) : plain(order)));
}
