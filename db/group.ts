/** How long a statement may keep others waiting before they go beside it: it may be waiting for a lock that is not theirs. */
const BESIDE_AFTER_MS = 10;
/** How many lone statements in a row tell that no company is to be expected. */
const COMPANY_STAYS = 16;
/** Rows in one statement. */
const ROWS_MAX = 64;

interface Waiting<T> {
  readonly item: T;
  readonly sinceMs: number;
  readonly resolve: (done: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit on the caller's side: items that come while a statement is under way leave together in the next one. An
 * item that finds none under way leaves at once and alone, so waiting is never longer than a statement, and the busier
 * the process is, the fewer statements, round trips and commits each item costs.
 *
 * Every item has its own answer. Where a shared statement is refused, each of its items is tried alone, so that one bad
 * item harms no other; where its fate is unknown, so is theirs, and each of them is told.
 */
export class Group<T> {
  readonly #run: (items: readonly T[]) => Promise<ReadonlySet<T>>;
  readonly #refused: (error: unknown) => boolean;
  #waiting: Waiting<T>[] = [];
  #running = 0;
  /** Lone statements left until this counts as a process that makes one call at a time. */
  #company = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param run - one statement for these items; gives those that changed a row
   * @param refused - true for errors that say: the statement did nothing, but a part of it may do alone
   */
  constructor(run: (items: readonly T[]) => Promise<ReadonlySet<T>>, refused: (error: unknown) => boolean) {
    this.#run = run;
    this.#refused = refused;
  }

  /** True when the item changed a row. Rejects with the error of `run`. */
  add(item: T): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, sinceMs: performance.now(), resolve, reject });
      // A busy process brings several in one turn of the event loop: they leave together. A lone item goes at once.
      if (this.#company === 0) this.#next();
      else if (this.#waiting.length === 1) setImmediate(() => this.#next());
    });
  }

  #next(): void {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return;
    const waitMs = oldest.sinceMs + BESIDE_AFTER_MS - performance.now();
    if (this.#running === 0 || waitMs <= 0) {
      const group = this.#waiting.splice(0, ROWS_MAX);
      this.#running += 1;
      this.#company = group.length > 1 ? COMPANY_STAYS : Math.max(0, this.#company - 1);
      void this.#together(group).finally(() => {
        this.#running -= 1;
        this.#next();
      });
      this.#next();
      return;
    }
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#next();
    }, waitMs);
  }

  async #together(group: readonly Waiting<T>[]): Promise<void> {
    try {
      const done = await this.#run(group.map(({ item }) => item));
      for (const { item, resolve } of group) resolve(done.has(item));
    } catch (error) {
      if (group.length === 1 || !this.#refused(error)) {
        for (const { reject } of group) reject(error);
        return;
      }
      await Promise.all(group.map((one) => this.#together([one])));
    }
  }
}
