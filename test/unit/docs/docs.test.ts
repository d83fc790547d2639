import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ERRORS_PAGE, errorsPage } from '../../../dev/docs-errors.ts';

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

test('the page of errors says what the table of errors says', () => {
  expect(readFileSync(ERRORS_PAGE, 'utf8')).toBe(errorsPage());
});

test.each(pages)('every relative link of %s leads somewhere', (page) => {
  const links = [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, link]) => link ?? '');
  expect(links.filter((link) => !existsSync(join(dirname(page), link)))).toEqual([]);
});

test('every test that the guarantees name is there', () => {
  const text = readFileSync('docs/guarantees.md', 'utf8');
  const missing: string[] = [];
  for (const [, path = '', title] of text.matchAll(/`((?:test|bench)\/[^`]+)`(?:: ([^·|]+?)(?= ·| \|))?/g)) {
    if (!existsSync(path)) missing.push(path);
    else if (title !== undefined && !readFileSync(path, 'utf8').replaceAll('\\u2019', '’').includes(title.trim())) {
      missing.push(`${path}: ${title}`);
    }
  }
  expect(missing).toEqual([]);
});

test('every direct dependency has its line', () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<
    string,
    Record<string, string>
  >;
  const lines = readFileSync('docs/dependencies.md', 'utf8');
  const missing = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => !lines.includes(`\`${name}\``));
  expect(missing).toEqual([]);
});

test('each of the 24 cases from the field is named by a title in every test that its row names', () => {
  const rows = [...readFileSync('docs/cases.md', 'utf8').matchAll(/^\| (\d+) \|.*\| (.+) \|$/gm)];
  expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: 24 }, (_, index) => index + 1));
  const missing = rows.flatMap(([, number, tests = '']) =>
    [...tests.matchAll(/`([^`]+)`/g)]
      .map(([, path = '']) => path)
      .filter((path) => !new RegExp(`\\bcase ${number}\\b`).test(readFileSync(path, 'utf8')))
      .map((path) => `case ${number}: ${path}`),
  );
  expect(missing).toEqual([]);
});
