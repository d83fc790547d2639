/** Milliseconds that never go back, but may stand still while the machine is suspended. */
export const monotonicMs = (): number => performance.now();

/** Milliseconds of the wall clock: goes on while the machine is suspended, but may be set. */
export const wallMs = (): number => Date.now();

/** Waits so many milliseconds. */
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
