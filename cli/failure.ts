import { ERRORS, type ErrorCode, HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { cleanText } from './output.ts';

/** An error whose exit code is not the one of its table row: a recorded refusal of a call always ends with 3. */
export class Failure extends Error {
  readonly error: HoldfastError;
  readonly exit: number;

  constructor(error: HoldfastError, exit: number) {
    super(error.message, { cause: error });
    this.name = 'Failure';
    this.error = error;
    this.exit = exit;
  }
}

/** How an error is told. */
export interface ReportOptions {
  readonly json: boolean;
  readonly debug: boolean;
}

/** What a person or a script is told about an error, and the exit code that goes with it. */
export function reportOf(thrown: unknown, options: ReportOptions): { readonly text: string; readonly exit: number } {
  const error = thrown instanceof Failure ? thrown.error : asHoldfastError(thrown);
  const exit = thrown instanceof Failure ? thrown.exit : ERRORS[error.code].exit;
  const stack = options.debug ? stackOf(thrown instanceof Failure ? thrown.error : thrown) : undefined;
  return { text: withoutPasswords(options.json ? asJson(error, stack) : asText(error, stack)), exit };
}

function asHoldfastError(thrown: unknown): HoldfastError {
  if (isHoldfastError(thrown)) return placeSaidOnce(thrown);
  return new HoldfastError('internal', thrown instanceof Error ? thrown.message : String(thrown), { cause: thrown });
}

/** What came through Temporal says its place in the message too, for the UI. Here it has a line of its own. */
function placeSaidOnce(error: HoldfastError): HoldfastError {
  const { code, message, place, next } = error;
  if (place === undefined || !message.endsWith(` (at ${place})`)) return error;
  return new HoldfastError(code, message.slice(0, -` (at ${place})`.length), { place, next, cause: error });
}

function asJson(error: HoldfastError, stack: string | undefined): string {
  const { code, message, place = null, next, retryable } = error;
  return `${JSON.stringify({ error: { code, message, place, next, retryable, ...(stack && { stack }) } })}\n`;
}

function asText({ code, message, place, next }: HoldfastError, stack: string | undefined): string {
  const [first = '', ...more] = message.split('\n');
  const lines = [
    `error ${code}: ${cleanText(first)}`,
    ...more.map((line) => `  ${cleanText(line)}`),
    ...(place === undefined ? [] : [`  at ${cleanText(place)}`]),
    `  next: ${cleanText(next)}`,
    ...(stack === undefined ? [] : ['', stack]),
  ];
  return `${lines.join('\n')}\n`;
}

/** The stack and those of its causes. */
function stackOf(thrown: unknown): string {
  const stacks: string[] = [];
  for (let at: unknown = thrown; at instanceof Error && stacks.length < 5; at = at.cause) {
    stacks.push(at.stack ?? at.message);
  }
  return stacks.length === 0 ? String(thrown) : stacks.join('\ncaused by ');
}

/** The last fence: whatever a library puts into a message, a URL never shows its password. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^\s:/@"']*):(?!\d{1,5}\/)[^\s@"']*@/gi, '$1:***@');
}

/** True for codes of the table; codes in recorded refusals are data. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}
