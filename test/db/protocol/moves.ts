import type { Admission, EffectRow, Move, Resend, Settlement } from '../../../db/statements/index.ts';

/** What a holder writes about its claim; CONFIRMED unless changed. */
export const settlement = (a: Pick<Admission, 'id' | 'nonce'>, change: Partial<Settlement> = {}): Settlement => ({
  id: a.id,
  nonce: a.nonce,
  to: 'CONFIRMED',
  result: '{"done":true}',
  resultInfo: null,
  providerRef: null,
  reasonCode: null,
  reason: null,
  attention: null,
  sentLate: false,
  lookInMs: 0,
  actor: 'test',
  ...change,
});

/** A move by evidence that judged the row as it is; CONFIRMED unless changed. */
export const moveOf = (row: EffectRow, change: Partial<Move> = {}): Move => ({
  id: row.id,
  expect: { status: row.status, fence: row.fence },
  to: 'CONFIRMED',
  settledBy: 'evidence',
  result: '{"found":true}',
  resultInfo: null,
  providerRef: null,
  reasonCode: null,
  reason: null,
  attention: null,
  event: { kind: 'evidence', actor: 'test' },
  ...change,
});

/** A re-send of the row under which every condition that hangs on the caller holds. */
export const resendOf = (row: EffectRow, processId: string, nonce: string, change: Partial<Resend> = {}): Resend => ({
  id: row.id,
  fence: row.fence,
  contractDigest: row.contractDigest,
  requestHash: row.requestHash as Buffer,
  account: row.account,
  credentialVersion: row.credentialVersion,
  processId,
  nonce,
  sendByMs: 1_000,
  deadlineMs: 2_000,
  concurrentSafe: false,
  keyWindowMs: 3_600_000,
  actor: 'test',
  ...change,
});
