import type { PayloadCodec } from '../db/codec.ts';
import type { Ledger } from '../db/connect.ts';
import { type EffectId, effectIdText, type Outcome } from '../effects/effect.ts';
import { monotonicMs, sleep } from './clock.ts';
import { outcomeOf } from './outcome.ts';
import { existingRow } from './row.ts';

const POLL_MIN_MS = 50;
const POLL_MAX_MS = 1000;

/**
 * Waits up to `waitMs` for an effect to be settled, by reading the ledger. At the end of the wait a row
 * still DISPATCHED is told as UNKNOWN: that is what the caller knows. Throws `effect_not_found`.
 */
export async function awaitOutcome(
  deps: { ledger: Ledger; codec: PayloadCodec },
  id: EffectId,
  waitMs: number,
): Promise<Outcome> {
  const until = monotonicMs() + waitMs;
  for (let pollMs = POLL_MIN_MS; ; pollMs = Math.min(2 * pollMs, POLL_MAX_MS)) {
    const row = await existingRow(deps.ledger, id);
    const left = until - monotonicMs();
    const outcome = outcomeOf(row, deps.codec);
    if (outcome !== undefined && outcome.status !== 'UNKNOWN') return outcome;
    if (left <= 0) {
      return (
        outcome ?? {
          effectId: effectIdText(id),
          tool: row.tool,
          version: row.version,
          effectClass: row.effectClass,
          status: 'UNKNOWN',
          message: `in flight, outcome not known yet, do not repeat, effect id ${effectIdText(id)}`,
          attention: null,
          nextLookAt: null,
        }
      );
    }
    await sleep(Math.min(pollMs, Math.max(1, left)));
  }
}
