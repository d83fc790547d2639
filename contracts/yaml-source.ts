import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  type YAMLError,
  type YAMLMap,
} from 'yaml';
import { JSON_DEPTH_MAX } from './canonical-json.ts';
import type { JsonValue } from './contract.ts';
import { pointerOf } from './pointer.ts';
import type { Problem } from './problem.ts';

/** Largest contract file, in UTF-8 bytes. */
export const FILE_BYTES_MAX = 256 * 1024;
/** Most nodes after aliases are followed; what stops "billion laughs". */
const NODES_MAX = 50_000;
const ALIASES_MAX = 100;

/** 1-based. */
export interface Position {
  readonly line: number;
  readonly col: number;
}

/** One YAML document as it was read, with the way back to its lines. */
export interface YamlSource {
  /** The content as JSON; `undefined` when it could not be read at all. */
  readonly value: JsonValue | undefined;
  readonly problems: readonly (Problem & { readonly position?: Position })[];
  /** Where a pointer's value (or its key) stands; the nearest enclosing one when it stands nowhere. */
  positionOf(pointer: string, atKey?: boolean): Position;
}

/**
 * Reads one YAML 1.2 document (core schema) as JSON. Refused, each with its place: syntax errors, duplicate keys,
 * keys that are not texts, `__proto__`, tags, directives, several documents, numbers JSON cannot hold exactly,
 * more than 100 aliases, more than 50,000 nodes, nesting deeper than 64, more than 256 KiB. Never throws.
 */
export function readYaml(text: string): YamlSource {
  const bytes = Buffer.byteLength(text);
  if (bytes > FILE_BYTES_MAX) return unreadable(`the file has ${bytes} bytes; at most ${FILE_BYTES_MAX} are read`);
  const lines = new LineCounter();
  try {
    const documents = parseAllDocuments(text, {
      version: '1.2',
      schema: 'core',
      strict: true,
      uniqueKeys: true,
      prettyErrors: false,
      logLevel: 'silent',
      lineCounter: lines,
    });
    return fromDocuments(documents as Document.Parsed[], lines);
  } catch (error) {
    // The library walks recursively, so a file of brackets alone runs out of stack.
    if (error instanceof RangeError) return unreadable(`nested deeper than ${JSON_DEPTH_MAX}`);
    throw error;
  }
}

function unreadable(message: string): YamlSource {
  const position = { line: 1, col: 1 };
  return { value: undefined, problems: [{ pointer: '', message, position }], positionOf: () => position };
}

function fromDocuments(documents: readonly Document.Parsed[], lines: LineCounter): YamlSource {
  const at = (offset: number): Position => lines.linePos(Math.max(0, offset));
  const [document, second] = documents;
  if (document === undefined) return unreadable('the file is empty');
  const syntax = documents.flatMap((each) => [...each.errors, ...each.warnings]);
  if (syntax.length > 0) {
    // One slip makes the reader stumble many times at the same place; the first word on each line is the telling one.
    const problems = syntax
      .map((error) => ({ pointer: '', message: syntaxMessage(error), position: at(error.pos[0]) }))
      .filter((one, index, all) => all.findIndex(({ position }) => position.line === one.position.line) === index);
    return { value: undefined, problems, positionOf: () => problems[0]?.position ?? at(0) };
  }
  const walk = new Walk(document, at);
  const value = walk.read();
  if (second !== undefined) walk.refuse('', 'holds several documents', second.range[0], 'one file holds one contract');
  if (document.directives?.yaml.explicit || Object.keys(document.directives?.tags ?? {}).length > 1) {
    walk.refuse('', 'directives are not taken', 0, 'remove the lines that start with %');
  }
  return { value, problems: walk.problems, positionOf: (pointer, atKey) => walk.positionOf(pointer, atKey) };
}

function syntaxMessage(error: YAMLError): string {
  return /call stack/.test(error.message) ? `nested deeper than ${JSON_DEPTH_MAX}` : error.message;
}

type Path = readonly (string | number)[];

