import { randomBytes } from 'node:crypto';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { Holdfast } from '../../../client/holdfast.ts';
import type { Contract, EffectClass, JsonObject } from '../../../contracts/contract.ts';
import { connect, type Ledger } from '../../../db/connect.ts';
import { putCredential } from '../../../db/credentials.ts';
import { publishContract } from '../../../db/registry.ts';
import { type EffectRow, readEffect } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import type { Call, EffectId } from '../../../effects/effect.ts';
import { effectKey } from '../../../effects/effect-key.ts';
import type { WorkerRole } from '../../../workers/config.ts';
import type { DispatchOptions } from '../../../workflows/dispatch.ts';
import type { dispatchCall } from '../../../workflows/dispatch-call.ts';
import { type Billing, startBilling } from '../../support/billing.ts';
import {
  bundleTestWorkflows,
  type FleetProcess,
  type FleetProcessOptions,
  startFleetProcess,
} from '../../support/fleet.ts';
import { freshDatabase, freshNamespace } from '../../support/stack.ts';
import type { callMany } from '../../support/workflows/call-many.ts';
import { crashContracts, TOOL_OF, VERSION } from './contracts.ts';

/** Lease and look settings under which a crash is noticed and settled within seconds. */
export const QUICK_SETTINGS = {
  beat_ms: 400,
  ttl_ms: 2000,
  scan_ms: 200,
  clock_margin_ms: 200,
  settle_margin_ms: 500,
  look_min_ms: 150,
  look_max_ms: 600,
  attention_after_looks: 3,
  shutdown_ms: 2000,
  give_up_ms: 1000,
} as const;

export const TENANT = 'acme';

export interface WorldOptions {
  /** Default: {@link QUICK_SETTINGS}, and a sweep every second. `{}` takes the defaults that everybody has. */
  readonly settings?: Readonly<Record<string, number>>;
  readonly contracts?: readonly Contract[];
  /** Servers of the test's own; default: a fresh database and namespace on those of the run. */
  readonly postgresUrl?: string;
  readonly temporal?: {
    readonly address: string;
    readonly namespace: string;
    /**
     * The test kills it. The client's connection is then left to the end of the process: a retry of the SDK that is due
     * after `close` throws past every await (@temporalio/client 1.24, grpc-retry.js).
     */
    readonly dies?: boolean;
  };
}

/** One database, namespace, provider and client: everything around the fleet of one crash. */
export interface World {
  readonly run: string;
  readonly billing: Billing;
  readonly ledger: Ledger;
  readonly temporal: Client;
  readonly holdfast: Holdfast;
  /** Starts a process of this world's fleet; `close` stops it. */
  worker(
    roles: readonly WorkerRole[],
    more?: Partial<FleetProcessOptions> & { readonly without?: 'billing'; readonly providers?: object },
  ): Promise<FleetProcess>;
  /** A call of one class; `name` is its call id and, in every class save PURE, the `case` that the provider writes down. */
  call(effectClass: EffectClass, name: string): Call;
  keyOf(id: EffectId): string;
  row(call: string): Promise<EffectRow | undefined>;
  /** Starts the workflow `callMany` of a user, with short workflow tasks. */
  callMany(
    calls: readonly Call[],
    lane: 'local' | 'activity',
    more?: DispatchOptions,
  ): Promise<WorkflowHandle<typeof callMany>>;
  /** The workflow that the lane `workflow` started for a call. */
  dispatchCallOf(call: EffectId): WorkflowHandle<typeof dispatchCall>;
  close(): Promise<void>;
}

const DEPLOYMENT = 'default';
const SECRET = { HOLDFAST_SECRET_BILLING: 'v1:for-tests' };

