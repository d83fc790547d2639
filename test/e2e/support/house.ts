import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { DefaultLogger, type LogEntry, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { Holdfast } from '../../../client/holdfast.ts';
import type { Contract, EffectClass, JsonObject } from '../../../contracts/contract.ts';
import { connect, type Ledger } from '../../../db/connect.ts';
import { putCredential } from '../../../db/credentials.ts';
import { publishContract } from '../../../db/registry.ts';
import { type EffectRow, readEffect } from '../../../db/statements/index.ts';
import { putTenant } from '../../../db/tenants.ts';
import type { Call, EffectId } from '../../../effects/effect.ts';
import { effectKey } from '../../../effects/effect-key.ts';
import { checkConfig, type HoldfastConfig } from '../../../workers/config.ts';
import { Fleet } from '../../../workers/fleet.ts';
import type { reconcileEffect } from '../../../workflows/reconcile-effect.ts';
import { crashContracts, type Pace, TOOL_OF, VERSION } from '../../crash/support/contracts.ts';
import { until } from '../../crash/support/world.ts';
import { type Billing, startBilling } from '../../support/billing.ts';
import { bundleTestWorkflows } from '../../support/fleet.ts';
import { freshDatabase, freshNamespace } from '../../support/stack.ts';

/** A lease beat that a busy machine keeps, looks that come soon. */
export const SETTINGS = {
  beat_ms: 500,
  ttl_ms: 3000,
  scan_ms: 300,
  clock_margin_ms: 200,
  settle_margin_ms: 1000,
  look_min_ms: 200,
  look_max_ms: 1000,
  attention_after_looks: 3,
  shutdown_ms: 5000,
  give_up_ms: 1000,
} as const;

/** Short enough for the local lane; absence proves within two seconds. */
export const PACE: Pace = { timeout: '4s', sendBy: '2s', inFlightMax: '300ms', lag: '100ms' };
/** Long enough for an operator to act while the provider holds the request; too long for the local lane. */
export const SLOW_PACE: Pace = { timeout: '40s', sendBy: '10s', inFlightMax: '300ms', lag: '100ms' };

export const TENANT = 'acme';
const DEPLOYMENT = 'default';
const CACHE = join(import.meta.dirname, '../../../.holdfast/cache');

export interface HouseOptions {
  readonly contracts?: readonly Contract[];
  readonly pace?: Pace;
  readonly settings?: Readonly<Record<string, number>>;
  /** Servers of the caller's own; default: a fresh database and namespace on those of the run. */
  readonly servers?: { readonly url: string; readonly address: string; readonly namespace: string };
}

export interface FleetChoice {
  readonly roles?: readonly ('dispatch' | 'providers' | 'reconcile')[];
  readonly namespace?: string;
  readonly address?: string;
  readonly settings?: Readonly<Record<string, number>>;
  readonly sweepSeconds?: number;
}

/** One database, namespace, provider and client, with fleets in this very process. */
export interface House {
  readonly run: string;
  readonly url: string;
  readonly address: string;
  readonly namespace: string;
  readonly billing: Billing;
  readonly ledger: Ledger;
  readonly temporal: Client;
  /** A client without a dispatcher: lane `workflow`, decisions, queries. */
  readonly holdfast: Holdfast;
  config(choice?: FleetChoice): HoldfastConfig;
  /** Opens a process of the fleet inside this one and lets it poll. */
  fleet(choice?: FleetChoice): Promise<Fleet>;
  /** A client of the process that hosts `fleet`: lane `direct`, eager starts. */
  hostOf(fleet: Fleet): Holdfast;
  /** A call of one class, unlike every call of another name. */
  call(effectClass: EffectClass, name: string, more?: JsonObject): Call;
  row(call: string): Promise<EffectRow | undefined>;
  keyOf(call: EffectId): string;
  /** Requests with this call's key that reached the provider and ask for an effect, by the provider's own books. */
  sends(call: Call): Promise<number>;
  /** What workers of this process warned of. */
  warnings(): readonly LogEntry[];
  close(): Promise<void>;
}

const warnings: LogEntry[] = [];
let installed = false;

function installRuntime(): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', (entry) => warnings.push(entry)),
    shutdownSignals: [],
    telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
  });
}

