import type { CallInput, DispatchResult } from '../activities/types.ts';
import { type DispatchOptions, dispatchFromWorkflow } from './dispatch.ts';

/** The one argument of {@link dispatchCall}. */
export interface DispatchCallInput {
  readonly call: CallInput;
  readonly options?: DispatchOptions;
}

/** One call from outside Temporal that goes on without its caller; id `call:<tenant>:<run>:<call>`. */
export function dispatchCall(input: DispatchCallInput): Promise<DispatchResult> {
  return dispatchFromWorkflow(input.call, input.options);
}
