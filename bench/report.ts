import type { ByFlight } from './lanes.ts';
import { IN_FLIGHT } from './lanes.ts';
import { type LedgerCost, SHARED_IN_FLIGHT } from './ledger-cost.ts';
import type { Ratios } from './rounds.ts';

/** What `npm run bench -- --json` prints. */
export interface Report extends LedgerCost {
  readonly workflowLane: ByFlight;
  readonly workflowLaneEager: ByFlight;
  /** As `workflowLaneEager`, with the baseline started eagerly too. Not required. */
  readonly workflowLaneBothEager?: ByFlight;
  readonly localLane: { readonly perCallRatio: number } & Omit<Ratios, 'p50Ratio' | 'throughputRatio'>;
  readonly directLane: ByFlight;
  readonly historyEventsPerEffect: {
    readonly workflowLane: number;
    readonly localLane: number;
    readonly plain: number;
  };
  readonly environment: Readonly<Record<string, string | number>>;
}

interface Line {
  readonly name: string;
  readonly value: number;
  readonly bound: { readonly atMost: number } | { readonly atLeast: number } | undefined;
  readonly note: string;
}

/** The figures beside what is required of them. */
export function table(report: Report): string {
  const lines: Line[] = [
    ...lane('workflow', report.workflowLane, 0.75, 1.3),
    ...lane('workflow, eager', report.workflowLaneEager, 0.75, 1.3),
    ...(report.workflowLaneBothEager === undefined ? [] : lane('both eager', report.workflowLaneBothEager)),
    {
      name: 'local, per call',
      value: report.localLane.perCallRatio,
      bound: { atMost: 0.35 },
      note: rawText(report.localLane),
    },
    ...lane('direct', report.directLane, 1.5, 0.65),
    count('commits per effect, alone', report.commitsPerEffect, 2.01),
    count(`commits per effect, ${SHARED_IN_FLIGHT} in flight`, report.commitsPerEffectShared),
    count('WAL bytes per effect', report.walBytesPerEffect, 2048),
    count('history events, workflow lane', report.historyEventsPerEffect.workflowLane, 6),
    count('history events, local lane', report.historyEventsPerEffect.localLane, 1.5),
    count('history events, plain workflow', report.historyEventsPerEffect.plain),
  ];
  const width = Math.max(...lines.map((line) => line.name.length));
  return lines
    .map((line) => {
      const { mark, text } = boundText(line);
      return `${mark} ${line.name.padEnd(width)}  ${String(line.value).padStart(7)}  ${text.padEnd(8)}  ${line.note}`.trimEnd();
    })
    .join('\n');
}

function lane(name: string, found: ByFlight, p50Max?: number, throughputMin?: number): Line[] {
  return IN_FLIGHT.flatMap((inFlight) => {
    const one = found[`${inFlight}`];
    const [p50Low, p50High] = one.spread.p50Ratio;
    const [rateLow, rateHigh] = one.spread.throughputRatio;
    return [
      {
        name: `${name}, ${inFlight} in flight: p50`,
        value: one.p50Ratio,
        bound: p50Max === undefined ? undefined : { atMost: p50Max },
        note: `${p50Low} to ${p50High}; ${one.holdfast.p50Ms} against ${one.baseline.p50Ms} ms, ${one.rounds} rounds`,
      },
      {
        name: `${name}, ${inFlight} in flight: throughput`,
        value: one.throughputRatio,
        bound: throughputMin === undefined ? undefined : { atLeast: throughputMin },
        note: `${rateLow} to ${rateHigh}; ${one.holdfast.perSecond} against ${one.baseline.perSecond} per s`,
      },
    ];
  });
}

function rawText({ spread, holdfast, baseline, rounds }: Report['localLane']): string {
  const [low, high] = spread.p50Ratio;
  return `${low} to ${high}; a row in ${holdfast.p50Ms} against ${baseline.p50Ms} ms, ${rounds} rounds`;
}

function count(name: string, value: number, atMost?: number): Line {
  return { name, value, bound: atMost === undefined ? undefined : { atMost }, note: '' };
}

function boundText({ value, bound }: Line): { mark: string; text: string } {
  if (bound === undefined) return { mark: ' ', text: '' };
  const holds = 'atMost' in bound ? value <= bound.atMost : value >= bound.atLeast;
  return { mark: holds ? '✓' : '✗', text: 'atMost' in bound ? `≤ ${bound.atMost}` : `≥ ${bound.atLeast}` };
}
