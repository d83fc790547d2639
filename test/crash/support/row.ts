import { EFFECT_CLASSES, type EffectClass } from '../../../contracts/contract.ts';
import type { Call, EffectStatus } from '../../../effects/effect.ts';
import type { FaultRule } from '../../../examples/billing-provider/faults.ts';
import type { FleetProcess } from '../../support/fleet.ts';
import { booksOf, judgeBooks, readBooks } from './auditor.ts';
import {
  type Expected,
  expectedOf,
  holdsAnswers,
  isLookPoint,
  type MatrixLane,
  type MatrixPoint,
  PROVIDER_OUTCOMES,
  type ProviderOutcome,
} from './expected.ts';
import { openWorld, until, type World } from './world.ts';

/** One effect in flight when its process dies. */
export interface Subject {
  readonly effectClass: EffectClass;
  readonly outcome: ProviderOutcome;
  readonly call: Call;
  readonly key: string;
  readonly expected: Expected;
}

/** What one crash came to, per effect. */
export interface SubjectReport {
  readonly name: string;
  /** While `cannot_tell` shows no evidence. */
  readonly status: EffectStatus | null;
  readonly attention: string | null;
  /** What the ledger says about it at the end. */
  readonly reason: string | null;
  readonly finally: EffectStatus | null;
  readonly sends: number;
  readonly artefacts: number;
  /** Whether those who waited heard the truth, or that it is not known. */
  readonly toldTruly: boolean;
  /** What a repeat of the same call heard at the end. */
  readonly repeated: string;
  readonly duplicates: number;
  readonly losses: number;
  readonly wrongVerdicts: number;
}

export interface RowReport {
  readonly point: MatrixPoint;
  readonly lane: MatrixLane;
  readonly reached: number;
  readonly kills: number;
  /** How the armed process ended. */
  readonly ended: string;
  readonly subjects: readonly SubjectReport[];
  readonly seconds: number;
}

/** Effects that reach the point: PURE effects are not looked at, so they pass no point of a look. */
export const reachingCount = (point: MatrixPoint): number => (isLookPoint(point) ? 12 : 15);

/**
 * One crash: 15 effects (5 classes × 3 provider outcomes) in flight at one point in one lane, one SIGKILL, and
 * everything that comes after it. Asserts nothing; the report holds what was seen.
 */
export async function runRow(point: MatrixPoint, lane: MatrixLane): Promise<RowReport> {
  const started = performance.now();
  const world = await openWorld();
  try {
    const subjects = subjectsOf(world, point);
    await world.billing.faults(...subjects.flatMap((subject) => faultsOf(point, subject)));
    const { armed, caller } = await startFleet(world, point);
    const waiting = await startCalls(world, lane, caller, subjects);
    const reached = await untilDead(world, point, armed);
    const ended = await armed.exited;
    const second = await world.worker(isLookPoint(point) ? ['reconcile'] : ['dispatch', 'providers']);
    // A host program that dies is started again and repeats its calls under their old ids.
    const host = isLookPoint(point) ? caller : second;
    if (lane === 'direct') await host.dispatch(callsOf(subjects));
    await untilProven(world, subjects);
    const told = await waiting();
    const proven = await statusesOf(world, subjects);
    await world.billing.clearFaults();
    await untilSettled(world, subjects);
    const repeated = await repeatAll(world, lane, host, subjects);
    const settled = await statusesOf(world, subjects);
    const books = readBooks(world.billing.store);
    const reports = subjects.map((subject, index): SubjectReport => {
      const { call, effectClass, key } = subject;
      const seen = booksOf(books, effectClass, call.call, key);
      const final = settled[index]?.status ?? null;
      return {
        name: call.call,
        status: proven[index]?.status ?? null,
        attention: proven[index]?.attention ?? null,
        reason: settled[index]?.reason ?? null,
        finally: final,
        sends: seen.sends,
        artefacts: seen.artefacts,
        toldTruly: told === undefined || told[index] === 'UNKNOWN' || told[index] === final,
        repeated: repeated[index] ?? 'nothing',
        ...judgeBooks(effectClass, final, seen),
      };
    });
    const seconds = (performance.now() - started) / 1000;
    return { point, lane, reached, kills: 1, ended: String(ended.signal), subjects: reports, seconds };
  } finally {
    await world.close();
  }
}

function subjectsOf(world: World, point: MatrixPoint): Subject[] {
  return EFFECT_CLASSES.flatMap((effectClass) =>
    PROVIDER_OUTCOMES.map((outcome) => {
      const call = world.call(effectClass, `${effectClass}-${outcome}`.toLowerCase().replaceAll('_', '-'));
      return { effectClass, outcome, call, key: world.keyOf(call), expected: expectedOf(point, effectClass, outcome) };
    }),
  );
}

const callsOf = (subjects: readonly Subject[]): Call[] => subjects.map(({ call }) => call);

/** The provider's part: its first request of an effect goes wrong as the outcome says, all later ones go well. */
function faultsOf(point: MatrixPoint, { outcome, effectClass, key, call }: Subject): FaultRule[] {
  const match = effectClass === 'PURE' ? { '/key': key } : { '/body/case': call.call };
  const mute: FaultRule[] =
    outcome === 'cannot_tell' && effectClass !== 'PURE'
      ? [{ route: 'GET /v1/*', mode: 'lose_evidence', match: { '/key': key } }]
      : [];
  const mode = modeOf(point, outcome);
  return mode === undefined ? mute : [{ mode, times: 1, match }, ...mute];
}

