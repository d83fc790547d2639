/** The billing provider of the demo, seen from outside: its books, and the faults that it can be asked for. */
export interface BillingBooks {
  /** What it did under an effect key: artefacts made, duplicates it removed not counted. */
  countByKey(key: string): Promise<number>;
  /** How often a route was served. */
  countByRoute(route: string): Promise<number>;
  /** How many artefacts there are in all. */
  artefacts(): Promise<number>;
  /** Arms one fault for one call, known by `case` in its body. */
  arm(route: string, mode: 'accept_then_hang' | 'accept_then_close', callCase: string): Promise<void>;
  /** Waits until the provider says that it accepted such a call and hangs before the answer. */
  untilAccepted(route: string): Promise<void>;
}

interface Line {
  readonly route: string;
  readonly outcome: string;
}

const MADE = new Set(['created', 'updated']);
const ACCEPT_WITHIN_MS = 20_000;
const POLL_MS = 25;

export function billingBooks(url: string): BillingBooks {
  const ask = async <T>(path: string, body?: unknown): Promise<T> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(url + path, { ...init, signal: AbortSignal.timeout(5_000) });
    if (!response.ok) throw new Error(`the provider answered ${response.status} to ${path}`);
    return (await response.json()) as T;
  };
  const linesOf = async (query = ''): Promise<Line[]> => (await ask<{ requests: Line[] }>(`/_audit${query}`)).requests;
  return {
    countByKey: async (key) =>
      (await linesOf(`?key=${encodeURIComponent(key)}`)).filter((line) => MADE.has(line.outcome)).length,
    countByRoute: async (route) => (await linesOf()).filter((line) => line.route === route).length,
    artefacts: async () => (await linesOf()).filter((line) => MADE.has(line.outcome)).length,
    arm: async (route, mode, callCase) => {
      await ask('/_faults', [{ route, mode, times: 1, match: { '/body/case': callCase } }]);
    },
    untilAccepted: async (route) => {
      const until = performance.now() + ACCEPT_WITHIN_MS;
      while (performance.now() < until) {
        const { routes } = await ask<{ routes: Record<string, number> }>('/_waiting');
        if ((routes[route] ?? 0) > 0) return;
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      throw new Error(`the provider saw no ${route} within ${ACCEPT_WITHIN_MS / 1000} s`);
    },
  };
}
