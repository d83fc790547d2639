import type { Artefact, AuditLine, Store } from './store.ts';

/** One request under /v1, parsed. */
export interface Ask {
  readonly method: string;
  /** Path below /v1, split at the slashes and decoded. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  readonly key: string | null;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What is to be written down, and what is said once it is. */
export interface Plan {
  readonly outcome: AuditLine['outcome'];
  readonly artefact?: Artefact;
  readonly reply: Reply;
}

const no = (status: number, code: string, message: string): Plan => ({
  outcome: 'refused',
  reply: { status, body: { error: { code, message } } },
});
const show = (body: unknown): Plan => ({ outcome: 'read', reply: { status: 200, body } });
const missing: Plan = { outcome: 'read', reply: { status: 404, body: { error: { code: 'not_found' } } } };

/** Decides about one request from the store alone; writes nothing. `lagMs` hides a new artefact from look-ups. */
export function plan(store: Store, ask: Ask, windowMs: number, lagMs: number): Plan {
  const [collection, id, below] = ask.path;
  const route = `${ask.method} ${collection}${id === undefined ? '' : '/:id'}${below === undefined ? '' : `/${below}`}`;
  switch (route) {
    case 'POST invoices':
      return createInvoice(store, ask, windowMs, lagMs);
    case 'GET invoices':
      return ask.query.reference === undefined
        ? listInvoices(store, ask)
        : byKey(store, 'invoice', ask.query.reference);
    case 'GET invoices/:id':
      return byId(store, 'invoice', id ?? '');
    case 'POST payments':
      return createPayment(store, ask, lagMs);
    case 'GET payments':
      return byKey(store, 'payment', ask.query.reference ?? '');
    case 'PUT settings/:id':
      return putSetting(store, ask, id ?? '', lagMs);
    case 'GET settings/:id':
      return lastSetting(store, id ?? '');
    case 'GET settings/:id/writes':
      return byKey(store, 'setting', ask.query.reference ?? '', id);
    case 'GET rates/:id':
      return rate(id ?? '');
    case 'POST notes':
      return createNote(store, ask, lagMs);
  }
  if (ask.method === 'GET' && collection === 'invoices' && id === 'by-key') return byKey(store, 'invoice', below ?? '');
  return no(404, 'no_such_route', `${ask.method} /v1/${ask.path.join('/')} does not exist`);
}

/** With a key: created once per window, then replayed. Without one: created every time. */
function createInvoice(store: Store, ask: Ask, windowMs: number, lagMs: number): Plan {
  const wrong = checkMoney(ask.body) ?? checkText(ask.body, 'customer');
  if (wrong) return wrong;
  const text = canonical(ask.body);
  const since = Date.now() - windowMs;
  const earlier =
    ask.key === null
      ? undefined
      : store.artefacts.findLast(
          (one) => one.kind === 'invoice' && one.key === ask.key && Date.parse(one.createdAt) > since,
        );
  if (earlier === undefined) return created(artefactOf(store, 'invoice', 'inv', ask, text, lagMs));
  if (earlier.text !== text) {
    return no(409, 'idempotency_mismatch', 'this Idempotency-Key was used with another body');
  }
  return {
    outcome: 'deduped',
    artefact: earlier,
    reply: { status: 201, body: { invoice: view(earlier) }, headers: { 'idempotent-replayed': 'true' } },
  };
}

/** Never removes a duplicate: whoever pays twice has paid twice. */
function createPayment(store: Store, ask: Ask, lagMs: number): Plan {
  const wrong = checkMoney(ask.body) ?? checkText(ask.body, 'payee');
  return wrong ?? created(artefactOf(store, 'payment', 'pay', ask, canonical(ask.body), lagMs));
}

function createNote(store: Store, ask: Ask, lagMs: number): Plan {
  const wrong = checkText(ask.body, 'text');
  return wrong ?? created(artefactOf(store, 'note', 'note', ask, canonical(ask.body), lagMs));
}

function putSetting(store: Store, ask: Ask, id: string, lagMs: number): Plan {
  if (!('value' in ask.body)) return no(422, 'missing_field', 'value is needed');
  const made = artefactOf(store, 'setting', 'set', ask, canonical(ask.body), lagMs);
  const artefact = { ...made, fields: { ...ask.body, id } };
  return { outcome: 'updated', artefact, reply: { status: 200, body: { setting: view(artefact) } } };
}

function lastSetting(store: Store, id: string): Plan {
  const last = store.artefacts.findLast((one) => one.kind === 'setting' && one.fields.id === id && isVisible(one));
  return last === undefined ? missing : show({ setting: view(last) });
}

function byKey(store: Store, kind: Artefact['kind'], key: string, settingId?: string): Plan {
  if (key === '') return no(400, 'missing_query', 'reference is needed');
  const matches = store.artefacts.filter(
    (one) =>
      one.kind === kind &&
      one.key === key &&
      isVisible(one) &&
      (settingId === undefined || one.fields.id === settingId),
  );
  const [first] = matches;
  return first === undefined ? missing : show({ [kind]: view(first), count: matches.length });
}

function byId(store: Store, kind: Artefact['kind'], id: string): Plan {
  const one = store.artefacts.find((artefact) => artefact.kind === kind && artefact.id === id && isVisible(artefact));
  return one === undefined ? missing : show({ [kind]: view(one) });
}

function listInvoices(store: Store, ask: Ask): Plan {
  const limit = Math.min(Number(ask.query.limit ?? 20) || 20, 100);
  const from = Number(ask.query.cursor ?? 0) || 0;
  const all = store.artefacts.filter((one) => one.kind === 'invoice' && isVisible(one));
  const page = all.slice(from, from + limit).map(view);
  return show({ invoices: page, next_cursor: from + limit < all.length ? String(from + limit) : null });
}

const RATES: Readonly<Record<string, string>> = { EUR: '1.0000', USD: '1.0850', GBP: '0.8570', JPY: '163.20' };

function rate(currency: string): Plan {
  const value = RATES[currency.toUpperCase()];
  return value === undefined ? missing : show({ currency: currency.toUpperCase(), per_eur: value });
}

function created(artefact: Artefact): Plan {
  return { outcome: 'created', artefact, reply: { status: 201, body: { [artefact.kind]: view(artefact) } } };
}

function artefactOf(
  store: Store,
  kind: Artefact['kind'],
  prefix: string,
  ask: Ask,
  text: string,
  lagMs: number,
): Artefact {
  const now = Date.now();
  return {
    kind,
    id: store.nextId(prefix),
    key: ask.key,
    visibleAt: now + lagMs,
    createdAt: new Date(now).toISOString(),
    text,
    fields: ask.body,
  };
}

function view(one: Artefact): object {
  return { id: one.id, ...one.fields, reference: one.key, created_at: one.createdAt };
}

function isVisible(one: Artefact): boolean {
  return one.visibleAt <= Date.now();
}

function checkMoney(body: Ask['body']): Plan | undefined {
  const { amount, currency } = body;
  if (typeof amount !== 'number' || !Number.isInteger(amount) || amount <= 0) {
    return no(422, 'invalid_amount', 'amount is a positive whole number of minor units');
  }
  if (typeof currency !== 'string' || !/^[A-Z]{3}$/.test(currency)) {
    return no(422, 'invalid_currency', 'currency is three capital letters');
  }
  return undefined;
}

function checkText(body: Ask['body'], name: string): Plan | undefined {
  const value = body[name];
  return typeof value === 'string' && value !== '' ? undefined : no(422, 'missing_field', `${name} is needed`);
}

/** Members in order of their names, so that equal bodies give equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}
