import { type EffectRow, readEffect } from '../db/statements/index.ts';
import type { Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { sleep } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import { outcomeOf } from './outcome.ts';

const WAIT_MIN_MS = 20;
const WAIT_MAX_MS = 250;

/**
 * The outcome that a row says. One in flight elsewhere is waited for until its holder answers or the fencer or the
 * sweep moves it to UNKNOWN, past its deadline or with a lapsed lease (PROTOCOL 3.4). An UNKNOWN one has its
 * reconciliation started.
 * Throws `busy` when this process shuts down meanwhile.
 */
export async function followRow(
  deps: Pick<DispatcherDeps, 'ledger' | 'codec' | 'events'>,
  first: EffectRow,
  isClosing: () => boolean,
): Promise<Outcome> {
  let row = first;
  for (let waitMs = WAIT_MIN_MS; ; waitMs = Math.min(2 * waitMs, WAIT_MAX_MS)) {
    const outcome = outcomeOf(row, deps.codec);
    if (outcome !== undefined) {
      if (row.status === 'UNKNOWN') {
        const { id, tool, version, effectClass } = row;
        deps.events.unresolved({ id, tool, version, effectClass: effectClass ?? 'UNKNOWN' });
      }
      return outcome;
    }
    if (isClosing()) throw new HoldfastError('busy', 'this process is shutting down');
    await sleep(waitMs);
    row = (await deps.ledger.run('read', () => readEffect(deps.ledger.sql, first.id))) ?? row;
  }
}
