import { paint, Timeline } from './demo-print.ts';
import { buildStage, type Stage, type Undo } from './demo-stage.ts';
import { type DemoEffect, type DemoRefusal, type Shown, Story } from './demo-story.ts';
import { untilSignal } from './stack.ts';

/** What `holdfast demo --json` prints: exactly one object. */
export interface DemoReport {
  /** Nothing was lost or doubled, and every promise was kept. */
  readonly ok: boolean;
  readonly effects: readonly DemoEffect[];
  readonly refusals: readonly DemoRefusal[];
  /** Artefacts at the provider beyond one per effect. */
  readonly duplicates: number;
  /** Effects that the ledger calls CONFIRMED and the provider does not know. */
  readonly lost: number;
  /** Promises that were not kept, in words. */
  readonly failures: readonly string[];
  readonly seconds: number;
  /** The list of effects in Temporal's UI, while it runs. */
  readonly uiUrl: string | null;
  /** Where logs and configuration are. */
  readonly dir: string;
}

export interface DemoOptions {
  /** One JSON object at the end instead of the timeline. */
  readonly json: boolean;
  /** Leave everything up until Ctrl-C. */
  readonly keep: boolean;
}

/**
 * Runs the demo: a stack, a billing provider, the official MCP filesystem server, two workers; ordinary calls; then
 * workers are killed in the middle of calls. Prints as it goes, and leaves nothing running, also after a failure or Ctrl-C.
 *
 * @throws HoldfastError `stack_unavailable` when something could not be started; Interrupted after a signal
 */
export async function runDemo(options: DemoOptions): Promise<DemoReport> {
  const timeline = new Timeline(options.json);
  const undo: Undo = [];
  const signal = untilSignal();
  const interrupted = signal.then((name) => {
    throw new Interrupted(name);
  });
  interrupted.catch(() => undefined);
  try {
    const playing = play(timeline, undo);
    playing.catch(() => undefined);
    const { stage, report } = await Promise.race([playing, interrupted]);
    if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`);
    else tellTotals(timeline, report, options.keep);
    if (options.keep) {
      if (!options.json) tellHowToLookAround(timeline, stage);
      await signal;
      timeline.plain('\nstopping everything …');
    }
    return report;
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    timeline.plain(`\n${error.message}: stopping everything …`);
    timeline.mute();
    await undoAll(undo);
    process.exit(error.exit);
  } finally {
    await undoAll(undo);
  }
}

/** Ctrl-C, or another signal that ends the demo early. */
class Interrupted extends Error {
  readonly exit: number;

  constructor(name: NodeJS.Signals) {
    super(`interrupted by ${name}`);
    this.exit = { SIGINT: 130, SIGTERM: 143 }[name as string] ?? 129;
  }
}

async function play(timeline: Timeline, undo: Undo): Promise<{ stage: Stage; report: DemoReport }> {
  timeline.act('Setting the stage');
  const stage = await buildStage(timeline, undo);
  const workers = await Promise.all(['worker-1', 'worker-2'].map((name) => stage.startWorker(name)));
  for (const { name, pid } of workers) timeline.line('worker', `${name} is up (pid ${pid})`);
  const story = new Story(stage, timeline, workers.length);
  try {
    await story.ordinaryCalls();
    await story.wrongDigest();
    await story.killedInFlight('invoice-2', 'billing.send_invoice', 'POST /v1/invoices', {
      customer: 'Grace',
      amount: 9900,
      currency: 'EUR',
    });
    await story.killedInFlight('payment-1', 'billing.pay', 'POST /v1/payments', {
      payee: 'Grace',
      amount: 4200,
      currency: 'EUR',
    });
    await story.byHand();
    await story.callersHear();
  } catch (error) {
    story.shown.failures.push((error as Error).message);
  }
  return { stage, report: await reportOf(stage, story.shown, timeline) };
}

async function reportOf(stage: Stage, shown: Shown, timeline: Timeline): Promise<DemoReport> {
  const { effects, refusals } = shown;
  const duplicates = effects.reduce((sum, effect) => sum + Math.max(0, effect.providerCount - 1), 0);
  const lost = effects.filter((effect) => effect.statuses.at(-1) === 'CONFIRMED' && effect.providerCount < 1).length;
  const failures = [...shown.failures];
  // The provider's whole books against the ledger's: nothing may be there that no effect answers for.
  const made = await stage.books.artefacts().catch(() => -1);
  const billed = effects.filter((effect) => effect.tool.startsWith('billing.') && effect.effectClass !== 'PURE');
  const known = billed.reduce((sum, effect) => sum + effect.providerCount, 0);
  if (made !== known) failures.push(`the provider's books hold ${made} entries, the effects answer for ${known}`);
  const { uiUrl, namespace } = stage.stack.temporal;
  return {
    ok: failures.length === 0 && duplicates === 0 && lost === 0,
    effects,
    refusals,
    duplicates,
    lost,
    failures,
    seconds: Math.round(timeline.seconds() * 10) / 10,
    uiUrl: uiUrl === null ? null : `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows`,
    dir: stage.dir,
  };
}

function tellTotals(timeline: Timeline, report: DemoReport, keep: boolean): void {
  timeline.act('Totals');
  for (const failure of report.failures) timeline.line('FAILED', failure, 'red');
  if (report.uiUrl !== null) timeline.line('UI', `${report.uiUrl}${keep ? '' : '  (stays up with --keep)'}`);
  const settled = report.effects.filter((effect) => effect.statuses.at(-1) === 'CONFIRMED').length;
  timeline.plain(
    paint(
      report.ok ? 'green' : 'red',
      `${report.effects.length} effects, ${settled} confirmed, ${report.refusals.length} refused, ` +
        `${report.duplicates} duplicates, ${report.lost} lost, in ${report.seconds} s`,
    ),
  );
}

function tellHowToLookAround(timeline: Timeline, { stack, dir, run }: Stage): void {
  const config = `--config ${dir}/holdfast.yaml`;
  timeline.plain(`
Everything stays up. In another terminal:
  npm run holdfast -- effect list ${config}
  npm run holdfast -- effect show effect:acme:${run}:payment-1 ${config}
  npm run holdfast -- call billing.rate --tool-version 1.0.0 --tenant acme --run mine --call rate-1 \\
      --args '{"currency":"GBP"}' ${config}
  Temporal's UI: ${stack.temporal.uiUrl ?? 'none'}
  logs: ${dir}/logs
Ctrl-C here stops it all.`);
}

/** In reverse order; one that fails keeps none of the others from being undone. */
async function undoAll(undo: Undo): Promise<void> {
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) await step().catch(() => undefined);
}
