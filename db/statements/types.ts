import type { Sql } from 'postgres';
import type { EffectClass } from '../../contracts/contract.ts';
import type { Attention, EffectId, EffectKey, EffectStatus, SettledBy } from '../../effects/effect.ts';

/** The raw postgres.js client (prepared statements), or one reserved connection of it. */
export type HotSql = Sql;

/** An effect as the hot path reads it. Instants are database-clock milliseconds. */
export interface EffectRow {
  readonly id: EffectId;
  readonly status: EffectStatus;
  readonly fence: number;
  readonly sends: number;
  readonly looks: number;
  readonly nonce: string | null;
  readonly processId: string | null;
  /** The process named by the claim has a lease that is neither fenced, ended nor lapsed. */
  readonly holderAlive: boolean;
  readonly tool: string;
  readonly version: string;
  readonly contractDigest: Buffer;
  readonly effectClass: EffectClass | null;
  readonly provider: string | null;
  readonly effectKey: EffectKey | null;
  readonly credential: string | null;
  readonly credentialVersion: string | null;
  readonly account: string | null;
  readonly argsHash: Buffer;
  readonly requestHash: Buffer | null;
  /** Through the payload codec; null when stored under `argsHash`. */
  readonly args: string | null;
  readonly stateBefore: string | null;
  readonly providerRef: string | null;
  readonly result: string | null;
  readonly resultInfo: ResultInfo | null;
  readonly reasonCode: string | null;
  readonly reason: string | null;
  readonly settledBy: SettledBy | null;
  readonly attention: Attention | null;
  readonly sentLate: boolean;
  readonly recordedAtMs: number;
  readonly claimedAtMs: number | null;
  readonly sendByAtMs: number | null;
  readonly deadlineAtMs: number | null;
  readonly nextLookAtMs: number | null;
  readonly inFlightMaxMs: number;
  /** Database clock at the reading. */
  readonly nowMs: number;
}

/** What is worth knowing about a result beside its value. */
export interface ResultInfo {
  readonly bytes?: number;
  readonly truncated?: boolean;
  readonly parts?: unknown;
  readonly returnsMismatch?: readonly string[];
  readonly refusal?: string;
}
