import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ReconcileStep } from '../../../activities/types.ts';
import { whyMalformed } from '../../../workflows/decide-payload.ts';
import { currentDetails, decideExample, escapeText } from '../../../workflows/details.ts';

const STEP: ReconcileStep = {
  effectId: 'effect:acme:run-1:call-1',
  status: 'UNKNOWN',
  fence: 2,
  attention: 'NEEDS_DECISION',
  tool: 'billing.pay',
  version: '1.0.0',
  effectClass: 'NON_RETRYABLE',
  looks: [{ at: '2026-12-01T00:00:00.000Z', verdict: 'INCONCLUSIVE', why: 'the answer (503) fits neither pattern' }],
  reason: 'the socket was closed',
  nextInMs: 1000,
  nextAt: '2026-12-01T00:00:01.000Z',
};

describe('escaped text', () => {
  test.each([
    ['raw HTML', '<img src=x onerror=alert(1)>', '&lt;img src=x onerror=alert\\(1\\)&gt;'],
    ['an entity', '&lt;b&gt;', '&amp;lt;b&amp;gt;'],
    ['a link', '[click](javascript:alert(1))', '\\[click\\]\\(javascript:alert\\(1\\)\\)'],
    ['an image', '![x](http://e/p.png)', '\\!\\[x\\]\\(http\\://e/p.png\\)'],
    ['a heading and a list', '# top\n- item', '\\# top \\- item'],
    ['a bare address', 'see www.evil.test or a@b.test', 'see www\\.evil.test or a\\@b.test'],
    ['emphasis and strike-through', '*a* _b_ ~c~', '\\*a\\* \\_b\\_ \\~c\\~'],
    ['code and a fence', '`a`\n```\nb', '\\`a\\` \\`\\`\\` b'],
    ['a backslash that would free the next character', '\\<b>', '\\\\&lt;b&gt;'],
    ['a table', '|a|b|', '\\|a\\|b\\|'],
    ['control characters', 'a\u0000b\u001bc\u007fd', 'a b c d'],
    ['line and paragraph separators', 'a\u2028b\u2029c', 'a b c'],
    ['text that turns its direction', 'a\u202eb\u2066c\u200fd', 'a b c d'],
    ['characters without width', 'a\u200bb\ufeffc', 'a b c'],
  ])('shows %s as what it is', (_, text, shown) => {
    expect(escapeText(text)).toBe(shown);
  });

  test.each(['x', '💥'])('of %s without end is clipped to 500 characters, and says so', (character) => {
    expect(escapeText(character.repeat(10_000))).toBe(`${character.repeat(500)}…`);
  });

  test('of 500 characters is shown whole', () => {
    expect(escapeText('💥'.repeat(500))).toBe('💥'.repeat(500));
  });

  test('never holds what starts HTML, a line, or a hidden character, whatever it was', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (text) => {
        const shown = escapeText(text);
        expect(shown).not.toMatch(/[<>\p{Cc}\p{Cf}\u2028\u2029]/u);
        // Every character that Markdown reads has a backslash of its own before it.
        expect(shown.replace(/\\[\\`*_{}[\]()#+!|~@.:-]/g, '')).not.toMatch(/[\\`*_[\]()#!|~]/);
      }),
    );
  });
});

