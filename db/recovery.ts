import { sql } from 'drizzle-orm';
import { HoldfastError } from '../effects/errors.ts';
import { checkHumanTexts } from '../effects/human-text.ts';
import type { Ledger } from './connect.ts';

/** What an operator says about a ledger that came back without its newest commits (PROTOCOL 2.7). */
export interface RecoveryRequest {
  /** The last moment up to which the ledger is known to be whole; what happened after it may be missing. */
  readonly since: Date;
  /** Self-declared. */
  readonly actor: string;
  readonly reason: string;
}

/** What a recovery found and did. Times are ISO texts by the database's clock. */
export interface Recovered {
  readonly since: string;
  /** When it was done: no byte of an effect that was open then left later. */
  readonly recoveredAt: string;
  /** Leases that were fenced. */
  readonly fenced: number;
  /** Effects that were DISPATCHED and are UNKNOWN now. */
  readonly released: number;
  /** Effects that were UNKNOWN already; they are asked about at once. */
  readonly askedAgain: number;
}

/** Pace of a recovery. */
export interface RecoveryOptions {
  /** How long the leases are watched at least before nobody counts as alive. Default 3000, the ttl of a lease. */
  readonly watchMs?: number;
  /** Effects per statement. Default 500. */
  readonly batch?: number;
}

const WATCH_MS = 3_000;
/** A ttl in the ledger is not trusted to be small. */
const WATCH_MAX_MS = 60_000;
const BATCH = 500;

/**
 * Parks what a restored ledger shows as open behind evidence. With the fleet stopped: fences every lease, moves each
 * DISPATCHED effect to UNKNOWN, and has each UNKNOWN one asked about at once. A re-send, or bytes that left late, may have been
 * forgotten, so the send-by of all of them becomes now: absence proves nothing before that and the in-flight limit are
 * over. A settled effect is not touched. Safe to repeat, also after it was interrupted.
 *
 * @throws HoldfastError `bad_input`, `fleet_running` while a process has a live lease, `ledger_unreachable`
 */
export async function recoverLedger(
  ledger: Ledger,
  request: RecoveryRequest,
  options: RecoveryOptions = {},
): Promise<Recovered> {
  checkRequest(request);
  const { fenced, recoveredAt } = await fenceAll(ledger, request, options.watchMs ?? WATCH_MS);
  const batch = options.batch ?? BATCH;
  const moved = { released: 0, askedAgain: 0 };
  for (let rows = await parkOpen(ledger, request, recoveredAt, batch); rows.length > 0; ) {
    for (const from of rows) moved[from === 'DISPATCHED' ? 'released' : 'askedAgain'] += 1;
    rows = await parkOpen(ledger, request, recoveredAt, batch);
  }
  return { since: request.since.toISOString(), recoveredAt, fenced, ...moved };
}

function checkRequest({ since, actor, reason }: RecoveryRequest): void {
  if (Number.isNaN(since.getTime())) throw new HoldfastError('bad_input', 'not a time', { place: 'since' });
  checkHumanTexts('a recovery', { actor, reason });
}

interface Lease {
  readonly processId: string;
  readonly beatAt: string;
  readonly ttlMs: number;
  readonly info: { readonly pid?: unknown; readonly host?: unknown };
}

/** Refuses while anybody beats, then fences all leases. In the same transaction the ledger says that it was recovered. */
async function fenceAll(
  ledger: Ledger,
  request: RecoveryRequest,
  watchMs: number,
): Promise<{ fenced: number; recoveredAt: string }> {
  const before = await ledger.run('read leases', () => openLeases(ledger.db));
  // Right after a start of Postgres nobody has beaten yet, and a process whose lease was forgotten opens another one.
  const ttlMs = Math.min(Math.max(watchMs, ...before.map((lease) => lease.ttlMs)), WATCH_MAX_MS);
  await new Promise((resolve) => setTimeout(resolve, ttlMs));
  return ledger.run('recover', () =>
    ledger.db.transaction(async (tx) => {
      // No lease is opened and no beat is written until this commits: whoever starts then sees the recovery.
      await tx.execute(sql`LOCK TABLE holdfast.processes IN SHARE ROW EXCLUSIVE MODE`);
      const now = await openLeases(tx);
      const alive = now.filter(
        (lease) => !before.some((old) => old.processId === lease.processId && old.beatAt === lease.beatAt),
      );
      if (alive.length > 0) throw fleetRunning(alive);
      await tx.execute(
        sql`UPDATE holdfast.processes SET fenced_at = clock_timestamp() WHERE fenced_at IS NULL AND ended_at IS NULL`,
      );
      const since = request.since.toISOString();
      // What happened to the ledger as a whole stands under an id that no effect can have.
      const [event] = await tx.execute(sql`
        INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason, data)
        SELECT '', '', '', 'recovered', 0, ${request.actor}, ${request.reason}, jsonb_build_object('since', ${since}::text)
        WHERE ${since}::timestamptz <= clock_timestamp()
        RETURNING to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at`);
      if (event === undefined) throw new HoldfastError('bad_input', 'the time is yet to come', { place: 'since' });
      return { fenced: now.length, recoveredAt: event.at as string };
    }),
  );
}

