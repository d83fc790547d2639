import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { OPEN_ROOMS, type Permission, ROOMS } from './import-rules.ts';

/** One import or re-export of a file. */
export interface Import {
  readonly specifier: string;
  readonly line: number;
  /** It leaves no trace at run time. */
  readonly typeOnly: boolean;
}

/** One import that its room may not make. */
export interface Violation {
  /** Relative to the root, with `/`. */
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

const STATEMENT =
  /^[ \t]*(?:import|export)\b(?<clause>[^'"`;]*?)\bfrom\s*(?<quote>['"])(?<specifier>[^'"\n]+)\k<quote>/gm;
const BARE = /^[ \t]*import\s*(?<quote>['"])(?<specifier>[^'"\n]+)\k<quote>/gm;
const CALL = /\b(?<before>typeof\s+)?(?:import|require)\s*\(\s*(?<quote>['"])(?<specifier>[^'"\n]+)\k<quote>\s*\)/g;
const COMMENT = /\/\*[\s\S]*?\*\/|^[ \t]*\/\/.*$/gm;

/**
 * The imports of a TypeScript source: static, side-effect, dynamic, re-exports. `import { type A } from` counts as a
 * value import, because under `verbatimModuleSyntax` the module is still loaded. `import('x').T` in a type position cannot
 * be told from a dynamic import here and counts as one too: write `import type`.
 */
export function importsOf(source: string): Import[] {
  const code = source.replaceAll(COMMENT, (comment) => comment.replaceAll(/[^\n]/g, ' '));
  const lineOf = (index: number) => code.slice(0, index).split('\n').length;
  const found = (pattern: RegExp, typeOnly: (match: RegExpMatchArray) => boolean) =>
    [...code.matchAll(pattern)].map((match) => ({
      specifier: match.groups?.['specifier'] ?? '',
      line: lineOf((match.index ?? 0) + match[0].length - 1),
      typeOnly: typeOnly(match),
    }));
  return [
    ...found(STATEMENT, (match) => /^\s*type\b(?!\s*(?:,|from))/.test(match.groups?.['clause'] ?? '')),
    ...found(BARE, () => false),
    ...found(CALL, (match) => match.groups?.['before'] !== undefined),
  ].sort((a, b) => a.line - b.line);
}

/** Checks every room below `root` against the table in `import-rules.ts`. */
export function checkImports(root: string): Violation[] {
  const rooms = Object.keys(ROOMS).filter((room) => existsSync(join(root, room)));
  return rooms.flatMap((room) => sourcesIn(join(root, room)).flatMap((file) => checkFile(root, room, file)));
}

function sourcesIn(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : sourcesIn(path);
    return /\.[cm]?tsx?$/.test(entry.name) ? [path] : [];
  });
}

function checkFile(root: string, room: string, file: string): Violation[] {
  return importsOf(readFileSync(file, 'utf8')).flatMap((found) => {
    const message = found.specifier.startsWith('.')
      ? judgeRelative(root, room, file, found)
      : judgePackage(room, found);
    return message === null ? [] : [{ file: slashed(relative(root, file)), line: found.line, message }];
  });
}

function judgeRelative(root: string, room: string, file: string, { specifier, typeOnly }: Import): string | null {
  const target = slashed(relative(root, resolve(dirname(file), specifier)));
  const other = target.split('/')[0] ?? '';
  if (other === room) return null;
  if (other === '..') return `${specifier} leads out of the repository`;
  const may = ROOMS[room]?.may ?? {};
  const permission: Permission | undefined = may[target] ?? may[other];
  if (permission === 'all') return null;
  const known = other in ROOMS || OPEN_ROOMS.some((open) => open === other);
  if (!known) return target.includes('/') ? `${target} lies in no known room` : null;
  if (permission === undefined) return `${room}/ may not import from ${other}/ (${specifier})`;
  return typeOnly ? null : `${room}/ may import only types from ${other}/: write import type (${specifier})`;
}

function judgePackage(room: string, { specifier, typeOnly }: Import): string | null {
  const without = ROOMS[room]?.withoutPackages ?? [];
  const hit = without.find((prefix) =>
    prefix.endsWith(':') ? specifier.startsWith(prefix) : specifier === prefix || specifier.startsWith(`${prefix}/`),
  );
  return hit === undefined || typeOnly ? null : `${room}/ may not load the package ${specifier}`;
}

function slashed(path: string): string {
  return path.split(sep).join('/');
}

if (import.meta.main) {
  const violations = checkImports(process.cwd());
  for (const { file, line, message } of violations) console.error(`${file}:${line}: ${message}`);
  console.log(violations.length === 0 ? 'imports keep to the rooms' : `${violations.length} imports break the rules`);
  process.exitCode = violations.length === 0 ? 0 : 1;
}
