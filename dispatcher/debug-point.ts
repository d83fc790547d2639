import { appendFileSync } from 'node:fs';

/** Named points between two durable steps that a crash test can arm. */
export const DEBUG_POINTS = [
  'before_record',
  'claimed',
  'before_first_byte',
  'written',
  'answered',
  'settled',
  'before_look',
  'looked',
  'verdict_written',
] as const;
/** One of {@link DEBUG_POINTS}. */
export type DebugPoint = (typeof DEBUG_POINTS)[number];

interface Armed {
  readonly point: DebugPoint;
  readonly action: 'SIGKILL' | 'SIGSTOP' | 'hang';
  /** The action happens when this many effects have reached the point. Default 1. */
  readonly after: number;
  /** A file that gets one line per effect reaching the point: how a test asserts "reached". */
  readonly log?: string;
  /** Only effects whose call id starts with this. */
  readonly callPrefix?: string;
}

/**
 * Reads `HOLDFAST_DEBUG_POINT`, e.g. `{"point":"claimed","action":"SIGKILL","after":15,"log":"/tmp/x"}`.
 * Unset (always, outside tests): every point is a no-op that costs a comparison.
 */
function readArmed(): Armed | undefined {
  const text = process.env.HOLDFAST_DEBUG_POINT;
  if (!text) return undefined;
  return { after: 1, ...(JSON.parse(text) as Omit<Armed, 'after'> & { after?: number }) };
}

const armed = readArmed();
let reached = 0;

/** Passes a point; when it is armed, the process waits, stops or dies here, with everything it holds. */
export function debugPoint(point: DebugPoint, callId: string): Promise<void> | undefined {
  if (armed === undefined || armed.point !== point) return undefined;
  if (armed.callPrefix !== undefined && !callId.startsWith(armed.callPrefix)) return undefined;
  reached += 1;
  if (armed.log !== undefined) appendFileSync(armed.log, `${point} ${callId}\n`);
  if (reached < armed.after) return new Promise(() => undefined);
  if (armed.action !== 'hang') process.kill(process.pid, armed.action);
  // After SIGSTOP and SIGCONT the armed flight goes on; SIGKILL never comes here.
  return armed.action === 'hang' ? new Promise(() => undefined) : undefined;
}
