import { describe, expect, it } from 'vitest';
import { cleanText, fields, instant, relative, span, table } from '../../../cli/output.ts';

describe('output', () => {
  it('pads every column but the last to its widest cell', () => {
    expect(
      table(
        ['A', 'LONG', 'C'],
        [
          ['aaa', 'b', 'c'],
          ['a', 'bbbbbb', ''],
        ],
      ).split('\n'),
    ).toEqual(['A    LONG    C', 'aaa  b       c', 'a    bbbbbb  ']);
  });

  it('leaves out fields without a value', () => {
    expect(
      fields([
        ['tool', 'x'],
        ['class', null],
        ['reason', ''],
      ]),
    ).toBe('  tool  x');
  });

  it.each([
    [0, '0s'],
    [59_400, '59s'],
    [60_000, '1m'],
    [250_000, '4m 10s'],
    [7_260_000, '2h 1m'],
    [183_600_000, '2d 3h'],
    [-5, '0s'],
  ])('says a span of %i ms as %s', (ms, text) => {
    expect(span(ms)).toBe(text);
  });

  it('says how far a moment is away, before or after now', () => {
    const now = Date.parse('2026-12-01T00:00:00Z');
    expect(['2026-12-01T00:00:05Z', '2026-11-30T23:58:00Z', null].map((at) => relative(at, now))).toEqual([
      'in 5s',
      '2m ago',
      '',
    ]);
  });

  it('cuts an instant at the millisecond', () => {
    expect(instant('2026-12-01T00:54:56.047386Z')).toBe('2026-12-01 00:54:56.047Z');
  });

  it('replaces whatever could move the cursor, reorder or break lines', () => {
    expect(cleanText('a\r\n\u001b[31m\u2028\u202eb\u00e9')).toBe(
      'a\u{fffd}\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}b\u00e9',
    );
  });
});
