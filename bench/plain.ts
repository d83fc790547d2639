import { Agent, request } from 'node:http';

/** What both sides send: about 200 bytes as JSON. */
export interface Invoice {
  readonly customer: string;
  readonly amount: number;
  readonly currency: string;
  readonly memo: string;
}

/** An invoice of about 200 bytes; equal numbers make equal invoices. */
export function invoiceOf(number: number): Invoice {
  const customer = `customer-${String(number).padStart(8, '0')}`;
  return { customer, amount: 1000 + (number % 100_000), currency: 'EUR', memo: 'x'.repeat(122) };
}

/** One unprotected request to the provider, on kept-alive sockets. */
export type PlainCall = (invoice: Invoice) => Promise<object>;

/**
 * The call that everybody would write: same method, same HTTP stack and same keep-alive as Holdfast's adapter, nothing
 * around it. Throws on any answer but 201.
 */
export function plainCall(providerUrl: string): PlainCall {
  const agent = new Agent({ keepAlive: true });
  const url = new URL('/v1/invoices', providerUrl);
  return (invoice) =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify(invoice);
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const sent = request(url, { agent, method: 'POST', headers }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => {
          if (response.statusCode === 201) resolve(JSON.parse(text) as object);
          else reject(new Error(`the provider answered ${response.statusCode}`));
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
}
