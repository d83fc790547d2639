import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';

/**
 * The ledger. Hot statements are raw SQL in this folder, one file each; drizzle serves schema,
 * migrations and cold queries. Each index says which statement needs it, because the healthy path
 * pays for every one of them.
 */
export const holdfast = pgSchema('holdfast');

const bytea = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' });
const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' });

/** One row: which deployment this database belongs to. Part of every effect key. */
export const deployments = holdfast.table(
  'deployments',
  {
    singleton: boolean('singleton').primaryKey().default(true),
    deploymentId: text('deployment_id').notNull(),
    createdAt: at('created_at').notNull().default(sql`clock_timestamp()`),
  },
  (t) => [check('deployments_one_row', sql`${t.singleton}`)],
);

export const tenants = holdfast.table(
  'tenants',
  {
    tenant: text('tenant').primaryKey(),
    state: text('state').notNull().default('active'),
    /** Largest arguments and results, in bytes of canonical JSON. */
    payloadBytesMax: integer('payload_bytes_max').notNull().default(1_048_576),
    createdAt: at('created_at').notNull().default(sql`clock_timestamp()`),
  },
  (t) => [check('tenants_state', sql`${t.state} IN ('active', 'suspended')`)],
);

/** Immutable but for `state`; `retiring` is the grace state of PROTOCOL 2.6. */
export const contracts = holdfast.table(
  'contracts',
  {
    digest: bytea('digest').primaryKey(),
    tool: text('tool').notNull(),
    version: text('version').notNull(),
    owner: text('owner').notNull(),
    effectClass: text('effect_class').notNull(),
    provider: text('provider').notNull(),
    layerDigests: jsonb('layer_digests').notNull(),
    /** The file's own content as canonical JSON text: jsonb would rewrite numbers. */
    source: text('source').notNull(),
    state: text('state').notNull().default('live'),
    publishedBy: text('published_by').notNull(),
    publishedAt: at('published_at').notNull().default(sql`clock_timestamp()`),
  },
  (t) => [
    uniqueIndex('contracts_tool_version').on(t.tool, t.version),
    check('contracts_state', sql`${t.state} IN ('live', 'retiring', 'retired')`),
  ],
);

/** Immutable but for `current`: another secret or other grants are another version. Secrets are never stored. */
export const credentials = holdfast.table(
  'credentials',
  {
    name: text('name').notNull(),
    version: text('version').notNull(),
    /** The provider's account that this version acts as. */
    account: text('account').notNull(),
    grants: text('grants').array().notNull(),
    current: boolean('current').notNull(),
    createdAt: at('created_at').notNull().default(sql`clock_timestamp()`),
  },
  (t) => [
    primaryKey({ columns: [t.name, t.version] }),
    uniqueIndex('credentials_one_current').on(t.name).where(sql`${t.current}`),
  ],
);

/** Leases: one row per process start (PROTOCOL 4). */
export const processes = holdfast.table('processes', {
  processId: uuid('process_id').primaryKey(),
  startedAt: at('started_at').notNull().default(sql`clock_timestamp()`),
  beatAt: at('beat_at').notNull().default(sql`clock_timestamp()`),
  ttlMs: integer('ttl_ms').notNull(),
  fencedAt: at('fenced_at'),
  endedAt: at('ended_at'),
  /** Host, pid, roles, build: for people only. */
  info: jsonb('info').notNull(),
});

/**
 * One row per call. The order of the columns is measured: what never changes comes first and what the healthy second move
 * writes comes last, so that Postgres logs only the tail of the row when both versions lie on one page (880 bytes of WAL
 * without it). The page keeps room for that second version: see the fill factor in the guards' migration.
 */
