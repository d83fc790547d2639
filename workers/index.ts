// The public surface `holdfast/worker`: a process of the fleet, and the activities for a user's own worker.
export { createDispatchActivities, type DispatchActivityOptions } from '../activities/dispatch-activities.ts';
export { Dispatcher } from '../dispatcher/dispatcher.ts';
export { type HoldfastConfig, loadConfig, WORKER_ROLES, type WorkerRole } from './config.ts';
export { Fleet, type FleetOptions } from './fleet.ts';
export { dispatcherDeps, openLedger } from './parts.ts';
export { runWorker, type WorkerReady, type WorkerRunOptions } from './run-worker.ts';
export { connectTemporal, type TemporalParts } from './temporal.ts';
