import { randomUUID } from 'node:crypto';
import type { Ledger, LedgerConnection } from '../db/connect.ts';
import {
  beat,
  endLease,
  fenceLapsed,
  openLease,
  purgeLeases,
  type ReleasedClaim,
  releaseFencedClaims,
  releaseOverdueClaims,
} from '../db/statements/index.ts';
import { monotonicMs } from './clock.ts';
import type { UnresolvedEffect } from './deps.ts';
import type { DispatcherSettings } from './settings.ts';

const RELEASE_LIMIT = 200;
/** Any constant: names "the one scanner" among the advisory locks of the database. */
const SCANNER_LOCK = 7_305_451;

/**
 * This process's lease and its share in watching the others (PROTOCOL 4). Beats on a connection of
 * its own; while it holds the scanner's advisory lock it fences lapsed leases and releases their claims.
 */
export class FleetLease {
  readonly #ledger: Ledger;
  readonly #settings: DispatcherSettings;
  readonly #info: object;
  readonly #unresolved: (effect: UnresolvedEffect) => void;
  #own: LedgerConnection;
  #processId = '';
  #lastBeatMs = Number.NEGATIVE_INFINITY;
  #lastReplyMs = Number.NEGATIVE_INFINITY;
  /** Since when this process has beaten without a gap: it may judge others only after one ttl of that. */
  #steadySinceMs = Number.POSITIVE_INFINITY;
  /** The backend that holds the scanner's lock; 0 = none. postgres.js may put another in its place without a word. */
  #scannerPid = 0;
  #stopped = false;
  #renewing: Promise<void> | undefined;
  #loops: Promise<void>[] = [];
  #wake = new AbortController();
  #overdueScanAtMs = 0;

  private constructor(
    ledger: Ledger,
    settings: DispatcherSettings,
    info: object,
    unresolved: (effect: UnresolvedEffect) => void,
  ) {
    this.#ledger = ledger;
    this.#settings = settings;
    this.#info = info;
    this.#unresolved = unresolved;
    this.#own = ledger.fresh();
  }

