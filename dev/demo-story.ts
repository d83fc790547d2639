import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../contracts/contract.ts';
import { type EffectDetails, showEffect } from '../db/queries.ts';
import { type EffectId, type EffectStatus, effectIdText, type Outcome } from '../effects/effect.ts';
import { isHoldfastError } from '../effects/errors.ts';
import { paint, secondsText, statusWord, type Timeline } from './demo-print.ts';
import { type Stage, TENANT } from './demo-stage.ts';

/** One effect as the demo leaves it. */
export interface DemoEffect {
  readonly effectId: string;
  readonly tool: string;
  readonly effectClass: string | null;
  /** Every status it had, in order. */
  readonly statuses: readonly string[];
  /** What the provider's own books say that it did for this call. */
  readonly providerCount: number;
  /** Milliseconds from SIGKILL of its worker to UNKNOWN, and from UNKNOWN to the last status. */
  readonly killedToUnknownMs?: number;
  readonly unknownToSettledMs?: number;
}

export interface DemoRefusal {
  readonly effectId: string;
  readonly tool: string;
  readonly code: string;
  readonly providerCount: number;
}

/** What the story has shown so far. */
export interface Shown {
  readonly effects: DemoEffect[];
  readonly refusals: DemoRefusal[];
  /** Promises that were not kept, in words. Empty is good. */
  readonly failures: string[];
}

const SETTLE_WITHIN_MS = 25_000;
const POLL_MS = 50;

/** Makes the calls of the demo, one act at a time, on a stage with two workers. */
export class Story {
  readonly #stage: Stage;
  readonly #timeline: Timeline;
  readonly shown: Shown = { effects: [], refusals: [], failures: [] };
  /** Answers of the calls whose worker was killed: they come when Temporal has given the call to another worker. */
  readonly #callers: { readonly effectId: string; readonly answer: Promise<Outcome> }[] = [];
  #workers: number;
  #replacement: Promise<unknown> = Promise.resolve();

  constructor(stage: Stage, timeline: Timeline, workers: number) {
    this.#stage = stage;
    this.#timeline = timeline;
    this.#workers = workers;
  }

