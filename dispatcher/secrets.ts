import { readFileSync, statSync } from 'node:fs';
import { HoldfastError } from '../effects/errors.ts';
import type { Secret } from '../providers/provider.ts';

/** Where secrets come from. Asked just before each claim; the answer is never stored. */
export interface SecretSource {
  /** `undefined` when this worker holds no secret of that name. */
  resolve(name: string): Secret | undefined;
}

/**
 * `HOLDFAST_SECRET_<NAME>` (upper case, other characters as `_`) holds `<version>:<value>`.
 * @example HOLDFAST_SECRET_BILLING_WRITER="2026-11:s3cr3t"
 */
export function envSecrets(env: NodeJS.ProcessEnv = process.env): SecretSource {
  return {
    resolve(name) {
      const text = env[secretVariable(name)];
      if (text === undefined) return undefined;
      const cut = text.indexOf(':');
      // Without a label the secret cannot be matched with a credential version: as good as none.
      return cut < 1 ? undefined : { name, version: text.slice(0, cut), value: text.slice(cut + 1) };
    },
  };
}

/** The environment variable that holds the secret of a credential, as {@link envSecrets} reads it. */
export const secretVariable = (name: string): string =>
  `HOLDFAST_SECRET_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;

/** A JSON file `{ "<name>": { "version": "…", "value": "…" } }`, read again when it changes, so that a rotation needs no restart. */
export function fileSecrets(path: string): SecretSource {
  let seen = '';
  let secrets = new Map<string, Secret>();
  return {
    resolve(name) {
      const stat = statSync(path, { throwIfNoEntry: false });
      if (stat === undefined) return undefined;
      const stamp = `${stat.mtimeMs}:${stat.size}:${stat.ino}`;
      if (stamp !== seen) {
        secrets = readSecrets(path);
        seen = stamp;
      }
      return secrets.get(name);
    },
  };
}

/** The first source that knows the name. */
export function firstOf(...sources: readonly SecretSource[]): SecretSource {
  return {
    resolve(name) {
      for (const source of sources) {
        const secret = source.resolve(name);
        if (secret !== undefined) return secret;
      }
      return undefined;
    },
  };
}

function readSecrets(path: string): Map<string, Secret> {
  const found = new Map<string, Secret>();
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    // The parser's message would quote the text, which is secret.
    throw new HoldfastError('bad_config', 'the secrets file is not JSON', { place: path });
  }
  for (const [name, entry] of Object.entries(parsed as Record<string, { version?: unknown; value?: unknown }>)) {
    if (typeof entry?.version !== 'string' || typeof entry.value !== 'string') {
      throw new HoldfastError('bad_config', `secret ${name} needs text "version" and "value"`, { place: path });
    }
    found.set(name, { name, version: entry.version, value: entry.value });
  }
  return found;
}
