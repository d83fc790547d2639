import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EffectClass } from '../../../contracts/contract.ts';
import type { EffectStatus } from '../../../effects/effect.ts';
import type { AuditLine } from '../../../examples/billing-provider/store.ts';

/** What the provider's books say about one effect. */
export interface Books {
  /** Requests for the effect that it saw, whatever it did with them. */
  readonly sends: number;
  /** Times that it did what was asked; for PURE: answers it gave. */
  readonly artefacts: number;
  /** Different keys under which the same call came: more than one means that the effect key changed. */
  readonly keys: number;
}

const ROUTES: Readonly<Record<EffectClass, RegExp>> = {
  PURE: /^GET \/v1\/rates\//,
  IDEMPOTENT: /^POST \/v1\/invoices$/,
  REPLAYABLE: /^PUT \/v1\/settings\//,
  NON_RETRYABLE: /^POST \/v1\/payments$/,
  UNKNOWN: /^POST \/v1\/payments$/,
};

/** The provider's own file: the auditor reads nothing else, and never the ledger. */
export function readBooks(store: string): readonly AuditLine[] {
  const lines = readFileSync(join(store, 'billing.jsonl'), 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as AuditLine);
}

/** One effect in the books. A call is known by what it asks for (`case`), so that a changed key is seen; PURE by its key. */
export function booksOf(lines: readonly AuditLine[], effectClass: EffectClass, name: string, key: string): Books {
  const mine = lines.filter((line) => {
    if (!ROUTES[effectClass].test(line.route)) return false;
    return effectClass === 'PURE' ? line.key === key : (line.body as { case?: unknown }).case === name;
  });
  const did = mine.filter(({ outcome }) => outcome === 'created' || outcome === 'updated' || outcome === 'read');
  return { sends: mine.length, artefacts: did.length, keys: new Set(mine.map((line) => line.key)).size };
}

/** Faults of the whole house against one effect, as counts. */
export interface Faultiness {
  readonly duplicates: number;
  readonly losses: number;
  readonly wrongVerdicts: number;
}

/**
 * Holds a final status against the books.
 * A duplicate: a second request of a call that must go out once, or a second artefact under a key that the provider
 * dedupes. A loss: done and not said so, or still wanted and not done. A wrong verdict: said and not so.
 */
export function judgeBooks(effectClass: EffectClass, status: EffectStatus | null, books: Books): Faultiness {
  const once = effectClass === 'NON_RETRYABLE' || effectClass === 'UNKNOWN';
  const extra = once ? books.sends - 1 : effectClass === 'IDEMPOTENT' ? books.artefacts - 1 : 0;
  const wanted = !once && status !== 'CONFIRMED';
  const unsaid = books.artefacts > 0 && effectClass !== 'PURE' && status !== 'CONFIRMED';
  const untrue =
    (status === 'CONFIRMED' && books.artefacts === 0) ||
    (status === 'NOT_APPLIED' && books.artefacts > 0 && effectClass !== 'PURE');
  return {
    duplicates: Math.max(0, extra) + Math.max(0, books.keys - 1),
    losses: status === null || wanted || unsaid ? 1 : 0,
    wrongVerdicts: untrue ? 1 : 0,
  };
}
