import { ApplicationFailure, continueAsNew, workflowInfo } from '@temporalio/workflow';
import type { Outcome } from '../../../effects/effect.ts';
import { holdfastFor } from '../../../workflows/public.ts';
import type { CallManyInput } from './call-many.ts';

/**
 * A workflow that fails as a whole, after its calls, at its first two attempts: its retry policy runs it again from the
 * beginning, with an empty history. The third attempt continues as new, and that run makes the same calls once more.
 */
export async function failAtFirst(input: CallManyInput & { readonly continued?: true }): Promise<Outcome[]> {
  const { tenant, run, calls, options, continued } = input;
  const holdfast = holdfastFor({ tenant, run });
  const outcomes = await Promise.all(calls.map((call) => holdfast.dispatch(call, options)));
  if (continued) return outcomes;
  const { attempt } = workflowInfo();
  if (attempt < 3) throw ApplicationFailure.retryable(`attempt ${attempt} fails after its calls`);
  return continueAsNew<typeof failAtFirst>({ ...input, continued: true });
}
