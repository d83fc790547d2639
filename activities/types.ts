import type { JsonObject } from '../contracts/contract.ts';
import type { ReconcileStep } from '../dispatcher/step.ts';
import type { Call, EffectId, EffectStatus, Outcome } from '../effects/effect.ts';

/**
 * What travels through Temporal. Types only: workflow code imports this file, so it pulls nothing in.
 * Arguments above 8 KiB are in the ledger already and travel by the hex of their hash (PROTOCOL 8.3).
 */
export type CallInput = Omit<Call, 'args'> &
  ({ readonly args: JsonObject; readonly argsRef?: never } | { readonly args?: never; readonly argsRef: string });

/** The local step's answer: it took the call, or says who should. Recorded in history, so replay never recomputes it. */
export type LocalStep =
  | { readonly use: 'outcome'; readonly outcome: Outcome; readonly argsHash: string }
  | {
      readonly use: 'activity';
      readonly taskQueue: string;
      readonly timeoutMs: number;
      /** How long it may wait there for a worker; histories from before it have none. */
      readonly queueWaitMs?: number;
      readonly argsRef?: string;
    };

/** The outcome of a call, and whose arguments it is about. */
export interface DispatchResult {
  readonly outcome: Outcome;
  /** Hex of the argument hash: lets a caller that joined a running call see that it is its own. */
  readonly argsHash: string;
}

export type { ReconcileStep };

/** A person's ruling as it reaches the ledger; the actor is self-declared. */
export interface DecideInput {
  readonly id: EffectId;
  readonly decisionId: string;
  readonly ruling: 'confirm' | 'not_applied';
  readonly actor: string;
  readonly source: string;
  readonly reason: string;
  readonly expected: { readonly status: EffectStatus; readonly fence: number };
  readonly force: boolean;
  readonly correction: boolean;
}

/** What became of a ruling; a repeated decision id gets the first answer again. */
export interface DecideAnswer {
  readonly effectId: string;
  readonly decisionId: string;
  readonly applied: boolean;
  readonly repeated: boolean;
  readonly refusal: string | null;
  readonly status: EffectStatus;
  readonly fence: number;
}

/** The activities of the dispatch queues. */
export interface DispatchActivities {
  dispatchLocal(input: { readonly call: CallInput; readonly waitMs: number }): Promise<LocalStep>;
  dispatchEffect(input: { readonly call: CallInput }): Promise<DispatchResult>;
  /** Gives a call up that no worker took from `taskQueue` within `waitedMs`, unless its row says otherwise (PROTOCOL 2.4). */
  withdrawUnserved(input: {
    readonly call: CallInput;
    readonly taskQueue: string;
    readonly waitedMs: number;
  }): Promise<DispatchResult>;
  /** Waits up to `waitMs` for the effect to be settled, by reading the ledger. */
  awaitOutcome(input: { readonly id: EffectId; readonly waitMs: number }): Promise<Outcome>;
}

/** The activities of the reconcile queue. */
export interface ReconcileActivities {
  gatherEvidence(input: { readonly id: EffectId; readonly trigger: string }): Promise<ReconcileStep>;
  applyDecision(input: DecideInput): Promise<DecideAnswer>;
  sweepLedger(): Promise<{ readonly started: number }>;
}
