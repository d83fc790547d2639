import { releaseOverdueClaims, takeOverdueLooks } from '../db/statements/index.ts';
import type { UnresolvedEffect } from './deps.ts';
import type { Dispatcher } from './dispatcher.ts';

/** A look that is later than this has no live reconciliation. */
const OVERDUE_GRACE_MS = 5_000;
/** A row that was handed out is not handed out again for this long. */
const PUSH_MS = 30_000;
/** Bounds one round; the rest comes with the next (PROTOCOL 4.4). */
const ROUND_LIMIT = 200;

/**
 * One round of healing: stale claims become UNKNOWN, UNKNOWN rows whose look is overdue get their
 * reconciliation (again). Idempotent, sends nothing.
 */
export async function sweepLedger(
  dispatcher: Dispatcher,
  nudge: (effect: UnresolvedEffect) => Promise<void>,
): Promise<{ started: number }> {
  const { ledger } = dispatcher.deps;
  const released = await ledger.run('release overdue', () =>
    releaseOverdueClaims(ledger.sql, dispatcher.lease.processId, ROUND_LIMIT),
  );
  for (const { tenant, run, call, ...effect } of released) await nudge({ id: { tenant, run, call }, ...effect });
  const due = await ledger.run('overdue looks', () =>
    takeOverdueLooks(ledger.sql, { graceMs: OVERDUE_GRACE_MS, pushMs: PUSH_MS, limit: ROUND_LIMIT }),
  );
  for (const effect of due) await nudge(effect);
  return { started: released.length + due.length };
}
