// A user's own workflows, for tests: what a worker with `workflowBundle` runs beside Holdfast's.
export { dispatchCall } from '../../../workflows/dispatch-call.ts';
export { reconcileEffect } from '../../../workflows/reconcile-effect.ts';
export { sweep } from '../../../workflows/sweep.ts';
export { callMany } from './call-many.ts';
export { failAtFirst } from './fail-at-first.ts';
export { stumble } from './stumble.ts';
