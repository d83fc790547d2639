import { defineSignal, setHandler } from '@temporalio/workflow';
import type { Outcome } from '../../../effects/effect.ts';
import { holdfastFor } from '../../../workflows/public.ts';
import type { CallManyInput } from './call-many.ts';

/** Keeps the workflow falling: each one makes the server begin a fresh workflow task. */
export const fallAgain = defineSignal('fallAgain');
/** Lets it get up. */
export const getUp = defineSignal('getUp');

/**
 * A workflow whose code is broken right behind its calls: each workflow task fails until somebody mends it. What a local
 * activity answered is then in no history, so the SDK runs the local activity again with every task.
 */
export async function stumble({ tenant, run, calls }: CallManyInput): Promise<Outcome[]> {
  let mended = false;
  setHandler(fallAgain, () => {});
  setHandler(getUp, () => {
    mended = true;
  });
  const holdfast = holdfastFor({ tenant, run });
  const outcomes = await Promise.all(calls.map((call) => holdfast.dispatch(call)));
  // Not a failure of the workflow but of the task: Temporal tries again for ever.
  if (!mended) throw new TypeError('made to fail right after the call');
  return outcomes;
}
