import { type Link, type LinkOptions, openLink } from './mcp-link.ts';
import type { Secret } from './provider.ts';

/** Rotations leave old links behind; more than this many are not kept. */
const LINKS_MAX = 8;

/** The connections to one MCP server, one for each version of a secret. */
export class Links {
  readonly #options: LinkOptions;
  readonly #byKey = new Map<string, Promise<Link>>();
  #closed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** A live link; opened when there is none. Throws an Error that says why it cannot be had within `withinMs`. */
  async take(secret: Secret | null, withinMs: number): Promise<Link> {
    if (this.#closed) throw new Error('the provider is closed');
    const key = secret === null ? '' : `${secret.name}@${secret.version}`;
    const known = this.#byKey.get(key);
    if (known !== undefined) {
      const link = await within(known, withinMs);
      if (link.alive()) return link;
      // Somebody else may have replaced it while we waited.
      if (this.#byKey.get(key) === known) this.#byKey.delete(key);
    }
    const opening = this.#byKey.get(key) ?? this.#open(key, secret, withinMs);
    return within(opening, withinMs);
  }

  /** Runs a look that has no effect, once more on a fresh link when the first one turned out to be dead. */
  async with<T>(secret: Secret | null, withinMs: number, look: (link: Link) => Promise<T>): Promise<T> {
    const link = await this.take(secret, withinMs);
    try {
      return await look(link);
    } catch (error) {
      // An HTTP session that the server forgot shows as an error on a link that looks alive.
      if (link.busy === 0) await link.close();
      if (link.alive()) throw error;
      return look(await this.take(secret, withinMs));
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const links = [...this.#byKey.values()];
    this.#byKey.clear();
    await Promise.all(
      links.map((opening) =>
        opening.then(
          (link) => link.close(),
          () => undefined,
        ),
      ),
    );
  }

  #open(key: string, secret: Secret | null, withinMs: number): Promise<Link> {
    const opening = openLink(this.#options, secret, withinMs);
    this.#byKey.set(key, opening);
    opening.then(
      () => this.#retireOthers(key),
      () => {
        if (this.#byKey.get(key) === opening) this.#byKey.delete(key);
      },
    );
    return opening;
  }

  async #retireOthers(newest: string): Promise<void> {
    for (const [key, opening] of this.#byKey) {
      if (this.#byKey.size <= LINKS_MAX) return;
      const link = key === newest ? undefined : await opening.catch(() => undefined);
      if (link === undefined || link.busy > 0) continue;
      this.#byKey.delete(key);
      await link.close();
    }
  }
}

function within<T>(promise: Promise<T>, withinMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no connection within ${Math.round(withinMs)} ms`)), withinMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
