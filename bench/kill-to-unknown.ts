/**
 * How long a SIGKILL goes unnoticed: from the kill of a worker to status UNKNOWN, in every lane, and from the planned
 * look to CONFIRMED once the provider shows evidence. Default settings, a stack of its own with fsync on.
 *
 *   node bench/kill-to-unknown.ts [--kills 30] [--json]
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { migrate } from '../db/migrate.ts';
import { defaultStackDir, startStack, stopStack } from '../dev/stack.ts';
import type { Call } from '../effects/effect.ts';
import { crashContracts } from '../test/crash/support/contracts.ts';
import { openWorld, until, type World } from '../test/crash/support/world.ts';

const LANES = ['local', 'activity', 'workflow', 'direct'] as const;
type Lane = (typeof LANES)[number];

/** Milliseconds. */
interface Sample {
  readonly lane: Lane;
  readonly killToUnknown: number;
  readonly lookToConfirmed: number;
}

interface Distribution {
  readonly samples: number;
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { kills: { type: 'string', default: '30' }, json: { type: 'boolean', default: false } },
  });
  // It measures on a stack of its own, whatever else is configured here.
  for (const name of ['DATABASE_URL', 'TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE']) delete process.env[name];
  const log = (line: string) => (values.json ? undefined : process.stderr.write(`${line}\n`));
  const dir = join(defaultStackDir(), 'bench-kill');
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  const stack = await startStack({ dir, ui: false, binDir: join(defaultStackDir(), 'bin'), log });
  try {
    await migrate(stack.postgres.url);
    const samples = await measure(stack, Number(values.kills), log);
    const report = { kills: Number(values.kills), ...reportOf(samples) };
    console.log(values.json ? JSON.stringify(report) : tableOf(report));
  } finally {
    await stopStack(stack);
  }
}

async function measure(
  stack: Awaited<ReturnType<typeof startStack>>,
  kills: number,
  log: (line: string) => void,
): Promise<Sample[]> {
  const world = await openWorld({
    settings: {},
    postgresUrl: stack.postgres.url,
    temporal: { address: stack.temporal.address, namespace: stack.temporal.namespace },
    contracts: crashContracts({ timeout: '5s', sendBy: '5s', inFlightMax: '15s', lag: '1s' }),
  });
  try {
    // The one that notices: any other process of the fleet.
    await world.worker(['reconcile']);
    const samples: Sample[] = [];
    for (let round = 1; round <= kills; round += 1) {
      const seen = await oneKill(world, round);
      samples.push(...seen);
      const show = (pick: keyof Omit<Sample, 'lane'>) => seen.map((sample) => sample[pick].toFixed(0)).join(' ');
      log(`kill ${round}: to UNKNOWN ${show('killToUnknown')} ms, look to CONFIRMED ${show('lookToConfirmed')} ms`);
    }
    return samples;
  } finally {
    await world.close();
  }
}

/** One effect per lane in flight, one SIGKILL at a random moment of the lease's beat. */
async function oneKill(world: World, round: number): Promise<Sample[]> {
  const calls = new Map(LANES.map((lane) => [lane, world.call('NON_RETRYABLE', `${lane}-${round}`)] as const));
  const call = (lane: Lane) => calls.get(lane) as Call;
  await world.billing.faults(
    { route: 'POST /v1/payments', mode: 'accept_then_hang' },
    { route: 'GET /v1/payments', mode: 'lose_evidence' },
  );
  const holder = await world.worker(['dispatch', 'providers']);
  void holder.dispatch([call('direct')], 60_000).catch(() => undefined);
  await Promise.all([
    world.callMany([call('local')], 'local'),
    world.callMany([call('activity')], 'activity'),
    world.holdfast.dispatch({ ...call('workflow'), waitMs: 1 }),
  ]);
  await world.billing.untilWaiting(LANES.length, 20_000);
  await pause(Math.random() * 1_000);
  const killedAt = Date.now();
  await holder.signal('SIGKILL');
  const unknownAt = await untilAll(round, async () => timesOf(world, round, 'fenced'));
  await pause(500 + Math.random() * 2_000);
  await world.billing.clearFaults();
  const planned = new Map<string, number>();
  const confirmedAt = await untilAll(round, async () => {
    const rows = await world.ledger.sql`
      SELECT call_id, status, next_look_at FROM holdfast.effects WHERE run_id = ${world.run} AND call_id LIKE ${`%-${round}`}`;
    // The plan that stood last is the look that found it.
    for (const row of rows)
      if (row.next_look_at !== null) planned.set(row.call_id as string, (row.next_look_at as Date).getTime());
    return timesOf(world, round, 'evidence');
  });
  return LANES.map((lane) => {
    const { call: id } = call(lane);
    return {
      lane,
      killToUnknown: (unknownAt.get(id) ?? Number.NaN) - killedAt,
      lookToConfirmed: (confirmedAt.get(id) ?? Number.NaN) - (planned.get(id) ?? Number.NaN),
    };
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** When an event of that kind was written, by call id; the database's clock is this machine's. */
async function timesOf(world: World, round: number, kind: string): Promise<Map<string, number>> {
  const rows = await world.ledger.sql`
    SELECT call_id, at FROM holdfast.effect_events
    WHERE run_id = ${world.run} AND call_id LIKE ${`%-${round}`} AND kind = ${kind}`;
  return new Map(rows.map((row) => [row.call_id as string, (row.at as Date).getTime()]));
}

function untilAll(round: number, look: () => Promise<Map<string, number>>): Promise<Map<string, number>> {
  return until(
    `all lanes of kill ${round} are there`,
    async () => {
      const times = await look();
      return times.size === LANES.length ? times : undefined;
    },
    90_000,
  );
}

function reportOf(samples: readonly Sample[]) {
  const all = (pick: keyof Omit<Sample, 'lane'>, lane?: Lane) =>
    distributionOf(samples.filter((one) => lane === undefined || one.lane === lane).map((one) => one[pick]));
  return {
    killToUnknownMs: all('killToUnknown'),
    killToUnknownMsByLane: Object.fromEntries(LANES.map((lane) => [lane, all('killToUnknown', lane)])),
    plannedLookToConfirmedMs: all('lookToConfirmed'),
  };
}

function distributionOf(values: readonly number[]): Distribution {
  const sorted = values.map(Math.round).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
  return { samples: sorted.length, min: at(0.000_001), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}

function tableOf(report: ReturnType<typeof reportOf> & { kills: number }): string {
  const columns = ['samples', 'min', 'p50', 'p90', 'p99', 'max'] as const;
  const line = (name: string, row: Distribution) =>
    name.padEnd(34) + columns.map((column) => String(row[column]).padStart(9)).join('');
  return [
    `${report.kills} kills, milliseconds`.padEnd(34) + columns.map((column) => column.padStart(9)).join(''),
    line('SIGKILL to UNKNOWN', report.killToUnknownMs),
    ...LANES.map((lane) => line(`  lane ${lane}`, report.killToUnknownMsByLane[lane] as Distribution)),
    line('planned look to CONFIRMED', report.plannedLookToConfirmedMs),
  ].join('\n');
}

await main();
