import { isPointer } from './pointer.ts';

/** True for what may say where in an answer something stands: a JSON Pointer into the body, or `header NAME`. */
export function isPlace(text: string): boolean {
  return headerOfPlace(text) !== undefined || isPointer(text);
}

/** The lower-case header a place names; `undefined` for a pointer. */
export function headerOfPlace(text: string): string | undefined {
  const match = /^header ([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128})$/.exec(text);
  return match?.[1]?.toLowerCase();
}