function modeOf(point: MatrixPoint, outcome: ProviderOutcome): FaultRule['mode'] | undefined {
  if (holdsAnswers(point)) return outcome === 'not_applied' ? 'hang_before_accept' : 'accept_then_hang';
  if (outcome === 'not_applied') return 'close_before_accept';
  // A reconciliation begins only when the holder heard nothing.
  return outcome === 'cannot_tell' || isLookPoint(point) ? 'accept_then_close' : undefined;
}

/** The process that will die, the one that makes the calls, and a second one that is up already and fences. */
async function startFleet(world: World, point: MatrixPoint): Promise<{ armed: FleetProcess; caller: FleetProcess }> {
  const arm =
    point === 'answer_lost' ? {} : { armed: { point, action: 'SIGKILL' as const, after: reachingCount(point) } };
  const [dispatching, reconciling] = await Promise.all([
    world.worker(['dispatch', 'providers'], isLookPoint(point) ? {} : arm),
    world.worker(['reconcile'], isLookPoint(point) ? arm : {}),
  ]);
  return { armed: isLookPoint(point) ? reconciling : dispatching, caller: dispatching };
}

/** Makes all calls at once. What it gives waits for the answers: undefined where the one who waited died too. */
async function startCalls(
  world: World,
  lane: MatrixLane,
  caller: FleetProcess,
  subjects: readonly Subject[],
): Promise<() => Promise<readonly string[] | undefined>> {
  const calls = callsOf(subjects);
  switch (lane) {
    case 'local':
    case 'activity': {
      const handle = await world.callMany(calls, lane);
      return async () => (await handle.result()).map(({ status }) => status);
    }
    case 'workflow':
      await Promise.all(calls.map((call) => world.holdfast.dispatch({ ...call, waitMs: 1 })));
      return () => Promise.all(calls.map(async (call) => (await world.dispatchCallOf(call).result()).outcome.status));
    case 'direct': {
      const dispatching = caller.dispatch(calls).catch(() => undefined);
      return async () => {
        await dispatching;
        return undefined;
      };
    }
  }
}

/** A process that does not reach its point is killed all the same; the count of those that did then tells. */
const DIES_WITHIN_MS = 40_000;

/** How many effects had reached the point when the process was killed. */
async function untilDead(world: World, point: MatrixPoint, armed: FleetProcess): Promise<number> {
  if (point === 'answer_lost') {
    await world.billing.untilWaiting(reachingCount(point), 30_000);
    const { total } = await world.billing.waiting();
    await armed.signal('SIGKILL');
    return total;
  }
  const late = setTimeout(() => void armed.signal('SIGKILL'), DIES_WITHIN_MS);
  await armed.exited;
  clearTimeout(late);
  return new Set(armed.reached()).size;
}

async function statusesOf(world: World, subjects: readonly Subject[]) {
  const rows = await Promise.all(subjects.map(({ call }) => world.row(call.call)));
  return rows.map((row) => row && { status: row.status, attention: row.attention, reason: row.reason });
}

/** Everything provable is proven; what is not has been looked at in vain after absence would have proven something. */
async function untilProven(world: World, subjects: readonly Subject[]): Promise<void> {
  await untilAll(world, subjects, 'what can be proven is proven', (row, { expected }) => {
    if (expected.status !== 'UNKNOWN' || row.status !== 'UNKNOWN') return row.status === expected.status;
    return row.attention !== null && row.nowMs > (row.sendByAtMs ?? 0) + row.inFlightMaxMs + PAST_SETTLE_MS;
  });
}

/** Lag, clock margin and two looks. */
const PAST_SETTLE_MS = 1_800;

async function untilSettled(world: World, subjects: readonly Subject[]): Promise<void> {
  await untilAll(
    world,
    subjects,
    'all is settled',
    (row) => row.status === 'CONFIRMED' || row.status === 'NOT_APPLIED',
  );
}

type Row = NonNullable<Awaited<ReturnType<World['row']>>>;

/** Gives up quietly: the report then shows what is not as it should be. */
async function untilAll(
  world: World,
  subjects: readonly Subject[],
  what: string,
  good: (row: Row, subject: Subject) => boolean,
): Promise<void> {
  const pending = new Set(subjects);
  await until(
    what,
    async () => {
      for (const subject of pending) {
        const row = await world.row(subject.call.call);
        if (row !== undefined && good(row, subject)) pending.delete(subject);
      }
      return pending.size === 0;
    },
    40_000,
  ).catch(() => undefined);
}

/** The same calls under the same ids, once more: each hears the recorded outcome. */
async function repeatAll(
  world: World,
  lane: MatrixLane,
  host: FleetProcess,
  subjects: readonly Subject[],
): Promise<string[]> {
  const calls = callsOf(subjects);
  if (lane === 'direct') {
    const heard = await host.dispatch(calls, 5_000);
    return heard.map((one) => ('outcome' in one ? one.outcome.status : one.error));
  }
  const outcomes = await Promise.all(calls.map((call) => world.holdfast.dispatch({ ...call, waitMs: 20_000 })));
  return outcomes.map(({ status }) => status);
}