export const effects = holdfast.table(
  'effects',
  {
    recordedAt: at('recorded_at').notNull(),
    claimedAt: at('claimed_at'),
    /** The latest send-by over all claims: re-send keeps it from going back. */
    sendByAt: at('send_by_at'),
    deadlineAt: at('deadline_at'),
    inFlightMaxMs: bigint('in_flight_max_ms', { mode: 'number' }),
    processId: uuid('process_id'),
    nonce: uuid('nonce'),
    fence: integer('fence').notNull(),
    sends: integer('sends').notNull(),
    tenant: text('tenant').notNull(),
    runId: text('run_id').notNull(),
    callId: text('call_id').notNull(),
    tool: text('tool').notNull(),
    version: text('version').notNull(),
    contractDigest: bytea('contract_digest').notNull(),
    effectClass: text('effect_class'),
    provider: text('provider'),
    effectKey: text('effect_key'),
    capabilities: text('capabilities').array(),
    credential: text('credential'),
    credentialVersion: text('credential_version'),
    account: text('account'),
    argsHash: bytea('args_hash').notNull(),
    requestHash: bytea('request_hash'),
    /** Canonical JSON through the payload codec; null when stored in `payloads` under args_hash. */
    args: text('args'),
    /** Source `state`: what a look before the claim showed. */
    stateBefore: text('state_before'),
    looks: integer('looks').notNull().default(0),
    /** False: a twin is allowed (PURE, `repeats: allowed`, overridden). */
    twinGuard: boolean('twin_guard').notNull().default(false),
    sentLate: boolean('sent_late').notNull().default(false),
    status: text('status').notNull(),
    settledBy: text('settled_by'),
    settledAt: at('settled_at'),
    /** UNKNOWN: when the reconciliation is to look next; null = no look is planned. */
    nextLookAt: at('next_look_at'),
    providerRef: text('provider_ref'),
    result: text('result'),
    resultInfo: jsonb('result_info'),
    reasonCode: text('reason_code'),
    reason: text('reason'),
    attention: text('attention'),
  },
  (t) => [
    primaryKey({ columns: [t.tenant, t.runId, t.callId] }),
    // Admission: refuses the open twin (PROTOCOL 2.5).
    uniqueIndex('effects_open_twin')
      .on(t.tenant, t.tool, t.argsHash)
      .where(sql`${t.status} IN ('DISPATCHED', 'UNKNOWN') AND ${t.twinGuard}`),
    // Fencer and sweep: claims of one process, overdue claims.
    index('effects_claims').on(t.processId, t.deadlineAt).where(sql`${t.status} = 'DISPATCHED'`),
    // Sweep: due looks. Only troubled rows are in it.
    index('effects_due').on(t.nextLookAt).where(sql`${t.status} = 'UNKNOWN'`),
    // Evidence: one artefact confirms one effect (PROTOCOL 6.5).
    uniqueIndex('effects_one_artefact')
      .on(t.tenant, t.provider, sql`coalesce(${t.account}, '')`, t.providerRef)
      .where(
        sql`${t.providerRef} IS NOT NULL AND ${t.status} = 'CONFIRMED' AND ${t.effectClass} NOT IN ('PURE', 'REPLAYABLE')`,
      ),
    // Lists of people: what needs somebody.
    index('effects_attention').on(t.tenant, t.recordedAt).where(sql`${t.attention} IS NOT NULL`),
    // What a row may look like is in the guards' trigger: a CHECK is parsed again for each statement.
  ],
);

/** Arguments above 8 KiB, stored before the claim. */
export const payloads = holdfast.table(
  'payloads',
  {
    tenant: text('tenant').notNull(),
    hash: bytea('hash').notNull(),
    body: text('body').notNull(),
    storedAt: at('stored_at').notNull().default(sql`clock_timestamp()`),
  },
  (t) => [primaryKey({ columns: [t.tenant, t.hash] })],
);

/**
 * REPLAYABLE (and whoever else declares `resource:`): one open writer per resource (PROTOCOL 3.7). Written in
 * the admission statement; removed lazily once the effect is settled and past its last send-by + in-flight limit.
 */
export const resourceHolds = holdfast.table(
  'resource_holds',
  {
    tenant: text('tenant').notNull(),
    provider: text('provider').notNull(),
    resource: text('resource').notNull(),
    runId: text('run_id').notNull(),
    callId: text('call_id').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.tenant, t.provider, t.resource] }),
    index('resource_holds_effect').on(t.tenant, t.runId, t.callId),
  ],
);

/** Every move but the two healthy ones. Insert-only. */
export const effectEvents = holdfast.table(
  'effect_events',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    at: at('at').notNull().default(sql`clock_timestamp()`),
    tenant: text('tenant').notNull(),
    runId: text('run_id').notNull(),
    callId: text('call_id').notNull(),
    kind: text('kind').notNull(),
    fromStatus: text('from_status'),
    toStatus: text('to_status'),
    fence: integer('fence').notNull(),
    actor: text('actor').notNull(),
    reason: text('reason'),
    data: jsonb('data'),
  },
  (t) => [index('effect_events_effect').on(t.tenant, t.runId, t.callId, t.id)],
);

/** What each look showed. Insert-only. */
export const evidence = holdfast.table(
  'evidence',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    tenant: text('tenant').notNull(),
    runId: text('run_id').notNull(),
    callId: text('call_id').notNull(),
    /** Database clock, read before the look started. */
    askedAt: at('asked_at').notNull(),
    writtenAt: at('written_at').notNull().default(sql`clock_timestamp()`),
    fence: integer('fence').notNull(),
    verdict: text('verdict').notNull(),
    why: text('why'),
    /** The observation, through the payload codec. */
    observed: text('observed'),
    actor: text('actor').notNull(),
  },
  (t) => [index('evidence_effect').on(t.tenant, t.runId, t.callId, t.id)],
);

/** What named people ruled. Insert-only; a repeated decision id finds the first answer here. */
export const decisions = holdfast.table(
  'decisions',
  {
    tenant: text('tenant').notNull(),
    decisionId: text('decision_id').notNull(),
    runId: text('run_id').notNull(),
    callId: text('call_id').notNull(),
    at: at('at').notNull().default(sql`clock_timestamp()`),
    ruling: text('ruling').notNull(),
    actor: text('actor').notNull(),
    /** Where the actor's name came from: `ui`, `cli`, `http`, … and always self-declared. */
    source: text('source').notNull(),
    reason: text('reason').notNull(),
    expectedStatus: text('expected_status').notNull(),
    expectedFence: integer('expected_fence').notNull(),
    force: boolean('force').notNull(),
    correction: boolean('correction').notNull(),
    applied: boolean('applied').notNull(),
    /** Why it was refused, when it was. */
    refusal: text('refusal'),
  },
  (t) => [
    primaryKey({ columns: [t.tenant, t.decisionId] }),
    index('decisions_effect').on(t.tenant, t.runId, t.callId),
    check('decisions_ruling', sql`${t.ruling} IN ('confirm', 'not_applied')`),
  ],
);
