/**
 * The room's public names. Workflow code does not import this file: it takes `effect.ts`, `transition.ts`, `judge.ts`
 * and `errors.ts` one by one. Those four stay free of `node:crypto` (which `effect-key.ts` needs) and of ajv (which
 * `read-answer.ts` needs), since neither exists in the workflow sandbox.
 */
export type { Answer, ProviderAnswer, ResultNotes } from './answer.ts';
export {
  ATTENTIONS,
  type Attention,
  type Call,
  EFFECT_STATUSES,
  type EffectId,
  type EffectKey,
  type EffectStatus,
  effectIdText,
  isIdPart,
  type Outcome,
  parseEffectId,
  type Refusal,
  SETTLED_BY,
  type SettledBy,
} from './effect.ts';
export { effectKey } from './effect-key.ts';
export { ERRORS, type ErrorCode, HoldfastError, isHoldfastError } from './errors.ts';
export { type JudgeFacts, judge, type Observation, settleAtMs, type Verdict } from './judge.ts';
export { readAnswer } from './read-answer.ts';
export { evidenceArguments, type LookContext, nextCursor, type Observed, observe } from './read-evidence.ts';
export { MOVERS, type MoveFacts, type Mover, type MoveVerdict, transition } from './transition.ts';
