// The workflow bundle: what a worker of the fleet can run.
export { dispatchCall } from './dispatch-call.ts';
export { reconcileEffect } from './reconcile-effect.ts';
export { sweep } from './sweep.ts';