  /** Opens a lease and starts beating. Throws when the ledger cannot be reached. */
  static async start(
    ledger: Ledger,
    settings: DispatcherSettings,
    info: object,
    unresolved: (effect: UnresolvedEffect) => void,
  ): Promise<FleetLease> {
    const lease = new FleetLease(ledger, settings, info, unresolved);
    await lease.#open();
    lease.#loops = [
      lease.#every(settings.beatMs, () => lease.#beat()),
      lease.#every(settings.scanMs, () => lease.#scan()),
    ];
    return lease;
  }

  get processId(): string {
    return this.#processId;
  }

  /** The last good beat is younger than the ttl: this process may let a first byte leave (PROTOCOL 3.2). */
  isFresh(): boolean {
    return monotonicMs() - this.#lastBeatMs < this.#settings.ttlMs;
  }

  /** Age of the last good beat in milliseconds. */
  beatAgeMs(): number {
    return monotonicMs() - this.#lastBeatMs;
  }

  /** Takes a new id after this one was fenced; flights under way keep their nonces. Racing callers share one. */
  async renew(): Promise<void> {
    this.#renewing ??= this.#open().finally(() => {
      this.#renewing = undefined;
    });
    await this.#renewing;
  }

  /** Ends the lease; call it after the flights are settled. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake.abort();
    await Promise.all(this.#loops);
    await this.#ledger.run('end lease', () => endLease(this.#own.sql, this.#processId)).catch(() => undefined);
    await this.#own.close();
  }

  async #open(): Promise<void> {
    const processId = randomUUID();
    const before = monotonicMs();
    await this.#ledger.run('open lease', () =>
      openLease(this.#own.sql, { processId, ttlMs: this.#settings.ttlMs, info: this.#info }),
    );
    this.#processId = processId;
    this.#noteBeat(before);
  }

  #noteBeat(issuedAtMs: number): void {
    // For its own freshness the moment of asking counts; for judging others that of the reply: a beat that waited
    // with a frozen Postgres comes back just when everybody else's has still to.
    const repliedAtMs = monotonicMs();
    // One missed beat is a gap: an outage shorter than a ttl for this process may be longer for another one.
    if (repliedAtMs - this.#lastReplyMs > 2 * this.#settings.beatMs) this.#steadySinceMs = repliedAtMs;
    this.#lastReplyMs = repliedAtMs;
    this.#lastBeatMs = issuedAtMs;
  }

  async #beat(): Promise<void> {
    // The reading from before the statement: the database may have waited with it.
    const before = monotonicMs();
    const alive = await this.#ledger.run('beat', () => beat(this.#own.sql, this.#processId), this.#settings.ttlMs);
    if (alive) this.#noteBeat(before);
    else await this.renew();
  }

  #mayJudge(): boolean {
    return this.isFresh() && monotonicMs() - this.#steadySinceMs >= this.#settings.ttlMs;
  }

  async #scan(): Promise<void> {
    if (!this.#mayJudge()) return;
    const nowMs = await this.#scannerClock();
    // Asked again: the statement may have waited, and this process may have missed beats meanwhile.
    if (nowMs === undefined || !this.#mayJudge()) return;
    const { sql } = this.#ledger;
    await this.#ledger.run('fence', () => fenceLapsed(sql, null, nowMs + this.#settings.ttlMs));
    await this.#release((limit) => releaseFencedClaims(sql, this.#processId, limit));
    if (monotonicMs() < this.#overdueScanAtMs) return;
    this.#overdueScanAtMs = monotonicMs() + 4 * this.#settings.scanMs;
    await this.#release((limit) => releaseOverdueClaims(sql, this.#processId, limit));
    await this.#ledger.run('purge leases', () => purgeLeases(sql));
  }

  /**
   * The clock of the database when this process is the scanner. Asked anew each time: the lock went with the
   * connection if that was lost, and another may hold it by now.
   */
  async #scannerClock(): Promise<number | undefined> {
    const { sql } = this.#own;
    const [row] = await this.#ledger.run(
      'scanner lock',
      () => sql`
        SELECT pg_backend_pid() AS pid, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms,
          CASE WHEN pg_backend_pid() = ${this.#scannerPid} THEN true ELSE pg_try_advisory_lock(${SCANNER_LOCK}) END AS mine`,
    );
    this.#scannerPid = row?.mine === true ? (row.pid as number) : 0;
    return this.#scannerPid === 0 ? undefined : (row?.now_ms as number);
  }

  async #release(take: (limit: number) => Promise<ReleasedClaim[]>): Promise<void> {
    for (let full = true; full && !this.#stopped; ) {
      const released = await this.#ledger.run('release claims', () => take(RELEASE_LIMIT));
      for (const { tenant, run, call, tool, version, effectClass } of released) {
        this.#unresolved({ id: { tenant, run, call }, tool, version, effectClass });
      }
      full = released.length === RELEASE_LIMIT;
    }
  }

  /** Runs `work` again and again, `everyMs` apart; a failure is met with a new connection and the next round. */
  async #every(everyMs: number, work: () => Promise<void>): Promise<void> {
    while (!this.#stopped) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(done, everyMs);
        const signal = this.#wake.signal;
        function done() {
          clearTimeout(timer);
          signal.removeEventListener('abort', done);
          resolve();
        }
        signal.addEventListener('abort', done);
      });
      if (this.#stopped) return;
      try {
        await work();
      } catch {
        // The connection may hang: the scanner's lock lives on it, so it is given up with it.
        this.#scannerPid = 0;
        this.#reconnect();
      }
    }
  }

  #reconnect(): void {
    // Not awaited: the old connection may hang.
    void this.#own.close();
    this.#own = this.#ledger.fresh();
  }
}
