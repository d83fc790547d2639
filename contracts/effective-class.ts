import type { Contract, EffectClass } from './contract.ts';

/**
 * The class a contract is handled as. REPLAYABLE holds only where later writers of the same resource are kept
 * away (PROTOCOL 3.7), so without `resource` and `exclusive_writer` it is NON_RETRYABLE. UNKNOWN stays UNKNOWN,
 * which has the rules of NON_RETRYABLE everywhere.
 */
export function effectiveClass(contract: Contract): EffectClass {
  const { effect, resource, exclusiveWriter } = contract.execution;
  return effect === 'REPLAYABLE' && (resource.length === 0 || !exclusiveWriter) ? 'NON_RETRYABLE' : effect;
}
