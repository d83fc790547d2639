import type { JsonValue } from '../contracts/contract.ts';
import type { ProviderAnswer } from './answer.ts';

/** Deeper than anything that is kept or compared (`JSON_DEPTH_MAX`). */
const DEPTH_MAX = 66;

/**
 * The answer with a body that JSON can say: `JSON.parse` reads `1e400` as Infinity, which has no canonical text, and a
 * provider's odd number must not cost its whole answer. Such a number becomes null.
 */
export function soundAnswer(answer: ProviderAnswer): ProviderAnswer {
  if (answer.kind !== 'response' || isSound(answer.body, 0)) return answer;
  return { ...answer, body: sound(answer.body, 0) };
}

function isSound(value: JsonValue, depth: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return true;
  for (const child of Object.values(value)) if (!isSound(child as JsonValue, depth + 1)) return false;
  return true;
}

function sound(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return value;
  if (Array.isArray(value)) return value.map((item: JsonValue) => sound(item, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, sound(child as JsonValue, depth + 1)]));
}
