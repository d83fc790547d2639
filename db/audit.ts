import { and, asc, eq, type SQL, sql } from 'drizzle-orm';
import { type EffectId, effectIdText } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { type PayloadCodec, passThrough } from './codec.ts';
import type { Ledger, LedgerDb } from './connect.ts';
import { type DecisionRow, type EffectRecord, type EventRecord, type EvidenceRecord, historyOf } from './history.ts';
import { decisions, effectEvents, effects, evidence, payloads } from './schema.ts';

/** Which effects are exported. */
export interface AuditScope {
  readonly tenant: string;
  /** Only this one; its tenant has to be the scope's. */
  readonly effect?: EffectId;
}

/** What an export holds, and how it is read. */
export interface AuditOptions {
  /** Also write arguments, results and observations. Default false. */
  readonly payloads?: boolean;
  /** Decodes them. Default: pass-through. */
  readonly codec?: PayloadCodec;
  /** Effects read at a time. Default 100. */
  readonly pageSize?: number;
}

type Tx = Parameters<Parameters<LedgerDb['transaction']>[0]>[0];

/**
 * Writes everything that happened, as JSON Lines: one line per entry of each effect's history, in the order
 * of time, effects in the order of their ids. The first line of an effect names the tuple that it is pinned to.
 * Reads page by page, each page in one snapshot; `write` is awaited, so a slow reader holds no transaction open.
 *
 * @param write - gets one line with its line feed
 * @returns how many effects and lines were written
 * @throws HoldfastError `effect_not_found`, `bad_input`, `payload_unreadable`, `ledger_unreachable`
 */
export async function auditExport(
  ledger: Ledger,
  scope: AuditScope,
  write: (line: string) => void | Promise<void>,
  options: AuditOptions = {},
): Promise<{ readonly effects: number; readonly lines: number }> {
  if (scope.effect !== undefined && scope.effect.tenant !== scope.tenant) {
    throw new HoldfastError('bad_input', `${effectIdText(scope.effect)} belongs to another tenant`, {
      place: 'effect',
    });
  }
  const codec = options.payloads ? (options.codec ?? passThrough) : undefined;
  const pageSize = options.pageSize ?? 100;
  let count = 0;
  let lines = 0;
  for (let after: EffectRecord | undefined; ; ) {
    const page = await ledger.run('audit', () => readPage(ledger.db, scope, after, pageSize, codec !== undefined));
    for (const sources of page) {
      for (const line of linesOf(sources, codec)) {
        await write(`${JSON.stringify(line)}\n`);
        lines += 1;
      }
    }
    count += page.length;
    after = page.at(-1)?.row;
    if (page.length < pageSize || after === undefined || scope.effect !== undefined) break;
  }
  if (scope.effect !== undefined && count === 0) {
    const place = effectIdText(scope.effect);
    throw new HoldfastError('effect_not_found', `the ledger has no ${place}`, { place });
  }
  return { effects: count, lines };
}

interface Sources {
  readonly row: EffectRecord;
  readonly events: readonly EventRecord[];
  readonly evidence: readonly EvidenceRecord[];
  readonly decisions: readonly DecisionRow[];
  /** The arguments stored apart, coded; undefined when they are in the row or have expired. */
  readonly storedArgs: string | undefined;
}