describe('the current details', () => {
  test('tell the state first, then what to do, then the rest', () => {
    expect(currentDetails(STEP).split('\n')).toEqual([
      '**UNKNOWN** · needs a person: **NEEDS_DECISION**',
      '',
      'Do: find out at the provider, then rule. No further proof comes by itself. Do **not** repeat the call.',
      '',
      'Next look: 2026-12-01T00:00:01.000Z (Signal `checkNow` looks at once).',
      '',
      'Known: the socket was closed',
      '',
      '`billing.pay@1.0.0` · class `NON_RETRYABLE` · fence 2',
      '',
      'To rule by hand, send Update (or Signal) `decide` with:',
      '```json',
      '{',
      ' "decisionId": "call-1-2-1",',
      ' "ruling": "confirm",',
      ' "actor": "YOUR NAME",',
      ' "reason": "YOUR REASON",',
      ' "expected": {',
      '  "status": "UNKNOWN",',
      '  "fence": 2',
      ' }',
      '}',
      '```',
      '**Evidence so far** (newest first)',
      '',
      '- 2026-12-01T00:00:00.000Z INCONCLUSIVE: the answer \\(503\\) fits neither pattern',
    ]);
  });

  test('show untrusted words escaped, wherever they stand', () => {
    const evil = '</pre><script>x</script>\n```\n# owned';
    const shown = currentDetails({
      ...STEP,
      reason: evil,
      looks: [{ at: STEP.looks[0]?.at ?? '', verdict: 'INCONCLUSIVE', why: evil }],
      tool: 'a`b<i>',
      version: '1`0',
      effectClass: 'X<b>',
    });
    expect(shown).not.toContain('<');
    expect(shown.match(/```/g)).toHaveLength(2);
    expect(shown.split('\n').filter((line) => line.startsWith('#'))).toEqual([]);
  });

  test('of a settled effect ask nobody to do anything and hold no payload to copy', () => {
    const shown = currentDetails({ ...STEP, status: 'CONFIRMED', attention: null, nextInMs: null, nextAt: null });
    expect(shown).toContain('Settled; nothing to do.');
    expect(shown).toContain('No further look is planned.');
    expect(shown).not.toContain('decisionId');
  });

  test('show five looks at most', () => {
    const looks = Array.from({ length: 9 }, (_, i) => ({ at: `t${i}`, verdict: 'INCONCLUSIVE', why: null }));
    expect(currentDetails({ ...STEP, looks }).match(/^- t\d/gm)).toEqual(['- t0', '- t1', '- t2', '- t3', '- t4']);
  });

  test.each(['CONFLICT', 'EXPIRED', 'NEEDS_DECISION', 'PARKED', null] as const)(
    'for attention %s name one thing to do',
    (attention) => {
      expect(currentDetails({ ...STEP, attention }).match(/^Do: /gm)).toHaveLength(1);
    },
  );
});

describe('the example to copy', () => {
  test('is a decision once the person puts in name and reason, and not before', () => {
    const example = JSON.parse(decideExample(STEP)) as object;
    expect(whyMalformed(example)).toBe('actor: put your own text in place of "YOUR NAME"');
    expect(whyMalformed({ ...example, actor: 'ann' })).toBe('reason: put your own text in place of "YOUR REASON"');
    expect(whyMalformed({ ...example, actor: 'ann', reason: 'seen' })).toBeUndefined();
  });

  test('has a well-formed decision id for every call id', () => {
    const idPart = fc.stringMatching(/^[A-Za-z0-9._-]{1,64}$/);
    fc.assert(
      fc.property(idPart, idPart, idPart, fc.nat(), (tenant, run, call, fence) => {
        const example = JSON.parse(
          decideExample({ ...STEP, effectId: `effect:${tenant}:${run}:${call}`, fence }),
        ) as object;
        expect(whyMalformed({ ...example, actor: 'ann', reason: 'seen' })).toBeUndefined();
      }),
    );
  });
});

describe('a decision payload', () => {
  const GOOD = {
    decisionId: 'd-1',
    ruling: 'confirm',
    actor: 'ann',
    reason: 'seen',
    expected: { status: 'UNKNOWN', fence: 1 },
  };

  test.each([
    [null, 'the decision is not a JSON object'],
    ['text', 'the decision is not a JSON object'],
    [[GOOD], 'decisionId: 1 to 64 characters of A-Z a-z 0-9 . _ -'],
    [{ ...GOOD, decisionId: 'a b' }, 'decisionId: 1 to 64 characters of A-Z a-z 0-9 . _ -'],
    [{ ...GOOD, decisionId: 'x'.repeat(65) }, 'decisionId: 1 to 64 characters of A-Z a-z 0-9 . _ -'],
    [{ ...GOOD, ruling: 'CONFIRMED' }, 'ruling: "confirm" or "not_applied"'],
    [{ ...GOOD, actor: '' }, 'actor: a text of 1 to 2000 characters'],
    [{ ...GOOD, reason: 'x'.repeat(2001) }, 'reason: a text of 1 to 2000 characters'],
    [{ ...GOOD, expected: null }, 'expected: {"status": "UNKNOWN", "fence": 1}, as the details of the effect show it'],
    [
      { ...GOOD, expected: { status: 'UNKNOWN', fence: '1' } },
      'expected: {"status": "UNKNOWN", "fence": 1}, as the details of the effect show it',
    ],
    [{ ...GOOD, correction: 1 }, 'correction: true or false'],
    [GOOD, undefined],
    [{ ...GOOD, force: true, correction: false }, undefined],
  ])('%j: %s', (payload, why) => {
    expect(whyMalformed(payload)).toBe(why);
  });
});
