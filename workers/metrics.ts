import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Ledger } from '../db/connect.ts';
import { metrics as ledgerMetrics } from '../db/metrics.ts';
import type { DispatchEvents, UnresolvedEffect } from '../dispatcher/deps.ts';

/** Prometheus metrics of one process; ledger-wide gauges are read when they are scraped. */
export class Metrics {
  readonly registry = new Registry();
  readonly #sends = this.#counter('holdfast_sends_total', 'Requests handed to a provider', ['tool']);
  readonly #refusals = this.#counter('holdfast_refusals_total', 'Calls refused before anything was sent', [
    'tool',
    'code',
  ]);
  readonly #settlements = this.#counter('holdfast_settlements_total', 'Answers written by their holder', [
    'tool',
    'class',
    'status',
  ]);
  readonly #verdicts = this.#counter('holdfast_verdicts_total', 'Verdicts on evidence', ['tool', 'verdict']);
  readonly #latency = new Histogram({
    name: 'holdfast_dispatch_seconds',
    help: 'From claim to settled, by the holder',
    labelNames: ['tool', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [this.registry],
  });
  readonly #effects = this.#gauge('holdfast_effects', 'Effects in the ledger', ['status', 'class']);
  readonly #oldest = this.#gauge('holdfast_oldest_open_seconds', 'Age of the oldest open effect', ['status']);
  readonly #lapsed = this.#gauge('holdfast_lapsed_claims', 'DISPATCHED effects whose holder has no live lease', []);

  readonly #overdue = this.#gauge('holdfast_overdue_claims', 'DISPATCHED effects past their deadline', []);
  readonly #attention = this.#gauge('holdfast_attention', 'Effects that need a person', ['attention']);

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** The dispatcher's events as counts. */
  events(unresolved: (effect: UnresolvedEffect) => void): DispatchEvents {
    return {
      unresolved,
      sent: (tool) => this.#sends.inc({ tool }),
      refused: (tool, code) => this.#refusals.inc({ tool, code }),
      verdict: (tool, verdict) => this.#verdicts.inc({ tool, verdict }),
      settled: (tool, effectClass, status, elapsedMs) => {
        this.#settlements.inc({ tool, class: effectClass, status });
        this.#latency.observe({ tool, status }, elapsedMs / 1000);
      },
    };
  }

  /** The text of `/metrics`. */
  async scrape(ledger: Ledger): Promise<string> {
    const now = await ledgerMetrics(ledger);
    this.#effects.reset();
    for (const { status, effectClass, count } of now.counts) this.#effects.set({ status, class: effectClass }, count);
    this.#oldest.set({ status: 'UNKNOWN' }, (now.oldestUnknownMs ?? 0) / 1000);
    this.#oldest.set({ status: 'DISPATCHED' }, (now.oldestDispatchedMs ?? 0) / 1000);
    this.#lapsed.set(now.lapsed);
    this.#overdue.set(now.overdue);
    this.#attention.reset();
    for (const [attention, count] of Object.entries(now.attention)) this.#attention.set({ attention }, count);
    return this.registry.metrics();
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }
}
