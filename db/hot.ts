import { effectIdText } from '../effects/effect.ts';
import type { Ledger, LedgerSql } from './connect.ts';
import { isConnectionDoubt, sqlStateOf } from './errors.ts';
import { Group } from './group.ts';
import { type Admission, admit } from './statements/admit.ts';
import { type Settlement, settleConfirmed } from './statements/settle.ts';

/** The two statements of a healthy effect. Those of several effects that meet share a statement and its commit. */
export interface HotPath {
  /** Records and claims: true when this very admission did (see `admit`). @throws HoldfastError of `translate` */
  admit(admission: Admission): Promise<boolean>;
  /** Settles CONFIRMED: true when the row moved (see `settleConfirmed`). @throws HoldfastError of `translate` */
  confirm(settlement: Settlement): Promise<boolean>;
}

/** The hot path of one ledger: its statements on `sql`, each run by `run` with its deadline and translated errors. */
export function hotPath(run: Ledger['run'], sql: LedgerSql): HotPath {
  // In one order wherever they come from: two processes that record the same calls, or equal ones, in other orders would
  // lock each other out.
  const admitAll = (given: readonly Admission[]) => {
    const all = sorted(given, (a) => `${a.id.tenant} ${a.tool} ${a.argsHash.toString('hex')} ${effectIdText(a.id)}`);
    return run('admit', async () => those(all, await admit(sql, all)));
  };
  const confirmAll = (given: readonly Settlement[]) => {
    const all = sorted(given, (s) => effectIdText(s.id));
    return run('settle', async () => those(all, await settleConfirmed(sql, all)));
  };
  const admissions = new Group(admitAll, refused);
  const settlements = new Group(confirmAll, refused);
  return {
    admit: async (one) => (one.resources.length === 0 ? admissions.add(one) : (await admitAll([one])).has(one)),
    confirm: (one) => settlements.add(one),
  };
}

function sorted<T>(items: readonly T[], keyOf: (item: T) => string): readonly T[] {
  if (items.length === 1) return items;
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ item }) => item);
}

function those<T extends { readonly nonce: string }>(all: readonly T[], nonces: ReadonlySet<string>): ReadonlySet<T> {
  return new Set(all.filter(({ nonce }) => nonces.has(nonce)));
}

/** The server said no to the statement, and certainly did nothing of it. */
const refused = (error: unknown): boolean => sqlStateOf(error) !== undefined && !isConnectionDoubt(error);
