import { HoldfastError } from '../effects/errors.ts';
import { type CheckedProviderConfig, providerConfig } from './config.ts';
import { httpProvider } from './http.ts';
import { mailProvider } from './mail.ts';
import { type McpProviderOptions, mcpProvider } from './mcp.ts';
import type { ProviderAdapter } from './provider.ts';

export { type ProviderConfig, providerConfig } from './config.ts';
export { type HttpProviderOptions, httpProvider } from './http.ts';
export { type MailProviderOptions, mailProvider } from './mail.ts';
export { type McpProviderOptions, mcpProvider, upstreamDigest } from './mcp.ts';
export type {
  Gate,
  LiveDefinition,
  ProviderAdapter,
  ProviderAnswer,
  RenderedRequest,
  Scope,
  Secret,
  SendInput,
} from './provider.ts';

/**
 * Makes the adapter for one entry of `providers:`. Nothing connects yet.
 *
 * @param name the provider's name, as contracts name it.
 * @param config the entry as parsed from the file.
 * @param place where the entry stands, for messages; default `providers.<name>`.
 * @throws HoldfastError `bad_config`, place = the key that is wrong.
 */
export function createProvider(name: string, config: unknown, place = `providers.${name}`): ProviderAdapter {
  const parsed = providerConfig.safeParse(config);
  if (!parsed.success) {
    const [first] = parsed.error.issues;
    const at = [place, ...(first?.path ?? [])].join('.');
    const keys = first?.code === 'unrecognized_keys' ? ` (${first.keys.join(', ')})` : '';
    throw new HoldfastError('bad_config', `${at}: ${first?.message ?? 'malformed'}${keys}`, { place: at });
  }
  return adapterOf(name, parsed.data);
}

function adapterOf(name: string, config: CheckedProviderConfig): ProviderAdapter {
  switch (config.kind) {
    case 'http':
      return httpProvider({ name, baseUrl: config.base_url, ...(config.headers && { headers: config.headers }) });
    case 'mcp':
      return mcpOf(name, config);
    case 'mail':
      return mailProvider({
        name,
        smtp: defined(config.smtp),
        domain: config.domain,
        ...(config.imap && { imap: defined(config.imap) }),
      });
  }
}

function mcpOf(name: string, config: Extract<CheckedProviderConfig, { kind: 'mcp' }>): ProviderAdapter {
  return mcpProvider({
    name,
    era: config.era,
    transport: transportOf(config),
    ...(config.secret_as !== undefined && { secretAs: config.secret_as }),
    ...(config.definition_age_max !== undefined && { definitionAgeMaxMs: config.definition_age_max }),
  });
}

function transportOf({
  stdio,
  http,
}: Extract<CheckedProviderConfig, { kind: 'mcp' }>): McpProviderOptions['transport'] {
  if (stdio) return { stdio: defined(stdio) };
  if (http) return { http: defined(http) };
  throw new HoldfastError('internal', 'a checked mcp provider without a transport');
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** zod gives absent optional keys the type `| undefined`; the options say "absent" and mean it. */
function defined<T extends object>(value: T): Defined<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Defined<T>;
}
