/** The shop of the README: takes orders, finds one by its reference, forgets all when it ends. `node examples/shop.ts [PORT]` */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

const orders = new Map<string, object>();

const server = createServer(async (request, response) => {
  const answer = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (request.method === 'POST') {
    const wanted = (await json(request)) as { article: string; count: number; reference: string };
    const order = { id: `order-${orders.size + 1}`, ...wanted };
    orders.set(wanted.reference, order);
    return answer(201, { order });
  }
  const reference = new URL(request.url ?? '/', 'http://shop').searchParams.get('reference') ?? '';
  const order = orders.get(reference);
  return order === undefined ? answer(404, { error: 'not_found' }) : answer(200, { order });
});

server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  console.log(`the shop is open: http://127.0.0.1:${port}`);
});
