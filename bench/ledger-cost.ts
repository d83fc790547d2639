import postgres from 'postgres';
import { Holdfast } from '../client/index.ts';
import { Dispatcher } from '../dispatcher/dispatcher.ts';
import { envSecrets } from '../dispatcher/secrets.ts';
import type { HoldfastConfig } from '../workers/config.ts';
import { dispatcherDeps, openLedger } from '../workers/parts.ts';
import { held } from './lanes.ts';
import { measure } from './rounds.ts';

export interface LedgerCost {
  /** Of an effect that is alone in its process; those that meet share commits. */
  readonly commitsPerEffect: number;
  /** With {@link SHARED_IN_FLIGHT} in flight. */
  readonly commitsPerEffectShared: number;
  readonly walBytesPerEffect: number;
  /** Full-page images in the measured stretch, per effect and already subtracted. */
  readonly fullPageBytesPerEffect: number;
  /** Where the bytes are, by record type, largest first. */
  readonly walByRecord: readonly { readonly record: string; readonly count: number; readonly bytes: number }[];
}

/** Far longer than the measurement, so that no beat and no scan falls into it: that subtracts them exactly. */
const NO_BEATS = { beatMs: 600_000, ttlMs: 1_800_000, scanMs: 600_000 } as const;
const EFFECTS_FEW = 300;
const EFFECTS_MANY = 1_300;
/** Effects in flight for the figure of shared commits. */
export const SHARED_IN_FLIGHT = 8;

/**
 * Commits and WAL of a healthy effect. Two runs that differ in nothing but the number of effects are subtracted, so that
 * opening the ledger, the lease and the caches falls out. Nothing else may be at work in the cluster. Commits are read
 * when a run's connections are closed, since a backend reports them at its end; WAL comes record by record from
 * pg_walinspect, so that full-page images are told apart.
 */
export async function ledgerCost(config: HoldfastConfig, url: string, digest: string): Promise<LedgerCost> {
  // From another database: what is counted must not count itself.
  const other = new URL(url);
  other.pathname = '/postgres';
  const admin = postgres(other.href, { max: 1, onnotice: () => {} });
  const database = new URL(url).pathname.slice(1);
  try {
    await admin`CREATE EXTENSION IF NOT EXISTS pg_walinspect`;
    await admin`ALTER SYSTEM SET autovacuum = off`;
    await admin`SELECT pg_reload_conf()`;
    await run(config, digest, 'warm', EFFECTS_FEW, SHARED_IN_FLIGHT);
    const cost = async (inFlight: number) => {
      const count = (name: string, effects: number) =>
        counted(admin, database, () => run(config, digest, `${name}-${inFlight}`, effects, inFlight));
      return perEffect(await count('few', EFFECTS_FEW), await count('many', EFFECTS_MANY));
    };
    const alone = await cost(1);
    return { ...alone, commitsPerEffectShared: (await cost(SHARED_IN_FLIGHT)).commitsPerEffect };
  } finally {
    await admin`ALTER SYSTEM RESET autovacuum`;
    await admin.end({ timeout: 1 });
  }
}

async function run(
  config: HoldfastConfig,
  digest: string,
  name: string,
  effects: number,
  inFlight: number,
): Promise<void> {
  const ledger = await openLedger(config, 'holdfast bench');
  const deps = dispatcherDeps({ ...config, settings: { ...config.settings, ...NO_BEATS } }, ledger, {
    unresolved() {},
  });
  const secrets = envSecrets({ HOLDFAST_SECRET_BILLING: 'v1:bench' });
  const dispatcher = await Dispatcher.start({ ...deps, secrets });
  try {
    const holdfast = new Holdfast({ ledger, dispatcher });
    await measure(held(holdfast, 'direct', `cost-${name}`, digest), effects, inFlight, 0);
  } finally {
    await dispatcher.stop();
    await Promise.all([...deps.providers.values()].map((provider) => provider.close()));
    await ledger.close();
  }
}

type ByRecord = ReadonlyMap<string, { readonly count: number; readonly bytes: number; readonly fullPage: number }>;

interface Counted {
  readonly commits: number;
  readonly wal: ByRecord;
}

async function counted(admin: postgres.Sql, database: string, work: () => Promise<void>): Promise<Counted> {
  const commits = async (): Promise<number> => {
    const [row] = await admin`SELECT xact_commit::int AS n FROM pg_stat_database WHERE datname = ${database}`;
    return row?.n as number;
  };
  const place = async (): Promise<string> => {
    const [row] = await admin`SELECT pg_current_wal_insert_lsn()::text AS lsn`;
    return row?.lsn as string;
  };
  await settled(admin, database);
  const before = { commits: await commits(), place: await place() };
  await work();
  await settled(admin, database);
  const after = { commits: await commits(), place: await place() };
  const rows = await admin`
    SELECT "resource_manager/record_type" AS record, count::int, record_size::int AS bytes, fpi_size::int AS full_page
    FROM pg_get_wal_stats(${before.place}::pg_lsn, ${after.place}::pg_lsn, true) WHERE count > 0`;
  const wal = rows.map((r) => [r.record as string, { count: r.count, bytes: r.bytes, fullPage: r.full_page }] as const);
  return { commits: after.commits - before.commits, wal: new Map(wal) };
}

/** Waits until no backend is left in the database: only then its commits are all reported. */
async function settled(admin: postgres.Sql, database: string): Promise<void> {
  for (let left = 1; left > 0; ) {
    const [row] = await admin`SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = ${database}`;
    left = row?.n as number;
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function perEffect(few: Counted, many: Counted): Omit<LedgerCost, 'commitsPerEffectShared'> {
  const effects = EFFECTS_MANY - EFFECTS_FEW;
  const records = [...many.wal].map(([record, { count, bytes, fullPage }]) => {
    const less = few.wal.get(record) ?? { count: 0, bytes: 0, fullPage: 0 };
    return {
      record,
      count: (count - less.count) / effects,
      bytes: (bytes - less.bytes) / effects,
      fullPage: (fullPage - less.fullPage) / effects,
    };
  });
  const sum = (pick: (one: (typeof records)[number]) => number) => records.reduce((total, one) => total + pick(one), 0);
  return {
    commitsPerEffect: (many.commits - few.commits) / effects,
    walBytesPerEffect: Math.round(sum((one) => one.bytes)),
    fullPageBytesPerEffect: Math.round(sum((one) => one.fullPage)),
    walByRecord: records
      .map(({ record, count, bytes }) => ({ record, count: Math.round(count * 100) / 100, bytes: Math.round(bytes) }))
      .filter(({ bytes }) => bytes !== 0)
      .sort((a, b) => b.bytes - a.bytes),
  };
}
