import { proxyActivities } from '@temporalio/workflow';
import type { ReconcileActivities } from '../activities/types.ts';

const { sweepLedger } = proxyActivities<ReconcileActivities>({
  startToCloseTimeout: '1 minute',
  allowEagerDispatch: false,
  // The Schedule brings the next round anyway.
  retry: { maximumAttempts: 1 },
});

/** One round of healing: overdue looks get their reconciliation, stale claims become UNKNOWN. Started by a Schedule. */
export async function sweep(): Promise<{ started: number }> {
  return sweepLedger();
}
