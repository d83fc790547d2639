import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
/** What workflow code may import from these two rooms; their index files say so. */
const WORKFLOW_SAFE = [
  'effects/effect.ts',
  'effects/errors.ts',
  'effects/transition.ts',
  'effects/judge.ts',
  'contracts/contract.ts',
  'contracts/canonical-json.ts',
  'contracts/pointer.ts',
  'contracts/template.ts',
  'contracts/effective-class.ts',
];

/** Everything a file loads when it runs: types are erased and count for nothing. */
function loads(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const code = readFileSync(join(ROOT, file), 'utf8');
  for (const [, clause = '', from = ''] of code.matchAll(/^(?:import|export)\s([^'";]*?)\s?from '([^']+)'/gm)) {
    if (clause.startsWith('type ')) continue;
    if (from.startsWith('.')) loads(relative(ROOT, join(ROOT, dirname(file), from)), seen);
    else seen.add(from);
  }
  return seen;
}

test.each(WORKFLOW_SAFE)('%s loads no package and nothing of Node, so workflow code may import it', (file) => {
  expect([...loads(file)].filter((name) => !name.endsWith('.ts'))).toEqual([]);
});

test('the look at imports sees node:crypto where it is used', () => {
  expect([...loads('effects/effect-key.ts')]).toContain('node:crypto');
});
