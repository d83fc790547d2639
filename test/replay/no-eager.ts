import { ApplicationFailure, type WorkflowInterceptorsFactory } from '@temporalio/workflow';

/** Fails a workflow that lets the server hand an activity back with the workflow task (temporalio/sdk-typescript#1326). */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      scheduleActivity(input, next) {
        if (input.options.allowEagerDispatch !== false) {
          throw ApplicationFailure.nonRetryable(`${input.activityType} may be dispatched eagerly`);
        }
        return next(input);
      },
    },
  ],
});
