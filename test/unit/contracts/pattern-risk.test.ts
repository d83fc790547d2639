import fc from 'fast-check';
import { expect, test } from 'vitest';
import { patternRisk } from '../../../contracts/pattern-risk.ts';

test.each([
  '^(a+)+$',
  '(a*)*',
  '(.*)*x',
  '([a-z]+)*$',
  '(x+x+)+y',
  '(a|a)*',
  '(a|aa)+$',
  '(a|ab)*c',
  '(?:\\w|\\d)+$',
  '(\\s|\\t)*x',
  '^(([a-z])+.)+[A-Z]([a-z])+$',
  '^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*$',
  '(a{1,50}){1,50}',
  '(a{1,16}){1,16}',
  '((a+))+',
  '(?:a?){40}',
  '^(,?\\d+)*$',
  `^${'a?'.repeat(30)}${'a'.repeat(30)}$`,
  '(a)\\1',
  '(?<n>a)\\k<n>',
  '(',
  'a)',
  '(?=(a+)+)b',
  `${'a+'.repeat(8)}`,
  'x'.repeat(1001),
  '('.repeat(50),
])('%j is refused', (pattern) => {
  expect(patternRisk(pattern).safe).toBe(false);
});

test.each([
  '^[a-z0-9]+(-[a-z0-9]+)*$',
  '^([a-z]+\\.)+[a-z]{2,}$',
  '^\\d{4}-\\d{2}-\\d{2}$',
  '^\\d{4}(-\\d{2}(-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,9})?)?(Z|[+-]\\d{2}:\\d{2})?)?)?)?$',
  '^(\\d{1,3}\\.){3}\\d{1,3}$',
  '^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|::1)$',
  '^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$',
  '^(?=.*[A-Z])(?=.*\\d).+$',
  '^(https?|ftp)://[^\\s/$.?#].[^\\s]*$',
  '^#([0-9a-f]{3}){1,2}$',
  '^(foo|bar|baz)+$',
  '^[A-Za-z0-9_-]{1,64}$',
  '^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$',
  '^[\\]\\[()*+]+$',
  '\\p{L}+',
  '',
])('%j is taken', (pattern) => {
  expect(patternRisk(pattern).safe).toBe(true);
});

/** Small patterns over two letters, with everything that can go wrong. */
const pattern = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('a', 'b', '[ab]', '.', 'ab'),
    fc.tuple(tie('node'), tie('node')).map(([x, y]) => `${x}${y}`),
    fc.tuple(tie('node'), tie('node')).map(([x, y]) => `(?:${x}|${y})`),
    fc.tuple(tie('node'), fc.constantFrom('*', '+', '?', '{2}', '{1,3}')).map(([x, q]) => `(?:${x})${q}`),
  ),
})).node;

test('what is taken ends quickly on texts of the length allowed', () => {
  fc.assert(
    fc.property(pattern, (body) => {
      const source = `^${body}$`;
      const risk = patternRisk(source);
      if (!risk.safe) return;
      const length = Math.min(risk.charsMax, 5_000);
      const regExp = new RegExp(source);
      for (const unit of ['a', 'b', 'ab']) regExp.test(`${unit.repeat(Math.floor(length / unit.length) - 1)}c`);
    }),
    { numRuns: 300 },
  );
}, 20_000);