/** One page of effects with all that lies beside them: four index ranges in one snapshot. */
function readPage(
  db: LedgerDb,
  scope: AuditScope,
  after: EffectRecord | undefined,
  pageSize: number,
  withPayloads: boolean,
): Promise<Sources[]> {
  return db.transaction(
    async (tx) => {
      const rows = await tx
        .select()
        .from(effects)
        .where(
          and(eq(effects.tenant, scope.tenant), inScope(scope), after && sql`${keyOf(effects)} > ${keyOfRow(after)}`),
        )
        .orderBy(asc(effects.tenant), asc(effects.runId), asc(effects.callId))
        .limit(pageSize);
      const [first, last] = [rows[0], rows.at(-1)];
      if (first === undefined || last === undefined) return [];
      const within = (table: Keyed) =>
        sql`${keyOf(table)} >= ${keyOfRow(first)} AND ${keyOf(table)} <= ${keyOfRow(last)}`;
      const events = groupById(
        await tx.select().from(effectEvents).where(within(effectEvents)).orderBy(asc(effectEvents.id)),
      );
      const looks = groupById(await tx.select().from(evidence).where(within(evidence)).orderBy(asc(evidence.id)));
      const rulings = groupById(await tx.select().from(decisions).where(within(decisions)));
      const stored = withPayloads ? await readStored(tx, rows) : new Map<string, string>();
      return rows.map((row) => ({
        row,
        events: events.get(textOf(row)) ?? [],
        evidence: looks.get(textOf(row)) ?? [],
        decisions: rulings.get(textOf(row)) ?? [],
        storedArgs: row.args === null ? stored.get(row.argsHash.toString('hex')) : undefined,
      }));
    },
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  );
}

/** Bodies of arguments stored apart, by hash. */
async function readStored(tx: Tx, rows: readonly EffectRecord[]): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  for (const row of rows) {
    if (row.args !== null) continue;
    const [found] = await tx
      .select({ body: payloads.body })
      .from(payloads)
      .where(and(eq(payloads.tenant, row.tenant), eq(payloads.hash, row.argsHash)));
    if (found !== undefined) bodies.set(row.argsHash.toString('hex'), found.body);
  }
  return bodies;
}

type Keyed = typeof effects | typeof effectEvents | typeof evidence | typeof decisions;
const keyOf = (table: Keyed): SQL => sql`(${table.tenant}, ${table.runId}, ${table.callId})`;
const keyOfRow = (row: EffectRecord): SQL => sql`(${row.tenant}, ${row.runId}, ${row.callId})`;
const textOf = (row: { tenant: string; runId: string; callId: string }) => `${row.tenant}:${row.runId}:${row.callId}`;

function inScope(scope: AuditScope): SQL | undefined {
  return scope.effect && and(eq(effects.runId, scope.effect.run), eq(effects.callId, scope.effect.call));
}

function groupById<T extends { tenant: string; runId: string; callId: string }>(rows: readonly T[]): Map<string, T[]> {
  return Map.groupBy(rows, textOf);
}

function* linesOf(sources: Sources, codec: PayloadCodec | undefined): Generator<object> {
  const { row } = sources;
  const effect = effectIdText({ tenant: row.tenant, run: row.runId, call: row.callId });
  const history = historyOf({ ...sources, codec });
  yield { effect, kind: 'effect', ...pinned(row), ...payloadsOf(sources, codec) };
  for (const entry of history) yield { effect, ...entry };
}

/** What the effect is pinned to, and where it stands. */
function pinned(row: EffectRecord): object {
  return {
    status: row.status,
    fence: row.fence,
    sends: row.sends,
    tool: row.tool,
    version: row.version,
    contractDigest: row.contractDigest.length === 32 ? `sha256/v1:${row.contractDigest.toString('hex')}` : null,
    effectClass: row.effectClass,
    provider: row.provider,
    effectKey: row.effectKey,
    capabilities: row.capabilities ?? [],
    credential: row.credential,
    credentialVersion: row.credentialVersion,
    account: row.account,
    argsHash: row.argsHash.toString('hex'),
    requestHash: row.requestHash?.toString('hex') ?? null,
    providerRef: row.providerRef,
    recordedAt: row.recordedAt.toISOString(),
    settledAt: row.settledAt?.toISOString() ?? null,
    settledBy: row.settledBy,
    reasonCode: row.reasonCode,
    attention: row.attention,
    sentLate: row.sentLate,
  };
}

function payloadsOf({ row, storedArgs }: Sources, codec: PayloadCodec | undefined): object {
  if (codec === undefined) return {};
  const read = (text: string | null | undefined): unknown =>
    text == null ? null : JSON.parse(codec.decode(text, { tenant: row.tenant }));
  return { args: read(row.args ?? storedArgs), result: read(row.result) };
}
