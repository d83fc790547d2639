import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EFFECT_STATUSES, type EffectStatus } from '../../../effects/effect.ts';
import { MOVERS, type MoveFacts, type Mover, transition } from '../../../effects/transition.ts';

const FROM = [null, ...EFFECT_STATUSES] as const;

/** PROTOCOL 7, row by row, with what each needs. What is not here is forbidden. */
const TABLE: readonly {
  from: EffectStatus | null;
  to: EffectStatus;
  by: Mover;
  when?: (facts: MoveFacts) => boolean;
  attention?: 'CONFLICT';
}[] = [
  { from: null, to: 'DISPATCHED', by: 'admission' },
  { from: null, to: 'NOT_APPLIED', by: 'admission' },
  { from: null, to: 'NOT_APPLIED', by: 'withdraw' },
  { from: 'DISPATCHED', to: 'CONFIRMED', by: 'holder' },
  { from: 'DISPATCHED', to: 'NOT_APPLIED', by: 'holder', when: definite },
  { from: 'DISPATCHED', to: 'UNKNOWN', by: 'holder' },
  { from: 'DISPATCHED', to: 'UNKNOWN', by: 'fencer' },
  { from: 'DISPATCHED', to: 'UNKNOWN', by: 'sweep' },
  { from: 'DISPATCHED', to: 'UNKNOWN', by: 'decision', when: (facts) => !facts.leaseAlive },
  { from: 'UNKNOWN', to: 'CONFIRMED', by: 'evidence' },
  { from: 'UNKNOWN', to: 'CONFIRMED', by: 'late_answer' },
  { from: 'UNKNOWN', to: 'CONFIRMED', by: 'decision' },
  { from: 'UNKNOWN', to: 'NOT_APPLIED', by: 'evidence', when: (facts) => !facts.sentLate },
  { from: 'UNKNOWN', to: 'NOT_APPLIED', by: 'late_answer', when: definite },
  { from: 'UNKNOWN', to: 'NOT_APPLIED', by: 'decision' },
  // A PURE call applies nothing, so it may be given up without proof.
  { from: 'UNKNOWN', to: 'NOT_APPLIED', by: 'pure', when: (facts) => facts.pure === true },
  { from: 'UNKNOWN', to: 'DISPATCHED', by: 'resend' },
  { from: 'NOT_APPLIED', to: 'CONFIRMED', by: 'evidence', attention: 'CONFLICT' },
  { from: 'NOT_APPLIED', to: 'CONFIRMED', by: 'late_answer', attention: 'CONFLICT' },
  { from: 'NOT_APPLIED', to: 'CONFIRMED', by: 'decision' },
  {
    from: 'CONFIRMED',
    to: 'NOT_APPLIED',
    by: 'decision',
    when: (facts) => facts.correction === true,
    attention: 'CONFLICT',
  },
];

/** sends = 1 (any number for PURE, which applies nothing) and refused or provably not sent. */
function definite(facts: MoveFacts): boolean {
  return (facts.refused === true || facts.notSent === true) && (facts.sends <= 1 || facts.pure === true);
}

const FLAGS = ['refused', 'notSent', 'pure', 'sentLate', 'correction', 'leaseAlive'] as const;

/** Every combination of the facts that a move may hang on. */
const ALL_FACTS: readonly MoveFacts[] = [0, 1, 2, 7].flatMap((sends) =>
  Array.from({ length: 2 ** FLAGS.length }, (_, bits) => ({
    sends,
    ...Object.fromEntries(FLAGS.map((flag, index) => [flag, (bits & (1 << index)) !== 0])),
  })),
);

describe('transition', () => {
  for (const from of FROM) {
    for (const to of EFFECT_STATUSES) {
      const movers = TABLE.filter((row) => row.from === from && row.to === to).map(({ by }) => by);
      test(`${from ?? 'no row'} → ${to}: ${movers.join(', ') || 'nobody'}`, () => {
        const wrong: unknown[] = [];
        for (const by of MOVERS) {
          const row = TABLE.find((each) => each.from === from && each.to === to && each.by === by);
          for (const facts of ALL_FACTS) {
            const allowed = row !== undefined && (row.when?.(facts) ?? true);
            const verdict = transition(from, to, by, facts);
            if (verdict.allowed !== allowed) wrong.push({ by, facts, verdict });
            if (verdict.allowed && verdict.attention !== (row?.attention ?? null)) wrong.push({ by, facts, verdict });
            if (!verdict.allowed && verdict.why === '') wrong.push({ by, facts, verdict });
          }
        }
        expect(wrong).toEqual([]);
      });
    }
  }

  test('an effect that was handed over twice is never NOT_APPLIED by the word of one holder', () => {
    for (const by of ['holder', 'late_answer'] as const) {
      const from = by === 'holder' ? 'DISPATCHED' : 'UNKNOWN';
      expect(transition(from, 'NOT_APPLIED', by, { sends: 2, refused: true, notSent: true })).toEqual({
        allowed: false,
        why: 'an earlier send of this effect may have been applied',
      });
    }
  });

  test('no sequence of moves leaves CONFIRMED without a correction, nor sends again without a re-send', () => {
    const move = fc.record({
      to: fc.constantFrom(...EFFECT_STATUSES),
      by: fc.constantFrom(...MOVERS),
      facts: fc.constantFrom(...ALL_FACTS),
    });
    fc.assert(
      fc.property(fc.array(move, { maxLength: 30 }), (moves) => {
        let status: EffectStatus | null = null;
        let sends = 0;
        let resends = 0;
        for (const { to, by, facts } of moves) {
          const verdict = transition(status, to, by, facts);
          if (!verdict.allowed) continue;
          if (status === 'CONFIRMED') expect(facts.correction).toBe(true);
          if (to === 'DISPATCHED') sends += 1;
          if (by === 'resend') resends += 1;
          status = to;
        }
        expect(sends).toBeLessThanOrEqual(1 + resends);
      }),
    );
  });
});
