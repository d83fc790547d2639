import type { EvidenceRule } from '../contracts/contract.ts';

/** What one look at the provider showed, before time is taken into account. All instants are database-clock milliseconds. */
export type Observation =
  | {
      readonly kind: 'found';
      /** Matches with this key: more than one is a conflict. */
      readonly matches: number;
      /** False when `equals:` did not hold for the match. */
      readonly equal: boolean;
      readonly reference: string | null;
    }
  | {
      readonly kind: 'absent';
      /** All pages were read. */
      readonly complete: boolean;
      /** Full passes made, and the time between the starts of the first and the last. */
      readonly passes: number;
      readonly passesApartMs: number;
    }
  /** Source `state`: the resource now has (or has not) the wanted content. */
  | { readonly kind: 'state'; readonly equal: boolean; readonly differedBefore: boolean }
  | { readonly kind: 'inconclusive'; readonly why: string };

/** What a look is judged by. Instants are database-clock milliseconds. */
export interface JudgeFacts {
  readonly rule: Pick<EvidenceRule, 'absence' | 'lagMs' | 'retentionMs' | 'by'>;
  readonly inFlightMaxMs: number;
  /** Of all claims: the first one's time and the latest send-by. */
  readonly firstClaimedAtMs: number;
  readonly sendByMaxAtMs: number;
  /** Bytes were seen to leave after send-by. */
  readonly sentLate: boolean;
  /** Database clock, read before the look started. */
  readonly askedAtMs: number;
  /** Allowance for clocks that differ; PROTOCOL 6.3. Default 5 s. */
  readonly clockMarginMs: number;
}

/** What a look proves. Only the first two move a status; the others plan the next look, or call a person. */
export type Verdict =
  | { readonly kind: 'CONFIRMED' }
  | { readonly kind: 'ABSENT_SETTLED' }
  | { readonly kind: 'ABSENT_TOO_EARLY'; readonly settleAtMs: number }
  | { readonly kind: 'CONFLICT'; readonly why: string }
  | { readonly kind: 'INCONCLUSIVE'; readonly why: string; readonly expired?: boolean };

/** The moment from which absence can prove anything: every request has reached the provider or never will, and shows. */
export function settleAtMs(
  facts: Pick<JudgeFacts, 'rule' | 'inFlightMaxMs' | 'sendByMaxAtMs' | 'clockMarginMs'>,
): number {
  return facts.sendByMaxAtMs + facts.inFlightMaxMs + facts.rule.lagMs + facts.clockMarginMs;
}

/** Judges one look (PROTOCOL 6), pure. Only CONFIRMED and ABSENT_SETTLED move a status. */
export function judge(seen: Observation, facts: JudgeFacts): Verdict {
  switch (seen.kind) {
    case 'inconclusive':
      return expired(facts) ?? { kind: 'INCONCLUSIVE', why: seen.why };
    case 'found':
      if (!(seen.matches >= 1)) return { kind: 'INCONCLUSIVE', why: 'said to be found, but with no match' };
      if (seen.matches > 1) return { kind: 'CONFLICT', why: `${seen.matches} artefacts carry this effect's key` };
      if (!seen.equal) return { kind: 'CONFLICT', why: 'found, but with other content than was sent' };
      return { kind: 'CONFIRMED' };
    case 'state':
      return judgeState(seen, facts);
    case 'absent':
      return judgeAbsence(seen, facts);
  }
}

function judgeState(seen: Extract<Observation, { kind: 'state' }>, facts: JudgeFacts): Verdict {
  if (!seen.equal)
    return expired(facts) ?? { kind: 'INCONCLUSIVE', why: 'the state differs; it may have been changed since' };
  if (!seen.differedBefore)
    return { kind: 'INCONCLUSIVE', why: 'the state is as wanted, but was not recorded as different before the send' };
  return { kind: 'CONFIRMED' };
}

function judgeAbsence(seen: Extract<Observation, { kind: 'absent' }>, facts: JudgeFacts): Verdict {
  const late = expired(facts);
  if (late) return late;
  if (!seen.complete) return { kind: 'INCONCLUSIVE', why: 'not all pages were read' };
  const settleAt = settleAtMs(facts);
  // Comparisons are negated so that a figure that is not a number never passes for proof.
  if (!(facts.askedAtMs >= settleAt)) return { kind: 'ABSENT_TOO_EARLY', settleAtMs: settleAt };
  if (facts.sentLate) return { kind: 'INCONCLUSIVE', why: 'bytes left after send-by, so absence proves nothing' };
  if (facts.rule.absence !== 'proves') return { kind: 'INCONCLUSIVE', why: 'absent, but absence only suggests here' };
  const byListing = facts.rule.by === 'listing' || facts.rule.by === 'search';
  if (byListing && !(seen.passes >= 2 && seen.passesApartMs >= facts.rule.lagMs)) {
    return { kind: 'INCONCLUSIVE', why: 'absence by listing needs two full passes, a lag apart' };
  }
  return { kind: 'ABSENT_SETTLED' };
}

function expired(facts: JudgeFacts): Verdict | undefined {
  const until = facts.firstClaimedAtMs + facts.rule.retentionMs - facts.clockMarginMs;
  if (facts.askedAtMs < until) return undefined;
  return {
    kind: 'INCONCLUSIVE',
    why: "past the provider's retention: it can no longer show this effect",
    expired: true,
  };
}
