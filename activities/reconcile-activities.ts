import { type DecideDeps, decide } from '../dispatcher/decide.ts';
import type { DispatcherDeps } from '../dispatcher/deps.ts';
import type { Dispatcher } from '../dispatcher/dispatcher.ts';
import { gatherEvidence } from '../dispatcher/reconcile.ts';
import { reconcileStep } from '../dispatcher/step.ts';
import { sweepLedger } from '../dispatcher/sweep.ts';
import { beating } from './dispatch-activities.ts';
import { asFailure } from './failure.ts';
import type { ReconcileActivities } from './types.ts';

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
          reconcileStep(deps, await gatherEvidence(dispatcher, id, `${trigger}@${dispatcher.lease.processId}`)),
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
