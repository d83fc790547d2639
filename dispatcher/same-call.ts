import type { Digest } from '../contracts/contract.ts';
import { digestBytes } from '../contracts/digest.ts';
import { type Call, type EffectId, effectIdText } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';

/** What a call id stands for: a row, or the flight that is about to make it. */
export interface Named {
  readonly tool: string;
  readonly version: string;
  readonly argsHash: Buffer;
  /** Undefined where the caller pinned none. */
  readonly contractDigest: Buffer | undefined;
}

/** What a call says it is. Its digest has been checked for its form. */
export function namedBy(call: Pick<Call, 'tool' | 'version' | 'digest'>, argsHash: Buffer): Named {
  const contractDigest = call.digest === undefined ? undefined : digestBytes(call.digest as Digest);
  return { tool: call.tool, version: call.version, argsHash, contractDigest };
}

/** Same contract and same arguments (PROTOCOL 2.1), as far as both name a digest. */
export function isSameCall(a: Named, b: Named): boolean {
  return (
    a.tool === b.tool &&
    a.version === b.version &&
    a.argsHash.equals(b.argsHash) &&
    (a.contractDigest === undefined || b.contractDigest === undefined || a.contractDigest.equals(b.contractDigest))
  );
}

/** `call_id_reused`: the id stands for another call. */
export function callIdReused(id: EffectId): HoldfastError {
  return new HoldfastError(
    'call_id_reused',
    `${effectIdText(id)} already names a call with another contract or other arguments`,
    { place: '/call' },
  );
}
