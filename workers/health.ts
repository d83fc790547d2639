import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Worker } from '@temporalio/worker';
import { HoldfastError } from '../effects/errors.ts';
import type { Fleet } from './fleet.ts';

/** Without a successful lease beat for this long the process is not ready: it could not send. */
const BEAT_AGE_MAX_MS = 10_000;
/** An idle poll ends after a minute and the next one begins: two missed ones mean that nobody polls. */
const POLL_AGE_MAX_MS = 150_000;

const ANSWER_WITHIN_MS = 2_000;
/** `TaskQueueType` of Temporal's API. */
const WORKFLOW = 1;
const ACTIVITY = 2;

/** Limits of readiness. */
export interface HealthOptions {
  /** Age in milliseconds of a worker's newest poll, by the server's clock, above which it is not ready. Default 150000. */
  readonly pollAgeMaxMs?: number;
}

/**
 * `/healthz` (the process answers), `/readyz` (workers run and poll, the lease beats, Postgres and Temporal answer) and
 * `/metrics`. Readiness reads the workers' own state, since a FAILED worker in a living process is not ready
 * (temporalio/sdk-typescript#290), and the age of their polls as the server saw them: a worker whose polls are refused
 * tries for ever and stays RUNNING.
 *
 * @param port 0: any free one; the answer says which.
 * @throws HoldfastError `bad_config` when the port is taken, or the host is none of this machine.
 */
export async function serveHealth(
  fleet: Fleet,
  host: string,
  port: number,
  { pollAgeMaxMs = POLL_AGE_MAX_MS }: HealthOptions = {},
): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void answer(fleet, request.url ?? '/', pollAgeMaxMs).then(({ status, type, body }) => {
      response.writeHead(status, { 'content-type': type });
      response.end(body);
    });
  });
  await listen(server, host, port);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

async function answer(fleet: Fleet, url: string, pollAgeMaxMs: number): Promise<Reply> {
  switch (url.split('?')[0]) {
    case '/healthz':
      return json(200, { ok: true, pid: process.pid });
    case '/readyz': {
      const readiness = await ready(fleet, pollAgeMaxMs);
      return json(readiness.ready ? 200 : 503, readiness);
    }
    case '/metrics':
      try {
        return { status: 200, type: 'text/plain; version=0.0.4', body: await fleet.metrics.scrape(fleet.ledger) };
      } catch (error) {
        return json(503, { error: (error as Error).message });
      }
    default:
      return json(404, { error: 'there are /healthz, /readyz and /metrics' });
  }
}

/** What a load balancer or a person needs to know about this process. */
async function ready(fleet: Fleet, pollAgeMaxMs: number) {
  const [postgres, workers] = await Promise.all([
    works(() => fleet.ledger.run('ready', () => fleet.ledger.sql`SELECT 1`, ANSWER_WITHIN_MS)),
    fleet.temporal.client.connection
      .withDeadline(Date.now() + ANSWER_WITHIN_MS, () =>
        Promise.all(fleet.workers.map((worker) => workerState(fleet, worker))),
      )
      .catch(() => undefined),
  ]);
  const temporal = workers !== undefined;
  const states = workers ?? fleet.workers.map(ownState);
  const beatAgeMs = Math.round(fleet.dispatcher.lease.beatAgeMs());
  const running = states.every(({ state }) => state === 'RUNNING');
  const polling = workers?.every(({ pollAgeMs }) => pollAgeMs !== null && pollAgeMs <= pollAgeMaxMs) ?? false;
  return {
    ready: running && polling && postgres && temporal && beatAgeMs < BEAT_AGE_MAX_MS,
    workers: states,
    postgres,
    temporal,
    beatAgeMs,
    process: fleet.dispatcher.lease.processId,
    ...fleet.dispatcher.load(),
  };
}

function ownState(worker: Worker) {
  const { runState, workflowPollerState, activityPollerState } = worker.getStatus();
  return {
    taskQueue: worker.options.taskQueue,
    state: runState,
    workflowPoller: workflowPollerState,
    activityPoller: activityPollerState,
  };
}

/** Its own state, and how long ago the server saw it poll: the older one of workflow and activity tasks; null = never. */
async function workerState(fleet: Fleet, worker: Worker) {
  const { taskQueue, identity, workflowBundle } = worker.options;
  const types = workflowBundle === undefined ? [ACTIVITY] : [WORKFLOW, ACTIVITY];
  const ages = await Promise.all(
    types.map(async (taskQueueType) => {
      const { pollers } = await fleet.temporal.client.workflowService.describeTaskQueue({
        namespace: fleet.temporal.namespace,
        taskQueue: { name: taskQueue },
        taskQueueType,
      });
      const seen = (pollers ?? [])
        .filter((poller) => poller.identity === identity)
        .map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000);
      return seen.length === 0 ? null : Math.max(0, Date.now() - Math.max(...seen));
    }),
  );
  const pollAgeMs = ages.reduce((oldest, age) => (oldest === null || age === null ? null : Math.max(oldest, age)), 0);
  return { ...ownState(worker), pollAgeMs };
}

async function works(check: () => Promise<unknown>): Promise<boolean> {
  try {
    await check();
    return true;
  } catch {
    return false;
  }
}

function json(status: number, value: unknown): Reply {
  return { status, type: 'application/json', body: `${JSON.stringify(value)}\n` };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const message = `the probes cannot listen on ${host}:${port} (${error.code})`;
      reject(new HoldfastError('bad_config', message, { place: 'worker.health_port', cause: error }));
    });
    server.listen(port, host, () => resolve());
  });
}
