import { HoldfastError } from '../effects/errors.ts';
import type { JsonSchema, JsonValue } from './contract.ts';
import { patternRisk } from './pattern-risk.ts';
import { getPointer, pointerOf } from './pointer.ts';

/** Largest schema taken, as canonical JSON. */
export const SCHEMA_BYTES_MAX = 256 * 1024;
/** Most schema nodes one schema may stand for when every `$ref` that applies at the same place is followed. */
const EXPANDED_NODES_MAX = 100_000;

/** The dialects that are served. */
export type SchemaDraft = '2020-12' | 'draft-07';

/** What a compiler has to know about a schema. */
export interface SchemaShape {
  readonly draft: SchemaDraft;
  /** It holds `$id`, `$anchor` or the like, which are global names for a validator. */
  readonly hasIds: boolean;
}

type Path = readonly string[];

/** Keywords whose value is plain data: what stands inside is never a schema. */
const DATA_KEYWORDS = new Set(['const', 'enum', 'default', 'examples', 'example']);
/** Keywords whose value maps free names to schemas. */
const MAP_KEYWORDS = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
]);
const ID_KEYWORDS = ['$id', 'id', '$anchor', '$dynamicAnchor', '$recursiveAnchor'];

/**
 * What a schema may not be before a compiler sees it.
 * @throws HoldfastError `bad_contract`, place = JSON Pointer into the schema.
 */
export function checkSchemaShape(schema: JsonSchema): SchemaShape {
  const draft = draftOf(schema);
  const ids = new Set<string>();
  const refs: { path: Path; ref: string }[] = [];
  walk(schema, [], (node, path) => {
    for (const keyword of ID_KEYWORDS) {
      const id = node[keyword];
      if (typeof id === 'string') ids.add(id.replace(/#$/, ''));
    }
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = node[keyword];
      if (typeof ref === 'string') refs.push({ path: [...path, keyword], ref });
    }
    if (node['$async'] !== undefined) throw bad([...path, '$async'], 'asynchronous schemas are not served');
    checkPatterns(node, path);
  });
  for (const { path, ref } of refs) {
    const [document = ''] = ref.split('#');
    if (document !== '' && !ids.has(document))
      throw bad(path, `the remote reference ${ref.slice(0, 120)} is not followed; put it under $defs`);
    if (document === '' && /^#(?:\/|$)/.test(ref) && resolve(schema, ref) === undefined && ids.size === 0) {
      throw bad(path, `${ref.slice(0, 120)} points at nothing`);
    }
  }
  expandedNodes(schema, schema, new Map(), []);
  return { draft, hasIds: ids.size > 0 };
}

function draftOf(schema: JsonSchema): SchemaDraft {
  const declared = schema['$schema'];
  if (declared === undefined) return '2020-12';
  const uri = typeof declared === 'string' ? declared.replace(/#$/, '').replace(/^http:/, 'https:') : '';
  if (uri === 'https://json-schema.org/draft/2020-12/schema') return '2020-12';
  if (uri === 'https://json-schema.org/draft-07/schema') return 'draft-07';
  throw bad(
    ['$schema'],
    `the dialect ${JSON.stringify(declared).slice(0, 120)} is not served; use 2020-12 or draft-07`,
  );
}

/** Visits every object that may be used as a schema: unknown keywords too, since a `$ref` can point there. */
function walk(node: JsonValue, path: Path, visit: (node: JsonSchema, path: Path) => void): void {
  if (typeof node !== 'object' || node === null) return;
  if (Array.isArray(node)) {
    node.forEach((item: JsonValue, index) => {
      walk(item, [...path, String(index)], visit);
    });
    return;
  }
  visit(node as JsonSchema, path);
  for (const [keyword, child] of Object.entries(node as JsonSchema)) {
    if (DATA_KEYWORDS.has(keyword)) continue;
    if (!MAP_KEYWORDS.has(keyword) || typeof child !== 'object' || child === null || Array.isArray(child)) {
      walk(child, [...path, keyword], visit);
      continue;
    }
    for (const [name, schema] of Object.entries(child)) walk(schema as JsonValue, [...path, keyword, name], visit);
  }
}

function checkPatterns(node: JsonSchema, path: Path): void {
  const { pattern, patternProperties } = node;
  if (typeof pattern === 'string') checkPattern(pattern, [...path, 'pattern']);
  if (typeof patternProperties !== 'object' || patternProperties === null) return;
  for (const key of Object.keys(patternProperties)) checkPattern(key, [...path, 'patternProperties', key]);
}

function checkPattern(pattern: string, path: Path): void {
  const risk = patternRisk(pattern);
  if (!risk.safe) throw bad(path, `the pattern ${JSON.stringify(pattern.slice(0, 80))} ${risk.why}; write it without`);
}

function resolve(root: JsonSchema, ref: string): JsonValue | undefined {
  try {
    return getPointer(root, decodeURIComponent(ref.slice(1)));
  } catch {
    return undefined;
  }
}

/**
 * Counts the nodes reached when references are followed, each definition counted as often as it is used: a chain of
 * definitions that each use the next one twice is small to write and endless to run.
 */
function expandedNodes(node: JsonValue, root: JsonSchema, known: Map<object, number>, path: Path): number {
  if (typeof node !== 'object' || node === null) return 1;
  const counted = known.get(node);
  if (counted !== undefined) return counted;
  // A recursive reference ends the count: how often it is followed depends on the value.
  known.set(node, 1);
  let count = 1;
  for (const [keyword, child] of Object.entries(node)) {
    if (keyword === '$ref' && typeof child === 'string' && child.startsWith('#')) {
      count += expandedNodes(resolve(root, child) ?? null, root, known, path);
    } else if (!DATA_KEYWORDS.has(keyword)) {
      count += expandedNodes(child as JsonValue, root, known, [...path, keyword]);
    }
    if (count > EXPANDED_NODES_MAX) throw bad(path, `expands to more than ${EXPANDED_NODES_MAX} nodes`);
  }
  known.set(node, count);
  return count;
}

function bad(path: Path, why: string): HoldfastError {
  const place = pointerOf(path);
  return new HoldfastError('bad_contract', place === '' ? why : `${place}: ${why}`, { place });
}
