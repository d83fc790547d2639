import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { stringify } from 'yaml';
import type { Contract, JsonObject } from '../contracts/contract.ts';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { type Common, optionsOf, places, withLedger } from './context.ts';
import { cleanText, fields, print, printJson, relative, styled, table } from './output.ts';
import { readCount, readText, readToolVersion } from './values.ts';

/** `contract publish | list | show`. */
export function addContractCommands(program: Command): void {
  const contract = program.command('contract').description('what a tool promises, version by version, unchangeable');
  contract
    .command('publish')
    .argument('<file...>', 'YAML files; evidence calls among them are published first')
    .description('publish contracts; the same content again changes nothing')
    .option('--by <name>', 'who publishes, self-declared', defaultPublisher())
    .addHelpText('after', '\nExample:\n  $ holdfast contract publish examples/billing-provider/contracts/*.yaml')
    .action((files: string[], _, command: Command) => publish(files, optionsOf<{ by: string }>(command)));
  contract
    .command('list')
    .description('list published contracts')
    .option('--tool <tool>', 'only versions of this tool')
    .option('--limit <n>', 'at most so many, up to 500', '100')
    .addHelpText('after', '\nExample:\n  $ holdfast contract list --tool billing.pay')
    .action((_, command: Command) => list(optionsOf<{ tool?: string; limit: string }>(command)));
  contract
    .command('show')
    .argument('<tool@version>')
    .description('show one version: state, digests and content')
    .addHelpText('after', '\nExample:\n  $ holdfast contract show billing.pay@1.0.0')
    .action((ref: string, _, command: Command) => show(ref, optionsOf(command)));
}

function defaultPublisher(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown';
  }
}

async function publish(files: readonly string[], options: Common & { by: string }): Promise<void> {
  const contracts = inOrder(await readContracts(files));
  const { publishContract } = await import('../client/admin.ts');
  const published = await withLedger(await places(options), async (ledger) => {
    const done = [];
    for (const contract of contracts) {
      const entry = await publishContract(ledger, contract, options.by);
      done.push(entry);
      if (!options.json) {
        const name = `${entry.tool}@${entry.version}`;
        print(`${entry.created ? styled('green', 'published') : 'unchanged'}  ${name.padEnd(36)}  ${entry.digest}`);
      }
    }
    return done;
  });
  if (options.json) printJson({ contracts: published });
}

/** All files or none: a fault in one of them is told before anything is published. */
async function readContracts(files: readonly string[]): Promise<Contract[]> {
  const { parseContractFile } = await import('../contracts/contract-file.ts');
  const contracts: Contract[] = [];
  const faults: HoldfastError[] = [];
  for (const file of files) {
    try {
      contracts.push(parseContractFile(readText(file, 'FILE'), file));
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      faults.push(error);
    }
  }
  const [first, ...more] = faults;
  if (first === undefined) return contracts;
  if (more.length === 0) throw first;
  throw new HoldfastError(first.code, faults.map((fault) => fault.message).join('\n'), {
    next: 'correct the files at the places named; nothing was published',
    ...(first.place === undefined ? {} : { place: first.place }),
  });
}

/** Evidence calls come before the contracts that pin them. A circle is left as it is: publishing refuses it. */
export function inOrder(contracts: readonly Contract[]): Contract[] {
  const nameOf = (one: { tool: string; version: string }) => `${one.tool}@${one.version}`;
  const byName = new Map(contracts.map((contract) => [nameOf(contract), contract]));
  const placed = new Set<Contract>();
  const place = (contract: Contract, path: ReadonlySet<Contract>): void => {
    if (placed.has(contract) || path.has(contract)) return;
    const call = contract.execution.evidence?.call;
    const needed = call === undefined ? undefined : byName.get(nameOf(call));
    if (needed !== undefined) place(needed, new Set([...path, contract]));
    placed.add(contract);
  };
  for (const contract of contracts) place(contract, new Set());
  return [...placed];
}

async function list(options: Common & { tool?: string; limit: string }): Promise<void> {
  const { listContracts } = await import('../client/admin.ts');
  const limit = readCount(options.limit, '--limit');
  const page = { limit, ...(options.tool === undefined ? {} : { tool: options.tool }) };
  const contracts = await withLedger(await places(options), (ledger) => listContracts(ledger, page));
  if (options.json) return printJson({ contracts });
  if (contracts.length === 0) return print('No contract yet. Publish one: holdfast contract publish FILE');
  print(
    table(
      ['CONTRACT', 'CLASS', 'PROVIDER', 'STATE', 'PUBLISHED', 'DIGEST'],
      contracts.map((one) => [
        `${one.tool}@${one.version}`,
        one.effectClass,
        one.provider,
        one.state,
        relative(one.publishedAt.toISOString()),
        one.digest,
      ]),
    ),
  );
  if (contracts.length === limit) print('More may follow: raise --limit, or name one with --tool');
}

async function show(text: string, options: Common): Promise<void> {
  const ref = readToolVersion(text);
  const { showContract } = await import('../client/admin.ts');
  const entry = await withLedger(await places(options), (ledger) => showContract(ledger, ref));
  const { contract, ...about } = entry;
  if (options.json) return printJson({ ...about, source: contract.source });
  print(styled('bold', `${entry.tool}@${entry.version}`));
  print(
    fields([
      ['state', entry.state],
      ['class', entry.effectClass],
      ['provider', entry.provider],
      ['owner', cleanText(entry.owner)],
      ['published', `${entry.publishedAt.toISOString()} by ${cleanText(entry.publishedBy)}`],
      ['digest', entry.digest],
      ...Object.entries(entry.digests).map(([layer, digest]) => [`  ${layer}`, digest] as const),
    ]),
  );
  print('');
  print(stringify(inFileOrder(contract.source), { lineWidth: 120 }).trimEnd());
}

const KEYS = ['tool', 'version', 'owner', 'selection', 'parameters', 'execution', 'returns', 'behaviour'];

/** The registry keeps canonical JSON, sorted by name; people write what it is first. */
function inFileOrder(source: JsonObject): JsonObject {
  const known = KEYS.filter((key) => key in source);
  const rest = Object.keys(source).filter((key) => !KEYS.includes(key));
  return Object.fromEntries([...known, ...rest].map((key) => [key, source[key] ?? null]));
}
