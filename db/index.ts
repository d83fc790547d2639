/**
 * The ledger: Postgres behind plain functions. Hot statements are in `statements/`, one file each; all else
 * is cold and goes through drizzle.
 */
export { type AuditOptions, type AuditScope, auditExport } from './audit.ts';
export { type AesGcmOptions, aesGcmCodec, type PayloadCodec, type PayloadContext, passThrough } from './codec.ts';
export {
  addressOf,
  connect,
  type Ledger,
  type LedgerConnection,
  type LedgerDb,
  type LedgerOptions,
  type LedgerSql,
  STATEMENT_TIMEOUT_MS,
  withDeadline,
} from './connect.ts';
export { type CacheOptions, ContractCache, RegistryCache } from './contract-cache.ts';
export {
  type CredentialPut,
  type CredentialVersion,
  currentCredential,
  listCredentials,
  putCredential,
} from './credentials.ts';
export { checkDeployment } from './deployment.ts';
export { checkDurability } from './durability.ts';
export { constraintOf, isConnectionDoubt, sqlStateOf, translate } from './errors.ts';
export type { HistoryEntry } from './history.ts';
export { type LedgerMetrics, metrics } from './metrics.ts';
export { type Migrated, migrate } from './migrate.ts';
export {
  type EffectDetails,
  type EffectFilter,
  type EffectPage,
  type EffectSummary,
  listEffects,
  showEffect,
} from './queries.ts';
export {
  type ContractEntry,
  type ContractQuery,
  type ContractState,
  contractByDigest,
  listContracts,
  publishContract,
  resolveContract,
  showContract,
} from './registry.ts';
export { checkSchema, SCHEMA_VERSIONS, type SchemaRange, schemaVersion } from './schema-version.ts';
export { getTenant, listTenants, putTenant, type Tenant, type TenantPut, type TenantState } from './tenants.ts';
export { FOREVER } from './types.ts';
