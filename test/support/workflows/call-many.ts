import type { Outcome } from '../../../effects/effect.ts';
import { type DispatchOptions, holdfastFor, type WorkflowCall } from '../../../workflows/public.ts';

export interface CallManyInput {
  readonly tenant: string;
  readonly run: string;
  readonly calls: readonly WorkflowCall[];
  readonly options?: DispatchOptions;
}

/** An agent's turn with many tool calls at once. */
export async function callMany({ tenant, run, calls, options }: CallManyInput): Promise<Outcome[]> {
  const holdfast = holdfastFor({ tenant, run });
  return Promise.all(calls.map((call) => holdfast.dispatch(call, options)));
}
