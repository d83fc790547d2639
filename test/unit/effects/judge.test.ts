import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type JudgeFacts, judge, type Observation, settleAtMs, type Verdict } from '../../../effects/judge.ts';

const FIRST = 1_000_000;
const FACTS: JudgeFacts = {
  rule: { absence: 'proves', lagMs: 2_000, retentionMs: 1_000_000, by: 'key' },
  inFlightMaxMs: 60_000,
  firstClaimedAtMs: FIRST,
  sendByMaxAtMs: FIRST + 5_000,
  sentLate: false,
  askedAtMs: FIRST + 100_000,
  clockMarginMs: 5_000,
};
/** send-by + in-flight limit + lag + margin. */
const SETTLE_AT = FIRST + 72_000;
const EXPIRES_AT = FIRST + 995_000;

const facts = (
  change: Partial<Omit<JudgeFacts, 'rule'>> & { rule?: Partial<JudgeFacts['rule']> } = {},
): JudgeFacts => ({
  ...FACTS,
  ...change,
  rule: { ...FACTS.rule, ...change.rule },
});
const absent = (change: Partial<Extract<Observation, { kind: 'absent' }>> = {}): Observation => ({
  kind: 'absent',
  complete: true,
  passes: 1,
  passesApartMs: 0,
  ...change,
});
const found = (change: Partial<Extract<Observation, { kind: 'found' }>> = {}): Observation => ({
  kind: 'found',
  matches: 1,
  equal: true,
  reference: null,
  ...change,
});
const EXPIRED = {
  kind: 'INCONCLUSIVE',
  why: "past the provider's retention: it can no longer show this effect",
  expired: true,
};

test('settleAtMs is the latest send-by, the in-flight limit, the lag and the margin, added', () => {
  expect(settleAtMs(FACTS)).toBe(SETTLE_AT);
});

