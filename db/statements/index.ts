export { type Admission, admit } from './admit.ts';
export { applyDecision, type Decision, type DecisionRecord, readDecision, refuseDecision } from './decide.ts';
export {
  beat,
  endLease,
  fenceLapsed,
  openLease,
  purgeLeases,
  type ReleasedClaim,
  releaseFencedClaims,
  releaseOverdueClaims,
} from './lease.ts';
export {
  type DueEffect,
  type Look,
  type NextLook,
  planLook,
  readClock,
  recentLooks,
  recordLook,
  recordVerdict,
  takeOverdueLooks,
} from './look.ts';
export {
  appendEvent,
  type EventNote,
  flagConflict,
  keepLateFacts,
  type Move,
  markSentLate,
  move,
  readKeptAnswers,
} from './move.ts';
export {
  type AdmissionState,
  readAdmissionState,
  readEffect,
  readOpenTwin,
  readPayload,
  storePayload,
} from './read.ts';
export { type RecordedRefusal, recordRefusal } from './refuse.ts';
export { isReplayLost, type Resend, resend } from './resend.ts';
export { type Settlement, settleConfirmed, settleTroubled } from './settle.ts';
export type { EffectRow, HotSql, ResultInfo } from './types.ts';
