/** Task queues of one fleet. `prefix` keeps fleets apart that share a namespace; default `holdfast`. */
export function taskQueues(prefix = 'holdfast') {
  return {
    /** `dispatchCall` and the local lane. */
    dispatch: prefix,
    /** `reconcileEffect` and `sweep`: of their own, so that a flood of calls never delays them. */
    reconcile: `${prefix}-reconcile`,
    /** The activity lane of one provider. */
    provider: (provider: string) => `${prefix}-provider-${provider}`,
  };
}
