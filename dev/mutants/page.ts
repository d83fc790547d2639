import type { Mutant } from './mutant.ts';
import { RULES } from './rules.ts';

/** `docs/protocol-tests.md`: each numbered rule, the tests that prove it, and how each was seen to fail. */
export function protocolTestsPage(mutants: readonly Mutant[]): string {
  const rows = RULES.flatMap(({ rule, says, elsewhere }) => {
    const own = mutants.filter((mutant) => mutant.rule === rule);
    const lines = own.map(
      ({ test, title, off }) => `| ${rule} | ${says} | \`${test}\`: ${cell(title)} | ${cell(off)} |`,
    );
    return elsewhere === undefined ? lines : [...lines, `| ${rule} | ${says} | ${elsewhere} | \u2013 |`];
  });
  return `# Each rule of the protocol and the test that proves it

Written by \`node dev/mutants.ts --page\` from the mutants under \`dev/mutants/\`; do not edit it by hand.

\`npm run mutants\` switches each rule off as the last column says, in a copy of the tree, and runs the test named: it has to
pass before and to fail then. \`npm run mutants -- 3.6\` tries one rule. A test that is named with a part of its title stands
for all that have it.

| rule | what it says | test | seen to fail when switched off by |
|---|---|---|---|
${rows.join('\n')}
`;
}

const cell = (text: string): string => text.replaceAll('|', '\\|');