describe('judge', () => {
  test.each<[string, Observation, JudgeFacts, Verdict | typeof EXPIRED]>([
    ['found once and equal', found(), facts(), { kind: 'CONFIRMED' }],
    ['found before anything could settle', found(), facts({ askedAtMs: FIRST }), { kind: 'CONFIRMED' }],
    ['found past retention', found(), facts({ askedAtMs: EXPIRES_AT }), { kind: 'CONFIRMED' }],
    ['found after a late send', found(), facts({ sentLate: true }), { kind: 'CONFIRMED' }],
    ['found twice', found({ matches: 2 }), facts(), { kind: 'CONFLICT', why: "2 artefacts carry this effect's key" }],
    [
      'found with other content',
      found({ equal: false }),
      facts(),
      { kind: 'CONFLICT', why: 'found, but with other content than was sent' },
    ],
    [
      'found no time',
      found({ matches: 0 }),
      facts(),
      { kind: 'INCONCLUSIVE', why: 'said to be found, but with no match' },
    ],

    ['absent at the very moment', absent(), facts({ askedAtMs: SETTLE_AT }), { kind: 'ABSENT_SETTLED' }],
    [
      'absent a millisecond early',
      absent(),
      facts({ askedAtMs: SETTLE_AT - 1 }),
      { kind: 'ABSENT_TOO_EARLY', settleAtMs: SETTLE_AT },
    ],
    ['absent just within retention', absent(), facts({ askedAtMs: EXPIRES_AT - 1 }), { kind: 'ABSENT_SETTLED' }],
    ['absent past retention', absent(), facts({ askedAtMs: EXPIRES_AT }), EXPIRED],
    [
      'absent, a page unread',
      absent({ complete: false }),
      facts(),
      { kind: 'INCONCLUSIVE', why: 'not all pages were read' },
    ],
    [
      'absent after a late send',
      absent(),
      facts({ sentLate: true }),
      { kind: 'INCONCLUSIVE', why: 'bytes left after send-by, so absence proves nothing' },
    ],
    [
      'absent where absence suggests',
      absent(),
      facts({ rule: { absence: 'suggests' } }),
      { kind: 'INCONCLUSIVE', why: 'absent, but absence only suggests here' },
    ],
    [
      'absent while a later claim may still send',
      absent(),
      facts({ sendByMaxAtMs: FIRST + 40_000 }),
      { kind: 'ABSENT_TOO_EARLY', settleAtMs: FIRST + 107_000 },
    ],

    [
      'absent in one pass of a listing',
      absent(),
      facts({ rule: { by: 'listing' } }),
      { kind: 'INCONCLUSIVE', why: 'absence by listing needs two full passes, a lag apart' },
    ],
    [
      'absent in two passes too close',
      absent({ passes: 2, passesApartMs: 1_999 }),
      facts({ rule: { by: 'search' } }),
      { kind: 'INCONCLUSIVE', why: 'absence by listing needs two full passes, a lag apart' },
    ],
    [
      'absent in two passes a lag apart',
      absent({ passes: 2, passesApartMs: 2_000 }),
      facts({ rule: { by: 'listing' } }),
      { kind: 'ABSENT_SETTLED' },
    ],
    [
      'absent in one pass of a listing that shows things at once',
      absent({ passesApartMs: 9_000 }),
      facts({ rule: { by: 'listing', lagMs: 0 } }),
      { kind: 'INCONCLUSIVE', why: 'absence by listing needs two full passes, a lag apart' },
    ],
    ['absent by reference in one look', absent(), facts({ rule: { by: 'ref' } }), { kind: 'ABSENT_SETTLED' }],

    [
      'a state as wanted that differed before',
      { kind: 'state', equal: true, differedBefore: true },
      facts(),
      { kind: 'CONFIRMED' },
    ],
    [
      'a state as wanted, not known before',
      { kind: 'state', equal: true, differedBefore: false },
      facts(),
      { kind: 'INCONCLUSIVE', why: 'the state is as wanted, but was not recorded as different before the send' },
    ],
    [
      'a state that differs',
      { kind: 'state', equal: false, differedBefore: true },
      facts(),
      { kind: 'INCONCLUSIVE', why: 'the state differs; it may have been changed since' },
    ],
    [
      'a state that differs past retention',
      { kind: 'state', equal: false, differedBefore: true },
      facts({ askedAtMs: EXPIRES_AT }),
      EXPIRED,
    ],

    [
      'nothing to be seen',
      { kind: 'inconclusive', why: 'no permission' },
      facts(),
      { kind: 'INCONCLUSIVE', why: 'no permission' },
    ],
    [
      'nothing to be seen past retention',
      { kind: 'inconclusive', why: 'no permission' },
      facts({ askedAtMs: EXPIRES_AT }),
      EXPIRED,
    ],
  ])('%s', (_, seen, known, verdict) => {
    expect(judge(seen, known)).toEqual(verdict);
  });

  const observation: fc.Arbitrary<Observation> = fc.oneof(
    fc.record({
      kind: fc.constant('found' as const),
      matches: fc.integer({ min: 0, max: 3 }),
      equal: fc.boolean(),
      reference: fc.constant(null),
    }),
    fc.record({
      kind: fc.constant('absent' as const),
      complete: fc.boolean(),
      passes: fc.integer({ min: 0, max: 3 }),
      passesApartMs: fc.nat({ max: 5_000 }),
    }),
    fc.record({ kind: fc.constant('state' as const), equal: fc.boolean(), differedBefore: fc.boolean() }),
    fc.record({ kind: fc.constant('inconclusive' as const), why: fc.string() }),
  );
  const anyFacts: fc.Arbitrary<JudgeFacts> = fc.record({
    rule: fc.record({
      absence: fc.constantFrom('proves' as const, 'suggests' as const),
      by: fc.constantFrom('key' as const, 'ref' as const, 'listing' as const, 'search' as const, 'state' as const),
      lagMs: fc.nat({ max: 5_000 }),
      retentionMs: fc.nat({ max: 500_000 }),
    }),
    inFlightMaxMs: fc.nat({ max: 60_000 }),
    firstClaimedAtMs: fc.constant(FIRST),
    sendByMaxAtMs: fc.nat({ max: 60_000 }).map((ms) => FIRST + ms),
    sentLate: fc.boolean(),
    askedAtMs: fc.nat({ max: 600_000 }).map((ms) => FIRST + ms),
    clockMarginMs: fc.nat({ max: 5_000 }),
  });

  test('absence settles only when every condition of PROTOCOL 6.3 holds, and then always', () => {
    fc.assert(
      fc.property(observation, anyFacts, (seen, known) => {
        const { rule, askedAtMs } = known;
        const proven =
          seen.kind === 'absent' &&
          seen.complete &&
          rule.absence === 'proves' &&
          !known.sentLate &&
          askedAtMs >= known.sendByMaxAtMs + known.inFlightMaxMs + rule.lagMs + known.clockMarginMs &&
          askedAtMs < known.firstClaimedAtMs + rule.retentionMs - known.clockMarginMs &&
          ((rule.by !== 'listing' && rule.by !== 'search') || (seen.passes >= 2 && seen.passesApartMs >= rule.lagMs));
        expect(judge(seen, known).kind === 'ABSENT_SETTLED').toBe(proven);
      }),
      { numRuns: 2_000 },
    );
  });

  test('only one equal match, or a state seen to change, confirms', () => {
    fc.assert(
      fc.property(observation, anyFacts, (seen, known) => {
        const proven =
          (seen.kind === 'found' && seen.matches === 1 && seen.equal) ||
          (seen.kind === 'state' && seen.equal && seen.differedBefore);
        expect(judge(seen, known).kind === 'CONFIRMED').toBe(proven);
      }),
      { numRuns: 1_000 },
    );
  });

  test('time alone proves nothing: asking later never turns anything but too-early absence into a proof', () => {
    fc.assert(
      fc.property(observation, anyFacts, fc.nat({ max: 600_000 }), (seen, known, later) => {
        const now = judge(seen, known);
        const then = judge(seen, { ...known, askedAtMs: known.askedAtMs + later });
        if (then.kind === 'ABSENT_SETTLED') expect(['ABSENT_SETTLED', 'ABSENT_TOO_EARLY']).toContain(now.kind);
        if (then.kind === 'CONFIRMED') expect(now.kind).toBe('CONFIRMED');
      }),
    );
  });

  test('a figure that is not a number never passes for proof of absence', () => {
    const NaNs: JudgeFacts[] = [
      facts({ askedAtMs: Number.NaN }),
      facts({ sendByMaxAtMs: Number.NaN }),
      facts({ inFlightMaxMs: Number.NaN }),
      facts({ clockMarginMs: Number.NaN }),
      facts({ firstClaimedAtMs: Number.NaN }),
      facts({ rule: { lagMs: Number.NaN, by: 'listing' } }),
      facts({ rule: { retentionMs: Number.NaN } }),
    ];
    const kinds = NaNs.map((known) => judge(absent({ passes: 2, passesApartMs: 9_000 }), known).kind);
    expect(kinds).not.toContain('ABSENT_SETTLED');
    expect(judge(absent({ passes: Number.NaN }), facts({ rule: { by: 'listing' } })).kind).toBe('INCONCLUSIVE');
  });
});
