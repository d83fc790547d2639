import type { Command } from 'commander';
import { HoldfastError } from '../effects/errors.ts';
import { type Common, databaseUrl, optionsOf, places } from './context.ts';
import { Failure } from './failure.ts';
import { stuckLink } from './links.ts';
import { fields, print, printJson, styled } from './output.ts';

/** `dev`, `demo`, `doctor` and `db migrate`. */
export function addStackCommands(program: Command): void {
  program
    .command('dev')
    .description('run Postgres and Temporal for development, migrated, until Ctrl-C')
    .addHelpText(
      'after',
      '\nExample:\n  $ holdfast dev            in one terminal\n  $ holdfast worker         in another one',
    )
    .action((_, command: Command) => runDev(optionsOf(command)));
  program
    .command('demo')
    .description('kill workers in the middle of calls and watch the effects being settled')
    .option('--keep', 'leave everything running until Ctrl-C, to look around')
    .addHelpText('after', '\nExample:\n  $ holdfast demo --keep')
    .action((_, command: Command) => runTheDemo(optionsOf<{ keep?: boolean }>(command)));
  program
    .command('doctor')
    .description('look at everything the stack needs, and change nothing')
    .addHelpText('after', '\nExample:\n  $ holdfast doctor')
    .action((_, command: Command) => runDoctor(optionsOf(command)));
  program
    .command('db')
    .description('the ledger database')
    .command('migrate')
    .description("bring the database to this release's schema; safe to repeat and to race")
    .addHelpText('after', '\nExample:\n  $ DATABASE_URL=postgres://… holdfast db migrate')
    .action((_, command: Command) => runMigrate(optionsOf(command)));
}

async function runDev({ json }: { json: boolean }): Promise<void> {
  const { startStack, stopStack, untilSignal } = await import('../dev/stack.ts');
  const { migrate } = await import('../client/admin.ts');
  const { maskUrl } = await import('../dev/postgres.ts');
  const signal = untilSignal();
  const starting = startStack(json ? {} : { log: (line) => print(styled('dim', line)) });
  const first = await Promise.race([starting, signal]);
  if (typeof first === 'string') {
    // Stopped while it started: whatever came up goes down again.
    await starting.then(stopStack, () => undefined);
    return;
  }
  const stack = first;
  try {
    const { version } = await migrate(stack.postgres.url);
    await prepareNamespace(stack.temporal);
    const { address, namespace, uiUrl } = stack.temporal;
    const stuck = uiUrl === null ? null : stuckLink(uiUrl, namespace);
    const database = maskUrl(stack.postgres.url);
    if (json) printJson({ event: 'ready', database, schema: version, temporal: address, namespace, uiUrl, stuck });
    else {
      print(`\n${styled('bold', 'The stack is up.')} Data is kept in ${stack.dir}.`);
      print(
        fields([
          ['Postgres', `${database}  (schema version ${version})`],
          ['Temporal', `${address}  (namespace ${namespace})`],
          ['UI', uiUrl],
          ['stuck effects', stuck],
        ]),
      );
      print('\nOther holdfast commands in this directory find it by themselves: try "holdfast worker".');
      print('Ctrl-C stops it.');
    }
    await signal;
    if (!json) print('\nstopping …');
  } finally {
    await stopStack(stack);
  }
  if (!json) print('stopped; the data is kept');
}

/** So that the link to stuck effects works before the first worker came up. */
async function prepareNamespace({ address, namespace }: { address: string; namespace: string }): Promise<void> {
  const { Connection } = await import('@temporalio/client');
  const { ensureSearchAttributes } = await import('../client/search-attributes.ts');
  const connection = await Connection.connect({ address });
  try {
    await ensureSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
}

async function runTheDemo({ json, keep = false }: { json: boolean; keep?: boolean }): Promise<void> {
  const { runDemo } = await import('../dev/demo.ts');
  const report = await runDemo({ json, keep });
  if (report.ok) return;
  throw new Failure(
    new HoldfastError('internal', `the demo did not go as promised: ${report.failures.join('; ')}`, {
      place: report.dir,
      next: 'read the logs of the processes there, and run it again',
    }),
    1,
  );
}

async function runDoctor({ json }: { json: boolean }): Promise<void> {
  const { doctor, formatDoctor } = await import('../dev/doctor.ts');
  const report = await doctor();
  if (json) printJson(report);
  else print(formatDoctor(report));
  if (report.ok) return;
  const faults = report.lines.filter((line) => line.state === 'fault').map((line) => `${line.topic} ${line.name}`);
  throw new HoldfastError('stack_unavailable', `to be repaired: ${faults.join(', ')}`, {
    next: 'repair the lines marked FAULT',
  });
}

async function runMigrate(common: Common): Promise<void> {
  const at = await places(common);
  const { addressOf, migrate } = await import('../client/admin.ts');
  const url = databaseUrl(at);
  const done = await migrate(url);
  if (common.json) return printJson({ database: addressOf(url), ...done });
  const what = done.applied.length === 0 ? 'nothing to do' : `applied ${done.applied.join(', ')}`;
  print(`${addressOf(url)}: ${what}; schema version ${done.version}`);
  if (done.ahead > 0) print(`It has ${done.ahead} migrations that this release does not know: the database is newer.`);
}
