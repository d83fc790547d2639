import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Fleet } from './fleet.ts';

/** Without a successful lease beat for this long the process is not ready: it could not send. */
const BEAT_AGE_MAX_MS = 10_000;

/**
 * `/healthz` (the process answers), `/readyz` (workers run, the lease beats, Postgres and Temporal answer) and `/metrics`.
 * Readiness reads the workers' own state: a FAILED worker in a living process is not ready (temporalio/sdk-typescript#290).
 */
export async function serveHealth(
  fleet: Fleet,
  host: string,
  port: number,
): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void answer(fleet, request.url ?? '/').then(({ status, type, body }) => {
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

async function answer(fleet: Fleet, url: string): Promise<Reply> {
  switch (url.split('?')[0]) {
    case '/healthz':
      return json(200, { ok: true, pid: process.pid });
    case '/readyz': {
      const readiness = await ready(fleet);
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
async function ready(fleet: Fleet) {
  const workers = fleet.workers.map((worker) => {
    const { runState, workflowPollerState, activityPollerState } = worker.getStatus();
    return {
      taskQueue: worker.options.taskQueue,
      state: runState,
      workflowPoller: workflowPollerState,
      activityPoller: activityPollerState,
    };
  });
  const [postgres, temporal] = await Promise.all([
    works(() => fleet.ledger.run('ready', () => fleet.ledger.sql`SELECT 1`, 2_000)),
    works(() =>
      fleet.temporal.client.connection.withDeadline(Date.now() + 2_000, () =>
        fleet.temporal.client.workflowService.getSystemInfo({}),
      ),
    ),
  ]);
  const beatAgeMs = Math.round(fleet.dispatcher.lease.beatAgeMs());
  const running = workers.every((worker) => worker.state === 'RUNNING');
  return {
    ready: running && postgres && temporal && beatAgeMs < BEAT_AGE_MAX_MS,
    workers,
    postgres,
    temporal,
    beatAgeMs,
    process: fleet.dispatcher.lease.processId,
    ...fleet.dispatcher.load(),
  };
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
    server.once('error', reject);
    server.listen(port, host, () => resolve());
  });
}
