import { and, asc, eq, sql } from 'drizzle-orm';
import { canonicalJson } from '../contracts/canonical-json.ts';
import type { Contract, ContractLayer, Digest, EffectClass, JsonObject } from '../contracts/contract.ts';
import { contractFromSource } from '../contracts/contract-file.ts';
import { nearest } from '../contracts/did-you-mean.ts';
import { digestBytes, digestFromBytes } from '../contracts/digest.ts';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';
import { pageLimit } from './page.ts';
import { contracts } from './schema.ts';

/** `retiring` and `retired`: no new call is taken. */
export type ContractState = 'live' | 'retiring' | 'retired';

/** What the registry says about a contract beside its content. */
export interface ContractEntry {
  readonly tool: string;
  readonly version: string;
  readonly digest: Digest;
  readonly owner: string;
  readonly effectClass: EffectClass;
  readonly provider: string;
  readonly state: ContractState;
  readonly publishedBy: string;
  readonly publishedAt: Date;
}

/** One version of a tool. */
export interface ContractQuery {
  readonly tool: string;
  readonly version: string;
  /** When given, it has to be the digest of that version. */
  readonly digest?: string;
}

type Row = typeof contracts.$inferSelect;

/**
 * Publishes a contract: immutable and idempotent. The same content again is `created: false`.
 *
 * @param publishedBy - who says so, self-declared, 1 to 256 characters
 * @throws HoldfastError `tool_schema_drift` when this version exists with another digest, or the evidence call's
 * digest is not the published one; `tool_contract_not_found` when the evidence call is not published; `bad_contract` when it is
 * not PURE
 */
export async function publishContract(
  ledger: Ledger,
  contract: Contract,
  publishedBy: string,
): Promise<ContractEntry & { readonly created: boolean }> {
  if (publishedBy.trim() === '' || publishedBy.length > 256) {
    throw new HoldfastError('bad_input', 'the publisher is named in 1 to 256 characters', { place: 'publishedBy' });
  }
  await checkEvidenceCall(ledger, contract);
  // Contracts are never deleted or changed, so what was just read stays true.
  const inserted = await ledger.run('publish contract', () =>
    ledger.db
      .insert(contracts)
      .values({
        digest: digestBytes(contract.digest),
        tool: contract.tool,
        version: contract.version,
        owner: contract.owner,
        effectClass: contract.execution.effect,
        provider: contract.execution.provider,
        layerDigests: contract.digests,
        source: canonicalJson(contract.source),
        publishedBy,
      })
      .onConflictDoNothing()
      .returning(),
  );
  const row = inserted[0] ?? (await findVersion(ledger, contract.tool, contract.version));
  if (row === undefined) throw new HoldfastError('internal', 'a published contract is not there', { place: 'publish' });
  if (digestFromBytes(row.digest) !== contract.digest) {
    throw drift(contract, digestFromBytes(row.digest), contract.digest, 'publish the change as a new version');
  }
  return { ...entryOf(row), created: inserted.length === 1 };
}

/** The evidence call is part of the promise, so it has to be there first, with that very digest, and change nothing. */
async function checkEvidenceCall(ledger: Ledger, contract: Contract): Promise<void> {
  const call = contract.execution.evidence?.call;
  if (call === undefined) return;
  const row = await findVersion(ledger, call.tool, call.version);
  const place = '/execution/evidence/call';
  if (row === undefined) {
    throw new HoldfastError(
      'tool_contract_not_found',
      `the evidence call ${call.tool}@${call.version} is not published`,
      {
        place,
        next: 'publish the contract of the evidence call first',
      },
    );
  }
  const published = digestFromBytes(row.digest);
  if (published !== call.digest) throw drift(call, published, call.digest, 'pin the published digest', place);
  if (row.effectClass !== 'PURE') {
    throw new HoldfastError(
      'bad_contract',
      `the evidence call ${call.tool}@${call.version} is ${row.effectClass}, not PURE`,
      {
        place,
      },
    );
  }
}

/**
 * The published contract of a tool's version, its digest recomputed from the stored text. Says nothing about whether
 * it may still be called: `state` does, and the claim checks it.
 *
 * @throws HoldfastError `tool_contract_not_found` (names near matches), `tool_schema_drift` (names both digests),
 * `contract_parked` when the stored text does not give its digest or this release cannot read it
 */
export async function resolveContract(
  ledger: Ledger,
  query: ContractQuery,
): Promise<{ readonly contract: Contract; readonly state: ContractState }> {
  const row = await findVersion(ledger, query.tool, query.version);
  if (row === undefined) throw await notFound(ledger, query);
  const published = digestFromBytes(row.digest);
  if (query.digest !== undefined && query.digest !== published) throw drift(query, published, query.digest);
  return { contract: loadContract(row), state: row.state as ContractState };
}

