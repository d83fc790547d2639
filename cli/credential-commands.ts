import type { Command } from 'commander';
import { type Common, optionsOf, places, withLedger } from './context.ts';
import { print, printJson, relative, table } from './output.ts';
import { readCount } from './values.ts';

interface PutOptions extends Common {
  readonly credentialVersion: string;
  readonly account: string;
  readonly grant: readonly string[];
}

interface ListOptions extends Common {
  readonly name?: string;
  readonly limit: string;
}

/** `credential put | list`: the policy. The secret itself never passes through here. */
export function addCredentialCommands(program: Command): void {
  const credential = program
    .command('credential')
    .description('what workers may act as; secrets stay with the workers');
  credential
    .command('put')
    .argument('<name>')
    .description('add a version of a credential and make it the current one')
    .requiredOption('--credential-version <v>', 'label of the secret, as the workers have it')
    .requiredOption('--account <a>', "the provider's account that it acts as")
    .option('--grant <pattern...>', 'capability patterns that it covers, such as "invoice:*:acme" or "**"', [])
    .addHelpText(
      'after',
      '\nThe secret is given to the workers: HOLDFAST_SECRET_BILLING=2026-11:s3cr3t' +
        '\n\nExample:\n  $ holdfast credential put billing --credential-version 2026-11 --account main \\' +
        '\n      --grant "invoice:write:acme" --grant "invoice:read:acme"',
    )
    .action((name: string, _, command: Command) => put(name, optionsOf<PutOptions>(command)));
  credential
    .command('list')
    .description('list versions of credentials')
    .option('--name <name>', 'only this credential')
    .option('--limit <n>', 'at most so many, up to 500', '100')
    .addHelpText('after', '\nExample:\n  $ holdfast credential list --name billing')
    .action((_, command: Command) => list(optionsOf<ListOptions>(command)));
}

async function put(name: string, options: PutOptions): Promise<void> {
  const { putCredential, secretVariable } = await import('../client/admin.ts');
  const { account, grant: grants, credentialVersion: version } = options;
  const done = await withLedger(await places(options), (ledger) =>
    putCredential(ledger, { name, version, account, grants }),
  );
  if (options.json) return printJson(done);
  const state = done.current ? 'current' : 'not current: another version was put since';
  print(`credential ${name}@${done.version} ${done.created ? 'added' : 'is there'} (${state})`);
  print(`  account ${done.account}, grants ${done.grants.join(', ') || 'nothing'}`);
  print(`  workers find its secret in ${secretVariable(name)}=${done.version}:…`);
}

async function list(options: ListOptions): Promise<void> {
  const { listCredentials } = await import('../client/admin.ts');
  const limit = readCount(options.limit, '--limit');
  const page = { limit, ...(options.name === undefined ? {} : { name: options.name }) };
  const credentials = await withLedger(await places(options), (ledger) => listCredentials(ledger, page));
  if (options.json) return printJson({ credentials });
  if (credentials.length === 0) return print('No credential yet. Add one: holdfast credential put NAME …');
  print(
    table(
      ['CREDENTIAL', 'STATE', 'ACCOUNT', 'CREATED', 'GRANTS'],
      credentials.map((one) => [
        `${one.name}@${one.version}`,
        one.current ? 'current' : 'old',
        one.account,
        relative(one.createdAt.toISOString()),
        one.grants.join(', '),
      ]),
    ),
  );
  if (credentials.length === limit) print('More may follow: raise --limit, or name one with --name');
}
