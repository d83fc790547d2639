import { Runtime } from '@temporalio/worker';
import type { HoldfastConfig } from './config.ts';
import { Fleet, type FleetOptions } from './fleet.ts';
import { serveHealth } from './health.ts';
import { workerLogger } from './worker-log.ts';

/** How {@link runWorker} starts and what it tells. */
export interface WorkerRunOptions extends FleetOptions {
  /** Called once the workers poll: what `holdfast worker` prints. */
  readonly onReady?: (ready: WorkerReady) => void;
  /** Whether the log shows stack traces. Default false. */
  readonly stacks?: boolean;
}

/** A process that polls: what `holdfast worker --json` prints. */
export interface WorkerReady {
  readonly pid: number;
  /** The lease's process id. */
  readonly processId: string;
  readonly roles: readonly string[];
  readonly taskQueues: readonly string[];
  readonly healthPort: number | null;
}

/**
 * Runs one process of the fleet until SIGINT or SIGTERM, then shuts it down: stop polling, finish or settle,
 * end the lease (PROTOCOL 3.5). A second signal ends the process at once. Throws what {@link Fleet.open} and
 * {@link serveHealth} throw, and rethrows when a Temporal worker fails.
 */
export async function runWorker(config: HoldfastConfig, options: WorkerRunOptions = {}): Promise<void> {
  Runtime.install({ logger: workerLogger(options.stacks ?? false), shutdownSignals: [] });
  const fleet = await Fleet.open(config, options);
  const { health_port: healthPort, health_host: healthHost } = config.worker;
  const serving = healthPort === undefined ? undefined : serveHealth(fleet, healthHost, healthPort);
  const health = await serving?.catch(async (error: unknown) => {
    await fleet.stop();
    throw error;
  });
  const stop = new Promise<void>((resolve) => {
    const onSignal = () => {
      process.once('SIGINT', () => process.exit(130));
      process.once('SIGTERM', () => process.exit(143));
      resolve();
    };
    process.once('SIGINT', onSignal);
    process.once('SIGTERM', onSignal);
  });
  const running = fleet.run();
  options.onReady?.({
    pid: process.pid,
    processId: fleet.dispatcher.lease.processId,
    roles: config.worker.roles,
    taskQueues: fleet.workers.map((worker) => worker.options.taskQueue),
    healthPort: health?.port ?? null,
  });
  try {
    await Promise.race([stop, running]);
  } finally {
    await fleet.stop();
    await health?.close();
  }
}
