import type { Command } from 'commander';
import type { OpenRecovery } from '../client/admin.ts';
import { HoldfastError } from '../effects/errors.ts';
import { type Common, optionsOf, places, withLedger } from './context.ts';
import { fields, print, printJson } from './output.ts';
import { readTime } from './values.ts';

interface RecoverOptions extends Common {
  readonly since?: string;
  readonly over?: boolean;
  readonly actor?: string;
  readonly reason?: string;
}

const HELP = `
Stop every worker and every host of the direct lane first. What the ledger shows as open is then parked behind evidence:
DISPATCHED becomes UNKNOWN, and every UNKNOWN effect is asked about as soon as the fleet is back. Until you say --over, a
call that has no row is asked about before it is sent, since its row may have been lost; PURE calls, and IDEMPOTENT ones
within their key window, go on as ever. Read docs/operations.md, "After a fail-over or a restore".

Examples:
  $ holdfast db recovered --since 2026-12-01T09:30:00Z --actor ann --reason 'standby promoted, up to 40 s lost'
  $ holdfast db recovered                 says whether a recovery is open
  $ holdfast db recovered --over --actor ann --reason 'every run of that hour has ended'`;

/** `db recovered`: after an asynchronous fail-over or a restore from backup (PROTOCOL 2.7). */
export function addRecoverCommand(program: Command): void {
  const db = program.commands.find((command) => command.name() === 'db');
  if (db === undefined) throw new Error('addStackCommands comes first');
  db.command('recovered')
    .description('park sends behind evidence after a fail-over or a restore lost commits, or end that')
    .option('--since <time>', 'the last moment up to which the ledger is known to be whole')
    .option('--over', 'no call of a run from before the recovery will be made any more')
    .option('--actor <name>', 'who says so; needed with both')
    .option('--reason <text>', 'what happened, or why it is over; needed with both')
    .addHelpText('after', HELP)
    .action((_, command: Command) => recovered(optionsOf<RecoverOptions>(command)));
}

async function recovered(options: RecoverOptions): Promise<void> {
  if (options.since !== undefined && options.over) {
    throw new HoldfastError('bad_input', 'a recovery begins with --since and ends with --over, not both at once', {
      place: '--over',
    });
  }
  if (options.since !== undefined) return begin(options, readTime(options.since, '--since'));
  if (options.over) return end(options);
  const at = await places(options);
  const { openRecovery } = await import('../client/admin.ts');
  const open = await withLedger(at, openRecovery);
  if (options.json) printJson({ open: open === undefined ? null : asTimes(open) });
  else print(open === undefined ? 'No recovery is open.' : `A recovery is open.\n${fields(lines(asTimes(open)))}`);
}

async function begin(options: RecoverOptions, since: Date): Promise<void> {
  const said = who(options);
  const at = await places(options);
  const { recoverLedger } = await import('../client/admin.ts');
  const done = await withLedger(at, (ledger) => recoverLedger(ledger, { since, ...said }));
  if (options.json) return printJson(done);
  print('The ledger is recovered.');
  print(
    fields([
      ...lines(done),
      ['leases fenced', String(done.fenced)],
      ['DISPATCHED → UNKNOWN', String(done.released)],
      ['UNKNOWN, asked again', String(done.askedAgain)],
    ]),
  );
  print('\nStart the fleet: it asks the providers. Then: holdfast effect list --stuck');
  print('When every run from before has ended or was given up: holdfast db recovered --over');
}

async function end(options: RecoverOptions): Promise<void> {
  const { actor, reason } = who(options);
  const at = await places(options);
  const { endRecovery } = await import('../client/admin.ts');
  const ended = await withLedger(at, (ledger) => endRecovery(ledger, actor, reason));
  if (options.json) return printJson({ ended });
  print(ended ? 'The recovery is over; within 5 s every process knows.' : 'No recovery was open.');
}

function who({ actor, reason }: RecoverOptions): { actor: string; reason: string } {
  const missing = actor === undefined ? '--actor' : '--reason';
  if (actor !== undefined && reason !== undefined) return { actor, reason };
  throw new HoldfastError('bad_input', `${missing} is missing: the ledger keeps who said so, and why`, {
    place: missing,
  });
}

const asTimes = (open: OpenRecovery) => ({
  since: new Date(open.sinceMs).toISOString(),
  recoveredAt: new Date(open.recoveredAtMs).toISOString(),
});

const lines = ({ since, recoveredAt }: { since: string; recoveredAt: string }): [string, string][] => [
  ['recovered at', recoveredAt],
  ['may lack', `what happened after ${since}`],
];
