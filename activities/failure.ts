import { ApplicationFailure } from '@temporalio/common';
import { isHoldfastError } from '../effects/errors.ts';

/** A HoldfastError as Temporal carries it: the type is the code. Other errors pass unchanged. */
export function toFailure(error: unknown): unknown {
  if (!isHoldfastError(error)) return error;
  return ApplicationFailure.create({
    type: error.code,
    message: error.place === undefined ? error.message : `${error.message} (at ${error.place})`,
    nonRetryable: !error.retryable,
    details: [{ code: error.code, place: error.place ?? null, next: error.next }],
  });
}

/** Wraps each activity of a factory, so that what leaves it is an ApplicationFailure. */
export async function asFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFailure(error);
  }
}