/** Opens a world of its own. */
export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const database = options.postgresUrl === undefined ? await freshDatabase() : undefined;
  const url = options.postgresUrl ?? database?.url ?? '';
  const { address, namespace } = options.temporal ?? (await freshNamespace());
  const bundle = await bundleTestWorkflows();
  const billing = await startBilling();
  const ledger = connect(url, { connectionsMax: 4 });
  await prepareLedger(ledger, options.contracts ?? crashContracts());
  const connection = await Connection.connect({ address });
  const temporal = new Client({ connection, namespace });
  const holdfast = new Holdfast({ ledger, temporal });
  const run = `run-${randomBytes(4).toString('hex')}`;
  const processes: FleetProcess[] = [];
  return {
    run,
    billing,
    ledger,
    temporal,
    holdfast,
    async worker(roles, { without, providers: others, ...more } = {}) {
      const own = without === 'billing' ? {} : { billing: { kind: 'http', base_url: billing.url } };
      const config = {
        database: { url, connections_max: 12 },
        temporal: { address, namespace },
        worker: { roles, ...(options.settings === undefined ? { sweep_seconds: 1 } : {}) },
        providers: { ...own, ...others },
        settings: options.settings ?? QUICK_SETTINGS,
        allow_unsafe_durability: true,
      };
      const started = await startFleetProcess({ config, bundle, ...more, env: { ...SECRET, ...more.env } });
      processes.push(started);
      return started;
    },
    call: (effectClass, name) => ({
      tenant: TENANT,
      run,
      call: name,
      tool: TOOL_OF[effectClass],
      version: VERSION,
      args: argumentsOf(effectClass, name),
    }),
    keyOf: (id) => effectKey(DEPLOYMENT, id, { alphabet: 'hex', length: 64 }),
    row: (call) => ledger.run('read', () => readEffect(ledger.sql, { tenant: TENANT, run, call })),
    callMany: (calls, lane, more = {}) =>
      temporal.workflow.start<typeof callMany>('callMany', {
        workflowId: `agent-${run}-${calls[0]?.call}`,
        taskQueue: 'holdfast',
        workflowTaskTimeout: '2s',
        args: [
          { tenant: TENANT, run, calls, options: { lane, ...(lane === 'activity' ? ACTIVITY_QUEUE : {}), ...more } },
        ],
      }),
    dispatchCallOf: ({ tenant, run: of, call }) => temporal.workflow.getHandle(`call:${tenant}:${of}:${call}`),
    async close() {
      await Promise.all(processes.map((one) => one.stop()));
      const left = options.temporal?.dies === true;
      await Promise.all([billing.stop(), left ? undefined : connection.close(), ledger.close()]);
      await database?.drop();
    },
  };
}

const ACTIVITY_QUEUE = { taskQueue: 'holdfast-provider-billing' } as const;

async function prepareLedger(ledger: Ledger, contracts: readonly Contract[]): Promise<void> {
  await putTenant(ledger, { tenant: TENANT });
  await putCredential(ledger, { name: 'billing', version: 'v1', account: 'acct-1', grants: ['**'] });
  for (const contract of contracts) await publishContract(ledger, contract, 'crash-tests');
}

function argumentsOf(effectClass: EffectClass, name: string): JsonObject {
  switch (effectClass) {
    case 'PURE':
      return { currency: 'EUR' };
    case 'IDEMPOTENT':
      return { customer: name, amount: 1250, currency: 'EUR', case: name };
    case 'REPLAYABLE':
      return { id: name, value: 7, case: name };
    case 'NON_RETRYABLE':
    case 'UNKNOWN':
      return { payee: name, amount: 980, currency: 'EUR', case: name };
  }
}

/** Kinds of an effect's events, in order. */
export async function eventsOf({ ledger, run }: World, call: string): Promise<string[]> {
  const rows = await ledger.sql`
    SELECT kind FROM holdfast.effect_events WHERE tenant = ${TENANT} AND run_id = ${run} AND call_id = ${call} ORDER BY id`;
  return rows.map((row) => row.kind as string);
}

/** Asks again until `look` gives something; says what it waited for when that takes too long. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  withinMs = 30_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (performance.now() > deadline) throw new Error(`waited ${withinMs} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
