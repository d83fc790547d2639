import { type Command, Option } from 'commander';
import type { TenantState } from '../client/admin.ts';
import { type Common, optionsOf, places, withLedger } from './context.ts';
import { print, printJson, relative, table } from './output.ts';
import { readCount, readSize } from './values.ts';

const STATES: readonly TenantState[] = ['active', 'suspended'];

interface PutOptions extends Common {
  readonly payloadBytesMax?: string;
  readonly state?: TenantState;
}

interface ListOptions extends Common {
  readonly limit: string;
  readonly after?: string;
}

/** `tenant put | list`. */
export function addTenantCommands(program: Command): void {
  const tenant = program.command('tenant').description('whose calls are taken, and how large they may be');
  tenant
    .command('put')
    .argument('<name>')
    .description('create a tenant, or change what is given')
    .option('--payload-bytes-max <size>', 'largest arguments and results, such as 1MiB (default for a new one)')
    .addOption(new Option('--state <state>', 'suspended: no new call is taken').choices(STATES))
    .addHelpText('after', '\nExample:\n  $ holdfast tenant put acme --payload-bytes-max 256KiB')
    .action((name: string, _, command: Command) => put(name, optionsOf<PutOptions>(command)));
  tenant
    .command('list')
    .description('list tenants by name')
    .option('--limit <n>', 'at most so many, up to 500', '100')
    .option('--after <name>', 'go on after this name')
    .addHelpText('after', '\nExample:\n  $ holdfast tenant list')
    .action((_, command: Command) => list(optionsOf<ListOptions>(command)));
}

async function put(name: string, options: PutOptions): Promise<void> {
  const { putTenant } = await import('../client/admin.ts');
  const { state, payloadBytesMax: size } = options;
  const wanted = {
    tenant: name,
    ...(state === undefined ? {} : { state }),
    ...(size === undefined ? {} : { payloadBytesMax: readSize(size, '--payload-bytes-max') }),
  };
  const done = await withLedger(await places(options), (ledger) => putTenant(ledger, wanted));
  if (options.json) return printJson(done);
  const what = done.created ? 'created' : 'is there';
  print(`tenant ${done.tenant} ${what}: ${done.state}, payloads up to ${done.payloadBytesMax} bytes`);
}

async function list(options: ListOptions): Promise<void> {
  const { listTenants } = await import('../client/admin.ts');
  const { after } = options;
  const page = { limit: readCount(options.limit, '--limit'), ...(after === undefined ? {} : { after }) };
  const tenants = await withLedger(await places(options), (ledger) => listTenants(ledger, page));
  if (options.json) return printJson({ tenants });
  if (tenants.length === 0) return print('No tenant yet. Create one: holdfast tenant put NAME');
  print(
    table(
      ['TENANT', 'STATE', 'PAYLOAD MAX', 'CREATED'],
      tenants.map((one) => [one.tenant, one.state, `${one.payloadBytesMax}`, relative(one.createdAt.toISOString())]),
    ),
  );
  if (tenants.length === page.limit) print(`More may follow: --after ${tenants.at(-1)?.tenant}`);
}
