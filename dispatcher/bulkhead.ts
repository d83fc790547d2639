/** Counts flights per provider, so that one slow provider starves nobody. */
export class Bulkhead {
  readonly #slots: number;
  readonly #taken = new Map<string, number>();

  constructor(slots: number) {
    this.#slots = slots;
  }

  /** Takes a slot; false when every one is taken. */
  tryTake(provider: string): boolean {
    const taken = this.#taken.get(provider) ?? 0;
    if (taken >= this.#slots) return false;
    this.#taken.set(provider, taken + 1);
    return true;
  }

  release(provider: string): void {
    const taken = this.#taken.get(provider) ?? 0;
    if (taken <= 1) this.#taken.delete(provider);
    else this.#taken.set(provider, taken - 1);
  }
}
