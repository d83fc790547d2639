import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { contractFromSource } from '../../../contracts/contract-file.ts';
import { formatContractRef } from '../../../contracts/contract-ref.ts';

/** A PURE look, as evidence rules pin one. */
export function findInvoice(over: JsonObject = {}, execution: JsonObject = {}): Contract {
  return contractFromSource({
    tool: 'billing.find_invoice',
    version: '1.0.0',
    owner: 'billing-platform',
    selection: { description: 'Finds an invoice by its key.' },
    parameters: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
    execution: {
      provider: 'billing',
      effect: 'PURE',
      http: { method: 'GET', path: '/invoices/by-key/{args.key}' },
      ...execution,
    },
    ...over,
  });
}

/** A write whose evidence is `look`. */
export function sendInvoice(look: Contract, over: JsonObject = {}): Contract {
  return contractFromSource({
    tool: 'billing.send_invoice',
    version: '1.0.0',
    owner: 'billing-platform',
    selection: { description: 'Sends an invoice.' },
    parameters: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'] },
    execution: {
      provider: 'billing',
      effect: 'IDEMPOTENT',
      http: { method: 'POST', path: '/invoices', body: '{args}' },
      idempotency: { send_as: 'header Idempotency-Key', window: '24h' },
      evidence: {
        call: formatContractRef(look),
        by: 'key',
        with: { key: '{effect_key}' },
        found: { status: 200 },
        absent: { status: 404 },
        absence: 'proves',
        lag: '2s',
        retention: '90d',
      },
    },
    ...over,
  });
}