  async ordinaryCalls(): Promise<void> {
    const { books, filesDir } = this.#stage;
    this.#timeline.act('Ordinary calls');
    await this.#ordinary('rate-1', 'billing.rate', { currency: 'USD' }, () => books.countByRoute('GET /v1/rates/USD'));
    await this.#ordinary('invoice-1', 'billing.send_invoice', { customer: 'Ada', amount: 1250, currency: 'EUR' });
    const [path, content] = [join(filesDir, 'hello.txt'), 'written once\n'];
    await this.#ordinary('file-1', 'files.write_file', { path, content }, async () =>
      existsSync(path) && readFileSync(path, 'utf8') === content ? 1 : 0,
    );
  }

  async wrongDigest(): Promise<void> {
    const { holdfast, books } = this.#stage;
    this.#timeline.act('A call pinned to a digest that is not the published one');
    const id = this.#id('drifted-1');
    const before = await books.artefacts();
    const args = { customer: 'Eve', amount: 1, currency: 'EUR' };
    const digest = `sha256/v1:${'0'.repeat(64)}`;
    const outcome = await holdfast.dispatch({ ...id, tool: 'billing.send_invoice', version: '1.0.0', digest, args });
    const code = outcome.status === 'NOT_APPLIED' ? outcome.reason.code : outcome.status;
    const providerCount = (await books.artefacts()) - before;
    this.#timeline.line('refused', `${code}: ${effectIdText(id)} was not sent`, 'yellow');
    this.shown.refusals.push({ effectId: effectIdText(id), tool: 'billing.send_invoice', code, providerCount });
    this.#expect(code === 'tool_schema_drift', `a wrong digest gave ${code} instead of tool_schema_drift`);
    this.#expect(providerCount === 0, 'a refused call reached the provider');
  }

  /** A worker dies right after the provider accepted and before it answered. */
  async killedInFlight(callId: string, tool: string, route: string, args: JsonObject): Promise<void> {
    const { books, holdfast, children } = this.#stage;
    const effectClass = this.#stage.contracts.get(tool)?.execution.effect;
    this.#timeline.act(`A worker is killed in the middle of ${article(effectClass)} ${effectClass} call`);
    await this.#replacement;
    const id = this.#id(callId);
    await books.arm(route, 'accept_then_hang', callId);
    const answer = holdfast.dispatch({
      ...id,
      tool,
      version: '1.0.0',
      args: { ...args, case: callId },
      waitMs: 40_000,
    });
    answer.catch(() => undefined);
    this.#callers.push({ effectId: effectIdText(id), answer });
    this.#timeline.line('call', `${tool}@1.0.0  ${paint('bold', effectIdText(id))}`);
    await books.untilAccepted(route);
    this.#timeline.line('provider', 'accepted it, and hangs before it answers');
    const holder = await this.#holder(id);
    const name = children.nameOf(holder.pid);
    if (name === undefined) throw new Error(`pid ${holder.pid} holds the claim and is no worker of this demo`);
    const killedAt = Date.now();
    await children.kill(name);
    this.#timeline.line('SIGKILL', `${name} (pid ${holder.pid}), which holds the claim`, 'magenta');
    this.#replacement = this.#replace(name);
    this.#replacement.catch(() => undefined);
    await this.#settledByEvidence(id, killedAt);
  }

  /** Class UNKNOWN without evidence: only a person can settle it. */
  async byHand(): Promise<void> {
    const { books, holdfast } = this.#stage;
    this.#timeline.act('An effect that only a person can settle');
    const id = this.#id('note-1');
    const effectId = effectIdText(id);
    const args = { text: 'customer called back', case: 'note-1' };
    await books.arm('POST /v1/notes', 'accept_then_close', 'note-1');
    const outcome = await holdfast.dispatch({ ...id, tool: 'billing.note', version: '1.0.0', args, waitMs: 1_000 });
    await this.#until(id, ({ status, attention }) => status === 'UNKNOWN' && attention === 'NEEDS_DECISION');
    this.#timeline.line('call', `billing.note@1.0.0  ${paint('bold', effectId)}`);
    this.#timeline.line('provider', 'wrote it down and closed the connection without an answer');
    this.#timeline.line(
      'effect',
      `${statusWord('UNKNOWN')}: the contract names no evidence, so Holdfast does not guess and does not repeat`,
    );
    if (outcome.status === 'UNKNOWN') this.#timeline.more(`the agent hears: "${outcome.message}"`);
    this.#expect(outcome.status === 'UNKNOWN', `the note's caller heard ${outcome.status} instead of UNKNOWN`);
    const { effectKey } = await this.#details(id);
    const found = await books.countByKey(effectKey ?? '');
    this.#timeline.line('person', `asks the bookkeepers, who find ${found} such note, and rules`);
    const answer = await holdfast.decide({
      id,
      ruling: found > 0 ? 'confirm' : 'not_applied',
      actor: 'demo operator',
      reason: `the books hold ${found} such note`,
      source: 'demo',
    });
    this.#expect(answer.applied, `the decision was refused: ${answer.refusal}`);
    this.#timeline.line('effect', `UNKNOWN → ${statusWord(answer.status)}, by decision of "demo operator"`);
    await this.#record(id, () => books.countByKey(effectKey ?? ''));
  }

  /** What the callers of the killed workers hear in the end. */
  async callersHear(): Promise<void> {
    this.#timeline.act('The callers, who waited all the time');
    for (const { effectId, answer } of this.#callers) {
      const outcome = await answer;
      this.#timeline.line('caller', `${effectId} hears ${statusWord(outcome.status)}`);
      this.#expect(outcome.status === 'CONFIRMED', `the caller of ${effectId} heard ${outcome.status}`);
    }
    await this.#replacement;
  }

  async #ordinary(callId: string, tool: string, args: JsonObject, count?: () => Promise<number>): Promise<void> {
    const { holdfast, books } = this.#stage;
    const id = this.#id(callId);
    const started = performance.now();
    const outcome = await holdfast.dispatch({ ...id, tool, version: '1.0.0', args });
    const ms = Math.round(performance.now() - started);
    const { effectKey } = await this.#details(id);
    const effect = await this.#record(id, count ?? (() => books.countByKey(effectKey ?? '')));
    this.#timeline.line(
      'call',
      `${tool.padEnd(20)} ${effect.effectClass?.padEnd(13)} ${statusWord(outcome.status)} in ${ms} ms  ${effect.effectId}`,
    );
    this.#expect(outcome.status === 'CONFIRMED', `${effect.effectId} is ${outcome.status} instead of CONFIRMED`);
  }

  async #settledByEvidence(id: EffectId, killedAt: number): Promise<void> {
    const { books } = this.#stage;
    const open = await this.#until(id, ({ history }) => timeOf(history, 'UNKNOWN') !== undefined);
    const unknownAt = timeOf(open.history, 'UNKNOWN') ?? killedAt;
    const why = open.history.find((entry) => entry.kind === 'event' && entry.to === 'UNKNOWN');
    const reason = why?.kind === 'event' ? why.reason : null;
    this.#timeline.line(
      'effect',
      `DISPATCHED → ${statusWord('UNKNOWN')} ${secondsText(unknownAt - killedAt)} after the kill: ${reason}`,
    );
    const settled = await this.#until(id, ({ status }) => status === 'CONFIRMED' || status === 'NOT_APPLIED');
    const look = settled.history.findLast((entry) => entry.kind === 'evidence');
    if (look?.kind === 'evidence') {
      this.#timeline.line(
        'evidence',
        `the provider is asked about ${settled.effectKey?.slice(0, 16)}…: ${look.verdict}`,
      );
    }
    const settledAt = timeOf(settled.history, settled.status) ?? Date.now();
    this.#timeline.line(
      'effect',
      `UNKNOWN → ${statusWord(settled.status)} ${secondsText(settledAt - unknownAt)} later, by ${settled.settledBy}`,
    );
    const times = { killedToUnknownMs: unknownAt - killedAt, unknownToSettledMs: settledAt - unknownAt };
    const effect = await this.#record(id, () => books.countByKey(settled.effectKey ?? ''), times);
    this.#timeline.line('provider', `its own books count ${effect.providerCount}`);
    this.#expect(settled.status === 'CONFIRMED', `${effect.effectId} ended ${settled.status} instead of CONFIRMED`);
    this.#expect(
      same(effect.statuses, ['DISPATCHED', 'UNKNOWN', 'CONFIRMED']),
      `${effect.effectId} went ${effect.statuses.join(' → ')}`,
    );
  }

  async #replace(name: string): Promise<void> {
    this.#workers += 1;
    const worker = await this.#stage.startWorker(`worker-${this.#workers}`);
    this.#timeline.line('worker', `${worker.name} is up (pid ${worker.pid}) in place of ${name}`);
  }

  async #holder(id: EffectId): Promise<{ pid: number }> {
    const { ledger } = this.#stage;
    const [row] = await ledger.run(
      'read holder',
      () => ledger.sql`
        SELECT (p.info->>'pid')::int AS pid FROM holdfast.effects e
        JOIN holdfast.processes p ON p.process_id = e.process_id
        WHERE e.tenant = ${id.tenant} AND e.run_id = ${id.run} AND e.call_id = ${id.call} AND e.status = 'DISPATCHED'`,
    );
    if (row === undefined) throw new Error(`nobody holds the claim of ${effectIdText(id)}`);
    return { pid: row['pid'] as number };
  }

  #details(id: EffectId): Promise<EffectDetails> {
    return showEffect(this.#stage.ledger, id);
  }

  async #until(id: EffectId, reached: (details: EffectDetails) => boolean): Promise<EffectDetails> {
    const until = performance.now() + SETTLE_WITHIN_MS;
    for (;;) {
      const details = await this.#details(id).catch((error: unknown) => {
        if (isHoldfastError(error) && error.code === 'effect_not_found') return undefined;
        throw error;
      });
      if (details !== undefined && reached(details)) return details;
      if (performance.now() > until) {
        throw new Error(`${effectIdText(id)} is still ${details?.status} after ${SETTLE_WITHIN_MS / 1000} s`);
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async #record(id: EffectId, count: () => Promise<number>, times: object = {}): Promise<DemoEffect> {
    const { effectId, tool, effectClass, history } = await this.#details(id);
    const effect = {
      effectId,
      tool,
      effectClass,
      statuses: statusesOf(history),
      providerCount: await count(),
      ...times,
    };
    this.shown.effects.push(effect);
    this.#expect(effect.providerCount === 1, `the provider counts ${effect.providerCount} for ${effectId}`);
    return effect;
  }

  #id(call: string): EffectId {
    return { tenant: TENANT, run: this.#stage.run, call };
  }

  #expect(held: boolean, otherwise: string): void {
    if (!held) this.shown.failures.push(otherwise);
  }
}

type History = EffectDetails['history'];

/** Every status the effect had, in order. */
function statusesOf(history: History): EffectStatus[] {
  return history.flatMap((entry) => ('to' in entry && entry.to !== null ? [entry.to] : []));
}

function timeOf(history: History, status: string): number | undefined {
  const entry = history.findLast((one) => 'to' in one && one.to === status);
  return entry?.at == null ? undefined : Date.parse(entry.at);
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}

function article(word: string | undefined): string {
  return /^[AEIO]/.test(word ?? '') ? 'an' : 'a';
}
