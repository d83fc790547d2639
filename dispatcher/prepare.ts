import { canonicalJson } from '../contracts/canonical-json.ts';
import { fillCapabilities, fillResources, uncovered } from '../contracts/capability.ts';
import type { Contract, EffectClass, JsonObject } from '../contracts/contract.ts';
import { digestBytes, isDigest, sha256Bytes } from '../contracts/digest.ts';
import { effectiveClass } from '../contracts/effective-class.ts';
import { compileSchema } from '../contracts/json-schema.ts';
import type { Scope } from '../contracts/template.ts';
import { type Call, type EffectId, effectIdText, isIdPart } from '../effects/effect.ts';
import { effectKey } from '../effects/effect-key.ts';
import { type ErrorCode, HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { checkHumanTexts } from '../effects/human-text.ts';
import type { ProviderAdapter, RenderedRequest, Secret } from '../providers/provider.ts';
import type { Credential, DispatcherDeps } from './deps.ts';

/** A hard ceiling on what is even hashed; the tenant's own limit is lower. */
const ARGS_BYTES_CEILING = 16 * 1024 * 1024;

/** The identity of a call's content: what an existing row is compared with before any rule (PROTOCOL 2.1). */
export interface CallHashes {
  readonly argsText: string;
  readonly argsHash: Buffer;
}

/** Everything needed to claim and send. */
export interface Prepared extends CallHashes {
  readonly call: Call;
  readonly contract: Contract;
  readonly contractDigest: Buffer;
  readonly effectClass: EffectClass;
  readonly provider: ProviderAdapter;
  readonly scope: Scope;
  readonly request: RenderedRequest;
  readonly requestHash: Buffer;
  readonly capabilities: readonly string[];
  readonly resources: readonly string[];
  readonly credential: Credential | null;
  readonly secret: Secret | null;
}

/**
 * Why a call cannot be claimed. `recorded`: the refusal depends on state that can change, so it becomes
 * a NOT_APPLIED row (PROTOCOL 2.4); otherwise the call is malformed, or this process cannot serve it.
 */
export interface Problem {
  readonly recorded: boolean;
  readonly error: HoldfastError;
  readonly contract: Contract | null;
}

/** Refusals that depend on the call alone (or on this process), and so leave no row. */
const UNRECORDED = new Set<ErrorCode>([
  'bad_id',
  'bad_arguments',
  'bad_input',
  'payload_too_large',
  'request_not_renderable',
  'runtime_field_supplied',
  'provider_not_here',
  'recovery_open',
  'ledger_unreachable',
  'ledger_refused',
  'internal',
]);

const CALL_FIELDS = new Set(['tenant', 'run', 'call', 'tool', 'version', 'digest', 'args', 'override', 'notAfter']);

/** Rule 8: whatever else a caller says about its call is decided by contract, credential and policy, never by the caller. */
function refuseRuntimeFields(call: Call): void {
  const extra = Object.keys(call).find((key) => !CALL_FIELDS.has(key));
  if (extra === undefined) return;
  throw new HoldfastError('runtime_field_supplied', `a caller may not say "${extra}" about its call`, {
    place: `/${extra}`,
  });
}

/**
 * Checks ids and digest form, and hashes the arguments. Throws `runtime_field_supplied`, `bad_id`, `bad_input`,
 * `bad_arguments`, `payload_too_large`.
 */
export function hashCall(call: Call): CallHashes {
  refuseRuntimeFields(call);
  for (const part of ['tenant', 'run', 'call'] as const) {
    if (!isIdPart(call[part]))
      throw new HoldfastError('bad_id', `${part} is not a valid id part`, { place: `/${part}` });
  }
  if (typeof call.tool !== 'string' || typeof call.version !== 'string') {
    throw new HoldfastError('bad_input', 'a call names tool and version as text', { place: '/tool' });
  }
  for (const part of ['tool', 'version'] as const) {
    if (/\p{Cc}/u.test(call[part]))
      throw new HoldfastError('bad_input', `${part} holds a control character`, { place: `/${part}` });
  }
  if (call.override !== undefined) checkHumanTexts('an override', call.override, '/override/');
  if (call.digest !== undefined && !isDigest(call.digest)) {
    throw new HoldfastError('bad_input', 'the digest has not the form sha256/v1:<64 hex>', { place: '/digest' });
  }
  if (call.notAfter !== undefined && Number.isNaN(Date.parse(call.notAfter))) {
    throw new HoldfastError('bad_input', 'notAfter is not an ISO time', { place: '/notAfter' });
  }
  if (typeof call.args !== 'object' || call.args === null || Array.isArray(call.args)) {
    throw new HoldfastError('bad_arguments', 'the arguments are not an object', { place: '/args' });
  }
  const argsText = canonicalJson(call.args);
  if (argsText.length > ARGS_BYTES_CEILING) {
    throw new HoldfastError('payload_too_large', `the arguments have more than ${ARGS_BYTES_CEILING} bytes`, {
      place: '/args',
    });
  }
  return { argsText, argsHash: sha256Bytes(argsText) };
}

/** Resolves, validates and renders a call. Sends and writes nothing; every failure is a {@link Problem}. */
export async function prepare(deps: DispatcherDeps, call: Call, hashes: CallHashes): Promise<Prepared | Problem> {
  let contract: Contract | null = null;
  try {
    contract = await deps.registry.resolve(
      call.digest === undefined
        ? { tool: call.tool, version: call.version }
        : { tool: call.tool, version: call.version, digest: call.digest },
    );
    return await prepareFor(deps, call, hashes, contract);
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return { recorded: !UNRECORDED.has(error.code), error, contract };
  }
}

/** `recovery_open`: while a recovery of the ledger is open, a call without a row is not known to be unsent. */
export function mayBeForgotten(id: EffectId, why: string): HoldfastError {
  const name = effectIdText(id);
  return new HoldfastError('recovery_open', `${name} may have been sent before the ledger was recovered: ${why}`, {
    place: name,
  });
}

async function prepareFor(deps: DispatcherDeps, call: Call, hashes: CallHashes, contract: Contract): Promise<Prepared> {
  const limit = await deps.registry.payloadBytesMax(call.tenant);
  if (limit === undefined)
    throw new HoldfastError('tenant_unknown', `there is no tenant ${call.tenant}`, { place: '/tenant' });
  const bytes = Buffer.byteLength(hashes.argsText);
  if (bytes > limit) throw tooLarge(bytes, limit);
  checkArguments(contract, call.args);
  const { execution } = contract;
  const provider = providerOf(deps, contract);
  // Rendered from the text that is recorded, so that a re-send renders the same bytes: a caller's order of members is not kept.
  const scope = scopeOf(deps, contract, call, JSON.parse(hashes.argsText) as JsonObject);
  const capabilities = fillCapabilities(contract, scope);
  const credential = await grantedCredential(deps, contract, capabilities);
  const request = provider.render(contract, scope);
  return {
    ...hashes,
    call,
    contract,
    contractDigest: digestBytes(contract.digest),
    effectClass: effectiveClass(contract),
    provider,
    scope,
    request,
    requestHash: sha256Bytes(canonicalJson(request)),
    capabilities,
    resources: execution.effect === 'PURE' ? [] : fillResources(contract, scope),
    credential,
    secret: credential === null ? null : secretFor(deps, credential),
  };
}

/** `payload_too_large`: the arguments have more bytes than the tenant may send. */
export function tooLarge(bytes: number, limit: number): HoldfastError {
  return new HoldfastError('payload_too_large', `the arguments have ${bytes} bytes, the tenant may send ${limit}`, {
    place: '/args',
  });
}

/** Throws `bad_arguments` with every place that does not fit the contract's parameters. */
export function checkArguments(contract: Contract, args: JsonObject): void {
  const verdict = compileSchema(contract.parameters)(args);
  if (verdict.ok) return;
  const text = verdict.problems
    .slice(0, 10)
    .map(({ pointer, message }) => `${pointer || '/'} ${message}`)
    .join('; ');
  throw new HoldfastError('bad_arguments', `${contract.tool}@${contract.version}: ${text}`, {
    place: `/args${verdict.problems[0]?.pointer ?? ''}`,
  });
}

/** The adapter for a contract; throws `provider_not_here`. */
export function providerOf(deps: DispatcherDeps, contract: Contract): ProviderAdapter {
  const name = contract.execution.provider;
  const provider = deps.providers.get(name);
  if (provider === undefined) {
    throw new HoldfastError('provider_not_here', `no provider ${name} is configured in this process`, { place: name });
  }
  if (provider.kind !== contract.execution.transport.kind) {
    throw new HoldfastError(
      'provider_not_here',
      `provider ${name} is configured as ${provider.kind}, the contract needs ${contract.execution.transport.kind}`,
      { place: name },
    );
  }
  return provider;
}

/** What the contract's templates may name for this effect. */
export function scopeOf(deps: DispatcherDeps, contract: Contract, id: EffectId, args: JsonObject): Scope {
  const key = effectKey(deps.deploymentId, id, contract.execution.key);
  return { tenant: id.tenant, run: id.run, call: id.call, effectKey: key, args };
}

async function grantedCredential(
  deps: DispatcherDeps,
  contract: Contract,
  capabilities: readonly string[],
): Promise<Credential | null> {
  const name = contract.execution.credential;
  if (name === undefined) {
    if (capabilities.length === 0) return null;
    throw new HoldfastError(
      'credential_policy_changed',
      `${contract.tool} needs ${capabilities[0]}, but names no credential to grant it`,
      {
        place: '/execution/credential',
      },
    );
  }
  const credential = await deps.registry.currentCredential(name);
  if (credential === undefined) {
    throw new HoldfastError('credential_policy_changed', `there is no credential ${name}`, {
      place: name,
      next: `create it: holdfast credential put ${name}`,
    });
  }
  const missing = uncovered(credential.grants, capabilities);
  if (missing.length > 0) {
    throw new HoldfastError(
      'credential_policy_changed',
      `credential ${name}@${credential.version} does not grant ${missing.join(', ')}`,
      {
        place: name,
      },
    );
  }
  return credential;
}

/** The secret for exactly that credential version; a missing or mislabelled one is a refusal (PROTOCOL 5.4). */
export function secretFor(deps: DispatcherDeps, credential: Credential): Secret {
  const secret = deps.secrets.resolve(credential.name);
  if (secret === undefined) {
    throw new HoldfastError(
      'credential_policy_changed',
      `this worker holds no secret for credential ${credential.name}`,
      {
        place: credential.name,
        next: 'give the worker the secret: see docs/operations.md, "Credentials"',
      },
    );
  }
  if (secret.version !== credential.version) {
    throw new HoldfastError(
      'credential_policy_changed',
      `this worker holds version ${secret.version} of credential ${credential.name}, the policy asks for ${credential.version}`,
      { place: credential.name },
    );
  }
  return secret;
}
