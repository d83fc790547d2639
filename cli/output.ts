import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Colours only where standard output is a terminal that wants them (NO_COLOR, FORCE_COLOR). */
export function styled(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

const STATUS_STYLES: Readonly<Record<string, Style>> = {
  CONFIRMED: 'green',
  NOT_APPLIED: 'yellow',
  UNKNOWN: 'red',
  DISPATCHED: 'cyan',
};

/** A status in its colour. */
export function statusText(status: string, width = 0): string {
  return styled(STATUS_STYLES[status] ?? 'reset', status.padEnd(width));
}

/** Text of providers and people, without anything that could move the cursor or hide other text. */
export function cleanText(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}');
}

/** One line on standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Exactly one JSON value, in one line. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Columns padded to their widest cell, two spaces apart; the last one is left as it is. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map(cleanText));
  const widths = header.map((name, index) => Math.max(name.length, ...clean.map((row) => (row[index] ?? '').length)));
  const line = (cells: readonly string[], paint: (cell: string) => string) =>
    cells.map((cell, index) => paint(index === header.length - 1 ? cell : cell.padEnd(widths[index] ?? 0))).join('  ');
  const head = line(header, (cell) => styled('dim', cell));
  return [head, ...clean.map((row) => line(row, paintStatus))].join('\n');
}

function paintStatus(cell: string): string {
  const style = STATUS_STYLES[cell.trimEnd()];
  return style === undefined ? cell : styled(style, cell);
}

/** `name  value` lines, indented and aligned; entries without a value are left out. */
export function fields(entries: readonly (readonly [string, string | null | undefined])[]): string {
  const shown = entries.filter((entry): entry is readonly [string, string] => entry[1] != null && entry[1] !== '');
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `  ${styled('dim', name.padEnd(width))}  ${value}`).join('\n');
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** `2d 3h`, `4m 10s`, `8s`: the two largest units of a span of time. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  for (const [index, [name, size]] of UNITS.entries()) {
    if (seconds < size) continue;
    const [smaller, smallerSize] = UNITS[index + 1] ?? (['s', 1] as const);
    const rest = Math.floor((seconds % size) / smallerSize);
    return `${Math.floor(seconds / size)}${name}${rest === 0 ? '' : ` ${rest}${smaller}`}`;
  }
  return `${seconds}s`;
}

/** `3m 2s ago`, `in 5s`; empty for null. */
export function relative(iso: string | null, now = Date.now()): string {
  if (iso === null) return '';
  const ms = Date.parse(iso) - now;
  return ms > 0 ? `in ${span(ms)}` : `${span(-ms)} ago`;
}

/** To the millisecond, UTC. */
export function instant(iso: string): string {
  return iso.replace(/(\.\d{3})\d*Z$/, '$1Z').replace('T', ' ');
}
