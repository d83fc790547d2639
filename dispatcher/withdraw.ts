import type { Contract } from '../contracts/contract.ts';
import { digestBytes } from '../contracts/digest.ts';
import { effectiveClass } from '../contracts/effective-class.ts';
import type { PayloadCodec } from '../db/codec.ts';
import type { Ledger } from '../db/connect.ts';
import { readEffect, recordRefusal } from '../db/statements/index.ts';
import type { Call, Outcome } from '../effects/effect.ts';
import { type ErrorCode, HoldfastError } from '../effects/errors.ts';
import type { Registry } from './deps.ts';
import { outcomeOf } from './outcome.ts';
import { awaitOutcome } from './outcome-wait.ts';
import { mayBeForgotten } from './prepare.ts';
import { callIdReused, isSameCall, namedBy } from './same-call.ts';

/** Why a call is given up before anybody recorded it. */
export interface Withdrawal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly actor: string;
}

/**
 * Makes a final "not sent" of a call that nobody recorded yet, or says what its row says (PROTOCOL 2.4). Whoever
 * reports "not sent" asks this first. A row still in flight is told as UNKNOWN.
 * Throws `call_id_reused` when the row is that of another call, `recovery_open`, `ledger_unreachable`.
 */
export async function withdrawCall(
  deps: {
    readonly ledger: Ledger;
    readonly registry: Pick<Registry, 'resolve' | 'recovery'>;
    readonly codec: PayloadCodec;
  },
  call: Call,
  argsHash: Buffer,
  { code, message, actor }: Withdrawal,
): Promise<Outcome> {
  const { ledger } = deps;
  const read = () => ledger.run('read', () => readEffect(ledger.sql, call));
  // "Not sent" would be more than anybody knows (2.7).
  if ((await deps.registry.recovery()) !== undefined && (await read()) === undefined) {
    throw mayBeForgotten(call, 'it cannot be withdrawn before that is known');
  }
  const contract: Contract | undefined = await deps.registry.resolve(call).catch(() => undefined);
  await ledger.run('withdraw', () =>
    recordRefusal(ledger.sql, {
      id: call,
      tool: call.tool,
      version: call.version,
      contractDigest: contract === undefined ? Buffer.alloc(0) : digestBytes(contract.digest),
      effectClass: contract === undefined ? null : effectiveClass(contract),
      provider: contract?.execution.provider ?? null,
      argsHash,
      code,
      message,
      by: 'withdrawal',
      actor,
    }),
  );
  // In a second statement: the first cannot see a row that a racing claim has just committed.
  const row = await read();
  if (row === undefined) throw new HoldfastError('internal', 'a withdrawn call has no row');
  if (!isSameCall(namedBy(call, argsHash), row)) throw callIdReused(call);
  return outcomeOf(row, deps.codec) ?? awaitOutcome(deps, call, 0);
}
