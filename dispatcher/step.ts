import { type EffectRow, recentLooks } from '../db/statements/index.ts';
import { type Attention, type EffectStatus, effectIdText } from '../effects/effect.ts';
import type { DispatcherDeps } from './deps.ts';

/** How long a reconciliation waits for a holder that is still in flight before it reads again: a quarter of what is left, within these. */
const IN_FLIGHT_MIN_MS = 1_000;
const IN_FLIGHT_MAX_MS = 10_000;
const LOOKS_SHOWN = 5;

/** One step of a reconciliation, for the workflow and the person who reads it. No payloads. */
export interface ReconcileStep {
  readonly effectId: string;
  readonly status: EffectStatus;
  readonly fence: number;
  readonly attention: Attention | null;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: string;
  /** The newest looks, newest first. */
  readonly looks: readonly { readonly at: string; readonly verdict: string; readonly why: string | null }[];
  /** What is known, in one sentence. */
  readonly reason: string | null;
  /** From now until the next look; null when settled. */
  readonly nextInMs: number | null;
  readonly nextAt: string | null;
}

/** The row as a person and the workflow need it. */
export async function reconcileStep(deps: DispatcherDeps, row: EffectRow): Promise<ReconcileStep> {
  const looks = await deps.ledger.run('recent looks', () => recentLooks(deps.ledger.sql, row.id, LOOKS_SHOWN));
  const settled = row.status === 'CONFIRMED' || row.status === 'NOT_APPLIED';
  const inFlight = row.status === 'DISPATCHED';
  const plannedMs = Math.max(0, (row.nextLookAtMs ?? row.nowMs + deps.settings.lookMinMs) - row.nowMs);
  const nextInMs = settled ? null : inFlight ? inFlightMs(row) : plannedMs;
  return {
    effectId: effectIdText(row.id),
    status: row.status,
    fence: row.fence,
    attention: row.attention,
    tool: row.tool,
    version: row.version,
    effectClass: row.effectClass ?? 'UNKNOWN',
    looks,
    reason: row.reason,
    nextInMs,
    nextAt: nextInMs === null ? null : new Date(row.nowMs + nextInMs).toISOString(),
  };
}

function inFlightMs(row: EffectRow): number {
  const left = ((row.deadlineAtMs ?? row.nowMs) - row.nowMs) / 4;
  return Math.min(Math.max(left, IN_FLIGHT_MIN_MS), IN_FLIGHT_MAX_MS);
}
