import type { JsonValue } from '../contracts/contract.ts';
import type { PayloadCodec } from '../db/codec.ts';
import type { EffectRow } from '../db/statements/index.ts';
import { effectIdText, type Outcome } from '../effects/effect.ts';

/** Results above this stay in the ledger; history and answers carry their size. */
export const RESULT_INLINE_BYTES_MAX = 8192;

/** What a settled or UNKNOWN row says to a caller. A DISPATCHED row has no outcome yet. */
export function outcomeOf(row: EffectRow, codec: PayloadCodec): Outcome | undefined {
  const common = {
    effectId: effectIdText(row.id),
    tool: row.tool,
    version: row.version,
    effectClass: row.effectClass,
  };
  switch (row.status) {
    case 'DISPATCHED':
      return undefined;
    case 'CONFIRMED': {
      const settledBy = row.settledBy ?? 'holder';
      const parts = row.resultInfo?.parts === undefined ? {} : { parts: row.resultInfo.parts as JsonValue };
      const text = row.result === null ? 'null' : codec.decode(row.result, { tenant: row.id.tenant });
      const bytes = Buffer.byteLength(text);
      return bytes > RESULT_INLINE_BYTES_MAX
        ? { ...common, status: 'CONFIRMED', result: null, resultStoredBytes: bytes, ...parts, settledBy }
        : { ...common, status: 'CONFIRMED', result: JSON.parse(text) as JsonValue, ...parts, settledBy };
    }
    case 'NOT_APPLIED':
      return {
        ...common,
        status: 'NOT_APPLIED',
        reason: { code: row.reasonCode ?? 'withdrawn', message: row.reason ?? '' },
        settledBy: row.settledBy ?? 'admission',
      };
    case 'UNKNOWN':
      return {
        ...common,
        status: 'UNKNOWN',
        message: `outcome unknown, do not repeat, effect id ${effectIdText(row.id)}`,
        attention: row.attention,
        nextLookAt: row.nextLookAtMs === null ? null : new Date(row.nextLookAtMs).toISOString(),
      };
  }
}
