import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exampleContracts, staleRefs } from '../../../examples/contract-refs.ts';

const EXAMPLES = join(import.meta.dirname, '../../../examples');

describe('the example contracts', () => {
  it('pin each other by the digests of today (node examples/contract-refs.ts --write)', () => {
    expect(staleRefs(EXAMPLES)).toEqual([]);
  });

  it('cover every effect class, and name each tool and version once', () => {
    const contracts = exampleContracts(EXAMPLES).map(({ contract }) => contract);
    expect([...new Set(contracts.map(({ execution }) => execution.effect))].sort()).toEqual([
      'IDEMPOTENT',
      'NON_RETRYABLE',
      'PURE',
      'REPLAYABLE',
      'UNKNOWN',
    ]);
    const names = contracts.map(({ tool, version }) => `${tool}@${version}`);
    expect(names).toEqual([...new Set(names)]);
  });

  it('ask for evidence by PURE contracts only', () => {
    const contracts = exampleContracts(EXAMPLES).map(({ contract }) => contract);
    const asked = contracts.flatMap(({ execution }) => (execution.evidence ? [execution.evidence.call.tool] : []));
    const effects = asked.map((tool) => contracts.find((one) => one.tool === tool)?.execution.effect);
    expect(effects).toEqual(asked.map(() => 'PURE'));
  });
});
