import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { checkImports, importsOf } from '../../../dev/check-imports.ts';
import { ROOMS } from '../../../dev/import-rules.ts';

const made: string[] = [];
afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true });
});

function house(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'holdfast-house-'));
  made.push(root);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

test('an import into a room without a door is a violation, with file and line', () => {
  const root = house({
    'db/a.ts': "import { x } from './b.ts';\n\nimport { judge } from '../dispatcher/flight.ts';\n",
  });
  expect(checkImports(root)).toEqual([
    { file: 'db/a.ts', line: 3, message: 'db/ may not import from dispatcher/ (../dispatcher/flight.ts)' },
  ]);
});

test('every kind of import is seen: multi-line, side effect, dynamic, re-export, in a deeper folder', () => {
  const root = house({
    'effects/a.ts': "import {\n  x,\n  y,\n} from '../db/a.ts';\n",
    'effects/b.ts': "import '../db/a.ts';\n",
    'effects/c.ts': "const a = await import('../db/a.ts');\n",
    'effects/d.ts': "export * from '../db/a.ts';\n",
    'effects/e.ts': "export { x } from '../db/a.ts';\n",
    'effects/deep/f.ts': "import { x } from '../../db/a.ts';\n",
  });
  expect(checkImports(root).map(({ file, line }) => `${file}:${line}`)).toEqual([
    'effects/a.ts:4',
    'effects/b.ts:1',
    'effects/c.ts:1',
    'effects/d.ts:1',
    'effects/deep/f.ts:1',
    'effects/e.ts:1',
  ]);
});

test('where only types may be imported, a value import is a violation and a type import is none', () => {
  const root = house({
    'workflows/a.ts': "import type { Activities } from '../activities/index.ts';\n",
    'workflows/b.ts': "import { type Activities } from '../activities/index.ts';\n",
  });
  expect(checkImports(root)).toEqual([
    {
      file: 'workflows/b.ts',
      line: 1,
      message: 'workflows/ may import only types from activities/: write import type (../activities/index.ts)',
    },
  ]);
});

test('a permission for one file opens that file only', () => {
  const root = house({
    'contracts/a.ts': "import { HoldfastError } from '../effects/errors.ts';\n",
    'contracts/b.ts': "import { judge } from '../effects/judge.ts';\n",
  });
  expect(checkImports(root).map(({ file }) => file)).toEqual(['contracts/b.ts']);
});

test('workflow code loads no Node module and no zod, but may use their types', () => {
  const root = house({
    'workflows/a.ts':
      "import { createHash } from 'node:crypto';\nimport { z } from 'zod';\nimport type { ZodType } from 'zod';\n",
  });
  expect(checkImports(root).map(({ message }) => message)).toEqual([
    'workflows/ may not load the package node:crypto',
    'workflows/ may not load the package zod',
  ]);
});

test('an import of a folder that is no room is a violation, one of the root files is none', () => {
  const root = house({ 'db/a.ts': "import x from '../misc/a.ts';\nimport pkg from '../package.json';\n" });
  expect(checkImports(root).map(({ message }) => message)).toEqual(['misc/a.ts lies in no known room']);
});

test('comments and strings are no imports', () => {
  const source = [
    "// import a from '../db/a.ts';",
    "/* import b from '../db/b.ts'; */",
    " * import c from '../db/c.ts';",
    "import d from './d.ts';",
  ].join('\n');
  expect(importsOf(source)).toEqual([{ specifier: './d.ts', line: 4, typeOnly: false }]);
});

test('the table names only rooms', () => {
  const named = Object.values(ROOMS).flatMap((room) => Object.keys(room.may).map((name) => name.split('/')[0] ?? ''));
  expect(named.filter((name) => !(name in ROOMS) && name !== 'test')).toEqual([]);
});
