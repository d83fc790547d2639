import type { ServerResponse } from 'node:http';

export const FAULT_MODES = [
  'hang_before_accept',
  'accept_then_hang',
  'accept_then_close',
  'close_before_accept',
  'delay_ms',
  'status',
  'accept_then_status',
  'drop_mid_body',
  'evidence_lag_ms',
  'lose_evidence',
] as const;
export type FaultMode = (typeof FAULT_MODES)[number];

/** One row of the rule table: the first row that fits decides. */
export interface FaultRule {
  /** `METHOD /path`, with `*` at the end for anything below; default: every route under /v1. */
  readonly route?: string;
  readonly mode: FaultMode;
  /** How often it strikes; default: always. */
  readonly times?: number;
  /** JSON Pointers into `{ key, query, body, seen }`; `seen` is the body last written under the same key. */
  readonly match?: Readonly<Record<string, unknown>>;
  /** Milliseconds, for `delay_ms` and `evidence_lag_ms`. */
  readonly ms?: number;
  /** HTTP status, for `status` (default 503) and `accept_then_status` (default 500). */
  readonly status?: number;
}

export interface RequestFacts {
  readonly key: string | null;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly seen: unknown;
}

interface Waiting {
  readonly route: string;
  readonly key: string | null;
  readonly mode: FaultMode;
  readonly since: string;
  readonly release: () => void;
}

/** Throws an Error that names the field when `value` is no rule. */
export function parseRule(value: unknown): FaultRule {
  if (typeof value !== 'object' || value === null) throw new Error('a rule is an object');
  const rule = value as FaultRule;
  if (!FAULT_MODES.includes(rule.mode)) throw new Error(`mode: one of ${FAULT_MODES.join(', ')}`);
  const known = ['route', 'mode', 'times', 'match', 'ms', 'status'];
  const strange = Object.keys(rule).find((name) => !known.includes(name));
  if (strange !== undefined) throw new Error(`${strange}: unknown, expected ${known.join(', ')}`);
  return rule;
}

/** The rule table and the requests that presently hang because of it. */
export class Faults {
  readonly #rules: { rule: FaultRule; hits: number }[] = [];
  readonly #waiting = new Set<Waiting>();

  add(rules: readonly FaultRule[]): void {
    for (const rule of rules) this.#rules.push({ rule, hits: 0 });
  }

  clear(): void {
    this.#rules.length = 0;
  }

  list(): object[] {
    return this.#rules.map(({ rule, hits }) => ({ ...rule, hits }));
  }

  /** The first live rule of those modes that fits; counts as one strike. */
  strike(modes: readonly FaultMode[], route: string, facts: RequestFacts): FaultRule | undefined {
    const row = this.#rules.find(
      ({ rule, hits }) => modes.includes(rule.mode) && hits < (rule.times ?? Infinity) && fits(rule, route, facts),
    );
    if (row) row.hits += 1;
    return row?.rule;
  }

  /** Holds a request until somebody releases it; resolves false when its client went away first. */
  hang(route: string, key: string | null, mode: FaultMode, response: ServerResponse): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (released: boolean): void => {
        this.#waiting.delete(waiting);
        resolve(released);
      };
      const waiting: Waiting = { route, key, mode, since: new Date().toISOString(), release: () => done(true) };
      this.#waiting.add(waiting);
      response.once('close', () => done(false));
    });
  }

  waiting(): object {
    const routes: Record<string, number> = {};
    for (const { route } of this.#waiting) routes[route] = (routes[route] ?? 0) + 1;
    return { total: this.#waiting.size, routes, requests: [...this.#waiting].map(({ release: _, ...rest }) => rest) };
  }

  /** Lets hanging requests go on as if nothing had been; returns how many. */
  release(filter: { route?: string; key?: string }): number {
    const chosen = [...this.#waiting].filter(
      (one) => (filter.route ?? one.route) === one.route && (filter.key ?? one.key) === one.key,
    );
    for (const one of chosen) one.release();
    return chosen.length;
  }
}

function fits(rule: FaultRule, route: string, facts: RequestFacts): boolean {
  const wanted = rule.route ?? '*';
  const routeFits = wanted.endsWith('*') ? route.startsWith(wanted.slice(0, -1)) : route === wanted;
  return routeFits && Object.entries(rule.match ?? {}).every(([pointer, value]) => at(facts, pointer) === value);
}

function at(value: unknown, pointer: string): unknown {
  let here = value;
  for (const part of pointer.split('/').slice(1)) {
    if (typeof here !== 'object' || here === null) return undefined;
    here = (here as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return here;
}
