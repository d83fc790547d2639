import { hostname } from 'node:os';
import { type Connection, ScheduleOverlapPolicy } from '@temporalio/client';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { createDispatchActivities } from '../activities/dispatch-activities.ts';
import { createReconcileActivities } from '../activities/reconcile-activities.ts';
import { Reconciliations } from '../client/reconciliations.ts';
import { ensureSearchAttributes } from '../client/search-attributes.ts';
import type { Ledger } from '../db/connect.ts';
import type { UnresolvedEffect } from '../dispatcher/deps.ts';
import { Dispatcher } from '../dispatcher/dispatcher.ts';
import { HoldfastError } from '../effects/errors.ts';
import { taskQueues } from '../workflows/queues.ts';
import { loadWorkflowBundle } from './bundle.ts';
import type { HoldfastConfig } from './config.ts';
import { Metrics } from './metrics.ts';
import { dispatcherDeps, openLedger } from './parts.ts';
import { connectTemporal, type TemporalParts } from './temporal.ts';

/** Workflows kept in memory; without a cache every step would replay the whole history. */
const CACHED_WORKFLOWS_MAX = 1_000;
const SWEEP_SCHEDULE = 'sweep';

/** How a process of the fleet starts; all of it may be left out. */
export interface FleetOptions {
  /** Where the workflow bundle is kept between starts. Default `.holdfast/cache`. */
  readonly cacheDir?: string;
  /** What the dispatch queue runs in place of Holdfast's own bundle: it has to hold `dispatchCall` too. Default: Holdfast's own. */
  readonly workflowBundle?: WorkerOptions['workflowBundle'];
}

/** One process of the fleet: a dispatcher, and the Temporal workers of its roles around it. */
export class Fleet {
  readonly config: HoldfastConfig;
  readonly ledger: Ledger;
  readonly dispatcher: Dispatcher;
  readonly temporal: TemporalParts;
  readonly metrics: Metrics;
  readonly workers: readonly Worker[];
  #running: Promise<unknown> | undefined;
  #stopping: Promise<void> | undefined;

  private constructor(parts: Pick<Fleet, 'config' | 'ledger' | 'dispatcher' | 'temporal' | 'metrics' | 'workers'>) {
    this.config = parts.config;
    this.ledger = parts.ledger;
    this.dispatcher = parts.dispatcher;
    this.temporal = parts.temporal;
    this.metrics = parts.metrics;
    this.workers = parts.workers;
  }

  /**
   * Opens everything and builds the workers; they poll after {@link run}. Throws `bad_config`,
   * `ledger_unreachable`, `temporal_unreachable`, `schema_version_unsupported`, `deployment_mismatch`.
   */
  static async open(config: HoldfastConfig, options: FleetOptions = {}): Promise<Fleet> {
    const ledger = await openLedger(config, 'holdfast worker');
    let temporal: TemporalParts | undefined;
    try {
      temporal = await connectTemporal(config);
      await ensureSearchAttributes(temporal.client.connection as Connection, temporal.namespace);
      return await Fleet.#build(config, options, ledger, temporal);
    } catch (error) {
      await temporal?.connection.close().catch(() => undefined);
      await ledger.close();
      throw error;
    }
  }

  static async #build(
    config: HoldfastConfig,
    options: FleetOptions,
    ledger: Ledger,
    temporal: TemporalParts,
  ): Promise<Fleet> {
    const reconciliations = new Reconciliations(temporal.client, taskQueues(config.queue_prefix).reconcile);
    const metrics = new Metrics();
    const events = metrics.events((effect) => reconciliations.startSoon(effect));
    const deps = dispatcherDeps(config, ledger, events);
    const dispatcher = await Dispatcher.start(deps, { host: hostname(), roles: config.worker.roles });
    try {
      const workers = await buildWorkers({ config, options, temporal, dispatcher, reconciliations });
      return new Fleet({ config, ledger, dispatcher, temporal, metrics, workers });
    } catch (error) {
      await dispatcher.stop();
      throw error;
    }
  }

  /** Polls until {@link stop}, or until a worker fails. */
  async run(): Promise<void> {
    this.#running ??= Promise.all(this.workers.map((worker) => worker.run()));
    await this.#running;
  }

  /** Stops polling, waits for flights, settles the rest UNKNOWN, ends the lease, closes the connections (PROTOCOL 3.5). Idempotent. */
  async stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    await this.#stopping;
  }

  async #stop(): Promise<void> {
    // A worker that never ran keeps its connection: it gives it back only by running and shutting down.
    const ended = this.run().catch(() => undefined);
    for (const worker of this.workers) {
      if (worker.getState() === 'RUNNING') worker.shutdown();
    }
    await ended;
    try {
      await this.dispatcher.stop();
      await Promise.all([...this.dispatcher.deps.providers.values()].map((provider) => provider.close()));
      await this.temporal.connection.close();
    } finally {
      await this.ledger.close();
    }
  }
}

