import { HoldfastError } from '../effects/errors.ts';
import { canonicalJson } from './canonical-json.ts';
import {
  CONTRACT_LAYERS,
  type Contract,
  type ContractLayer,
  type Digest,
  type JsonObject,
  type JsonValue,
} from './contract.ts';
import { buildContract } from './contract-build.ts';
import { contractProblems } from './contract-checks.ts';
import { type ContractShape, contractShape } from './contract-shape.ts';
import { nearest } from './did-you-mean.ts';
import { sha256v1 } from './digest.ts';
import { getPointer, pointerOf } from './pointer.ts';
import type { Problem } from './problem.ts';
import { type Position, readYaml } from './yaml-source.ts';

/** Most problems told about one file. */
const PROBLEMS_MAX = 50;

/**
 * Reads a contract file: YAML to a typed, deep-frozen {@link Contract} with its digests.
 *
 * @param text the file's content, at most 256 KiB.
 * @param file its name, for messages only.
 * @throws HoldfastError `bad_contract` with every problem found, a line each: `file:line:col pointer: what; hint`.
 * `place` is the `file:line:col` of the first.
 */
export function parseContractFile(text: string, file: string): Contract {
  const source = readYaml(text);
  const problems: (Problem & { readonly position?: Position })[] = [...source.problems];
  const content = source.value;
  let shape: ContractShape | undefined;
  if (content !== undefined) {
    const read = readShape(content);
    shape = read.shape;
    problems.push(...read.problems);
  }
  const first = problems[0];
  if (first === undefined && shape !== undefined) return seal(shape, content as JsonObject);
  const placed = problems.map((problem) => {
    const position = problem.position ?? source.positionOf(problem.pointer, problem.atKey);
    return { place: `${file}:${position.line}:${position.col}`, position, problem };
  });
  placed.sort((a, b) => a.position.line - b.position.line || a.position.col - b.position.col);
  throw report(placed);
}

/**
 * Rebuilds the very same contract from its stored source, as the registry keeps it.
 * @throws HoldfastError `bad_contract`, place = JSON Pointer of the first problem.
 */
export function contractFromSource(source: JsonObject): Contract {
  let copy: JsonValue;
  try {
    // First that it is plain JSON, then a copy: it is frozen afterwards and the caller's object must not be.
    canonicalJson(source);
    copy = structuredClone(source) as JsonValue;
  } catch (error) {
    throw new HoldfastError('bad_contract', error instanceof Error ? error.message : String(error), {
      ...(error instanceof HoldfastError && error.place !== undefined && { place: error.place }),
    });
  }
  const { shape, problems } = readShape(copy);
  if (shape !== undefined && problems.length === 0) return seal(shape, copy as JsonObject);
  throw report(problems.map((problem) => ({ place: problem.pointer === '' ? '/' : problem.pointer, problem })));
}

function report(placed: readonly { readonly place: string; readonly problem: Problem }[]): HoldfastError {
  const lines = placed.slice(0, PROBLEMS_MAX).map(({ place, problem }) => {
    const pointer = problem.pointer === '' || problem.pointer === place ? '' : ` ${problem.pointer}`;
    return `${place}${pointer}: ${problem.message}${problem.hint === undefined ? '' : `; ${problem.hint}`}`;
  });
  if (placed.length > PROBLEMS_MAX) lines.push(`… and ${placed.length - PROBLEMS_MAX} more`);
  const place = placed[0]?.place;
  return new HoldfastError('bad_contract', lines.join('\n'), place === undefined ? {} : { place });
}

function readShape(content: JsonValue): { shape?: ContractShape; problems: readonly Problem[] } {
  const forbidden = protoPointer(content, []);
  if (forbidden !== undefined) return { problems: [{ pointer: forbidden, message: 'the key __proto__ is not taken' }] };
  const parsed = contractShape.safeParse(content);
  if (!parsed.success) return { problems: parsed.error.issues.flatMap((issue) => fromIssue(issue, content)) };
  return { shape: parsed.data, problems: contractProblems(parsed.data) };
}

function protoPointer(value: JsonValue, path: readonly (string | number)[]): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, child] of Object.entries(value)) {
    const found = key === '__proto__' ? pointerOf([...path, key]) : protoPointer(child as JsonValue, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}

interface Issue {
  readonly code: string;
  readonly message: string;
  readonly path: readonly PropertyKey[];
  readonly keys?: readonly string[];
}

/** zod's issue as problems with pointers. For unknown keys the message holds the known ones (see `strict`). */
function fromIssue(issue: Issue, content: JsonValue): Problem[] {
  const path = issue.path.map(String);
  const pointer = pointerOf(path);
  if (issue.code === 'unrecognized_keys') {
    const known = issue.message.split(' ');
    return (issue.keys ?? []).map((key) => {
      const near = nearest(key, known);
      const hint = near === undefined ? `known here: ${known.join(', ')}` : `did you mean "${near}"?`;
      return { pointer: pointerOf([...path, key]), message: `unknown key "${key}"`, hint, atKey: true };
    });
  }
  if (issue.code === 'invalid_key') return [{ pointer, message: `the key ${issueKey(issue)}`, atKey: true }];
  const missing = getPointer(content, pointer) === undefined;
  return [{ pointer, message: missing ? `is required: ${issue.message}` : issue.message }];
}

function issueKey(issue: Issue): string {
  const inner = (issue as { issues?: readonly { message: string }[] }).issues?.[0]?.message ?? 'does not fit';
  return `"${String(issue.path.at(-1))}" does not fit: ${inner}`;
}

/** Digests cover the file's own words, so a default that is written out makes another version, and no default makes one. */
function seal(shape: ContractShape, source: JsonObject): Contract {
  const layers = CONTRACT_LAYERS.map((layer) => [layer, sha256v1(source[layer] ?? {})] as const);
  const digests = Object.fromEntries(layers) as Record<ContractLayer, Digest>;
  const digest = sha256v1({
    tool: shape.tool,
    version: shape.version,
    owner: shape.owner,
    compatibility: source['compatibility'] ?? {},
    layers: digests,
  });
  return deepFreeze({ ...buildContract(shape), digests, digest, source });
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const child of Object.values(value)) deepFreeze(child);
  return value;
}
