import { and, asc, eq, sql } from 'drizzle-orm';
import { isIdPart } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';
import { pageLimit } from './page.ts';
import { credentials } from './schema.ts';

/** One immutable version of a credential. The secret itself is never in the ledger. */
export interface CredentialVersion {
  readonly name: string;
  /** Label of the secret, as the worker's secret source carries it. */
  readonly version: string;
  /** The provider's account that this version acts as. */
  readonly account: string;
  /** Capability patterns, sorted. */
  readonly grants: readonly string[];
  /** Exactly one version of a name is current. */
  readonly current: boolean;
  readonly createdAt: Date;
}

/** A version to be put: `name` and `version` match `[A-Za-z0-9._-]{1,64}`, the order of grants makes no difference. */
export interface CredentialPut {
  readonly name: string;
  readonly version: string;
  readonly account: string;
  readonly grants: readonly string[];
}

const GRANTS_MAX = 500;
const TEXT_MAX = 256;

/**
 * Adds a version and makes it the current one, in one transaction. An identical repeat changes nothing, also when
 * another version has become current since: an old deploy script that runs again rolls nothing back.
 *
 * @throws HoldfastError `bad_input` for malformed values, or when this version exists with another account or other grants
 */
export async function putCredential(
  ledger: Ledger,
  put: CredentialPut,
): Promise<CredentialVersion & { readonly created: boolean }> {
  const wanted = checkCredential(put);
  return ledger.run('put credential', () =>
    ledger.db.transaction(async (tx) => {
      // One rotation of a name at a time: two first versions would both find no current one.
      await tx.execute(sql`SELECT pg_advisory_xact_lock(hashtextextended(${`credential ${wanted.name}`}, 0))`);
      const [existing] = await tx
        .select()
        .from(credentials)
        .where(and(eq(credentials.name, wanted.name), eq(credentials.version, wanted.version)));
      if (existing !== undefined) return { ...sameOrRefuse(existing, wanted), created: false };
      await tx
        .update(credentials)
        .set({ current: false })
        .where(and(eq(credentials.name, wanted.name), credentials.current));
      const [row] = await tx
        .insert(credentials)
        .values({ ...wanted, grants: [...wanted.grants], current: true })
        .returning();
      return { ...(row as CredentialVersion), created: true };
    }),
  );
}

/** The current version; undefined when the name is unknown. */
export async function currentCredential(ledger: Ledger, name: string): Promise<CredentialVersion | undefined> {
  const [row] = await ledger.run('read credential', () =>
    ledger.db
      .select()
      .from(credentials)
      .where(and(eq(credentials.name, name), credentials.current)),
  );
  return row;
}

/** By name and version; at most `limit` (default 100, at most 500) rows after the one named. */
export async function listCredentials(
  ledger: Ledger,
  page: {
    readonly name?: string;
    readonly limit?: number;
    readonly after?: { readonly name: string; readonly version: string };
  } = {},
): Promise<CredentialVersion[]> {
  return ledger.run('list credentials', () =>
    ledger.db
      .select()
      .from(credentials)
      .where(
        and(
          page.name === undefined ? undefined : eq(credentials.name, page.name),
          page.after === undefined
            ? undefined
            : sql`(${credentials.name}, ${credentials.version}) > (${page.after.name}, ${page.after.version})`,
        ),
      )
      .orderBy(asc(credentials.name), asc(credentials.version))
      .limit(pageLimit(page.limit, 100)),
  );
}

function sameOrRefuse(existing: CredentialVersion, wanted: CredentialPut): CredentialVersion {
  const same =
    existing.account === wanted.account &&
    existing.grants.length === wanted.grants.length &&
    existing.grants.every((grant, index) => grant === wanted.grants[index]);
  if (same) return existing;
  throw new HoldfastError(
    'bad_input',
    `version "${wanted.version}" of credential "${wanted.name}" exists with another account or other grants`,
    { place: 'version', next: 'put it as a new version: a version never changes' },
  );
}

/** Grants as a sorted set, so that their order makes no difference. */
function checkCredential(put: CredentialPut): CredentialPut {
  for (const key of ['name', 'version'] as const) {
    if (!isIdPart(put[key])) {
      throw new HoldfastError('bad_input', `${key}: use 1 to 64 characters of A-Z a-z 0-9 . _ -`, { place: key });
    }
  }
  if (!isShortText(put.account)) {
    throw new HoldfastError('bad_input', `account is a text of 1 to ${TEXT_MAX} characters`, { place: 'account' });
  }
  if (put.grants.length > GRANTS_MAX || !put.grants.every(isShortText)) {
    throw new HoldfastError('bad_input', `grants are at most ${GRANTS_MAX} texts of 1 to ${TEXT_MAX} characters`, {
      place: 'grants',
    });
  }
  const { name, version, account } = put;
  return { name, version, account, grants: [...new Set(put.grants)].sort() };
}

function isShortText(text: string): boolean {
  return text !== '' && text.length <= TEXT_MAX && !text.includes('\0');
}
