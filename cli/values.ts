import { readFileSync } from 'node:fs';
import type { JsonObject, JsonValue } from '../contracts/contract.ts';
import { isToolName, isVersion } from '../contracts/contract-ref.ts';
import { parseDuration, parseSize } from '../contracts/units.ts';
import { type EffectId, parseEffectId } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';

/** Readers of what stands on the command line. Each throws `bad_input` (or `bad_id`) with the option as its place. */

export function readDuration(text: string, place: string): number {
  const ms = parseDuration(text);
  if (ms === undefined)
    throw new HoldfastError('bad_input', 'not a duration: write 500ms, 30s, 5m, 2h or 1d', { place });
  return ms;
}

/** An ISO time that says its zone: an operator's own zone is seldom the server's. */
export function readTime(text: string, place: string): Date {
  const time = new Date(text);
  const whole = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  if (whole && !Number.isNaN(time.getTime())) return time;
  throw new HoldfastError('bad_input', 'not a time with its zone: write 2026-12-01T09:30:00Z', { place });
}

/** Plain bytes, or with B, KiB or MiB. */
export function readSize(text: string, place: string): number {
  const bytes = /^[0-9]{1,12}$/.test(text) ? Number(text) : parseSize(text);
  if (bytes === undefined) throw new HoldfastError('bad_input', 'not a size: write 65536, 64KiB or 1MiB', { place });
  return bytes;
}

/** A whole number of up to nine digits. */
export function readCount(text: string, place: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new HoldfastError('bad_input', 'not a whole number', { place });
  return Number(text);
}

/** `effect:TENANT:RUN:CALL`, or without its first word. */
export function readEffectId(text: string): EffectId {
  const id = parseEffectId(text);
  if (id === undefined) {
    throw new HoldfastError('bad_id', 'not an effect id: expected effect:TENANT:RUN:CALL', {
      place: 'ID',
      next: 'take it from: holdfast effect list',
    });
  }
  return id;
}

/** `TOOL@VERSION`. */
export function readToolVersion(text: string): { tool: string; version: string } {
  const [tool = '', version = '', ...rest] = text.split('@');
  if (rest.length === 0 && isToolName(tool) && isVersion(version)) return { tool, version };
  throw new HoldfastError('bad_input', 'expected TOOL@VERSION, such as billing.pay@1.0.0', {
    place: 'TOOL@VERSION',
    next: 'take it from: holdfast contract list',
  });
}

/** JSON text itself, `@file`, or `-` for standard input. */
export function readJson(text: string, place: string): JsonValue {
  const { source, where } = sourceOf(text, place);
  try {
    return JSON.parse(source) as JsonValue;
  } catch (error) {
    // The parser's own message quotes the text, which may hold what must not be shown.
    const at = /position (\d+)/.exec((error as Error).message)?.[1];
    throw new HoldfastError('bad_input', `not JSON${at === undefined ? '' : ` (at character ${at})`}`, {
      place: where,
      next: 'write JSON, in single quotes for the shell, or name a file: @args.json',
    });
  }
}

/** As {@link readJson}, and an object. */
export function readJsonObject(text: string, place: string): JsonObject {
  const value = readJson(text, place);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new HoldfastError('bad_input', 'expected a JSON object', { place, next: 'write {"name": value, …}' });
}

function sourceOf(text: string, place: string): { source: string; where: string } {
  if (text !== '-' && !text.startsWith('@')) return { source: text, where: place };
  const file = text === '-' ? 0 : text.slice(1);
  return { source: readText(file, place), where: text === '-' ? 'standard input' : text.slice(1) };
}

/** A file's text, or that of standard input (0). */
export function readText(file: string | 0, place: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : 'it cannot be read';
    const name = file === 0 ? 'standard input' : file;
    throw new HoldfastError('bad_input', `${name}: ${why} (${(error as NodeJS.ErrnoException).code})`, {
      place: file === 0 ? place : file,
      next: 'correct the name, or make the file readable',
    });
  }
}
