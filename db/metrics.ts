import type { Ledger } from './connect.ts';

/** Numbers about the whole ledger, at one moment. */
export interface LedgerMetrics {
  /** Effects by status and class (`none` for calls refused before they had one). */
  readonly counts: readonly { readonly status: string; readonly effectClass: string; readonly count: number }[];
  /** True when CONFIRMED and NOT_APPLIED were estimated from a sample: the ledger is too big to count at each scrape. */
  readonly settledEstimated: boolean;
  /** Age in milliseconds since recording; null when there is none. */
  readonly oldestUnknownMs: number | null;
  readonly oldestDispatchedMs: number | null;
  /** DISPATCHED effects whose holder's lease lapsed: nobody turns them UNKNOWN while the whole fleet is down. */
  readonly lapsed: number;
  /** DISPATCHED effects past their deadline. */
  readonly overdue: number;
  /** Effects that need a person, by attention. */
  readonly attention: Readonly<Record<string, number>>;
}

/** Up to this size (some 16,000 effects) the settled ones are counted, above it a sample of that size is. */
const COUNTED_BYTES_MAX = 8 * 1_048_576;

/** Numbers for `/metrics` and `effect list`. Open effects are counted by their partial indexes, however big the ledger is. */
export async function metrics(ledger: Ledger): Promise<LedgerMetrics> {
  const open = await readOpen(ledger);
  const settled = await readSettled(ledger);
  const attention = await readAttention(ledger);
  const sum = (pick: (row: OpenRow) => number) => open.reduce((total, row) => total + pick(row), 0);
  const oldest = (status: string) =>
    open
      .filter((row) => row.status === status)
      .reduce<number | null>((age, row) => Math.max(age ?? 0, row.oldest_ms), null);
  return {
    counts: [...open.map(toCount), ...settled.rows.map(toCount)],
    settledEstimated: settled.estimated,
    oldestUnknownMs: oldest('UNKNOWN'),
    oldestDispatchedMs: oldest('DISPATCHED'),
    lapsed: sum((row) => row.lapsed),
    overdue: sum((row) => row.overdue),
    attention,
  };
}

interface CountRow {
  readonly status: string;
  readonly effect_class: string | null;
  readonly count: number;
}
interface OpenRow extends CountRow {
  readonly oldest_ms: number;
  readonly lapsed: number;
  readonly overdue: number;
}

const toCount = (row: CountRow) => ({ status: row.status, effectClass: row.effect_class ?? 'none', count: row.count });

/** Two branches, one per partial index: `effects_claims` and `effects_due`. */
async function readOpen(ledger: Ledger): Promise<readonly OpenRow[]> {
  const rows = await ledger.run(
    'metrics of open effects',
    () => ledger.sql`
      SELECT 'DISPATCHED' AS status, e.effect_class, count(*)::int AS count,
        max(extract(epoch FROM clock_timestamp() - e.recorded_at) * 1000)::float8 AS oldest_ms,
        count(*) FILTER (WHERE p.process_id IS NULL OR p.fenced_at IS NOT NULL OR p.ended_at IS NOT NULL
          OR p.beat_at <= clock_timestamp() - p.ttl_ms * interval '1 millisecond')::int AS lapsed,
        count(*) FILTER (WHERE e.deadline_at < clock_timestamp())::int AS overdue
      FROM holdfast.effects e LEFT JOIN holdfast.processes p ON p.process_id = e.process_id
      WHERE e.status = 'DISPATCHED' GROUP BY e.effect_class
      UNION ALL
      SELECT 'UNKNOWN', effect_class, count(*)::int,
        max(extract(epoch FROM clock_timestamp() - recorded_at) * 1000)::float8, 0, 0
      FROM holdfast.effects WHERE status = 'UNKNOWN' GROUP BY effect_class
      ORDER BY 1, 2`,
  );
  return rows as unknown as OpenRow[];
}

async function readSettled(ledger: Ledger): Promise<{ rows: readonly CountRow[]; estimated: boolean }> {
  const { sql } = ledger;
  const [size] = await ledger.run(
    'size of effects',
    () => sql`SELECT pg_relation_size('holdfast.effects')::float8 AS bytes`,
  );
  const share = Math.min(1, COUNTED_BYTES_MAX / Math.max(1, size?.bytes as number));
  const estimated = share < 1;
  const from = estimated ? sql`holdfast.effects TABLESAMPLE SYSTEM (${share * 100}::real)` : sql`holdfast.effects`;
  const rows = await ledger.run(
    'metrics of settled effects',
    () => sql`
      SELECT status, effect_class, round(count(*) / ${share}::float8)::int8 AS count
      FROM ${from} WHERE status IN ('CONFIRMED', 'NOT_APPLIED')
      GROUP BY status, effect_class ORDER BY status, effect_class`,
  );
  return { rows: rows as unknown as CountRow[], estimated };
}

async function readAttention(ledger: Ledger): Promise<Record<string, number>> {
  const rows = await ledger.run(
    'metrics of attention',
    () => ledger.sql`
      SELECT attention, count(*)::int AS count FROM holdfast.effects WHERE attention IS NOT NULL
      GROUP BY attention ORDER BY attention`,
  );
  return Object.fromEntries(rows.map((row) => [row.attention as string, row.count as number]));
}
