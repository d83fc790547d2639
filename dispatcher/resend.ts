import { randomUUID } from 'node:crypto';
import { canonicalJson } from '../contracts/canonical-json.ts';
import type { Contract, JsonObject } from '../contracts/contract.ts';
import { sha256Bytes } from '../contracts/digest.ts';
import { type EffectRow, readPayload, resend } from '../db/statements/index.ts';
import type { Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { monotonicMs, wallMs } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import type { Dispatcher } from './dispatcher.ts';
import { providerOf, scopeOf, secretFor } from './prepare.ts';

/** The recorded arguments of an effect. Throws `contract_parked` when they have expired. */
export async function recordedArgs(deps: DispatcherDeps, row: EffectRow): Promise<JsonObject> {
  const { ledger, codec } = deps;
  const stored =
    row.args ?? (await ledger.run('read payload', () => readPayload(ledger.sql, row.id.tenant, row.argsHash)));
  if (stored === undefined) throw new HoldfastError('contract_parked', 'the recorded arguments have expired');
  return JSON.parse(codec.decode(stored, { tenant: row.id.tenant })) as JsonObject;
}

/** When a re-send may be tried, by the class and time alone; the statement checks everything again. */
export function resendWindow(contract: Contract, row: EffectRow): { fromMs: number; untilMs: number } | undefined {
  const { execution } = contract;
  const earlierOverAt = (row.sendByAtMs ?? 0) + row.inFlightMaxMs;
  switch (row.effectClass) {
    case 'PURE':
      return { fromMs: 0, untilMs: Number.POSITIVE_INFINITY };
    case 'REPLAYABLE':
      return { fromMs: execution.concurrent === 'safe' ? 0 : earlierOverAt, untilMs: Number.POSITIVE_INFINITY };
    case 'IDEMPOTENT': {
      const windowMs = execution.idempotency?.windowMs;
      if (windowMs === undefined) return undefined;
      return {
        fromMs: execution.concurrent === 'safe' ? 0 : earlierOverAt,
        untilMs: row.recordedAtMs + windowMs - execution.sendByMs - row.inFlightMaxMs,
      };
    }
    default:
      // Time proves nothing (rule 3): NON_RETRYABLE and UNKNOWN are never sent again.
      return undefined;
  }
}

/**
 * Sends an UNKNOWN effect again under its recorded contract, with a new claim (PROTOCOL 3.6).
 * `undefined` when the claim was not to be had; throws `contract_parked` when the request would not be the
 * recorded one, `provider_not_here`, `credential_policy_changed`.
 */
export async function resendEffect(
  dispatcher: Dispatcher,
  row: EffectRow,
  contract: Contract,
): Promise<Outcome | undefined> {
  const { deps } = dispatcher;
  const provider = providerOf(deps, contract);
  const scope = scopeOf(deps, contract, row.id, await recordedArgs(deps, row));
  const request = provider.render(contract, scope);
  const requestHash = sha256Bytes(canonicalJson(request));
  if (row.requestHash === null || !requestHash.equals(row.requestHash) || scope.effectKey !== row.effectKey) {
    throw new HoldfastError('contract_parked', 'this release would send another request than the recorded one');
  }
  // Not the hot path: ask the policy anew rather than act on an old one.
  deps.registry.forgetPolicy();
  const credential = row.credential === null ? null : await sameAccount(deps, row);
  const secret = credential === null ? null : secretFor(deps, credential);
  const live = await provider.verify(contract, secret);
  if (live.kind !== 'same' && live.kind !== 'not_checked') {
    throw new HoldfastError('contract_parked', `the live tool is ${live.kind}: ${live.why}`);
  }
  const { execution } = contract;
  const nonce = randomUUID();
  const { processId } = dispatcher.lease;
  const claimIssuedMs = monotonicMs();
  const claimIssuedWallMs = wallMs();
  const claimed = await deps.ledger.run('re-send', () =>
    resend(deps.ledger.sql, {
      id: row.id,
      fence: row.fence,
      contractDigest: row.contractDigest,
      requestHash,
      account: row.account,
      credentialVersion: credential?.version ?? null,
      processId,
      nonce,
      sendByMs: execution.sendByMs,
      deadlineMs: execution.sendByMs + execution.timeoutMs + deps.settings.settleMarginMs,
      concurrentSafe: execution.concurrent === 'safe' || row.effectClass === 'PURE',
      keyWindowMs: row.effectClass === 'IDEMPOTENT' ? (execution.idempotency?.windowMs ?? 0) : null,
      actor: dispatcher.lease.processId,
    }),
  );
  if (!claimed) return undefined;
  return dispatcher.sendAndSettle({
    id: row.id,
    contract,
    effectClass: row.effectClass ?? 'UNKNOWN',
    provider,
    request,
    effectKey: scope.effectKey as NonNullable<EffectRow['effectKey']>,
    secret,
    nonce,
    processId,
    sends: row.sends + 1,
    claimIssuedMs,
    claimIssuedWallMs,
  });
}

/** The newest version of the credential, if it still acts as the account that the effect was sent as. */
async function sameAccount(deps: DispatcherDeps, row: EffectRow) {
  const credential = row.credential === null ? undefined : await deps.registry.currentCredential(row.credential);
  if (credential === undefined || credential.account !== row.account) {
    throw new HoldfastError(
      'credential_policy_changed',
      `credential ${row.credential} no longer acts as account ${row.account}`,
    );
  }
  return credential;
}
