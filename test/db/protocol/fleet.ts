import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { passThrough } from '../../../db/codec.ts';
import type { Ledger } from '../../../db/connect.ts';
import { RegistryCache } from '../../../db/contract-cache.ts';
import { type DecideDeps, type DecisionRequest, decide } from '../../../dispatcher/decide.ts';
import type { DispatcherDeps, UnresolvedEffect } from '../../../dispatcher/deps.ts';
import { Dispatcher } from '../../../dispatcher/dispatcher.ts';
import { gatherEvidence } from '../../../dispatcher/reconcile.ts';
import { DEFAULT_SETTINGS, type DispatcherSettings } from '../../../dispatcher/settings.ts';
import { type Call, type EffectId, effectIdText } from '../../../effects/effect.ts';
import { httpProvider } from '../../../providers/http.ts';
import type { ProviderAdapter } from '../../../providers/provider.ts';
import type { Shop } from './shop.ts';
import { newId, type World } from './world.ts';

/** Short where a test waits, and no scan unless a test asks for one: then only the test moves things. */
export const TEST_SETTINGS: DispatcherSettings = {
  ...DEFAULT_SETTINGS,
  beatMs: 200,
  ttlMs: 700,
  scanMs: 3_600_000,
  clockMarginMs: 20,
  settleMarginMs: 300,
  lookMinMs: 20,
  shutdownMs: 3_000,
  giveUpMs: 1_000,
};

/** One fleet process: a dispatcher with a ledger connection of its own. */
export interface Process {
  readonly dispatcher: Dispatcher;
  readonly deps: DispatcherDeps;
  readonly ledger: Ledger;
  /** Effects that it reported as unresolved, as texts. */
  readonly unresolved: string[];
  /** One step of an effect's reconciliation. */
  reconcile(id: EffectId): ReturnType<typeof gatherEvidence>;
  stop(): Promise<void>;
}

export interface ProcessOptions {
  readonly settings?: Partial<DispatcherSettings>;
  /** `null`: this process holds no secret. */
  readonly secret?: { readonly version: string; readonly value: string } | null;
  readonly ledger?: Ledger;
  readonly provider?: ProviderAdapter;
  readonly deploymentId?: string;
}

export async function startProcess(world: World, shop: Shop, options: ProcessOptions = {}): Promise<Process> {
  const ledger = options.ledger ?? world.newLedger();
  const unresolved: string[] = [];
  const secret = options.secret === undefined ? { version: 'v1', value: 'hush' } : options.secret;
  const provider = options.provider ?? httpProvider({ name: 'shop', baseUrl: shop.url });
  const deps: DispatcherDeps = {
    ledger,
    deploymentId: options.deploymentId ?? 'test',
    registry: new RegistryCache(ledger),
    providers: new Map([['shop', provider]]),
    secrets: { resolve: (name) => (secret === null ? undefined : { name, ...secret }) },
    codec: passThrough,
    settings: { ...TEST_SETTINGS, ...options.settings },
    events: { unresolved: (effect: UnresolvedEffect) => void unresolved.push(effectIdText(effect.id)) },
  };
  const dispatcher = await Dispatcher.start(deps);
  return {
    dispatcher,
    deps,
    ledger,
    unresolved,
    reconcile: (id) => gatherEvidence(dispatcher, id, 'test'),
    stop: async () => {
      await dispatcher.stop();
      await provider.close();
    },
  };
}

/** A call of the contract with arguments of its own, unless changed. */
export function callOf(contract: Contract, change: Partial<Call> = {}): Call {
  const id = newId(change);
  return { ...id, tool: contract.tool, version: contract.version, args: { item: id.call }, ...change };
}

export const args = (value: JsonObject): { args: JsonObject } => ({ args: value });

/** A person's ruling with everything that has to be there. */
export function ruling(row: { id: EffectId; status: DecisionRequest['expected']['status']; fence: number }) {
  decisions += 1;
  return (change: Partial<DecisionRequest> = {}): DecisionRequest => ({
    id: row.id,
    decisionId: `d-${decisions}`,
    ruling: 'confirm',
    actor: 'ann',
    source: 'test',
    reason: 'she looked it up',
    expected: { status: row.status, fence: row.fence },
    force: false,
    correction: false,
    ...change,
  });
}
let decisions = 0;

/** Decides as the command does: with the ledger alone. */
export function decideIn(world: World, request: DecisionRequest, change: Partial<DecideDeps> = {}) {
  const registry = new RegistryCache(world.ledger);
  return decide(
    { ledger: world.ledger, contract: (digest) => registry.byDigest(digest), clockMarginMs: 20, ...change },
    request,
  );
}
