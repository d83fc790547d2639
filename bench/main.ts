import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { directLane, historyEvents, localLane, workflowLane, workflowLaneHere } from './lanes.ts';
import { ledgerCost } from './ledger-cost.ts';
import { type Report, table } from './report.ts';
import { openStage, TOOL } from './stage.ts';

const HELP = `npm run bench -- [--quick] [--json] [--only LANE]

What safety costs: each lane of Holdfast against the same call without it, in interleaved rounds on a stack of
its own (fsync on). Every figure is a ratio, or a count. Ends with 0 unless it could not run.

  --quick      about a minute instead of about three
  --json       one JSON object on standard output
  --both       also against a baseline that is started eagerly itself
  --only LANE  workflow, eager, local, direct or ledger; for profiling. Prints only that part, as JSON
`;

/** Milliseconds for the rounds of one lane at one number in flight. */
const BUDGETS = {
  full: { workflow: 14_000, eager: 12_000, both: 6_000, local: 14_000, direct: 9_000 },
  quick: { workflow: 3_000, eager: 2_500, both: 2_000, local: 4_000, direct: 2_000 },
} as const;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      both: { type: 'boolean', default: false },
      only: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return void process.stdout.write(HELP);
  // The bench measures on a stack of its own, whatever else is configured here.
  delete process.env.DATABASE_URL;
  delete process.env.TEMPORAL_ADDRESS;
  delete process.env.TEMPORAL_NAMESPACE;
  process.env.HOLDFAST_SECRET_BILLING = 'v1:bench';
  Runtime.install({ logger: new DefaultLogger('WARN'), shutdownSignals: [] });
  const log = (line: string) => process.stderr.write(`${line}\n`);
  const stage = await openStage(values.json ? () => {} : log);
  try {
    const { digest } = await stage.holdfast.pin(TOOL.tool, TOOL.version);
    const budget = values.quick ? BUDGETS.quick : BUDGETS.full;
    const parts = {
      workflow: () => workflowLane(stage, digest, budget.workflow),
      eager: () => workflowLaneHere(stage, digest, budget.eager, false),
      both: () => workflowLaneHere(stage, digest, budget.both, true),
      local: async () => {
        const {
          p50Ratio: perCallRatio,
          throughputRatio: _same,
          ...rest
        } = await localLane(stage, digest, budget.local);
        return { perCallRatio, ...rest };
      },
      direct: () => directLane(stage, digest, budget.direct),
      ledger: async () => {
        await stage.stopWorkers();
        return ledgerCost(stage.config, stage.postgresUrl, digest);
      },
    };
    if (values.only !== undefined) {
      const part = parts[values.only as keyof typeof parts];
      if (part === undefined) throw new Error(`--only takes one of ${Object.keys(parts).join(', ')}`);
      process.stdout.write(`${JSON.stringify(await part(), null, 2)}\n`);
      return;
    }
    const step = <T>(name: string, part: () => Promise<T>): Promise<T> => {
      if (!values.json) log(`measuring ${name} …`);
      return part();
    };
    const lanes = {
      workflowLane: await step('the workflow lane', parts.workflow),
      workflowLaneEager: await step('the workflow lane with eager start', parts.eager),
      ...(values.both ? { workflowLaneBothEager: await step('eager against eager', parts.both) } : {}),
      localLane: await step('the local lane', parts.local),
      directLane: await step('the direct lane', parts.direct),
    };
    const historyEventsPerEffect = await step('history', () => historyEvents(stage));
    const environment = { node: process.version, cpus: cpus().length, postgres: await postgresVersion(stage) };
    const cost = await step('the ledger', parts.ledger);
    const report: Report = { ...lanes, ...cost, historyEventsPerEffect, environment };
    process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : `\n${table(report)}\n`);
  } finally {
    await stage.close();
  }
}

async function postgresVersion(stage: Awaited<ReturnType<typeof openStage>>): Promise<string> {
  const [row] = await stage.ledger.sql`SELECT current_setting('server_version') AS version`;
  return row?.version as string;
}

try {
  await main();
  // Temporal's native runtime can keep a process for some seconds after everything is closed.
  process.exit(0);
} catch (error) {
  process.stderr.write(`${(error as Error).stack ?? error}\n`);
  process.exit(1);
}
