import type { JsonObject } from '../contracts/contract.ts';
import { readEffect, readPayload, storePayload } from '../db/statements/index.ts';
import type { Call } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { DispatcherDeps } from './deps.ts';
import { type CallHashes, tooLarge } from './prepare.ts';

type Stored = Omit<Call, 'args'> & { readonly args?: JsonObject; readonly argsRef?: string };
type PayloadDeps = Pick<DispatcherDeps, 'ledger' | 'codec' | 'settings'>;

/**
 * Stores arguments above the inline limit; gives the hex of their hash, or `undefined` when they may travel as they are.
 * Throws `payload_too_large` for those that the tenant may not send, unless they are those of a call with a row: that decides.
 */
export async function storeArguments(
  deps: PayloadDeps & Pick<DispatcherDeps, 'registry'>,
  call: Pick<Call, 'tenant' | 'run' | 'call'>,
  { argsText, argsHash }: CallHashes,
): Promise<string | undefined> {
  const { ledger, codec, settings } = deps;
  const bytes = Buffer.byteLength(argsText);
  if (bytes <= settings.inlineBytesMax) return undefined;
  const limit = await deps.registry.payloadBytesMax(call.tenant);
  if (limit !== undefined && bytes > limit) {
    const row = await ledger.run('read', () => readEffect(ledger.sql, call));
    if (row === undefined) throw tooLarge(bytes, limit);
  }
  const body = codec.encode(argsText, { tenant: call.tenant });
  await ledger.run('store payload', () => storePayload(ledger.sql, call.tenant, argsHash, body));
  return argsHash.toString('hex');
}

/** The call with its arguments, wherever they are. Throws `contract_parked` when they have expired. */
export async function loadCall(deps: PayloadDeps, input: Stored): Promise<Call> {
  const { argsRef, args, ...rest } = input;
  if (args !== undefined) return { ...rest, args };
  if (argsRef === undefined) throw new HoldfastError('bad_arguments', 'the call has no arguments', { place: '/args' });
  const hash = Buffer.from(argsRef, 'hex');
  const body = await deps.ledger.run('read payload', () => readPayload(deps.ledger.sql, rest.tenant, hash));
  if (body === undefined)
    throw new HoldfastError('contract_parked', 'the stored arguments have expired', { place: '/argsRef' });
  return { ...rest, args: JSON.parse(deps.codec.decode(body, { tenant: rest.tenant })) as JsonObject };
}
