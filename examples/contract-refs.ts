/**
 * Evidence rules pin other contracts by digest, so a change of the one is a change of the other.
 *
 *   node examples/contract-refs.ts [--write]
 *
 * Prints each reference that is not current, with the right one; `--write` puts it into the file.
 * Ends with 1 when something was stale and was not written.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Contract } from '../contracts/contract.ts';
import { parseContractFile } from '../contracts/contract-file.ts';
import { formatContractRef } from '../contracts/contract-ref.ts';

export interface StaleRef {
  readonly file: string;
  readonly found: string;
  /** Undefined: no file here holds that tool and version. */
  readonly expected: string | undefined;
}

/** All contract files under `root`, with their contracts. */
export function exampleContracts(root: string): { file: string; text: string; contract: Contract }[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => /(^|\/)contracts\/[^/]+\.yaml$/.test(file))
    .sort()
    .map((name) => {
      const file = join(root, name);
      const text = readFileSync(file, 'utf8');
      return { file, text, contract: parseContractFile(text, file) };
    });
}

/** References whose digest is not that of the contract they name. */
export function staleRefs(root: string): StaleRef[] {
  const all = exampleContracts(root);
  return all.flatMap(({ file, contract }) => {
    const call = contract.execution.evidence?.call;
    if (call === undefined) return [];
    const found = formatContractRef(call);
    const target = all.find(({ contract: one }) => one.tool === call.tool && one.version === call.version);
    const expected = target && formatContractRef(target.contract);
    return found === expected ? [] : [{ file, found, expected }];
  });
}

if (import.meta.main) {
  const write = process.argv.includes('--write');
  for (const { file, found, expected } of staleRefs(import.meta.dirname)) {
    console.log(`${file}\n  has      ${found}\n  expected ${expected ?? 'nothing: no such contract here'}`);
    if (write && expected !== undefined) writeFileSync(file, readFileSync(file, 'utf8').replace(found, expected));
    else process.exitCode = 1;
  }
}
