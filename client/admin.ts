/**
 * What administers a deployment rather than calls tools: the ledger's registry, tenants, credentials, lists, audit and
 * migrations, as the `holdfast` command needs them. Loads neither Temporal nor a provider, so it starts fast.
 */
export { type AuditScope, auditExport } from '../db/audit.ts';
export type { PayloadCodec } from '../db/codec.ts';
export { addressOf, connect, type Ledger } from '../db/connect.ts';
export { type CredentialVersion, listCredentials, putCredential } from '../db/credentials.ts';
export { checkDeployment } from '../db/deployment.ts';
export { endRecovery, type OpenRecovery, openRecovery } from '../db/forgotten.ts';
export type { HistoryEntry } from '../db/history.ts';
export { type Migrated, migrate } from '../db/migrate.ts';
export {
  type EffectDetails,
  type EffectFilter,
  type EffectPage,
  type EffectSummary,
  listEffects,
  showEffect,
} from '../db/queries.ts';
export { type Recovered, recoverLedger } from '../db/recovery.ts';
export { type ContractEntry, listContracts, publishContract, showContract } from '../db/registry.ts';
export { checkSchema } from '../db/schema-version.ts';
export { listTenants, putTenant, type Tenant, type TenantState } from '../db/tenants.ts';
export { awaitOutcome } from '../dispatcher/outcome-wait.ts';
export { secretVariable } from '../dispatcher/secrets.ts';