async function openLeases(db: Pick<Ledger['db'], 'execute'>): Promise<Lease[]> {
  const rows = await db.execute(sql`
    SELECT process_id, beat_at::text AS beat_at, ttl_ms, info FROM holdfast.processes
    WHERE fenced_at IS NULL AND ended_at IS NULL`);
  return rows.map((row) => ({
    processId: row.process_id as string,
    beatAt: row.beat_at as string,
    ttlMs: row.ttl_ms as number,
    info: (row.info ?? {}) as Lease['info'],
  }));
}

function fleetRunning(alive: readonly Lease[]): HoldfastError {
  const [first] = alive;
  const pid = first?.info.pid === undefined ? '' : ` (pid ${first.info.pid})`;
  const others = alive.length > 1 ? ` and ${alive.length - 1} more` : '';
  return new HoldfastError('fleet_running', `process ${first?.processId}${pid}${others} beats: it may claim and send`);
}

/** One batch; gives the status that each of its effects had. Both halves read a partial index of open effects. */
async function parkOpen(
  ledger: Ledger,
  { since, actor, reason }: RecoveryRequest,
  recoveredAt: string,
  limit: number,
): Promise<string[]> {
  const fresh = sql`NOT EXISTS (SELECT FROM holdfast.effect_events v
    WHERE v.tenant = e.tenant AND v.run_id = e.run_id AND v.call_id = e.call_id AND v.kind = 'recovered'
      AND v.at >= ${recoveredAt}::timestamptz)`;
  const rows = await ledger.run('park open effects', () =>
    ledger.db.execute(sql`
      WITH open AS MATERIALIZED (
        (SELECT e.tenant, e.run_id, e.call_id, e.status, e.fence, e.send_by_at FROM holdfast.effects e
         WHERE e.status = 'DISPATCHED' AND ${fresh} AND NOT EXISTS (SELECT FROM holdfast.processes p
           WHERE p.process_id = e.process_id AND p.fenced_at IS NULL AND p.ended_at IS NULL)
         LIMIT ${limit})
        UNION ALL
        (SELECT e.tenant, e.run_id, e.call_id, e.status, e.fence, e.send_by_at FROM holdfast.effects e
         WHERE e.status = 'UNKNOWN' AND ${fresh} LIMIT ${limit})),
      moved AS (
        UPDATE holdfast.effects e
        SET status = 'UNKNOWN', next_look_at = clock_timestamp(),
          send_by_at = greatest(e.send_by_at, ${recoveredAt}::timestamptz),
          reason = CASE WHEN open.status = 'DISPATCHED' THEN 'the ledger was recovered, and its holder is gone' ELSE e.reason END
        FROM open
        WHERE e.tenant = open.tenant AND e.run_id = open.run_id AND e.call_id = open.call_id
          AND e.status = open.status AND e.fence = open.fence
        RETURNING e.tenant, e.run_id, e.call_id, e.fence, open.status AS was, open.send_by_at),
      logged AS (
        INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, reason, data)
        SELECT tenant, run_id, call_id, 'recovered', CASE WHEN was = 'DISPATCHED' THEN was END,
          CASE WHEN was = 'DISPATCHED' THEN 'UNKNOWN' END, fence, ${actor}, ${reason},
          jsonb_build_object('since', ${since.toISOString()}::text, 'before', jsonb_build_object('sendByAt', send_by_at))
        FROM moved)
      SELECT was FROM moved`),
  );
  return rows.map((row) => row.was as string);
}
