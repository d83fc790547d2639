import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Ask {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly key: string | null;
  readonly secret: string | null;
  readonly body: Record<string, unknown>;
}

export interface Order {
  readonly id: string;
  readonly key: string | null;
  readonly [field: string]: unknown;
}

/** `drop` closes the socket without an answer. */
export type Reply = { readonly status: number; readonly body: unknown } | 'drop';
type Handler = (ask: Ask) => Reply | Promise<Reply>;

/**
 * An honest HTTP provider within the test's own process, so that a test can hold an answer back exactly as long as it
 * likes. It counts what it saw and does what it is asked, as often as it is asked.
 */
export interface Shop {
  readonly url: string;
  readonly asks: Ask[];
  readonly orders: Order[];
  /** POST /orders as seen, by key. */
  sends(key?: string): number;
  apply(ask: Ask): Reply;
  find(ask: Ask): Reply;
  /** What POST (or PUT) does; default {@link Shop.apply}. */
  onSend: Handler;
  /** What GET does; default {@link Shop.find}. */
  onLook: Handler;
  reset(): void;
  close(): Promise<void>;
}

export async function openShop(): Promise<Shop> {
  const asks: Ask[] = [];
  const orders: Order[] = [];
  let made = 0;
  const shop: Shop = {
    url: '',
    asks,
    orders,
    sends: (key) => asks.filter((ask) => ask.method !== 'GET' && (key === undefined || ask.key === key)).length,
    apply(ask) {
      made += 1;
      const order = { ...ask.body, id: `o-${made}`, key: ask.key };
      orders.push(order);
      return { status: 201, body: { order } };
    },
    find(ask) {
      const found = orders.find((each) => each.key === ask.query.key);
      return found === undefined
        ? { status: 404, body: { error: 'not_found' } }
        : { status: 200, body: { order: found } };
    },
    onSend: (ask) => shop.apply(ask),
    onLook: (ask) => shop.find(ask),
    reset() {
      asks.length = 0;
      orders.length = 0;
      shop.onSend = (ask) => shop.apply(ask);
      shop.onLook = (ask) => shop.find(ask);
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const server: Server = createServer((request, response) => void serve(shop, request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(shop, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

async function serve(shop: Shop, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://shop');
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  const header = (name: string) => (request.headers[name] as string | undefined) ?? null;
  const ask: Ask = {
    method: request.method ?? 'GET',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    key: header('idempotency-key'),
    secret: header('authorization'),
    body: text === '' ? {} : JSON.parse(text),
  };
  shop.asks.push(ask);
  const reply = await (ask.method === 'GET' ? shop.onLook(ask) : shop.onSend(ask));
  if (reply === 'drop' || response.destroyed) {
    response.destroy();
    return;
  }
  response.writeHead(reply.status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(reply.body));
}

/** A gate that a test opens by hand; `reached` resolves when somebody waits at it. */
export function gate(): { readonly reached: Promise<void>; wait(): Promise<void>; open(): void } {
  let open = (): void => {};
  let arrive = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  return {
    reached,
    wait: () => {
      arrive();
      return opened;
    },
    open: () => open(),
  };
}
