const MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const BYTES = { B: 1, KiB: 1024, MiB: 1024 * 1024 } as const;

/** Longest duration a contract may name: ten years. */
export const DURATION_MS_MAX = 3650 * MS.d;

/** Milliseconds of `250ms`, `5s`, `10m`, `24h` or `90d`; `undefined` for any other text and past ten years. */
export function parseDuration(text: string): number | undefined {
  const match = /^(0|[1-9][0-9]{0,11})(ms|s|m|h|d)$/.exec(text);
  if (match === null) return undefined;
  const ms = Number(match[1]) * MS[match[2] as keyof typeof MS];
  return ms <= DURATION_MS_MAX ? ms : undefined;
}

/** Bytes of `512B`, `16KiB` or `1MiB`; `undefined` for any other text. */
export function parseSize(text: string): number | undefined {
  const match = /^(0|[1-9][0-9]{0,8})(B|KiB|MiB)$/.exec(text);
  return match === null ? undefined : Number(match[1]) * BYTES[match[2] as keyof typeof BYTES];
}
