import type { Outcome } from '../effects/effect.ts';
import { ERRORS, HoldfastError } from '../effects/errors.ts';
import { Failure, isErrorCode } from './failure.ts';
import { cleanText, print, printJson, relative, statusText, styled } from './output.ts';

const EXIT_NOT_APPLIED = 3;
const EXIT_UNKNOWN = 4;

/**
 * Prints an outcome on standard output. Returns for CONFIRMED; for all else it throws what goes to standard error and
 * gives the exit code: 3 for NOT_APPLIED, 4 for UNKNOWN.
 */
export function tellOutcome(outcome: Outcome, options: { readonly json: boolean }): void {
  if (options.json) printJson(outcome);
  else print(headline(outcome));
  switch (outcome.status) {
    case 'CONFIRMED':
      if (!options.json) print(resultText(outcome));
      return;
    case 'NOT_APPLIED':
      throw new Failure(refusalOf(outcome), EXIT_NOT_APPLIED);
    case 'UNKNOWN':
      throw new Failure(unknownOf(outcome), EXIT_UNKNOWN);
  }
}

function headline({ status, effectId, tool, version, effectClass }: Outcome): string {
  const what = `${tool}@${version}${effectClass === null ? '' : ` (${effectClass})`}`;
  return `${statusText(status)}  ${styled('bold', effectId)}  ${cleanText(what)}`;
}

function resultText(outcome: Outcome & { status: 'CONFIRMED' }): string {
  const how = `  settled by ${outcome.settledBy}`;
  if (outcome.resultStoredBytes !== undefined) {
    return `${how}\n  result of ${outcome.resultStoredBytes} bytes: holdfast effect show ${outcome.effectId} --payloads`;
  }
  const parts = outcome.parts === undefined ? '' : `\n  applied partly: ${indented(outcome.parts)}`;
  return `${how}\n  result  ${indented(outcome.result)}${parts}`;
}

/** JSON on several lines, the later ones moved in. JSON escapes control characters itself. */
export function indented(value: unknown): string {
  return JSON.stringify(value, null, 2).replaceAll('\n', '\n  ');
}

function refusalOf({ reason, effectId }: Outcome & { status: 'NOT_APPLIED' }): HoldfastError {
  if (isErrorCode(reason.code)) {
    return new HoldfastError(reason.code, reason.message || ERRORS[reason.code].means, { place: effectId });
  }
  return new HoldfastError('refused_by_provider', `${reason.code}: ${reason.message}`, { place: effectId });
}

function unknownOf(outcome: Outcome & { status: 'UNKNOWN' }): HoldfastError {
  const { effectId, effectClass, message, attention, nextLookAt } = outcome;
  if (effectClass === null) {
    return new HoldfastError('outcome_unknown', message, {
      place: effectId,
      next: 'repeat this very command, the same call id is safe; see that a worker is up which has the provider in its configuration',
    });
  }
  const look = nextLookAt === null ? '' : `; next look ${relative(nextLookAt)}`;
  const person = attention === null ? '' : `; it needs a person (${attention})`;
  return new HoldfastError('outcome_unknown', `${message}${look}${person}`, {
    place: effectId,
    next: `do not make it again under another call id; holdfast effect wait ${effectId}, or holdfast effect show ${effectId}`,
  });
}
