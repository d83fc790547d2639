import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { inOrder } from '../../../cli/contract-commands.ts';
import type { Contract } from '../../../contracts/contract.ts';
import { parseContractFile } from '../../../contracts/contract-file.ts';

const DIR = join(import.meta.dirname, '../../../examples/billing-provider/contracts');
const all = readdirSync(DIR).map((name) => parseContractFile(readFileSync(join(DIR, name), 'utf8'), name));

function named(tool: string): Contract {
  const contract = all.find((one) => one.tool === tool);
  if (contract === undefined) throw new Error(`no example contract ${tool}`);
  return contract;
}

describe('inOrder', () => {
  it('puts an evidence call before the contracts that pin it, and leaves the rest as given', () => {
    const given = ['billing.rate', 'billing.pay', 'billing.note', 'billing.find_payment'].map(named);
    expect(inOrder(given).map((contract) => contract.tool)).toEqual([
      'billing.rate',
      'billing.find_payment',
      'billing.pay',
      'billing.note',
    ]);
  });

  it('does not need the evidence call to be among the files', () => {
    expect(inOrder([named('billing.pay')])).toEqual([named('billing.pay')]);
  });
});
