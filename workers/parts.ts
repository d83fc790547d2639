import { connect, type Ledger } from '../db/connect.ts';
import { RegistryCache } from '../db/contract-cache.ts';
import { checkDeployment } from '../db/deployment.ts';
import { checkDurability } from '../db/durability.ts';
import { checkSchema } from '../db/schema-version.ts';
import type { DispatchEvents, DispatcherDeps } from '../dispatcher/deps.ts';
import { envSecrets, fileSecrets, firstOf } from '../dispatcher/secrets.ts';
import { HoldfastError } from '../effects/errors.ts';
import { createProvider } from '../providers/index.ts';
import type { ProviderAdapter } from '../providers/provider.ts';
import { openCodec } from './codec.ts';
import type { HoldfastConfig } from './config.ts';

/**
 * Opens the ledger and checks that this release may serve it: schema range, deployment id, durability.
 * Throws `bad_config`, `ledger_unreachable`, `schema_version_unsupported`, `deployment_mismatch`, `unsafe_durability`.
 */
export async function openLedger(config: HoldfastConfig, applicationName: string): Promise<Ledger> {
  if (config.database === undefined) {
    throw new HoldfastError('bad_config', 'no database is configured', {
      place: config.file ?? 'DATABASE_URL',
      next: 'set DATABASE_URL or database.url, or start one: holdfast dev',
    });
  }
  const { url, connections_max: connectionsMax } = config.database;
  const ledger = connect(url, { applicationName, ...(connectionsMax === undefined ? {} : { connectionsMax }) });
  try {
    await checkSchema(ledger);
    await checkDeployment(ledger, config.deployment);
    await checkDurability(ledger, config.allow_unsafe_durability);
    return ledger;
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

/** The adapters of the configured providers, by name. */
function openProviders(config: HoldfastConfig): Map<string, ProviderAdapter> {
  return new Map(Object.entries(config.providers).map(([name, provider]) => [name, createProvider(name, provider)]));
}

/** Everything the dispatcher of one process needs. */
export function dispatcherDeps(config: HoldfastConfig, ledger: Ledger, events: DispatchEvents): DispatcherDeps {
  return {
    ledger,
    deploymentId: config.deployment,
    registry: new RegistryCache(ledger),
    providers: openProviders(config),
    secrets: config.secrets_file === undefined ? envSecrets() : firstOf(fileSecrets(config.secrets_file), envSecrets()),
    codec: openCodec(config),
    settings: config.settings,
    events,
  };
}
