import type { Contract } from '../contracts/contract.ts';
import type { PayloadCodec } from '../db/codec.ts';
import type { Ledger } from '../db/connect.ts';
import type { OpenRecovery } from '../db/forgotten.ts';
import type { EffectId } from '../effects/effect.ts';
import type { ProviderAdapter } from '../providers/provider.ts';
import type { SecretSource } from './secrets.ts';
import type { DispatcherSettings } from './settings.ts';

/** A credential version as the policy knows it; immutable. */
export interface Credential {
  readonly name: string;
  readonly version: string;
  readonly account: string;
  readonly grants: readonly string[];
}

/** The registry as the hot path needs it. Contracts are immutable, so they are cached by digest for good. */
export interface Registry {
  /** Throws `tool_contract_not_found` or `tool_schema_drift`. Does not look at the contract's state: the claim does. */
  resolve(ref: { tool: string; version: string; digest?: string }): Promise<Contract>;
  byDigest(digest: Buffer): Promise<Contract | undefined>;
  currentCredential(name: string): Promise<Credential | undefined>;
  /** Limit of the tenant's payloads in bytes; undefined when there is no such tenant. */
  payloadBytesMax(tenant: string): Promise<number | undefined>;
  /** The recovery of the ledger that is not over (PROTOCOL 2.7); undefined, nearly always. */
  recovery(): Promise<OpenRecovery | undefined>;
  /** Forgets cached policy: the claim said that it is out of date. */
  forgetPolicy(): void;
}

/** What the hot path tells others. None of these may throw. */
export interface DispatchEvents {
  /** An effect is UNKNOWN (or still open in a dead process): its reconciliation is to be started. */
  unresolved(effect: UnresolvedEffect): void;
  sent?(tool: string): void;
  settled?(tool: string, effectClass: string, status: string, elapsedMs: number): void;
  refused?(tool: string, code: string): void;
  verdict?(tool: string, verdict: string): void;
}

/** What a reconciliation is started with. */
export interface UnresolvedEffect {
  readonly id: EffectId;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: string;
}

/** Everything one process needs to dispatch; built once by the worker or the client. */
export interface DispatcherDeps {
  readonly ledger: Ledger;
  readonly deploymentId: string;
  readonly registry: Registry;
  readonly providers: ReadonlyMap<string, ProviderAdapter>;
  readonly secrets: SecretSource;
  readonly codec: PayloadCodec;
  readonly settings: DispatcherSettings;
  readonly events: DispatchEvents;
}
