import type { Contract, EvidenceRule, Execution, JsonValue } from '../../../contracts/contract.ts';
import { contractFromSource } from '../../../contracts/contract-file.ts';
import type { Scope } from '../../../contracts/template.ts';
import type { ProviderAnswer } from '../../../effects/answer.ts';

export const CALL = `sha256/v1:${'0'.repeat(64)}`;

/** A contract of this class with this execution and returns, as a file would say them. */
export function contractOf(
  effect: Execution['effect'],
  execution: { [key: string]: JsonValue } = {},
  returns: { [key: string]: JsonValue } = {},
): Contract {
  const transport = 'mcp' in execution || 'mail' in execution ? {} : { http: { method: 'POST', path: '/things' } };
  const key = effect === 'IDEMPOTENT' ? { idempotency: { send_as: 'query key', window: '1h' } } : {};
  return contractFromSource({
    tool: 'sample.tool',
    version: '1.0.0',
    owner: 'tests',
    selection: { description: 'A sample.' },
    parameters: { type: 'object' },
    execution: { provider: 'sample', effect, ...transport, ...key, ...execution },
    returns,
  });
}

/** A NON_RETRYABLE contract with this evidence rule. */
export function asking(evidence: { [key: string]: JsonValue }, returns: { [key: string]: JsonValue } = {}): Contract {
  return contractOf('NON_RETRYABLE', { evidence: { call: `sample.find@1.0.0#${CALL}`, ...evidence } }, returns);
}

export function ruleOf(contract: Contract): EvidenceRule {
  const rule = contract.execution.evidence;
  if (rule === undefined) throw new Error('the sample has no evidence');
  return rule;
}

export const SCOPE: Scope = {
  tenant: 'acme',
  run: 'r',
  call: 'c',
  effectKey: 'KEY',
  args: { amount: 10, to: 'ann' },
};

export function response(
  status: number | string,
  body: JsonValue = null,
  extra: { headers?: Record<string, string>; truncated?: boolean } = {},
): ProviderAnswer {
  return { kind: 'response', status, body, ...extra };
}
