import { asc, eq, getTableColumns, gt, sql } from 'drizzle-orm';
import { isIdPart } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';
import { pageLimit } from './page.ts';
import { tenants } from './schema.ts';

/** `suspended`: no new call is taken. */
export const TENANT_STATES = ['active', 'suspended'] as const;
/** One of {@link TENANT_STATES}. */
export type TenantState = (typeof TENANT_STATES)[number];

/** Whose calls are taken, and how large their arguments and results may be. */
export interface Tenant {
  readonly tenant: string;
  readonly state: TenantState;
  /** Largest arguments and results, in bytes of canonical JSON. */
  readonly payloadBytesMax: number;
  readonly createdAt: Date;
}

/** What is to be changed; what is left out stays, or gets its default in a new tenant. */
export interface TenantPut {
  readonly tenant: string;
  /** Default: unchanged, `active` for a new one. */
  readonly state?: TenantState;
  /** 1 KiB to 64 MiB. Default: unchanged, 1 MiB for a new one. */
  readonly payloadBytesMax?: number;
}

const PAYLOAD_BYTES_FLOOR = 1_024;
const PAYLOAD_BYTES_CEILING = 64 * 1_048_576;

/** Creates a tenant or changes the fields given. Idempotent. @throws HoldfastError `bad_id`, `bad_input` */
export async function putTenant(ledger: Ledger, put: TenantPut): Promise<Tenant & { readonly created: boolean }> {
  checkTenant(put);
  const given = {
    ...(put.state === undefined ? {} : { state: put.state }),
    ...(put.payloadBytesMax === undefined ? {} : { payloadBytesMax: put.payloadBytesMax }),
  };
  const [row] = await ledger.run('put tenant', () =>
    ledger.db
      .insert(tenants)
      .values({ tenant: put.tenant, ...given })
      // Sets the key to itself when nothing is given, so that a row always comes back.
      .onConflictDoUpdate({ target: tenants.tenant, set: { tenant: put.tenant, ...given } })
      // xmax is 0 only in a row that this very statement inserted.
      .returning({ ...getTableColumns(tenants), created: sql<boolean>`xmax = 0` }),
  );
  if (row === undefined) throw new HoldfastError('internal', 'an upsert gave no row', { place: 'put tenant' });
  return row as Tenant & { created: boolean };
}

/** @throws HoldfastError `tenant_unknown` */
export async function getTenant(ledger: Ledger, tenant: string): Promise<Tenant> {
  const [row] = await ledger.run('get tenant', () =>
    ledger.db.select().from(tenants).where(eq(tenants.tenant, tenant)),
  );
  if (row === undefined) {
    throw new HoldfastError('tenant_unknown', `there is no tenant "${tenant}"`, {
      next: `create it: holdfast tenant put ${isIdPart(tenant) ? tenant : 'NAME'}`,
    });
  }
  return row as Tenant;
}

/** By name, at most `limit` (default 100, at most 500) after the one named. */
export async function listTenants(
  ledger: Ledger,
  page: { readonly limit?: number; readonly after?: string } = {},
): Promise<Tenant[]> {
  const rows = await ledger.run('list tenants', () =>
    ledger.db
      .select()
      .from(tenants)
      .where(page.after === undefined ? undefined : gt(tenants.tenant, page.after))
      .orderBy(asc(tenants.tenant))
      .limit(pageLimit(page.limit, 100)),
  );
  return rows as Tenant[];
}

function checkTenant(put: TenantPut): void {
  if (!isIdPart(put.tenant)) throw new HoldfastError('bad_id', 'the tenant id is malformed', { place: 'tenant' });
  if (put.state !== undefined && !TENANT_STATES.includes(put.state)) {
    throw new HoldfastError('bad_input', `state is one of ${TENANT_STATES.join(', ')}`, { place: 'state' });
  }
  const bytes = put.payloadBytesMax;
  if (bytes === undefined) return;
  if (!Number.isInteger(bytes) || bytes < PAYLOAD_BYTES_FLOOR || bytes > PAYLOAD_BYTES_CEILING) {
    throw new HoldfastError(
      'bad_input',
      `payloadBytesMax is a whole number from ${PAYLOAD_BYTES_FLOOR} to ${PAYLOAD_BYTES_CEILING}`,
      { place: 'payloadBytesMax' },
    );
  }
}
