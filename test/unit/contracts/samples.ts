import type { Contract } from '../../../contracts/contract.ts';
import { parseContractFile } from '../../../contracts/contract-file.ts';
import type { Scope } from '../../../contracts/template.ts';

export const ZERO_DIGEST = `sha256/v1:${'0'.repeat(64)}`;

/** A whole IDEMPOTENT http contract, line numbers counted in contract-file.test.ts. */
export const INVOICE = `tool: billing.send_invoice
version: 2.1.0
owner: billing-platform
selection:
  title: Send an invoice
  description: Sends one invoice.
  use_when: [the customer owes money]
parameters:
  type: object
  additionalProperties: false
  required: [invoice_id, amount]
  properties:
    invoice_id: { type: string }
    amount: { type: number }
    note: { type: string }
execution:
  provider: billing
  effect: IDEMPOTENT
  capabilities: [ "invoice:write:{tenant}" ]
  credential: billing-writer
  timeout: 10s
  http:
    method: POST
    path: /invoices/{args.invoice_id}
    body: { amount: "{args.amount}", note: "{args.note}" }
  idempotency: { send_as: header Idempotency-Key, window: 24h }
  resource: [ "invoice/{args.invoice_id}" ]
  evidence:
    call: "billing.find_invoice@1.3.0#${ZERO_DIGEST}"
    by: key
    with: { key: "{effect_key}" }
    found: { status: 200, where: { /key: "{effect_key}" } }
    absent: { status: 404, where: { /error: no_such_key } }
    equals: { /amount: "{args.amount}" }
    reference: /id
    absence: proves
    lag: 2s
    retention: 90d
  answers:
    - { status: [400, 404, 422], means: refused }
    - { status: 202, means: accepted, ref: /job/id }
  on_unknown: { wait: 5s }
returns: { size_max: 16KiB, redact: [/secret] }
`;

/** A small valid contract: `execution` is YAML of the keys under `execution:`, flow style or indented by two. */
export function contractWith(execution: string, rest = ''): Contract {
  return parseContractFile(textWith(execution, rest), 'sample.yaml');
}

export function textWith(execution: string, rest = ''): string {
  const indented = execution
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
  return `tool: sample.tool
version: 1.0.0
owner: tests
selection: { description: A sample. }
parameters: { type: object }
execution:
  provider: sample
${indented}
${rest}`;
}

export const HTTP = 'http: { method: POST, path: /things }';

export const SCOPE: Scope = {
  tenant: 'acme',
  run: 'run-1',
  call: 'call-1',
  effectKey: 'key-1',
  args: { id: 'a/b', count: 3, flag: true, none: null, list: [1, 2], deep: { name: 'x' } },
};
