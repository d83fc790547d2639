import { type EffectRow, recentLooks } from '../db/statements/index.ts';
import type { DecideDeps } from '../dispatcher/decide.ts';
import { decide } from '../dispatcher/decide.ts';
import type { DispatcherDeps } from '../dispatcher/deps.ts';
import type { Dispatcher } from '../dispatcher/dispatcher.ts';
import { gatherEvidence } from '../dispatcher/reconcile.ts';
import { sweepLedger } from '../dispatcher/sweep.ts';
import { effectIdText } from '../effects/effect.ts';
import { beating } from './dispatch-activities.ts';
import { asFailure } from './failure.ts';
import type { ReconcileActivities, ReconcileStep } from './types.ts';

/** How long a reconciliation waits for a holder that is still in flight before it reads again. */
const IN_FLIGHT_MS = 1_000;

/** The reconciliation as activities, a thin line each. */
export function createReconcileActivities(options: {
  readonly dispatcher: Dispatcher;
  /** Makes sure that a live `reconcileEffect` looks at the effect now. */
  readonly nudge: Parameters<typeof sweepLedger>[1];
}): ReconcileActivities {
  const { dispatcher, nudge } = options;
  const { deps } = dispatcher;
  return {
    gatherEvidence: ({ id, trigger }) =>
      asFailure(() =>
        beating(async () =>
          stepOf(deps, await gatherEvidence(dispatcher, id, `${trigger}@${dispatcher.lease.processId}`)),
        ),
      ),
    applyDecision: (input) => asFailure(() => decide(decideDeps(deps), input)),
    sweepLedger: () => asFailure(() => sweepLedger(dispatcher, nudge)),
  };
}

function decideDeps(deps: DispatcherDeps): DecideDeps {
  return {
    ledger: deps.ledger,
    contract: (digest) => deps.registry.byDigest(digest),
    clockMarginMs: deps.settings.clockMarginMs,
  };
}

/** The row as a person and the workflow need it. */
async function stepOf(deps: DispatcherDeps, row: EffectRow): Promise<ReconcileStep> {
  const looks = await deps.ledger.run('recent looks', () => recentLooks(deps.ledger.sql, row.id, 5));
  const settled = row.status === 'CONFIRMED' || row.status === 'NOT_APPLIED';
  const inFlight = row.status === 'DISPATCHED';
  const plannedMs = Math.max(0, (row.nextLookAtMs ?? row.nowMs + deps.settings.lookMinMs) - row.nowMs);
  const nextInMs = settled ? null : inFlight ? IN_FLIGHT_MS : plannedMs;
  return {
    effectId: effectIdText(row.id),
    status: row.status,
    fence: row.fence,
    attention: row.attention,
    tool: row.tool,
    version: row.version,
    effectClass: row.effectClass ?? 'UNKNOWN',
    looks,
    reason: row.reason,
    nextInMs,
    nextAt: nextInMs === null ? null : new Date(row.nowMs + nextInMs).toISOString(),
  };
}
