import { and, asc, eq, isNotNull, or, type SQL, sql } from 'drizzle-orm';
import type { EffectClass } from '../contracts/contract.ts';
import { type Attention, type EffectId, type EffectStatus, effectIdText } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { PayloadCodec } from './codec.ts';
import type { Ledger } from './connect.ts';
import { type HistoryEntry, historyOf } from './history.ts';
import { pageLimit, readCursor, writeCursor } from './page.ts';
import { decisions, effectEvents, effects, evidence, payloads, processes } from './schema.ts';

/** One line of a list. Instants are ISO texts with microseconds, by the database's clock. */
export interface EffectSummary extends EffectId {
  readonly effectId: string;
  readonly status: EffectStatus;
  readonly fence: number;
  readonly sends: number;
  readonly looks: number;
  readonly tool: string;
  readonly version: string;
  readonly effectClass: EffectClass | null;
  readonly provider: string | null;
  readonly attention: Attention | null;
  readonly reasonCode: string | null;
  readonly reason: string | null;
  readonly recordedAt: string;
  readonly settledAt: string | null;
  readonly settledBy: string | null;
  readonly deadlineAt: string | null;
  readonly nextLookAt: string | null;
  /** DISPATCHED only: whether the process that holds the claim still keeps its lease. */
  readonly holder: 'alive' | 'lapsed' | null;
}

/** Which effects are listed; what is left out does not narrow. */
export interface EffectFilter {
  readonly tenant?: string;
  readonly status?: EffectStatus;
  readonly effectClass?: EffectClass;
  readonly tool?: string;
  /** `any`: whatever needs a person. */
  readonly attention?: Attention | 'any';
  /**
   * What does not go on by itself: UNKNOWN, needing a person, past its deadline, or DISPATCHED by a process whose lease
   * lapsed. The last are not UNKNOWN yet while the whole fleet is down. Oldest first.
   */
  readonly stuck?: boolean;
  /** Default 50, at most 500. */
  readonly limit?: number;
  /** `next` of the page before, of the same filter. */
  readonly after?: string;
}

/** One page of a list. */
export interface EffectPage {
  readonly effects: readonly EffectSummary[];
  /** Null on the last page. */
  readonly next: string | null;
}

