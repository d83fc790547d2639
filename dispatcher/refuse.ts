import type { Digest } from '../contracts/contract.ts';
import { digestBytes } from '../contracts/digest.ts';
import { effectiveClass } from '../contracts/effective-class.ts';
import { recordRefusal } from '../db/statements/index.ts';
import type { Call } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { LiveDefinition } from '../providers/provider.ts';
import type { DispatcherDeps } from './deps.ts';
import { mayBeForgotten, type Prepared, type Problem } from './prepare.ts';

/**
 * Makes a refusal that depends on state which can change final for its call id, as a row NOT_APPLIED (PROTOCOL 2.4);
 * a row that is there by then stands. To be called after a look has found no row.
 * Throws the problem's own error where it depends on the call alone; `recovery_open` while a recovery of the
 * ledger is open and the provider was not asked: the row would say "not sent", and of a call that was forgotten nobody
 * knows that (2.7).
 *
 * @param actor - the process that refuses
 * @param asked - the provider has shown that it has nothing of this call, if that was in question
 */
export async function recordRefused(
  deps: DispatcherDeps,
  actor: string,
  call: Call,
  argsHash: Buffer,
  { error, contract, recorded }: Problem,
  asked: boolean,
): Promise<void> {
  if (!recorded) throw error;
  const harmless = contract?.execution.effect === 'PURE';
  if (!asked && !harmless && (await deps.registry.recovery()) !== undefined) throw mayBeForgotten(call, error.message);
  deps.events.refused?.(call.tool, error.code);
  const digest = contract?.digest ?? (call.digest as Digest | undefined);
  await deps.ledger.run('record refusal', () =>
    recordRefusal(deps.ledger.sql, {
      id: call,
      tool: call.tool,
      version: call.version,
      contractDigest: digest === undefined ? Buffer.alloc(0) : digestBytes(digest),
      effectClass: contract === null ? null : effectiveClass(contract),
      provider: contract?.execution.provider ?? null,
      argsHash,
      code: error.code,
      message: error.message,
      by: 'admission',
      actor,
    }),
  );
}

/** Why the provider's live definition forbids the call; undefined when it does not. */
export function driftOf(p: Prepared, live: LiveDefinition): HoldfastError | undefined {
  const tool = `${p.contract.tool}@${p.contract.version}`;
  switch (live.kind) {
    case 'same':
    case 'not_checked':
      return undefined;
    case 'drifted':
    case 'gone':
      return new HoldfastError('tool_schema_drift', `${tool}: the live tool is not the pinned one: ${live.why}`);
    case 'unreachable':
      return new HoldfastError('live_definition_unverified', `${tool}: ${live.why}`);
  }
}
