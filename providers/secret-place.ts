import { HoldfastError } from '../effects/errors.ts';
import type { Secret } from './provider.ts';

/** True for what `secretAs` may say about HTTP requests: `bearer`, or `header NAME`. */
export function isHttpSecretPlace(secretAs: string): boolean {
  return secretAs === 'bearer' || /^header [!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(secretAs);
}

/** True for what `secretAs` may say about a server that is a child process: `env NAME`. */
export function isStdioSecretPlace(secretAs: string): boolean {
  return /^env [A-Za-z_][A-Za-z0-9_]*$/.test(secretAs);
}

/**
 * The header that carries the secret; none without a secret.
 * Throws HoldfastError `bad_config` when `secretAs` is neither `bearer` nor `header NAME`.
 */
export function placeSecret(secretAs: string, secret: Secret | null): Readonly<Record<string, string>> {
  if (secret === null) return {};
  if (secretAs === 'bearer') return { authorization: `Bearer ${secret.value}` };
  if (!isHttpSecretPlace(secretAs)) {
    throw new HoldfastError('bad_config', `"${secretAs}" is no place for a secret: use bearer, or header NAME`);
  }
  return { [secretAs.slice('header '.length).toLowerCase()]: secret.value };
}
