/** Lets so many through at once. */
export class Turnstile {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(width: number) {
    this.#free = width;
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#free -= 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
