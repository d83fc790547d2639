import type { Contract, EffectClass } from '../../../contracts/contract.ts';
import { parseContractFile } from '../../../contracts/contract-file.ts';
import { formatContractRef } from '../../../contracts/contract-ref.ts';

/** How fast the contracts under test are: a crash is over in seconds instead of minutes. */
export interface Pace {
  readonly timeout: string;
  readonly sendBy: string;
  readonly inFlightMax: string;
  readonly lag: string;
}

export const QUICK: Pace = { timeout: '4s', sendBy: '2s', inFlightMax: '1s', lag: '100ms' };

/** The tool under test of each class; every one has evidence, save PURE. */
export const TOOL_OF: Readonly<Record<EffectClass, string>> = {
  PURE: 'crash.rate',
  IDEMPOTENT: 'crash.invoice',
  REPLAYABLE: 'crash.setting',
  NON_RETRYABLE: 'crash.pay',
  UNKNOWN: 'crash.transfer',
};

export const VERSION = '1.0.0';

/** Contracts on the routes of `examples/billing-provider`. Evidence first, as the registry wants them. */
export function crashContracts(pace: Pace = QUICK): Contract[] {
  const finders = {
    invoice: find('invoice', '/v1/invoices', ''),
    payment: find('payment', '/v1/payments', ''),
    setting: find('setting', '/v1/settings/{args.id}/writes', 'id: { type: string }'),
  };
  return [
    ...Object.values(finders),
    write(pace, 'IDEMPOTENT', {
      parameters: MONEY('customer'),
      http: '{ method: POST, path: /v1/invoices, body: "{args}" }',
      more: 'idempotency: { send_as: header Idempotency-Key, window: 24h }',
      evidence: evidenceOf(pace, finders.invoice, 'invoice', '{ /count: 1, /invoice/amount: "{args.amount}" }'),
    }),
    write(pace, 'REPLAYABLE', {
      parameters: '{ id: { type: string }, value: { type: integer }, case: { type: string } }',
      http: '{ method: PUT, path: "/v1/settings/{args.id}", body: { value: "{args.value}", case: "{args.case}" } }',
      more: [
        'resource: ["setting/{args.id}"]',
        'exclusive_writer: true',
        'idempotency: { send_as: header X-Request-Id }',
      ].join('\n  '),
      evidence: evidenceOf(pace, finders.setting, 'setting', '{ /setting/value: "{args.value}" }', 'id: "{args.id}", '),
    }),
    // The provider pays as often as it is asked; one contract says so, the other says nothing.
    ...(['NON_RETRYABLE', 'UNKNOWN'] as const).map((effect) =>
      write(pace, effect, {
        parameters: MONEY('payee'),
        http: '{ method: POST, path: /v1/payments, body: "{args}" }',
        more: 'idempotency: { send_as: body /reference }',
        evidence: evidenceOf(pace, finders.payment, 'payment', '{ /count: 1, /payment/amount: "{args.amount}" }'),
      }),
    ),
    write(pace, 'PURE', {
      parameters: '{ currency: { type: string } }',
      http: '{ method: GET, path: "/v1/rates/{args.currency}", headers: { X-Request-Id: "{effect_key}" } }',
      more: '',
      evidence: '',
    }),
  ];
}

const MONEY = (who: string) =>
  `{ ${who}: { type: string }, amount: { type: integer }, currency: { type: string }, case: { type: string } }`;

interface Parts {
  readonly parameters: string;
  readonly http: string;
  readonly more: string;
  readonly evidence: string;
}

function write(pace: Pace, effect: EffectClass, parts: Parts): Contract {
  const tool = TOOL_OF[effect];
  return parse(
    tool,
    `parameters: { type: object, properties: ${parts.parameters} }
execution:
  provider: billing
  effect: ${effect}
  credential: billing
  capabilities: ["crash:write:{tenant}"]
  timeout: ${pace.timeout}
  send_by: ${pace.sendBy}
  in_flight_max: ${pace.inFlightMax}
  http: ${parts.http}
  answers: [{ status: [400, 401, 404, 409, 422], means: refused }]
  ${parts.more}
  ${parts.evidence}`,
  );
}

function find(what: string, path: string, extra: string): Contract {
  const properties = extra === '' ? 'key: { type: string }' : `key: { type: string }, ${extra}`;
  return parse(
    `crash.find_${what}`,
    `parameters: { type: object, properties: { ${properties} } }
execution:
  provider: billing
  effect: PURE
  credential: billing
  timeout: 2s
  send_by: 2s
  http: { method: GET, path: "${path}", query: { reference: "{args.key}" } }`,
  );
}

function evidenceOf(pace: Pace, finder: Contract, what: string, equals: string, extra = ''): string {
  return `evidence:
    call: "${formatContractRef(finder)}"
    by: key
    with: { ${extra}key: "{effect_key}" }
    found: { status: 200, where: { /${what}/reference: "{effect_key}" } }
    absent: { status: 404, where: { /error/code: not_found } }
    equals: ${equals}
    reference: /${what}/id
    absence: proves
    lag: ${pace.lag}
    retention: 90d`;
}

function parse(tool: string, body: string): Contract {
  return parseContractFile(
    `tool: ${tool}\nversion: ${VERSION}\nowner: crash-tests\nselection: { description: for crash tests }\n${body}\n`,
    `${tool}.yaml`,
  );
}