/** Opens a house of its own. */
export async function openHouse(options: HouseOptions = {}): Promise<House> {
  if (!installed) installRuntime();
  installed = true;
  process.env['HOLDFAST_SECRET_BILLING'] = 'v1:for-tests';
  const database = options.servers === undefined ? await freshDatabase() : undefined;
  const url = options.servers?.url ?? database?.url ?? '';
  const { address, namespace } = options.servers ?? (await freshNamespace());
  const codePath = await bundleTestWorkflows();
  const billing = await startBilling();
  const ledger = connect(url, { connectionsMax: 4 });
  await putTenant(ledger, { tenant: TENANT });
  await putCredential(ledger, { name: 'billing', version: 'v1', account: 'acct-1', grants: ['**'] });
  const contracts = options.contracts ?? crashContracts(options.pace ?? PACE);
  for (const contract of contracts) await publishContract(ledger, contract, 'e2e-tests');
  const connection = await Connection.connect({ address });
  const temporal = new Client({ connection, namespace });
  const run = `run-${randomBytes(4).toString('hex')}`;
  const fleets: Fleet[] = [];
  const config = ({ roles, settings, sweepSeconds, namespace: other, address: via }: FleetChoice = {}) =>
    checkConfig(
      {
        database: { url, connections_max: 12 },
        temporal: { address: via ?? address, namespace: other ?? namespace },
        worker: { ...(roles === undefined ? {} : { roles }), sweep_seconds: sweepSeconds ?? 1 },
        providers: { billing: { kind: 'http', base_url: billing.url } },
        settings: { ...SETTINGS, ...options.settings, ...settings },
        allow_unsafe_durability: true,
      },
      null,
      {},
    );
  const keyOf = (id: EffectId) => effectKey(DEPLOYMENT, id, { alphabet: 'hex', length: 64 });
  return {
    run,
    url,
    address,
    namespace,
    billing,
    ledger,
    temporal,
    holdfast: new Holdfast({ ledger, temporal }),
    config,
    async fleet(choice) {
      const fleet = await Fleet.open(config(choice), { cacheDir: CACHE, workflowBundle: { codePath } });
      fleets.push(fleet);
      // A worker that fails shows in the test that waits for it.
      void fleet.run().catch(() => undefined);
      return fleet;
    },
    hostOf: (fleet) =>
      new Holdfast({ ledger, temporal: fleet.temporal.client, dispatcher: fleet.dispatcher, hostsWorker: true }),
    call: (effectClass, name, more = {}) => ({
      tenant: TENANT,
      run,
      call: name,
      tool: TOOL_OF[effectClass],
      version: VERSION,
      args: { ...argumentsOf(effectClass, name), ...more },
    }),
    row: (call) => ledger.run('read', () => readEffect(ledger.sql, { tenant: TENANT, run, call })),
    keyOf,
    async sends(call) {
      const lines = await billing.audit(keyOf(call));
      return lines.filter((line) => line.outcome !== 'read').length;
    },
    warnings: () => warnings,
    async close() {
      await Promise.all(fleets.map((fleet) => fleet.stop()));
      await Promise.all([billing.stop(), connection.close(), ledger.close()]);
      await database?.drop();
    },
  };
}

function argumentsOf(effectClass: EffectClass, name: string): JsonObject {
  switch (effectClass) {
    case 'PURE':
      return { currency: 'EUR' };
    case 'IDEMPOTENT':
      return { customer: name, amount: 1250, currency: 'EUR' };
    case 'REPLAYABLE':
      return { id: name, value: 7 };
    case 'NON_RETRYABLE':
    case 'UNKNOWN':
      return { payee: name, amount: 980, currency: 'EUR' };
  }
}

/**
 * A call whose outcome nobody can tell: the provider pays and hangs up, and then shows no payments. Returns once its
 * reconciliation exists.
 */
export async function stuckCall(house: House, fleet: Fleet, name: string): Promise<StuckCall> {
  const call = house.call('NON_RETRYABLE', name);
  const reference = { '/query/reference': house.keyOf(call) };
  await house.billing.faults(
    { route: 'POST /v1/payments', mode: 'accept_then_close', times: 1, match: { '/body/payee': name } },
    { route: 'GET /v1/payments', mode: 'status', status: 503, match: reference },
  );
  const outcome = await house.hostOf(fleet).dispatch({ ...call, lane: 'direct', waitMs: 0 });
  if (outcome.status !== 'UNKNOWN') throw new Error(`${name} is ${outcome.status}`);
  const reconciliation = house.temporal.workflow.getHandle<typeof reconcileEffect>(outcome.effectId);
  await until('its reconciliation exists', () =>
    reconciliation.describe().then(
      () => true,
      () => false,
    ),
  );
  return { call, reconciliation };
}

export interface StuckCall {
  readonly call: Call;
  readonly reconciliation: WorkflowHandle<typeof reconcileEffect>;
}

/** Starts the user's workflow `callMany` (or another of `test/support/workflows`) for some calls. */
export function userWorkflow(
  house: House,
  calls: readonly Call[],
  options: object = {},
  { type = 'callMany', id = calls[0]?.call ?? '', taskTimeout = '10s' } = {},
) {
  return house.temporal.workflow.start(type, {
    workflowId: `agent-${house.run}-${id}`,
    taskQueue: 'holdfast',
    workflowTaskTimeout: taskTimeout as '10s',
    args: [{ tenant: TENANT, run: house.run, calls, options }],
  });
}
