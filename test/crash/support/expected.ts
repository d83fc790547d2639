import type { EffectClass } from '../../../contracts/contract.ts';
import { DEBUG_POINTS } from '../../../dispatcher/debug-point.ts';

/**
 * Where a worker dies. `answer_lost` has no named point: the provider holds every answer, and the test kills the
 * worker once the provider has all requests.
 */
export const MATRIX_POINTS = [...DEBUG_POINTS, 'answer_lost'] as const;
export type MatrixPoint = (typeof MATRIX_POINTS)[number];

export const LANES = ['local', 'activity', 'workflow', 'direct'] as const;
export type MatrixLane = (typeof LANES)[number];

/** What the provider does with the first request of an effect, and whether it shows evidence. Later requests are served well. */
export const PROVIDER_OUTCOMES = ['applied', 'not_applied', 'cannot_tell'] as const;
export type ProviderOutcome = (typeof PROVIDER_OUTCOMES)[number];

/** Points of a reconciliation; whoever dies there is not the holder. */
export const isLookPoint = (point: MatrixPoint): boolean =>
  point === 'before_look' || point === 'looked' || point === 'verdict_written';

/** Points at which the provider has to hold its answers, so that all requests are in flight at once. */
export const holdsAnswers = (point: MatrixPoint): boolean => point === 'written' || point === 'answer_lost';

/** What had happened to the effect when its process died: the rows of DESIGN's table of crash points. */
type Story =
  /** Nothing was recorded: retried by others, sent then. */
  | 'nothing_recorded'
  /** Claimed, and no byte had left. */
  | 'claimed_unsent'
  /** The request had left, and nobody wrote an answer. */
  | 'sent_unwritten'
  /** The answer was in the ledger, and nobody had been told. */
  | 'answer_written';

const STORY: Readonly<Record<MatrixPoint, Story>> = {
  before_record: 'nothing_recorded',
  claimed: 'claimed_unsent',
  before_first_byte: 'claimed_unsent',
  written: 'sent_unwritten',
  answer_lost: 'sent_unwritten',
  answered: 'sent_unwritten',
  settled: 'answer_written',
  // The answer was lost on the wire, the holder wrote UNKNOWN, and then the process that asked for evidence died.
  before_look: 'sent_unwritten',
  looked: 'sent_unwritten',
  verdict_written: 'sent_unwritten',
};

export interface Expected {
  /** Once everything that can be proven is proven, while `cannot_tell` still shows no evidence. */
  readonly status: 'CONFIRMED' | 'NOT_APPLIED' | 'UNKNOWN';
  /** Requests that the provider saw. */
  readonly sends: number;
  /** Artefacts that the provider made; for PURE the answers it gave. */
  readonly artefacts: number;
  /** Once the provider shows evidence again. */
  readonly finally: 'CONFIRMED' | 'NOT_APPLIED';
}

type Group = 'once' | 'IDEMPOTENT' | 'REPLAYABLE' | 'PURE';
type Cells = Readonly<Record<ProviderOutcome, Expected>>;

const confirmed = (sends: number, artefacts: number): Expected => ({
  status: 'CONFIRMED',
  sends,
  artefacts,
  finally: 'CONFIRMED',
});
const absent = (sends: number): Expected => ({
  status: 'NOT_APPLIED',
  sends,
  artefacts: 0,
  finally: 'NOT_APPLIED',
});
const unknown = (sends: number, artefacts: number): Expected => ({
  status: 'UNKNOWN',
  sends,
  artefacts,
  finally: artefacts === 0 ? 'NOT_APPLIED' : 'CONFIRMED',
});

/** NON_RETRYABLE and UNKNOWN are sent at most once, and only proof settles them; the others are sent again until applied. */
const TABLE: Readonly<Record<Story, Readonly<Record<Group, Cells>>>> = {
  nothing_recorded: {
    once: { applied: confirmed(1, 1), not_applied: absent(1), cannot_tell: unknown(1, 1) },
    IDEMPOTENT: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 1) },
    REPLAYABLE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
    PURE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
  },
  claimed_unsent: {
    once: { applied: absent(0), not_applied: absent(0), cannot_tell: unknown(0, 0) },
    IDEMPOTENT: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 1) },
    REPLAYABLE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
    PURE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
  },
  sent_unwritten: {
    once: { applied: confirmed(1, 1), not_applied: absent(1), cannot_tell: unknown(1, 1) },
    // Evidence comes before a re-send: what is found is not sent again.
    IDEMPOTENT: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 1) },
    REPLAYABLE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
    // There is nothing to look for: it is asked again.
    PURE: { applied: confirmed(2, 2), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
  },
  answer_written: {
    once: { applied: confirmed(1, 1), not_applied: absent(1), cannot_tell: unknown(1, 1) },
    IDEMPOTENT: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 1) },
    REPLAYABLE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
    PURE: { applied: confirmed(1, 1), not_applied: confirmed(2, 1), cannot_tell: confirmed(2, 2) },
  },
};

/** What has to come out of one effect that was in flight at `point` when its process died. */
export function expectedOf(point: MatrixPoint, effectClass: EffectClass, outcome: ProviderOutcome): Expected {
  const group = effectClass === 'NON_RETRYABLE' || effectClass === 'UNKNOWN' ? 'once' : effectClass;
  return TABLE[STORY[point]][group][outcome];
}
