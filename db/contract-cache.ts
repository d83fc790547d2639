import type { Contract } from '../contracts/contract.ts';
import { digestFromBytes } from '../contracts/digest.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';
import { type CredentialVersion, currentCredential } from './credentials.ts';
import { type OpenRecovery, openRecovery } from './forgotten.ts';
import { type ContractQuery, contractByDigest, resolveContract } from './registry.ts';
import { getTenant } from './tenants.ts';

/** Limits of the cache. */
export interface CacheOptions {
  /** Contracts kept; the one unused for longest goes first. Default 500. */
  readonly contractsMax?: number;
}

/**
 * Published contracts in memory. They are immutable, so an entry never expires; "not found" is never kept, because the
 * next moment may publish it.
 */
export class ContractCache {
  readonly #ledger: Ledger;
  readonly #entriesMax: number;
  /** Both `tool@version` and digest lead to a contract. A Map keeps insertion order: the first key is the oldest. */
  readonly #byDigest = new Map<string, Contract>();
  readonly #byVersion = new Map<string, Contract>();

  constructor(ledger: Ledger, options: CacheOptions = {}) {
    this.#ledger = ledger;
    this.#entriesMax = options.contractsMax ?? 500;
  }

  /** @throws as `resolveContract` */
  async resolve(query: ContractQuery): Promise<Contract> {
    const cached = this.#byVersion.get(`${query.tool}@${query.version}`);
    // A digest that differs goes to the registry too, for its error.
    if (cached !== undefined && (query.digest === undefined || query.digest === cached.digest))
      return this.#keep(cached);
    return this.#keep((await resolveContract(this.#ledger, query)).contract);
  }

  /** Undefined when it is not published. @throws HoldfastError `contract_parked` */
  async byDigest(digest: Buffer): Promise<Contract | undefined> {
    const found = this.#byDigest.get(digestFromBytes(digest)) ?? (await contractByDigest(this.#ledger, digest));
    return found === undefined ? undefined : this.#keep(found);
  }

  /** Contracts now in memory. */
  get size(): number {
    return this.#byDigest.size;
  }

  #keep(contract: Contract): Contract {
    const name = `${contract.tool}@${contract.version}`;
    this.#byDigest.delete(contract.digest);
    this.#byDigest.set(contract.digest, contract);
    this.#byVersion.set(name, contract);
    if (this.#byDigest.size > this.#entriesMax) {
      const [oldest] = this.#byDigest.values();
      if (oldest !== undefined) {
        this.#byDigest.delete(oldest.digest);
        this.#byVersion.delete(`${oldest.tool}@${oldest.version}`);
      }
    }
    return contract;
  }
}

const POLICY_MAX = 1_000;
/** How long a tenant's limit may be out of date. No statement repeats this check, so it ends by time. */
const TENANT_AGE_MAX_MS = 5_000;
/** The same for a recovery of the ledger: it needs the fleet stopped, so only its end is heard of late. */
const RECOVERY_AGE_MAX_MS = 5_000;

/**
 * What the hot path asks before a claim, without a query in the healthy case: contracts for good, the
 * current credential versions until {@link RegistryCache.forgetPolicy} (the claim's statement compares the version and so finds
 * out), tenants' limits and the recovery of the ledger for 5 s.
 */
export class RegistryCache {
  readonly #ledger: Ledger;
  readonly #contracts: ContractCache;
  readonly #credentials = new Map<string, CredentialVersion>();
  readonly #tenants = new Map<string, { readonly bytes: number; readonly untilMs: number }>();
  #recovery: { readonly open: OpenRecovery | undefined; readonly untilMs: number } | undefined;

  constructor(ledger: Ledger, options: CacheOptions = {}) {
    this.#ledger = ledger;
    this.#contracts = new ContractCache(ledger, options);
  }

  /** @throws as `resolveContract` */
  resolve(query: ContractQuery): Promise<Contract> {
    return this.#contracts.resolve(query);
  }

  /** Undefined when it is not published. @throws HoldfastError `contract_parked` */
  byDigest(digest: Buffer): Promise<Contract | undefined> {
    return this.#contracts.byDigest(digest);
  }

  async currentCredential(name: string): Promise<CredentialVersion | undefined> {
    const cached = this.#credentials.get(name);
    if (cached !== undefined) return cached;
    const found = await currentCredential(this.#ledger, name);
    if (found !== undefined) setBounded(this.#credentials, name, found);
    return found;
  }

  /** Limit of the tenant's payloads in bytes; undefined when there is no such tenant. */
  async payloadBytesMax(tenant: string): Promise<number | undefined> {
    const cached = this.#tenants.get(tenant);
    if (cached !== undefined && performance.now() < cached.untilMs) return cached.bytes;
    try {
      const { payloadBytesMax } = await getTenant(this.#ledger, tenant);
      setBounded(this.#tenants, tenant, { bytes: payloadBytesMax, untilMs: performance.now() + TENANT_AGE_MAX_MS });
      return payloadBytesMax;
    } catch (error) {
      if (error instanceof HoldfastError && error.code === 'tenant_unknown') return undefined;
      throw error;
    }
  }

  /** The recovery of the ledger that is not over. */
  async recovery(): Promise<OpenRecovery | undefined> {
    if (this.#recovery === undefined || performance.now() >= this.#recovery.untilMs) {
      const open = await openRecovery(this.#ledger);
      this.#recovery = { open, untilMs: performance.now() + RECOVERY_AGE_MAX_MS };
    }
    return this.#recovery.open;
  }

  /** Forgets credentials and tenants: a claim said that they are out of date. */
  forgetPolicy(): void {
    this.#credentials.clear();
    this.#tenants.clear();
  }
}

function setBounded<T>(map: Map<string, T>, key: string, value: T): void {
  if (map.size >= POLICY_MAX) map.clear();
  map.set(key, value);
}
