/** Knobs of the hot path. Every one is a duration in milliseconds or a count; defaults are safe. */
export interface DispatcherSettings {
  /** Lease beat. Default 1000. */
  readonly beatMs: number;
  /** A lease without a beat for this long has lapsed. At least three beats. Default 3000. */
  readonly ttlMs: number;
  /** How often lapsed leases are looked for. Default 500. */
  readonly scanMs: number;
  /** Allowance for clocks that differ (PROTOCOL 6.3). Default 5000. */
  readonly clockMarginMs: number;
  /** Added to send-by + timeout for a claim's deadline. Default 2000. */
  readonly settleMarginMs: number;
  /** Flights per provider in this process; more answer `busy` or take the activity lane. Default 64. */
  readonly slotsPerProvider: number;
  /** How long a call waits in the queue of its provider for a worker before it is withdrawn. Default 900000. */
  readonly queueWaitMs: number;
  /** Answers kept while the ledger is away; past it the process stops claiming. Default 1000. */
  readonly keptAnswersMax: number;
  /** The same for the bytes of their results. Default 64 MiB. */
  readonly keptBytesMax: number;
  /** First wait between two looks; doubles up to `lookMaxMs`. Defaults 1000 and 300000. */
  readonly lookMinMs: number;
  readonly lookMaxMs: number;
  /** Looks without a verdict after which a person is called. Default 8. */
  readonly attentionAfterLooks: number;
  /** Sends after which a PURE call without an answer is given up. Default 5. */
  readonly pureSendsMax: number;
  /** Arguments above this are stored first and passed by reference. Default 8192. */
  readonly inlineBytesMax: number;
  /** How long shutdown waits for answers before it settles UNKNOWN. Default 20000. */
  readonly shutdownMs: number;
  /** How long shutdown then tries to write the rest as UNKNOWN; the fencer does it otherwise. Default 5000. */
  readonly giveUpMs: number;
}

/** The defaults named above. */
export const DEFAULT_SETTINGS: DispatcherSettings = Object.freeze({
  beatMs: 1000,
  ttlMs: 3000,
  scanMs: 500,
  clockMarginMs: 5000,
  settleMarginMs: 2000,
  slotsPerProvider: 64,
  queueWaitMs: 900_000,
  keptAnswersMax: 1000,
  keptBytesMax: 64 * 1024 * 1024,
  lookMinMs: 1000,
  lookMaxMs: 300_000,
  attentionAfterLooks: 8,
  pureSendsMax: 5,
  inlineBytesMax: 8192,
  shutdownMs: 20_000,
  giveUpMs: 5000,
});
