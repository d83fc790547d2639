import { readFileSync, writeFileSync } from 'node:fs';
import { ERRORS } from '../effects/errors.ts';

/** `docs/errors.md`, made from the one table of errors. `node dev/docs-errors.ts` writes it, `--check` only compares. */
export const ERRORS_PAGE = 'docs/errors.md';

const EXITS =
  '0 done · 1 anything else · 2 bad input · 3 refused or not applied · 4 outcome unknown · 5 a part is away';

/** The page as it should be. */
export function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, row]) => `| \`${code}\` | ${row.means} | ${row.next} | ${row.retryable ? 'yes' : 'no'} | ${row.exit} |`,
  );
  return [
    '# Errors',
    '',
    'Made from `effects/errors.ts` by `npm run docs:errors`. An error names its code, its place and what to do next. The code',
    'is also the type of the `ApplicationFailure` that a workflow sees, and the `reason.code` of a NOT_APPLIED outcome.',
    '"Again" says whether the same call id may be tried again as it is.',
    '',
    `Exit codes of the command: ${EXITS}.`,
    '',
    '| code | means | next | again | exit |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

if (import.meta.main) {
  if (process.argv.includes('--check')) {
    const current = readFileSync(ERRORS_PAGE, 'utf8') === errorsPage();
    if (!current) console.error(`${ERRORS_PAGE} is not what effects/errors.ts says: npm run docs:errors`);
    process.exitCode = current ? 0 : 1;
  } else {
    writeFileSync(ERRORS_PAGE, errorsPage());
  }
}
