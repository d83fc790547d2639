import type { EffectClass, JsonObject, JsonValue } from '../contracts/contract.ts';

/** What is known about an effect: claimed, applied, proven not applied, or claimed without proof. */
export const EFFECT_STATUSES = ['DISPATCHED', 'CONFIRMED', 'NOT_APPLIED', 'UNKNOWN'] as const;
/** One of {@link EFFECT_STATUSES}. */
export type EffectStatus = (typeof EFFECT_STATUSES)[number];

/** Why a person is called. `null`/absent: nobody needs to act. */
export const ATTENTIONS = ['CONFLICT', 'NEEDS_DECISION', 'EXPIRED', 'PARKED'] as const;
/** One of {@link ATTENTIONS}. */
export type Attention = (typeof ATTENTIONS)[number];

/** Identity of a call and of its effect. Each part matches `[A-Za-z0-9._-]{1,64}`. */
export interface EffectId {
  readonly tenant: string;
  readonly run: string;
  readonly call: string;
}

/** The idempotency key the provider sees. */
export type EffectKey = string & { readonly __brand: 'EffectKey' };

const ID_PART = /^[A-Za-z0-9._-]{1,64}$/;

/** True when `part` may stand in an effect id. */
export function isIdPart(part: unknown): part is string {
  return typeof part === 'string' && ID_PART.test(part);
}

/** `effect:<tenant>:<run>:<call>`, also the id of the effect's `reconcileEffect` workflow. */
export function effectIdText(id: EffectId): string {
  return `effect:${id.tenant}:${id.run}:${id.call}`;
}

/** Reads `effect:t:r:c` (or `t:r:c`) back; `undefined` when it is neither. */
export function parseEffectId(text: string): EffectId | undefined {
  const parts = text.replace(/^effect:/, '').split(':');
  const [tenant, run, call] = parts;
  if (parts.length !== 3 || !isIdPart(tenant) || !isIdPart(run) || !isIdPart(call)) return undefined;
  return { tenant, run, call };
}

/** Longest text, in UTF-16 units, in which a person says who rules or why. */
export const HUMAN_TEXT_CHARS_MAX = 2_000;

/** True for a text that says who rules or why: not blank, without NUL, at most {@link HUMAN_TEXT_CHARS_MAX} long. */
export function isHumanText(text: unknown): text is string {
  return typeof text === 'string' && text.trim() !== '' && text.length <= HUMAN_TEXT_CHARS_MAX && !text.includes('\0');
}

/** What a caller asks for. */
export interface Call extends EffectId {
  readonly tool: string;
  readonly version: string;
  /** When given, it has to be the digest of that version, or nothing is sent. */
  readonly digest?: string;
  readonly args: JsonObject;
  /** Host code's permission to repeat an open effect in other words. Never readable from tool arguments. */
  readonly override?: { readonly actor: string; readonly reason: string };
  /** ISO time (database clock) after which the call must not be claimed any more. */
  readonly notAfter?: string;
}

/** Why an effect is NOT_APPLIED: a code of the error table, or the ledger's own, and a sentence. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
}

/** Whose outcome it is; the class is null for a call that was refused before it had one. */
export interface OutcomeOf {
  readonly effectId: string;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: EffectClass | null;
}

/** What a caller hears. A repeated call id hears the same settled outcome again. */
export type Outcome =
  | (OutcomeOf & {
      readonly status: 'CONFIRMED';
      readonly result: JsonValue;
      /** Results above 8 KiB stay in the ledger: `result` is null and this names their size. */
      readonly resultStoredBytes?: number;
      readonly parts?: JsonValue;
      readonly settledBy: SettledBy;
    })
  | (OutcomeOf & { readonly status: 'NOT_APPLIED'; readonly reason: Refusal; readonly settledBy: SettledBy })
  | (OutcomeOf & {
      readonly status: 'UNKNOWN';
      readonly message: string;
      readonly attention: Attention | null;
      readonly nextLookAt: string | null;
    });

/** Who settled an effect. */
export const SETTLED_BY = ['holder', 'late_answer', 'evidence', 'decision', 'admission', 'withdrawal', 'pure'] as const;
/** One of {@link SETTLED_BY}. */
export type SettledBy = (typeof SETTLED_BY)[number];
