import type { EffectStatus } from '../effects/effect.ts';
import type { PayloadCodec } from './codec.ts';
import type { decisions, effectEvents, effects, evidence } from './schema.ts';

/** One thing that happened to an effect. `at` is an ISO time with milliseconds, by the database's clock. */
export type HistoryEntry =
  /** Recorded and claimed: told by the row's own columns. */
  | { readonly kind: 'recorded'; readonly at: string; readonly to: 'DISPATCHED' }
  /**
   * The holder's healthy answer: told by the row's own columns. `at` is null when a later correction took its place
   * in the row without keeping it.
   */
  | { readonly kind: 'settled'; readonly at: string | null; readonly to: EffectStatus; readonly actor: string }
  | {
      readonly kind: 'event';
      readonly at: string;
      /** `refused`, `settled`, `fenced`, `overdue`, `resent`, `decision`, `sent_late`, `late_answer_kept`, … */
      readonly event: string;
      readonly from: EffectStatus | null;
      readonly to: EffectStatus | null;
      readonly fence: number;
      readonly actor: string;
      readonly reason: string | null;
      readonly data: unknown;
    }
  | {
      readonly kind: 'evidence';
      readonly at: string;
      readonly askedAt: string;
      readonly fence: number;
      readonly verdict: string;
      readonly why: string | null;
      readonly actor: string;
      /** Only when a codec was given. */
      readonly observed?: string | null;
    }
  | {
      readonly kind: 'decision';
      readonly at: string;
      readonly decisionId: string;
      readonly ruling: string;
      /** Self-declared. */
      readonly actor: string;
      readonly source: string;
      readonly reason: string;
      readonly expected: { readonly status: string; readonly fence: number };
      readonly force: boolean;
      readonly correction: boolean;
      readonly applied: boolean;
      readonly refusal: string | null;
    };

/** The row of an effect, as drizzle reads it. */
export type EffectRecord = typeof effects.$inferSelect;
/** One append-only event. */
export type EventRecord = typeof effectEvents.$inferSelect;
/** One look, as it was recorded. */
export type EvidenceRecord = typeof evidence.$inferSelect;
/** One ruling, applied or refused. */
export type DecisionRow = typeof decisions.$inferSelect;

/** What the ledger holds about one effect. */
export interface HistorySources {
  readonly row: EffectRecord;
  /** By id. */
  readonly events: readonly EventRecord[];
  /** By id. */
  readonly evidence: readonly EvidenceRecord[];
  readonly decisions: readonly DecisionRow[];
  /** When given, payloads are decoded and shown; otherwise they are left out. */
  readonly codec?: PayloadCodec | undefined;
}

/**
 * The story of one effect in the order of time, pure. The two healthy moves have no event: they are derived
 * from the row and put where they belong.
 */
export function historyOf(sources: HistorySources): HistoryEntry[] {
  const { row, events } = sources;
  const rest = [
    ...sources.evidence.map((look) => evidenceEntry(look, sources.codec)),
    ...sources.decisions.map(decisionEntry),
    ...events.map((event) => eventEntry(event, sources.codec)),
  ];
  // Evidence, decision and move of one statement may carry one millisecond; this order reads as cause and result.
  // The sort is stable, so events keep the order of their ids.
  rest.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : WEIGHT[a.kind] - WEIGHT[b.kind]));
  const recorded: HistoryEntry[] =
    row.sends > 0 ? [{ kind: 'recorded', at: row.recordedAt.toISOString(), to: 'DISPATCHED' }] : [];
  return placeSettled([...recorded, ...rest], row);
}

const WEIGHT = { evidence: 0, decision: 1, event: 2 } as const;

/** Follows the moves, and puts the holder's answer where the next move begins from a status that no event led to. */
function placeSettled(entries: readonly HistoryEntry[], row: EffectRecord): HistoryEntry[] {
  const story: HistoryEntry[] = [];
  let status: EffectStatus | null = null;
  for (const entry of entries) {
    if (entry.kind === 'recorded') status = entry.to;
    if (entry.kind === 'event' && entry.to !== null) {
      if (entry.from !== null && status === 'DISPATCHED' && entry.from === 'CONFIRMED') {
        story.push({ kind: 'settled', at: settledBefore(entry.data), to: entry.from, actor: 'holder' });
      }
      status = entry.to;
    }
    story.push(entry);
  }
  if (status === 'DISPATCHED' && row.status === 'CONFIRMED' && row.settledAt !== null) {
    const at = row.settledAt.toISOString();
    // What came later stays behind it: a late note on a settled effect, a refused decision.
    const later = story.findIndex((entry) => entry.at !== null && entry.at > at);
    story.splice(later === -1 ? story.length : later, 0, {
      kind: 'settled',
      at,
      to: 'CONFIRMED',
      actor: row.settledBy ?? 'holder',
    });
  }
  return story;
}

/** `data.before.settledAt` of a correction, where its statement kept what it replaced. */
function settledBefore(data: unknown): string | null {
  const before = (data as { before?: { settledAt?: unknown } } | null)?.before?.settledAt;
  const at = typeof before === 'string' ? new Date(before) : undefined;
  return at === undefined || Number.isNaN(at.getTime()) ? null : at.toISOString();
}

function eventEntry(event: EventRecord, codec: PayloadCodec | undefined) {
  return {
    kind: 'event',
    at: event.at.toISOString(),
    event: event.kind,
    from: event.fromStatus as EffectStatus | null,
    to: event.toStatus as EffectStatus | null,
    fence: event.fence,
    actor: event.actor,
    reason: event.reason,
    data: codec === undefined ? withoutPayloads(event.data) : withResult(event, codec),
  } as const;
}

function evidenceEntry(look: EvidenceRecord, codec: PayloadCodec | undefined) {
  const observed =
    codec === undefined || look.observed === null ? null : codec.decode(look.observed, { tenant: look.tenant });
  return {
    kind: 'evidence',
    at: look.writtenAt.toISOString(),
    askedAt: look.askedAt.toISOString(),
    fence: look.fence,
    verdict: look.verdict,
    why: look.why,
    actor: look.actor,
    ...(codec === undefined ? {} : { observed }),
  } as const;
}

function decisionEntry(decision: DecisionRow) {
  const { decisionId, ruling, actor, source, reason, force, correction, applied, refusal } = decision;
  return {
    kind: 'decision',
    at: decision.at.toISOString(),
    decisionId,
    ruling,
    actor,
    source,
    reason,
    expected: { status: decision.expectedStatus, fence: decision.expectedFence },
    force,
    correction,
    applied,
    refusal,
  } as const;
}

/** A late answer that was kept carries its result as it would stand in the row: through the codec. */
function withResult(event: EventRecord, codec: PayloadCodec): unknown {
  const data = event.data as { result?: unknown } | null;
  if (typeof data?.result !== 'string') return data;
  return { ...data, result: codec.decode(data.result, { tenant: event.tenant }) };
}

/** Members of an event's data that carry arguments, results or answers. */
const PAYLOAD_KEYS = new Set([
  'args',
  'arguments',
  'answer',
  'body',
  'items',
  'observed',
  'payload',
  'request',
  'response',
  'result',
]);

/** An event's data without what the call sent or got back. */
export function withoutPayloads(data: unknown): unknown {
  if (Array.isArray(data)) return data.map(withoutPayloads);
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(
    Object.entries(data)
      .filter(([key]) => !PAYLOAD_KEYS.has(key))
      .map(([key, value]) => [key, withoutPayloads(value)]),
  );
}
