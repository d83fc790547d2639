import { canonicalJson } from '../contracts/canonical-json.ts';
import type { JsonObject } from '../contracts/contract.ts';
import { sha256Bytes } from '../contracts/digest.ts';
import { readPayload, storePayload } from '../db/statements/index.ts';
import type { Call } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { DispatcherDeps } from './deps.ts';

type Stored = Omit<Call, 'args'> & { readonly args?: JsonObject; readonly argsRef?: string };
type PayloadDeps = Pick<DispatcherDeps, 'ledger' | 'codec' | 'settings'>;

/** Stores arguments above the inline limit; gives the hex of their hash, or `undefined` when they may travel as they are. */
export async function storeArguments(deps: PayloadDeps, tenant: string, args: JsonObject): Promise<string | undefined> {
  const text = canonicalJson(args);
  if (Buffer.byteLength(text) <= deps.settings.inlineBytesMax) return undefined;
  const hash = sha256Bytes(text);
  const body = deps.codec.encode(text, { tenant });
  await deps.ledger.run('store payload', () => storePayload(deps.ledger.sql, tenant, hash, body));
  return hash.toString('hex');
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
