import { LANES, MATRIX_POINTS, type MatrixLane, type MatrixPoint } from './expected.ts';
import type { RowReport } from './row.ts';

export interface Cell {
  readonly point: MatrixPoint;
  readonly lane: MatrixLane;
}

/**
 * Which crashes to make: `all`, one point (`claimed`), one cell (`claimed/direct`), or by default a selection in which
 * each point is met in two lanes and each lane at four points or more. Every crash carries all classes and outcomes.
 */
export function chosenCells(wish: string | undefined): Cell[] {
  const all = MATRIX_POINTS.flatMap((point) => LANES.map((lane) => ({ point, lane })));
  if (wish === 'all') return all;
  if (wish) return all.filter(({ point, lane }) => wish === point || wish === lane || wish === `${point}/${lane}`);
  return MATRIX_POINTS.flatMap((point, index) =>
    [index, index + 1 + (index >> 2)].map((lane) => ({ point, lane: LANES[lane % LANES.length] as MatrixLane })),
  );
}

export interface Counts {
  readonly runs: number;
  readonly effects: number;
  readonly kills: number;
  readonly sends: number;
  readonly duplicates: number;
  readonly losses: number;
  readonly wrongVerdicts: number;
  /** Left UNKNOWN, with a person called, while the provider showed no evidence. */
  readonly unknownLeft: number;
}

export interface Summary {
  readonly total: Counts;
  readonly cells: readonly (Cell & Counts)[];
}

/** Adds up what the crashes came to. */
export function summaryOf(reports: readonly RowReport[]): Summary {
  const order = (report: RowReport) => MATRIX_POINTS.indexOf(report.point) * LANES.length + LANES.indexOf(report.lane);
  const sorted = [...reports].sort((a, b) => order(a) - order(b));
  return {
    total: countsOf(sorted),
    cells: sorted.map((report) => ({ point: report.point, lane: report.lane, ...countsOf([report]) })),
  };
}

function countsOf(reports: readonly RowReport[]): Counts {
  const subjects = reports.flatMap((report) => report.subjects);
  const sum = (key: 'sends' | 'duplicates' | 'losses' | 'wrongVerdicts') =>
    subjects.reduce((total, subject) => total + subject[key], 0);
  return {
    runs: reports.length,
    effects: subjects.length,
    kills: reports.reduce((total, { kills }) => total + kills, 0),
    sends: sum('sends'),
    duplicates: sum('duplicates'),
    losses: sum('losses'),
    wrongVerdicts: sum('wrongVerdicts'),
    unknownLeft: subjects.filter(({ status }) => status === 'UNKNOWN').length,
  };
}

const COLUMNS = ['runs', 'effects', 'kills', 'sends', 'duplicates', 'losses', 'wrongVerdicts', 'unknownLeft'] as const;

/** The summary as a table for people. */
export function summaryTable({ total, cells }: Summary): string {
  const line = (point: string, lane: string, counts: Counts) =>
    [point.padEnd(18), lane.padEnd(9), ...COLUMNS.map((name) => String(counts[name]).padStart(name.length + 2))].join(
      '',
    );
  const head = ['point'.padEnd(18), 'lane'.padEnd(9), ...COLUMNS.map((name) => `  ${name}`)].join('');
  return [head, ...cells.map((cell) => line(cell.point, cell.lane, cell)), line('all', '', total)].join('\n');
}
