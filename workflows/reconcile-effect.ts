import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  defineUpdate,
  log,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { DecideAnswer, ReconcileActivities, ReconcileStep } from '../activities/types.ts';
import type { EffectId } from '../effects/effect.ts';
import { type DecidePayload, decideInputFrom, whyMalformed } from './decide-payload.ts';
import { currentDetails } from './details.ts';

/** Rules by hand; answered with what became of it. Lost while no worker polls. */
export const decideUpdate = defineUpdate<DecideAnswer, [DecidePayload]>('decide');
/** Rules by hand without an answer; durable while no worker polls. */
export const decideSignal = defineSignal<[DecidePayload]>('decide');
/** Asks for a look at once; remembered when one is under way. */
export const checkNowSignal = defineSignal<[{ actor?: string }?]>('checkNow');
/** What is known about the effect; null before the first look. */
export const effectQuery = defineQuery<ReconcileStep | null>('effect');

/** The one argument of {@link reconcileEffect}. */
export interface ReconcileInput {
  readonly id: EffectId;
  /** Carried over continue-as-new: a look was asked for and not yet made. */
  readonly checkNow?: boolean;
}

const { gatherEvidence, applyDecision } = proxyActivities<ReconcileActivities>({
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '10 seconds',
  allowEagerDispatch: false,
  // Without end: an effect stays UNKNOWN until somebody proves something, and a part that is away comes back.
  retry: { initialInterval: 500, maximumInterval: 30_000 },
});

/** One unsettled effect, until it is settled. Ends only with its handlers finished. */
export async function reconcileEffect(input: ReconcileInput): Promise<{ status: string }> {
  const reconciliation = new Reconciliation(input);
  setHandler(decideUpdate, (payload) => reconciliation.decide(payload), {
    validator: (payload) => reconciliation.validate(payload),
    description:
      'Rule by hand: {decisionId, ruling: confirm | not_applied, actor, reason, expected: {status, fence}, force?, correction?}',
  });
  setHandler(decideSignal, (payload) => reconciliation.decideBySignal(payload), {
    description: 'As the update, but durable while no worker runs',
  });
  setHandler(checkNowSignal, () => reconciliation.checkNow(), { description: 'Ask the provider for evidence now' });
  setHandler(effectQuery, () => reconciliation.step, { description: 'What is known about this effect' });
  return reconciliation.run();
}

/** Without a stack: the UI and the command print it to the person who sent the update. */
function refusal(code: 'bad_input' | 'decision_refused', why: string): ApplicationFailure {
  const failure = ApplicationFailure.nonRetryable(why, code);
  failure.stack = '';
  return failure;
}

class Reconciliation {
  readonly #id: EffectId;
  #due = false;
  #trigger = 'planned';
  step: ReconcileStep | null = null;

  constructor({ id, checkNow = false }: ReconcileInput) {
    this.#id = id;
    if (checkNow) this.checkNow();
  }

  async run(): Promise<{ status: string }> {
    for (;;) {
      const trigger = this.#trigger;
      this.#due = false;
      this.#trigger = 'planned';
      const step = await gatherEvidence({ id: this.#id, trigger });
      this.#show(step);
      if (step.nextInMs === null) {
        await condition(allHandlersFinished);
        return { status: step.status };
      }
      if (workflowInfo().continueAsNewSuggested) {
        await condition(allHandlersFinished);
        await continueAsNew<typeof reconcileEffect>({ id: this.#id, checkNow: this.#due });
      }
      await condition(() => this.#due, step.nextInMs);
    }
  }

  checkNow(): void {
    this.#due = true;
    this.#trigger = 'checkNow';
  }

  /** Throws before anything is recorded: the update then leaves no trace in history. */
  validate(payload: DecidePayload): void {
    const why = whyMalformed(payload);
    if (why !== undefined) throw refusal('bad_input', why);
    if (this.step !== null && this.step.fence !== payload.expected.fence) {
      throw refusal(
        'decision_refused',
        `expected fence ${payload.expected.fence}, but the effect has fence ${this.step.fence}; read its details again`,
      );
    }
  }

  async decide(payload: DecidePayload): Promise<DecideAnswer> {
    const answer = await applyDecision(decideInputFrom(this.#id, payload, 'temporal'));
    // The main loop reads the ledger again: it is what decides whether this is over.
    this.#due = true;
    this.#trigger = 'decision';
    return answer;
  }

  async decideBySignal(payload: DecidePayload): Promise<void> {
    const why = whyMalformed(payload);
    if (why !== undefined) {
      log.warn('a decide signal was malformed', { why });
      return;
    }
    await this.decide(payload);
  }

  #show(step: ReconcileStep): void {
    const before = this.step;
    this.step = step;
    setCurrentDetails(currentDetails(step));
    if (before?.status !== step.status || before?.attention !== step.attention) {
      upsertSearchAttributes({
        EffectStatus: [step.status],
        EffectAttention: step.attention === null ? [] : [step.attention],
      });
    }
  }
}
