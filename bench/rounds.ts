/** One contender: makes the call number `n`; numbers never repeat within one contender. */
export type Contender = (n: number) => Promise<unknown>;

/** What one contender did in one round. */
export interface Measured {
  readonly p50Ms: number;
  readonly perSecond: number;
}

/** Holdfast against its baseline; every ratio is the median of the rounds' own ratios. */
export interface Ratios {
  readonly p50Ratio: number;
  readonly throughputRatio: number;
  /** Quartiles of the rounds' ratios: how far the machine let the rounds agree. */
  readonly spread: {
    readonly p50Ratio: readonly [number, number];
    readonly throughputRatio: readonly [number, number];
  };
  readonly rounds: number;
  readonly holdfast: Measured;
  readonly baseline: Measured;
}

export interface Plan {
  readonly inFlight: number;
  /** Calls of each contender in one round. */
  readonly calls: number;
  /** No round is begun after this, but for the first three. */
  readonly budgetMs: number;
}

const ROUNDS_MIN = 3;
const ROUNDS_MAX = 40;

/** Makes `calls` calls, `inFlight` at a time. */
export async function measure(contender: Contender, calls: number, inFlight: number, from: number): Promise<Measured> {
  const latencies: number[] = [];
  let next = 0;
  const line = async (): Promise<void> => {
    while (next < calls) {
      const number = from + next++;
      const begun = performance.now();
      await contender(number);
      latencies.push(performance.now() - begun);
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: inFlight }, line));
  return { p50Ms: median(latencies), perSecond: (calls * 1000) / (performance.now() - begun) };
}

/**
 * Rounds in which both contenders do the same, one right after the other and in turned order each time, so that whatever
 * else the machine does meets both. A first round warms up and is not counted.
 */
export async function interleave(holdfast: Contender, baseline: Contender, plan: Plan): Promise<Ratios> {
  const { inFlight, calls, budgetMs } = plan;
  const ours: Measured[] = [];
  const theirs: Measured[] = [];
  let from = 0;
  const round = async (turned: boolean): Promise<readonly [Measured, Measured]> => {
    const begin = from;
    from += calls;
    if (turned) {
      const b = await measure(baseline, calls, inFlight, begin);
      return [await measure(holdfast, calls, inFlight, begin), b];
    }
    const a = await measure(holdfast, calls, inFlight, begin);
    return [a, await measure(baseline, calls, inFlight, begin)];
  };
  await round(false);
  const until = performance.now() + budgetMs;
  while (ours.length < ROUNDS_MIN || (ours.length < ROUNDS_MAX && performance.now() < until)) {
    const [a, b] = await round(ours.length % 2 === 1);
    ours.push(a);
    theirs.push(b);
  }
  const p50 = ours.map((one, i) => one.p50Ms / (theirs[i] as Measured).p50Ms);
  const throughput = ours.map((one, i) => one.perSecond / (theirs[i] as Measured).perSecond);
  return {
    p50Ratio: rounded(median(p50)),
    throughputRatio: rounded(median(throughput)),
    spread: { p50Ratio: quartiles(p50), throughputRatio: quartiles(throughput) },
    rounds: ours.length,
    holdfast: middle(ours),
    baseline: middle(theirs),
  };
}

function middle(all: readonly Measured[]): Measured {
  return {
    p50Ms: rounded(median(all.map((one) => one.p50Ms))),
    perSecond: rounded(median(all.map((one) => one.perSecond))),
  };
}

function quartiles(values: readonly number[]): [number, number] {
  return [rounded(quantile(values, 0.25)), rounded(quantile(values, 0.75))];
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Linear between neighbours. */
export function quantile(values: readonly number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * at;
  const low = sorted[Math.floor(place)] as number;
  const high = sorted[Math.ceil(place)] as number;
  return low + (high - low) * (place - Math.floor(place));
}

export const rounded = (value: number): number => Math.round(value * 1000) / 1000;
