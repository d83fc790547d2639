/** An instant by both clocks: a suspended machine stops the monotonic one, and the wall clock may be set. */
export interface Mark {
  readonly monotonic: number;
  readonly wall: number;
}

/** This instant. */
export function markNow(): Mark {
  return { monotonic: performance.now(), wall: Date.now() };
}

/** Milliseconds since `mark` by the clock that says more; a wall clock set back counts as time passed. */
export function elapsedMs(mark: Mark): number {
  return Math.max(performance.now() - mark.monotonic, Math.abs(Date.now() - mark.wall));
}
