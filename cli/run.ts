import { CommanderError } from 'commander';
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
  const program = buildProgram();
  try {
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) return fail(thrown);
    // Help and version were asked for and are printed already.
    if (thrown.exitCode === 0) return 0;
    return fail(usageError(thrown, args));
  }
}

/** commander's own words (`error: unknown option '--x'`) in the form of every other error. */
function usageError(error: CommanderError, args: readonly string[]): HoldfastError {
  const words = args.filter((word) => !word.startsWith('-')).slice(0, 2);
  const group = words[0] === undefined ? 'holdfast' : `holdfast ${words[0]}`;
  if (error.code === 'commander.help') {
    return new HoldfastError('bad_input', `${group} needs a command`, { place: group, next: `see ${group} --help` });
  }
  const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  const unknown = error.code === 'commander.unknownCommand';
  const place = unknown || words[1] === undefined ? group : `${group} ${words[1]}`;
  return new HoldfastError('bad_input', message, {
    place: unknown ? 'holdfast' : place,
    next: `see ${unknown ? 'holdfast' : group} --help`,
  });
}
