import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure } from '@temporalio/common';
import { ERRORS, type ErrorCode, HoldfastError, isHoldfastError } from '../effects/errors.ts';

/** True when an operator ended the workflow (terminate, reset, cancel): that says nothing about the call. */
export function endedByOperator(error: unknown): boolean {
  if (!(error instanceof WorkflowFailedError)) return false;
  return error.cause instanceof TerminatedFailure || error.cause instanceof CancelledFailure;
}

/** What a call through Temporal threw, as a HoldfastError: the failure's type is the code; all else is Temporal being away. */
export function translateTemporal(error: unknown): HoldfastError {
  if (isHoldfastError(error)) return error;
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ApplicationFailure && cause.type != null && cause.type in ERRORS) {
      const [detail] = (cause.details ?? []) as { place?: string | null; next?: string }[];
      return new HoldfastError(cause.type as ErrorCode, cause.message, {
        ...(typeof detail?.place === 'string' ? { place: detail.place } : {}),
        ...(typeof detail?.next === 'string' ? { next: detail.next } : {}),
      });
    }
  }
  if (error instanceof WorkflowFailedError) {
    return new HoldfastError(
      'internal',
      `the workflow failed: ${(error.cause as Error | undefined)?.message ?? error.message}`,
      { cause: error },
    );
  }
  // A fault of code, here or in the SDK: nothing that waiting for Temporal would mend.
  if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) {
    return new HoldfastError('internal', `${error.name}: ${error.message}`, { cause: error });
  }
  return new HoldfastError('temporal_unreachable', `no answer from Temporal: ${(error as Error).message}`, {
    cause: error,
  });
}
