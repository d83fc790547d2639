import type { DecideInput } from '../activities/types.ts';
import { type EffectId, type EffectStatus, HUMAN_TEXT_CHARS_MAX, isHumanText, isIdPart } from '../effects/effect.ts';

/** What a person sends to `decide`, by Update or Signal. The Temporal UI sends no identity, so the actor stands in here. */
export interface DecidePayload {
  readonly decisionId: string;
  readonly ruling: 'confirm' | 'not_applied';
  readonly actor: string;
  readonly reason: string;
  readonly expected: { readonly status: EffectStatus; readonly fence: number };
  readonly force?: boolean;
  readonly correction?: boolean;
}

/** Why a payload cannot be a decision; plain checks, because zod in workflow code costs memory (temporalio/sdk-typescript#2227). */
export function whyMalformed(payload: unknown): string | undefined {
  if (typeof payload !== 'object' || payload === null) return 'the decision is not a JSON object';
  const p = payload as Record<string, unknown>;
  if (!isIdPart(p.decisionId)) return 'decisionId: 1 to 64 characters of A-Z a-z 0-9 . _ -';
  if (p.ruling !== 'confirm' && p.ruling !== 'not_applied') return 'ruling: "confirm" or "not_applied"';
  for (const key of ['actor', 'reason'] as const) {
    const text = p[key];
    if (!isHumanText(text)) return `${key}: a text of 1 to ${HUMAN_TEXT_CHARS_MAX} characters`;
    if (text.startsWith('YOUR ')) return `${key}: put your own text in place of "${text}"`;
  }
  const expected = p.expected as Record<string, unknown> | null | undefined;
  if (
    typeof expected !== 'object' ||
    expected === null ||
    typeof expected.status !== 'string' ||
    typeof expected.fence !== 'number'
  ) {
    return 'expected: {"status": "UNKNOWN", "fence": 1}, as the details of the effect show it';
  }
  for (const key of ['force', 'correction'] as const) {
    if (p[key] !== undefined && typeof p[key] !== 'boolean') return `${key}: true or false`;
  }
  return undefined;
}

/** A well-formed payload as the activity takes it: what is left out is false. */
export function decideInputFrom(id: EffectId, payload: DecidePayload, source: string): DecideInput {
  const { decisionId, ruling, actor, reason, expected, force = false, correction = false } = payload;
  return { id, decisionId, ruling, actor, source, reason, expected, force, correction };
}
