import { mkdirSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { EFFECT_CLASSES } from '../../contracts/contract.ts';
import { expectedOf, LANES, MATRIX_POINTS, PROVIDER_OUTCOMES } from './support/expected.ts';
import { chosenCells, summaryOf, summaryTable } from './support/matrix.ts';
import { type RowReport, reachingCount, runRow } from './support/row.ts';
import { Turnstile } from './support/turnstile.ts';

/** Rows mostly wait for leases and time-outs, so a few at once fit on two cores without starving each other's beats. */
const turnstile = new Turnstile(Number(process.env['HOLDFAST_CRASH_WIDTH'] ?? 3));
const reports: RowReport[] = [];

describe.concurrent('a worker killed', () => {
  test.each(chosenCells(process.env['HOLDFAST_CRASH']))(
    'at $point in lane $lane leaves 15 effects that all come out as their class and the provider allow',
    { timeout: 1_800_000 },
    async ({ point, lane }) => {
      const report = await turnstile.pass(() => runRow(point, lane));
      reports.push(report);
      const wanted = EFFECT_CLASSES.flatMap((effectClass) =>
        PROVIDER_OUTCOMES.map((outcome) => {
          const expected = expectedOf(point, effectClass, outcome);
          return {
            name: `${effectClass}-${outcome}`.toLowerCase().replaceAll('_', '-'),
            status: expected.status,
            attention: expected.status === 'UNKNOWN' ? 'NEEDS_DECISION' : null,
            finally: expected.finally,
            sends: expected.sends,
            artefacts: expected.artefacts,
            toldTruly: true,
            repeated: expected.finally,
            duplicates: 0,
            losses: 0,
            wrongVerdicts: 0,
          };
        }),
      );
      const { reached, ended } = report;
      const subjects = report.subjects.map(({ reason: _, ...seen }, index) => atMostPure(seen, wanted[index]));
      expect({ reached, ended, subjects }).toEqual({
        reached: reachingCount(point),
        ended: 'SIGKILL',
        subjects: wanted,
      });
    },
  );
});

/** A PURE effect that was just being asked again when its process died is asked once more: more is as good. */
function atMostPure<T extends { name: string; sends: number; artefacts: number }>(seen: T, wanted: T | undefined): T {
  if (!seen.name.startsWith('pure-') || wanted === undefined || seen.sends < wanted.sends) return seen;
  return { ...seen, sends: wanted.sends, artefacts: wanted.artefacts };
}

afterAll(() => {
  if (reports.length === 0) return;
  const summary = summaryOf(reports);
  console.log(summaryTable(summary));
  mkdirSync('.holdfast', { recursive: true });
  const whole = reports.length === MATRIX_POINTS.length * LANES.length;
  writeFileSync('.holdfast/crash-matrix.json', `${JSON.stringify({ whole, ...summary, rows: reports }, null, 1)}\n`);
});
