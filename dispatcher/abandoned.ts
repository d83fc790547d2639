import { STATEMENT_TIMEOUT_MS } from '../db/connect.ts';
import { readEffect, type Settlement } from '../db/statements/index.ts';
import { monotonicMs, sleep } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import { type HeldClaim, NOTHING } from './send.ts';
import { writeSettlement } from './settle.ts';

const RETRY_MS = 500;
/** Past two statement limits an insert can no longer commit, so "no row" is final. */
const FINAL_AFTER_MS = 3 * STATEMENT_TIMEOUT_MS;

/**
 * Withdraws a claim whose holder could not learn in time whether it was recorded, as soon as the ledger answers
 * (PROTOCOL 3.3): provably nothing was sent. Never throws.
 */
export async function withdrawAbandoned(
  deps: DispatcherDeps,
  held: HeldClaim,
  isClosing: () => boolean,
): Promise<void> {
  const untilMs = monotonicMs() + FINAL_AFTER_MS;
  const settlement: Settlement = {
    ...NOTHING,
    id: held.id,
    nonce: held.nonce,
    to: 'NOT_APPLIED',
    reasonCode: 'withdrawn',
    reason: 'the ledger did not answer in time; nothing was sent',
    actor: held.processId,
  };
  while (!isClosing()) {
    await writeSettlement(deps, settlement).catch(() => undefined);
    const row = await deps.ledger.run('read', () => readEffect(deps.ledger.sql, held.id)).catch(() => undefined);
    if (row !== undefined || monotonicMs() > untilMs) return;
    await sleep(RETRY_MS);
  }
}
