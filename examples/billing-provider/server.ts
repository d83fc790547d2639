/**
 * A small honest HTTP provider: it does what it says, keeps its own books, and fails only on request.
 *
 *   node examples/billing-provider/server.ts --port 0 --store DIR [--token T] [--window-ms N] [--sync off]
 *
 * Prints one JSON line `{"port":N}` when it is ready; listens on 127.0.0.1 only; ends on SIGTERM.
 * `/_audit`, `/_faults`, `/_waiting` and `/_release` are for tests and the demo.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { type FaultRule, Faults, parseRule, type RequestFacts } from './faults.ts';
import { type Ask, type Plan, plan, type Reply } from './routes.ts';
import { Store } from './store.ts';

const BODY_BYTES_MAX = 1024 * 1024;
const BEHAVIOUR_MODES = [
  'hang_before_accept',
  'accept_then_hang',
  'accept_then_close',
  'close_before_accept',
  'delay_ms',
  'status',
  'accept_then_status',
  'drop_mid_body',
] as const;

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    store: { type: 'string' },
    token: { type: 'string' },
    'window-ms': { type: 'string', default: String(24 * 3600 * 1000) },
    sync: { type: 'string', default: 'on' },
  },
});
if (options.store === undefined) {
  console.error('usage: server.ts --store DIR [--port N] [--token T] [--window-ms N] [--sync on|off]');
  process.exit(2);
}
const store = new Store(options.store, options.sync !== 'off');
const faults = new Faults();
const windowMs = Number(options['window-ms']);

const server = createServer((request, response) => {
  serve(request, response).catch((error: Error) => {
    if (!response.headersSent)
      say(response, { status: 400, body: { error: { code: 'bad_request', message: error.message } } });
  });
});
server.listen(Number(options.port), '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    server.close(() => store.close());
    server.closeAllConnections();
  });
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://127.0.0.1');
  const text = await readText(request);
  if (url.pathname.startsWith('/_')) return say(response, control(request.method ?? 'GET', url, text));
  if (!url.pathname.startsWith('/v1/')) return say(response, notFound(url.pathname));
  if (options.token !== undefined && request.headers.authorization !== `Bearer ${options.token}`) {
    return say(response, { status: 401, body: { error: { code: 'unauthorized' } } });
  }
  await serveApi(request, response, url, text);
}

async function serveApi(request: IncomingMessage, response: ServerResponse, url: URL, text: string): Promise<void> {
  const ask = askOf(request, url, text);
  const route = `${ask.method} ${url.pathname}`;
  const lookedUp = ask.query.reference ?? (ask.path[1] === 'by-key' ? (ask.path[2] ?? null) : null);
  const key = ask.key ?? lookedUp;
  const facts: RequestFacts = { key, query: ask.query, body: ask.body, seen: key && store.seenBody(key) };
  const write = ask.method !== 'GET';

  if (!write && faults.strike(['lose_evidence'], route, facts)) {
    return say(response, { status: 500, body: { error: { code: 'evidence_lost' } } });
  }
  const rule = faults.strike(BEHAVIOUR_MODES, route, facts);
  if (rule && !(await mayAccept(rule, route, ask, response))) return;

  const lagMs = (write && faults.strike(['evidence_lag_ms'], route, facts)?.ms) || 0;
  const decided = plan(store, ask, windowMs, lagMs);
  await record(route, ask, decided, write);
  if (!rule || (await mayAnswer(rule, route, ask, decided, response))) say(response, decided.reply);
}

/** What a fault does before anything is stored; false: it ended the request. */
async function mayAccept(rule: FaultRule, route: string, ask: Ask, response: ServerResponse): Promise<boolean> {
  const dropped = () => record(route, ask, { outcome: 'dropped', reply: { status: 0, body: null } }, false);
  switch (rule.mode) {
    case 'hang_before_accept':
      if (await faults.hang(route, ask.key, rule.mode, response)) return true;
      await dropped();
      return false;
    case 'close_before_accept':
      await dropped();
      response.destroy();
      return false;
    case 'status':
      await dropped();
      say(response, { status: rule.status ?? 503, body: { error: { code: 'fault' } } });
      return false;
    case 'delay_ms':
      await new Promise((resolve) => setTimeout(resolve, rule.ms ?? 100));
      return true;
    default:
      return true;
  }
}

/** What a fault does after the artefact is stored; false: it took the answer away. */
async function mayAnswer(
  rule: FaultRule,
  route: string,
  ask: Ask,
  decided: Plan,
  response: ServerResponse,
): Promise<boolean> {
  switch (rule.mode) {
    case 'accept_then_hang':
      return faults.hang(route, ask.key, rule.mode, response);
    case 'accept_then_close':
      response.destroy();
      return false;
    case 'accept_then_status':
      say(response, { status: rule.status ?? 500, body: { error: { code: 'fault' } } });
      return false;
    case 'drop_mid_body': {
      const whole = JSON.stringify(decided.reply.body);
      response.writeHead(decided.reply.status, { 'content-type': 'application/json', 'content-length': whole.length });
      response.write(whole.slice(0, whole.length / 2), () => response.destroy());
      return false;
    }
    default:
      return true;
  }
}

async function record(route: string, ask: Ask, decided: Plan, sync: boolean): Promise<void> {
  const { outcome, artefact } = decided;
  const accepted = outcome !== 'refused' && outcome !== 'dropped';
  await store.append({ route, key: ask.key, accepted, outcome, ...(artefact && { artefact }), body: ask.body }, sync);
}

function askOf(request: IncomingMessage, url: URL, text: string): Ask {
  const body: unknown = text === '' ? {} : JSON.parse(text);
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new Error('the body has to be a JSON object');
  const fields = body as Record<string, unknown>;
  const header = (name: string) => request.headers[name] as string | undefined;
  const reference = typeof fields.reference === 'string' ? fields.reference : undefined;
  return {
    method: request.method ?? 'GET',
    path: url.pathname.slice('/v1/'.length).split('/').map(decodeURIComponent),
    query: Object.fromEntries(url.searchParams),
    key: header('idempotency-key') ?? reference ?? header('x-request-id') ?? null,
    body: fields,
  };
}

function control(method: string, url: URL, text: string): Reply {
  const ok = (body: unknown): Reply => ({ status: 200, body });
  switch (`${method} ${url.pathname}`) {
    case 'GET /_audit': {
      const key = url.searchParams.get('key');
      return ok({ requests: key === null ? store.lines : store.lines.filter((line) => line.key === key) });
    }
    case 'GET /_faults':
      return ok({ rules: faults.list() });
    case 'POST /_faults': {
      const given: unknown = JSON.parse(text);
      faults.add((Array.isArray(given) ? given : [given]).map(parseRule));
      return ok({ rules: faults.list() });
    }
    case 'DELETE /_faults':
      faults.clear();
      return ok({ rules: [] });
    case 'GET /_waiting':
      return ok(faults.waiting());
    case 'POST /_release':
      return ok({
        released: faults.release(text === '' ? {} : (JSON.parse(text) as { route?: string; key?: string })),
      });
    default:
      return notFound(url.pathname);
  }
}

function notFound(path: string): Reply {
  return { status: 404, body: { error: { code: 'no_such_route', message: `${path} does not exist` } } };
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new Error('the body is larger than 1 MiB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function say(response: ServerResponse, reply: Reply): void {
  if (response.destroyed) return;
  const text = JSON.stringify(reply.body);
  response.writeHead(reply.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...reply.headers,
  });
  response.end(text);
}