interface WorkerParts {
  readonly config: HoldfastConfig;
  readonly options: FleetOptions;
  readonly temporal: TemporalParts;
  readonly dispatcher: Dispatcher;
  readonly reconciliations: Reconciliations;
}

/** A worker for each queue of the process's roles. They do not poll yet. */
async function buildWorkers(parts: WorkerParts): Promise<Worker[]> {
  const { config, options, temporal, dispatcher, reconciliations } = parts;
  const queues = taskQueues(config.queue_prefix);
  const base = workerOptions(config, temporal);
  const cached = { ...base, maxCachedWorkflows: cachedWorkflows(CACHED_WORKFLOWS_MAX) };
  const bundle = await loadWorkflowBundle(options.cacheDir ?? '.holdfast/cache');
  const { roles } = config.worker;
  const activities = createDispatchActivities({ dispatcher, providerQueue: queues.provider });
  const workers: Worker[] = [];
  if (roles.includes('dispatch')) {
    const workflowBundle = options.workflowBundle ?? bundle;
    workers.push(await Worker.create({ ...cached, taskQueue: queues.dispatch, workflowBundle, activities }));
  }
  if (roles.includes('providers')) {
    for (const name of dispatcher.deps.providers.keys()) {
      workers.push(await Worker.create({ ...base, taskQueue: queues.provider(name), activities }));
    }
  }
  if (roles.includes('reconcile')) {
    const nudge = (effect: UnresolvedEffect) => reconciliations.nudge(effect);
    const reconciling = createReconcileActivities({ dispatcher, nudge });
    const taskQueue = queues.reconcile;
    workers.push(await Worker.create({ ...cached, taskQueue, workflowBundle: bundle, activities: reconciling }));
    await ensureSweepSchedule(temporal, config, taskQueue);
  }
  return workers;
}

function workerOptions(config: HoldfastConfig, { connection, namespace, dataConverter }: TemporalParts) {
  return {
    connection,
    namespace,
    dataConverter,
    maxConcurrentActivityTaskExecutions: config.worker.activities_max,
    maxConcurrentLocalActivityExecutions: config.worker.activities_max,
    shutdownGraceTime: config.settings.shutdownMs,
    // An activity waits for its flight, whatever it is told: without this the worker would wait as long.
    shutdownForceTime: config.settings.shutdownMs + config.settings.giveUpMs,
  };
}

/** Without a cache a stuck local activity would be replayed on each task (PROTOCOL 8.2): asserted, not hoped for. */
function cachedWorkflows(max: number): number {
  if (max < 1) throw new HoldfastError('bad_config', 'maxCachedWorkflows has to be above 0');
  return max;
}

async function ensureSweepSchedule(temporal: TemporalParts, config: HoldfastConfig, taskQueue: string): Promise<void> {
  const scheduleId = `${config.queue_prefix}-${SWEEP_SCHEDULE}`;
  try {
    await temporal.client.schedule.create({
      scheduleId,
      spec: { intervals: [{ every: config.worker.sweep_seconds * 1000 }] },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10s' },
      action: {
        type: 'startWorkflow',
        workflowType: 'sweep',
        taskQueue,
        workflowId: scheduleId,
        workflowExecutionTimeout: '2m',
      },
    });
  } catch (error) {
    // Another process of the fleet made it.
    if ((error as Error).name === 'ScheduleAlreadyRunning') return;
    throw error;
  }
}