/** Turns nodes into JSON and remembers where each pointer stood. */
class Walk {
  readonly problems: (Problem & { position: Position })[] = [];
  readonly #document: Document.Parsed;
  readonly #at: (offset: number) => Position;
  readonly #values = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  #nodes = 0;
  #aliases = 0;
  /** The first limit passed ends the walk: what follows would be said again for each node. */
  #over = false;

  constructor(document: Document.Parsed, at: (offset: number) => Position) {
    this.#document = document;
    this.#at = at;
  }

  read(): JsonValue {
    return this.#value(this.#document.contents, [], 0);
  }

  positionOf(pointer: string, atKey = false): Position {
    const offset = (atKey ? this.#keys.get(pointer) : undefined) ?? this.#values.get(pointer);
    if (offset !== undefined) return this.#at(offset);
    return pointer === '' ? this.#at(0) : this.positionOf(pointer.slice(0, pointer.lastIndexOf('/')), true);
  }

  refuse(pointer: string, message: string, offset: number, hint?: string): void {
    this.problems.push({ pointer, message, position: this.#at(offset), ...(hint !== undefined && { hint }) });
  }

  #value(node: Node | null | undefined, path: Path, parentOffset: number): JsonValue {
    if (this.#over || node === null || node === undefined) return null;
    const offset = node.range?.[0] ?? parentOffset;
    const pointer = pointerOf(path);
    this.#values.set(pointer, offset);
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX) return this.#stop(pointer, `more than ${NODES_MAX} nodes`, offset);
    if (path.length > JSON_DEPTH_MAX - 1) return this.#stop(pointer, `nested deeper than ${JSON_DEPTH_MAX}`, offset);
    if (isAlias(node)) {
      this.#aliases += 1;
      if (this.#aliases > ALIASES_MAX) return this.#stop(pointer, `more than ${ALIASES_MAX} aliases`, offset);
      const target = node.resolve(this.#document) as Node | undefined;
      if (target !== undefined) return this.#target(target, path, offset);
      this.refuse(pointer, `nothing is called *${node.source}`, offset);
      return null;
    }
    return this.#target(node, path, offset);
  }

  #target(node: Node, path: Path, offset: number): JsonValue {
    const pointer = pointerOf(path);
    if (node.tag !== undefined) this.refuse(pointer, `the tag ${node.tag} is not taken`, offset, 'remove it');
    if (isMap(node)) return this.#map(node as YAMLMap<Node, Node | null>, path, offset);
    if (isSeq(node)) return node.items.map((item, index) => this.#value(item as Node, [...path, index], offset));
    return isScalar(node) ? this.#scalar(node.value, pointer, offset) : null;
  }

  #map(node: YAMLMap<Node, Node | null>, path: Path, offset: number): JsonValue {
    const members: [string, JsonValue][] = [];
    for (const pair of node.items as Pair<Node, Node | null>[]) {
      const keyOffset = pair.key?.range?.[0] ?? offset;
      const key = isScalar(pair.key) ? pair.key.value : undefined;
      if (typeof key !== 'string') {
        const hint = isScalar(pair.key) ? 'put it in quotes' : undefined;
        this.refuse(pointerOf(path), `the key ${String(key ?? '?')} is not a text`, keyOffset, hint);
        continue;
      }
      const at = [...path, key];
      this.#keys.set(pointerOf(at), keyOffset);
      if (key === '__proto__') this.refuse(pointerOf(at), 'the key __proto__ is not taken', keyOffset);
      else members.push([key, this.#value(pair.value, at, keyOffset)]);
    }
    return Object.fromEntries(members);
  }

  #scalar(value: unknown, pointer: string, offset: number): JsonValue {
    if (typeof value === 'string') {
      if (!value.isWellFormed()) this.refuse(pointer, 'a text with a lone surrogate', offset);
      return value;
    }
    if (typeof value === 'boolean' || value === null) return value;
    if (typeof value !== 'number' || !Number.isFinite(value)) {
      this.refuse(pointer, `${String(value)} is not a JSON value`, offset);
      return null;
    }
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      this.refuse(pointer, `${value} is too large to be exact`, offset, 'put it in quotes');
    }
    return value;
  }

  #stop(pointer: string, message: string, offset: number): JsonValue {
    this.#over = true;
    this.refuse(pointer, message, offset);
    return null;
  }
}