/** An instant as ISO text with microseconds: a Date would drop them, and texts of one length sort by time. */
export const isoTime = (column: unknown) =>
  sql<string>`to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const leaseAlive = sql`(${processes.fencedAt} IS NULL AND ${processes.endedAt} IS NULL
  AND ${processes.beatAt} > clock_timestamp() - ${processes.ttlMs} * interval '1 millisecond')`;

const SUMMARY = {
  tenant: effects.tenant,
  run: effects.runId,
  call: effects.callId,
  status: sql<EffectStatus>`${effects.status}`,
  fence: effects.fence,
  sends: effects.sends,
  looks: effects.looks,
  tool: effects.tool,
  version: effects.version,
  effectClass: sql<EffectClass | null>`${effects.effectClass}`,
  provider: effects.provider,
  attention: sql<Attention | null>`${effects.attention}`,
  reasonCode: effects.reasonCode,
  reason: effects.reason,
  recordedAt: isoTime(effects.recordedAt),
  settledAt: sql<string | null>`${isoTime(effects.settledAt)}`,
  settledBy: effects.settledBy,
  deadlineAt: sql<string | null>`${isoTime(effects.deadlineAt)}`,
  nextLookAt: sql<string | null>`${isoTime(effects.nextLookAt)}`,
  holder: sql<'alive' | 'lapsed' | null>`CASE WHEN ${effects.status} = 'DISPATCHED'
    THEN CASE WHEN coalesce(${leaseAlive}, false) THEN 'alive' ELSE 'lapsed' END END`,
};

/**
 * Lists effects by id (tenant, run, call), or the stuck ones by age. Walks the primary key, or one of the
 * partial indexes of troubled rows, and never counts.
 *
 * @throws HoldfastError `bad_input` for a bad limit or cursor
 */
export async function listEffects(ledger: Ledger, filter: EffectFilter = {}): Promise<EffectPage> {
  const limit = pageLimit(filter.limit, 50);
  const key = filter.stuck
    ? sql`(${effects.recordedAt}, ${effects.tenant}, ${effects.runId}, ${effects.callId})`
    : sql`(${effects.tenant}, ${effects.runId}, ${effects.callId})`;
  const order = [asc(effects.tenant), asc(effects.runId), asc(effects.callId)];
  const rows = await ledger.run('list effects', () =>
    ledger.db
      .select(SUMMARY)
      .from(effects)
      .leftJoin(processes, eq(processes.processId, effects.processId))
      .where(and(...conditions(filter), afterCursor(key, filter)))
      .orderBy(...(filter.stuck ? [asc(effects.recordedAt), ...order] : order))
      // One more than asked for tells whether there is a next page.
      .limit(limit + 1),
  );
  const page = rows.slice(0, limit).map(withId);
  const last = page.at(-1);
  return { effects: page, next: rows.length > limit && last !== undefined ? cursorAt(last, filter) : null };
}

function conditions(filter: EffectFilter): (SQL | undefined)[] {
  return [
    filter.tenant === undefined ? undefined : eq(effects.tenant, filter.tenant),
    filter.status === undefined ? undefined : eq(effects.status, filter.status),
    filter.effectClass === undefined ? undefined : eq(effects.effectClass, filter.effectClass),
    filter.tool === undefined ? undefined : eq(effects.tool, filter.tool),
    filter.attention === undefined
      ? undefined
      : filter.attention === 'any'
        ? isNotNull(effects.attention)
        : and(isNotNull(effects.attention), eq(effects.attention, filter.attention)),
    filter.stuck
      ? and(isTroubled, or(sql`${effects.status} <> 'DISPATCHED'`, isNotNull(effects.attention), isAbandoned))
      : undefined,
  ];
}

/** Said apart from the lease, so that the partial indexes can be used. Literals, because parameters hide them from the planner. */
const isTroubled = or(
  sql`${effects.status} = 'UNKNOWN'`,
  sql`${effects.status} = 'DISPATCHED'`,
  isNotNull(effects.attention),
);
const isAbandoned = sql`(${effects.deadlineAt} < clock_timestamp() OR NOT coalesce(${leaseAlive}, false))`;

function afterCursor(key: SQL, filter: EffectFilter): SQL | undefined {
  if (filter.after === undefined) return undefined;
  const parts = readCursor(filter.after, filter.stuck ? 4 : 3);
  const [first, ...rest] = parts.map((part) => sql`${part}`) as [SQL, ...SQL[]];
  return sql`${key} > (${sql.join([filter.stuck ? sql`${first}::timestamptz` : first, ...rest], sql`, `)})`;
}

function cursorAt(last: EffectSummary, filter: EffectFilter): string {
  const id = [last.tenant, last.run, last.call];
  return writeCursor(filter.stuck ? [last.recordedAt, ...id] : id);
}

function withId<T extends EffectId>(row: T): T & { effectId: string } {
  return { effectId: effectIdText(row), ...row };
}

/** An effect with everything that ever happened to it. */
export interface EffectDetails extends EffectSummary {
  readonly contractDigest: string;
  readonly effectKey: string | null;
  readonly credential: string | null;
  readonly credentialVersion: string | null;
  readonly account: string | null;
  readonly capabilities: readonly string[];
  readonly providerRef: string | null;
  readonly sentLate: boolean;
  /** Canonical JSON texts, only when a codec was given; null where there is none or where it has expired. */
  readonly args?: string | null;
  readonly result?: string | null;
  readonly history: readonly HistoryEntry[];
}

/**
 * One effect and its history: its row, events, evidence and decisions in the order of time.
 *
 * @param codec - when given, arguments, result and observations are decoded and shown
 * @throws HoldfastError `effect_not_found`, `payload_unreadable`
 */
export async function showEffect(ledger: Ledger, id: EffectId, codec?: PayloadCodec): Promise<EffectDetails> {
  return ledger.run('show effect', () =>
    // One snapshot: the row and its events are of one moment.
    ledger.db.transaction(
      async (tx) => {
        const ofEffect = (table: typeof effects | typeof effectEvents | typeof evidence | typeof decisions) =>
          and(eq(table.tenant, id.tenant), eq(table.runId, id.run), eq(table.callId, id.call));
        const [found] = await tx
          .select({ summary: SUMMARY, row: effects })
          .from(effects)
          .leftJoin(processes, eq(processes.processId, effects.processId))
          .where(ofEffect(effects));
        if (found === undefined) {
          throw new HoldfastError('effect_not_found', `the ledger has no ${effectIdText(id)}`, {
            place: effectIdText(id),
          });
        }
        const { row } = found;
        const history = historyOf({
          row,
          events: await tx.select().from(effectEvents).where(ofEffect(effectEvents)).orderBy(asc(effectEvents.id)),
          evidence: await tx.select().from(evidence).where(ofEffect(evidence)).orderBy(asc(evidence.id)),
          decisions: await tx.select().from(decisions).where(ofEffect(decisions)),
          codec,
        });
        const stored =
          codec === undefined || row.args !== null
            ? undefined
            : await tx
                .select({ body: payloads.body })
                .from(payloads)
                .where(and(eq(payloads.tenant, id.tenant), eq(payloads.hash, row.argsHash)));
        return { ...withId(found.summary), ...detailsOf(row, codec, stored?.[0]?.body), history };
      },
      { isolationLevel: 'repeatable read', accessMode: 'read only' },
    ),
  );
}

function detailsOf(row: typeof effects.$inferSelect, codec: PayloadCodec | undefined, storedArgs: string | undefined) {
  const context = { tenant: row.tenant };
  const read = (text: string | null | undefined) => (text == null ? null : (codec?.decode(text, context) ?? null));
  return {
    contractDigest: row.contractDigest.length === 32 ? `sha256/v1:${row.contractDigest.toString('hex')}` : '',
    effectKey: row.effectKey,
    credential: row.credential,
    credentialVersion: row.credentialVersion,
    account: row.account,
    capabilities: row.capabilities ?? [],
    providerRef: row.providerRef,
    sentLate: row.sentLate,
    ...(codec === undefined ? {} : { args: read(row.args ?? storedArgs), result: read(row.result) }),
  };
}
