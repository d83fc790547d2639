import { type Command, CommanderError } from 'commander';
import { HoldfastError } from '../effects/errors.ts';
import { reportOf } from './failure.ts';
import { buildProgram } from './program.ts';

/** Runs one command line (without node and script) and gives its exit code. Never throws. */
export async function runCommand(args: readonly string[]): Promise<number> {
  const options = { json: args.includes('--json'), debug: args.includes('--debug') };
  const fail = (thrown: unknown): number => {
    const { text, exit } = reportOf(thrown, options);
    process.stderr.write(text);
    return exit;
  };
  // What slips past every await is an error like any other: said in the same form, without a stack trace.
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.once(event, (thrown: unknown) => process.exit(fail(thrown)));
  }
  const program = buildProgram({ quiet: options.json });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) return fail(thrown);
    // Help and version were asked for and are printed already.
    if (thrown.exitCode === 0) return 0;
    return fail(usageError(thrown, program, args));
  }
}

/** commander's own words (`error: unknown option '--x'`) in the form of every other error. */
function usageError(error: CommanderError, program: Command, args: readonly string[]): HoldfastError {
  const place = commandNamed(program, args);
  const message = error.code === 'commander.help' ? `${place} needs a command` : error.message.replace(/^error: /, '');
  return new HoldfastError('bad_input', message.replaceAll('\n', ' '), { place, next: `see ${place} --help` });
}

/** `holdfast effect list` of whatever words follow; as far as they name commands. */
function commandNamed(program: Command, args: readonly string[]): string {
  const names = [program.name()];
  let at = program;
  for (const word of args.filter((one) => !one.startsWith('-'))) {
    const next = at.commands.find((command) => command.name() === word);
    if (next === undefined) break;
    names.push(word);
    at = next;
  }
  return names.join(' ');
}
