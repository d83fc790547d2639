// The public surface `holdfast/workflow`: what a user's own Temporal workflow imports.
export type { Outcome } from '../effects/effect.ts';
export { type DispatchOptions, holdfastFor, type WorkflowCall } from './dispatch.ts';
