import type { Ledger } from '../db/connect.ts';
import { type EffectRow, readEffect } from '../db/statements/index.ts';
import { type EffectId, effectIdText } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';

/** The row of an effect that has to be there. Throws `effect_not_found`, `ledger_unreachable`. */
export async function existingRow(ledger: Ledger, id: EffectId): Promise<EffectRow> {
  const row = await ledger.run('read', () => readEffect(ledger.sql, id));
  if (row !== undefined) return row;
  const place = effectIdText(id);
  throw new HoldfastError('effect_not_found', `the ledger has no ${place}`, { place });
}
