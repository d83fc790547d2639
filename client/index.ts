export { aesGcmCodec, type PayloadCodec, passThrough } from '../db/codec.ts';
export { connect, type Ledger, type LedgerOptions } from '../db/connect.ts';
export {
  type Attention,
  type Call,
  type EffectId,
  type EffectStatus,
  effectIdText,
  type Outcome,
  parseEffectId,
} from '../effects/effect.ts';
export { ERRORS, type ErrorCode, HoldfastError, isHoldfastError } from '../effects/errors.ts';
export { type DecideRequest, type DispatchRequest, Holdfast, type HoldfastOptions } from './holdfast.ts';
export { ensureSearchAttributes, SEARCH_ATTRIBUTES } from './search-attributes.ts';