/** The contract with that digest; undefined when it is not published. @throws HoldfastError `contract_parked` */
export async function contractByDigest(ledger: Ledger, digest: Digest | Buffer): Promise<Contract | undefined> {
  const bytes = typeof digest === 'string' ? digestBytes(digest) : digest;
  const [row] = await ledger.run('read contract', () =>
    ledger.db.select().from(contracts).where(eq(contracts.digest, bytes)),
  );
  return row === undefined ? undefined : loadContract(row);
}

/** By tool and version; at most `limit` (default 100, at most 500) after the one named. */
export async function listContracts(
  ledger: Ledger,
  page: {
    readonly tool?: string;
    readonly limit?: number;
    readonly after?: { readonly tool: string; readonly version: string };
  } = {},
): Promise<ContractEntry[]> {
  const rows = await ledger.run('list contracts', () =>
    ledger.db
      .select()
      .from(contracts)
      .where(
        and(
          page.tool === undefined ? undefined : eq(contracts.tool, page.tool),
          page.after === undefined
            ? undefined
            : sql`(${contracts.tool}, ${contracts.version}) > (${page.after.tool}, ${page.after.version})`,
        ),
      )
      .orderBy(asc(contracts.tool), asc(contracts.version))
      .limit(pageLimit(page.limit, 100)),
  );
  return rows.map(entryOf);
}

/** Everything about one version. @throws as {@link resolveContract} */
export async function showContract(
  ledger: Ledger,
  query: ContractQuery,
): Promise<ContractEntry & { readonly contract: Contract; readonly digests: Readonly<Record<ContractLayer, Digest>> }> {
  const { contract } = await resolveContract(ledger, query);
  const row = await findVersion(ledger, query.tool, query.version);
  if (row === undefined) throw await notFound(ledger, query);
  return { ...entryOf(row), contract, digests: contract.digests };
}

async function findVersion(ledger: Ledger, tool: string, version: string): Promise<Row | undefined> {
  const [row] = await ledger.run('read contract', () =>
    ledger.db
      .select()
      .from(contracts)
      .where(and(eq(contracts.tool, tool), eq(contracts.version, version))),
  );
  return row;
}

/** Rebuilds the contract from its stored text, and believes the row only when the text gives its digest. */
function loadContract(row: Row): Contract {
  const name = `${row.tool}@${row.version}`;
  const digest = digestFromBytes(row.digest);
  let contract: Contract;
  try {
    contract = contractFromSource(JSON.parse(row.source) as JsonObject);
  } catch (error) {
    const why = isHoldfastError(error) ? `: ${error.place ?? error.message}` : '';
    throw new HoldfastError('contract_parked', `the stored text of ${name} cannot be read by this release${why}`, {
      place: digest,
    });
  }
  if (contract.digest === digest && contract.tool === row.tool && contract.version === row.version) return contract;
  throw new HoldfastError(
    'contract_parked',
    `the stored text of ${name} gives the digest ${contract.digest}, not its own`,
    {
      place: digest,
      next: 'the row was changed outside Holdfast: restore it from a backup',
    },
  );
}

function entryOf(row: Row): ContractEntry {
  const { tool, version, owner, provider, publishedBy, publishedAt } = row;
  return {
    tool,
    version,
    digest: digestFromBytes(row.digest),
    owner,
    effectClass: row.effectClass as EffectClass,
    provider,
    state: row.state as ContractState,
    publishedBy,
    publishedAt,
  };
}

function drift(
  of: { readonly tool: string; readonly version: string },
  published: Digest,
  named: string,
  next?: string,
  place?: string,
): HoldfastError {
  return new HoldfastError(
    'tool_schema_drift',
    `${of.tool}@${of.version} is published with digest ${published}, not ${named}`,
    { place: place ?? `${of.tool}@${of.version}`, ...(next === undefined ? {} : { next }) },
  );
}

const NEAR_MAX = 1_000;
const VERSIONS_NAMED = 5;

/** Names what was perhaps meant: other versions of the tool, else the nearest tool name. */
async function notFound(ledger: Ledger, query: ContractQuery): Promise<HoldfastError> {
  const { tool, version } = query;
  const versions = await ledger.run('near contracts', () =>
    ledger.db
      .select({ version: contracts.version })
      .from(contracts)
      .where(eq(contracts.tool, tool))
      .orderBy(sql`${contracts.publishedAt} DESC`)
      .limit(VERSIONS_NAMED),
  );
  if (versions.length > 0) {
    const known = versions.map((row) => row.version).join(', ');
    return new HoldfastError('tool_contract_not_found', `${tool} has no version ${version}; newest first: ${known}`, {
      place: `${tool}@${version}`,
    });
  }
  const tools = await ledger.run('near contracts', () =>
    ledger.db.selectDistinct({ tool: contracts.tool }).from(contracts).orderBy(asc(contracts.tool)).limit(NEAR_MAX),
  );
  const near = nearest(
    tool,
    tools.map((row) => row.tool),
  );
  const hint = near === undefined ? '' : `; did you mean ${near}?`;
  return new HoldfastError('tool_contract_not_found', `no contract of ${tool} is published${hint}`, {
    place: `${tool}@${version}`,
  });
}
