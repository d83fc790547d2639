import type { Ledger, LedgerConnection } from '../db/connect.ts';
import { constraintOf, isConnectionDoubt } from '../db/errors.ts';
import {
  type Admission,
  admit,
  type EffectRow,
  readAdmissionState,
  readEffect,
  readOpenTwin,
  storePayload,
} from '../db/statements/index.ts';
import { effectIdText } from '../effects/effect.ts';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { monotonicMs, sleep } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import type { Prepared } from './prepare.ts';

/** What became of a claim. `none`: it changed no row, and the call has none. */
export type ClaimResult =
  | { readonly kind: 'mine' }
  /** A row was there first; it decides. */
  | { readonly kind: 'row'; readonly row: EffectRow }
  | { readonly kind: 'none' }
  /** A resource is held by another writer. */
  | { readonly kind: 'held' };

const DOUBT_RETRY_MS = 100;

/**
 * Records and claims. A reply that was lost is settled by issuing the same statement again with the same
 * nonce on a fresh connection: it inserts, or finds the row, and the nonce says whose it is (PROTOCOL 3.3).
 * Throws `ledger_unreachable` when send-by passes first; the caller then withdraws the nonce later.
 */
export async function claim(deps: DispatcherDeps, admission: Admission, untilMs: number): Promise<ClaimResult> {
  const { ledger } = deps;
  let fresh: LedgerConnection | undefined;
  let inDoubt = false;
  try {
    for (;;) {
      const sql = fresh?.sql ?? ledger.sql;
      try {
        if (await recorded(ledger, admission, fresh)) return { kind: 'mine' };
        // One statement cannot see a row that a concurrent insert just committed: look with a new snapshot.
        const row = await ledger.run('read', () => readEffect(sql, admission.id));
        if (row === undefined) return { kind: 'none' };
        return row.nonce === admission.nonce && row.status === 'DISPATCHED' ? { kind: 'mine' } : { kind: 'row', row };
      } catch (error) {
        if (constraintOf(error)?.startsWith('resource_holds') === true) {
          const row = await ledger.run('read', () => readEffect(sql, admission.id));
          return row === undefined ? { kind: 'held' } : { kind: 'row', row };
        }
        if (!isHoldfastError(error) || error.code !== 'ledger_unreachable') throw error;
        inDoubt ||= isConnectionDoubt(error);
        if (monotonicMs() >= untilMs) throw inDoubt ? new ClaimInDoubt(error) : error;
        await sleep(DOUBT_RETRY_MS);
        void fresh?.close();
        fresh = ledger.fresh();
      }
    }
  } finally {
    // Not awaited: a hanging connection must not hold the flight.
    void fresh?.close();
  }
}

async function recorded(ledger: Ledger, admission: Admission, fresh: LedgerConnection | undefined): Promise<boolean> {
  if (fresh === undefined) return ledger.hot.admit(admission);
  return (await ledger.run('admit', () => admit(fresh.sql, [admission]))).has(admission.nonce);
}

/** Send-by passed while nobody knows whether the claim is in the ledger: it has to be withdrawn. */
export class ClaimInDoubt extends HoldfastError {
  constructor(cause: HoldfastError) {
    super('ledger_unreachable', cause.message, cause.place === undefined ? {} : { place: cause.place });
  }
}

/** What a row pins of a prepared call, for good. Arguments above the inline limit are stored first, and named by their hash. */
export async function pinnedOf(deps: DispatcherDeps, p: Prepared) {
  const { ledger, codec } = deps;
  const { execution } = p.contract;
  const encoded = codec.encode(p.argsText, { tenant: p.call.tenant });
  const byReference = Buffer.byteLength(p.argsText) > deps.settings.inlineBytesMax;
  if (byReference) {
    await ledger.run('store payload', () => storePayload(ledger.sql, p.call.tenant, p.argsHash, encoded));
  }
  return {
    id: { tenant: p.call.tenant, run: p.call.run, call: p.call.call },
    tool: p.contract.tool,
    version: p.contract.version,
    contractDigest: p.contractDigest,
    effectClass: p.effectClass,
    provider: execution.provider,
    effectKey: p.scope.effectKey,
    capabilities: p.capabilities,
    credential: p.credential?.name ?? null,
    credentialVersion: p.credential?.version ?? null,
    account: p.credential?.account ?? null,
    argsHash: p.argsHash,
    requestHash: p.requestHash,
    args: byReference ? null : encoded,
    inFlightMaxMs: execution.inFlightMaxMs,
  };
}

/** The admission row for a prepared call. */
export async function admissionOf(
  deps: DispatcherDeps,
  p: Prepared,
  holder: { processId: string; nonce: string },
  stateBefore: string | null,
): Promise<Admission> {
  const { execution } = p.contract;
  return {
    ...(await pinnedOf(deps, p)),
    stateBefore,
    twinGuard: p.effectClass !== 'PURE' && execution.repeats !== 'allowed' && p.call.override === undefined,
    resources: p.resources,
    processId: holder.processId,
    nonce: holder.nonce,
    sendByMs: execution.sendByMs,
    deadlineMs: execution.sendByMs + execution.timeoutMs + deps.settings.settleMarginMs,
    notAfter: p.call.notAfter === undefined ? null : new Date(p.call.notAfter).toISOString(),
  };
}

/**
 * Why a claim changed no row though the call has none. `undefined`: nothing explains it any more (a twin
 * settled meanwhile, the lease was renewed), so the claim may be tried again.
 */
export async function whyNotClaimed(deps: DispatcherDeps, a: Admission): Promise<HoldfastError | undefined> {
  const { ledger } = deps;
  const state = await ledger.run('read admission state', () =>
    readAdmissionState(ledger.sql, { ...a, tenant: a.id.tenant }),
  );
  if (!state.leaseAlive) return new HoldfastError('process_fenced', 'the lease of this process was fenced');
  if (state.contractState === null)
    return new HoldfastError('tool_contract_not_found', `${a.tool}@${a.version} is not published`);
  if (state.contractState !== 'live')
    return new HoldfastError('contract_not_live', `${a.tool}@${a.version} is ${state.contractState}`);
  if (state.tenantState === null) return new HoldfastError('tenant_unknown', `there is no tenant ${a.id.tenant}`);
  if (state.tenantState !== 'active')
    return new HoldfastError('tenant_suspended', `tenant ${a.id.tenant} is ${state.tenantState}`);
  if (!state.credentialCurrent) {
    return new HoldfastError(
      'credential_policy_changed',
      `version ${a.credentialVersion} of credential ${a.credential} is not current`,
    );
  }
  if (state.notAfterPassed)
    return new HoldfastError('not_after_passed', `the call was to be made before ${a.notAfter}`);
  if (!a.twinGuard && a.resources.length === 0) return undefined;
  return openTwin(deps, a);
}

/** `effect_unresolved`, naming the open effect with equal arguments or the one that holds a resource. */
export async function openTwin(deps: DispatcherDeps, a: Admission): Promise<HoldfastError | undefined> {
  const { ledger } = deps;
  const twin = await ledger.run('read twin', () =>
    readOpenTwin(ledger.sql, {
      tenant: a.id.tenant,
      tool: a.tool,
      argsHash: a.argsHash,
      provider: a.provider,
      resources: a.resources,
    }),
  );
  if (twin === undefined) return undefined;
  const name = effectIdText(twin);
  return new HoldfastError(
    'effect_unresolved',
    `${name} is still open with equal arguments or the same resource; do not repeat it`,
    {
      place: name,
      next: `wait for it, or settle it: holdfast effect show ${name}`,
    },
  );
}
