import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addAuditCommands } from './audit-commands.ts';
import { addCallCommand } from './call-command.ts';
import { addContractCommands } from './contract-commands.ts';
import { addCredentialCommands } from './credential-commands.ts';
import { addDecideCommands } from './decide-commands.ts';
import { addEffectCommands } from './effect-commands.ts';
import { addRecoverCommand } from './recover-command.ts';
import { addStackCommands } from './stack-commands.ts';
import { addTenantCommands } from './tenant-commands.ts';
import { addWorkerCommand } from './worker-command.ts';

const EXAMPLES = `
First steps:
  $ holdfast demo                        the whole story in a minute
  $ holdfast dev                         a stack of your own, until Ctrl-C
  $ holdfast contract publish pay.yaml   and then: tenant put, credential put, worker, call
  $ holdfast effect list --stuck         what needs evidence, time or a person

Exit codes: 0 done, 1 anything else, 2 bad input, 3 refused or not applied, 4 outcome unknown, 5 a part is away.
Without DATABASE_URL, TEMPORAL_ADDRESS or holdfast.yaml, the stack that "holdfast dev" runs here is used.`;

/**
 * The whole command, ready to parse.
 *
 * @param quiet whether the help that follows a missing command is left out, because JSON was asked for
 */
export function buildProgram({ quiet = false }: { quiet?: boolean } = {}): Command {
  const program = new Command('holdfast')
    .description('Durable dispatcher and reconciler for the tool calls of AI agents.')
    .version(ownVersion(), '-V, --version', 'print the version')
    .option('--json', 'print one JSON value; errors are a JSON object on standard error')
    .option('--config <file>', 'configuration, default $HOLDFAST_CONFIG or holdfast.yaml')
    .option('--debug', 'print stack traces with errors')
    .addHelpText('after', EXAMPLES)
    .configureHelp({ showGlobalOptions: true });
  addStackCommands(program);
  addRecoverCommand(program);
  addWorkerCommand(program);
  addContractCommands(program);
  addTenantCommands(program);
  addCredentialCommands(program);
  addCallCommand(program);
  addEffectCommands(program);
  addDecideCommands(program);
  addAuditCommands(program);
  settle(program, quiet);
  return program;
}

/** Usage errors are thrown instead of printed, in every command. */
function settle(command: Command, quiet: boolean): void {
  command.exitOverride().configureOutput({ outputError: () => {}, ...(quiet ? { writeErr: () => {} } : {}) });
  if (command.parent !== null) command.configureHelp({ ...command.parent.configureHelp() });
  for (const child of command.commands) settle(child, quiet);
}

/** `package.json` lies one level up in the repository and two in `dist/cli`. */
function ownVersion(): string {
  for (const up of ['../package.json', '../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')) as { version: string }).version;
    } catch {
      // Not here.
    }
  }
  return 'unknown';
}
