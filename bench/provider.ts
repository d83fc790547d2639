import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A provider that answers as fast as Node can: it accepts an invoice into memory and answers with it. Run as a process
 * of its own (`node bench/provider.ts`); prints `{"port":…}` once it listens and ends with its standard input.
 */
let made = 0;

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

function accept(request: IncomingMessage, response: ServerResponse, text: string): void {
  if (request.method !== 'POST') {
    answer(response, 404, { error: { code: 'not_found' } });
    return;
  }
  const invoice = JSON.parse(text) as { customer: string; amount: number; currency: string; memo?: string };
  made += 1;
  answer(response, 201, { invoice: { id: `inv_${made}`, ...invoice } });
}

const server = createServer((request, response) => {
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (chunk: string) => {
    text += chunk;
  });
  request.on('end', () => accept(request, response, text));
});
// Longer than any pause between two rounds, so that no contender pays for a new connection that the other one does not.
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});
process.stdin.resume().on('end', () => process.exit(0));
