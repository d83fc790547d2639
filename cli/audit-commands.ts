import { once } from 'node:events';
import { createWriteStream, renameSync, rmSync } from 'node:fs';
import type { Writable } from 'node:stream';
import type { Command } from 'commander';
import { HoldfastError } from '../effects/errors.ts';
import { codecOf, optionsOf, places, withLedger } from './context.ts';
import { printJson } from './output.ts';
import { readEffectId } from './values.ts';

interface ExportOptions {
  readonly tenant: string;
  readonly effect?: string;
  readonly out?: string;
  readonly payloads?: boolean;
}

/** `audit export`: everything that ever happened, as JSON Lines. */
export function addAuditCommands(program: Command): void {
  program
    .command('audit')
    .description('what happened, for others to read')
    .command('export')
    .description('write the story of every effect of a tenant as JSON Lines')
    .requiredOption('--tenant <t>', 'whose effects')
    .option('--effect <id>', 'only this effect')
    .option('--out <file>', 'write here instead of to standard output; appears only when complete')
    .option('--payloads', 'with arguments, results and observations')
    .addHelpText('after', '\nExample:\n  $ holdfast audit export --tenant acme --out acme.jsonl')
    .action(async (_, command: Command) => {
      const options = optionsOf<ExportOptions>(command);
      const { auditExport } = await import('../client/admin.ts');
      const scope = {
        tenant: options.tenant,
        ...(options.effect === undefined ? {} : { effect: readEffectId(options.effect) }),
      };
      const at = await places(options);
      const payloads = options.payloads === true ? { payloads: true, codec: await codecOf(at) } : {};
      const done = await withLedger(at, (ledger) =>
        intoFile(options.out, (write) => auditExport(ledger, scope, write, payloads)),
      );
      const summary = { ...done, out: options.out ?? null };
      if (options.json && options.out !== undefined) printJson(summary);
      else if (options.json) process.stderr.write(`${JSON.stringify(summary)}\n`);
      else
        process.stderr.write(
          `${done.effects} effects, ${done.lines} lines${options.out ? ` in ${options.out}` : ''}\n`,
        );
    });
}

/** Gives `work` a writer that waits for slow readers. A file gets its name only when it is complete. */
async function intoFile<T>(
  out: string | undefined,
  work: (write: (line: string) => Promise<void>) => Promise<T>,
): Promise<T> {
  if (out === undefined) return work((line) => writeTo(process.stdout, line));
  const half = `${out}.${process.pid}.part`;
  const file = createWriteStream(half, { mode: 0o600 });
  try {
    await once(file, 'open');
    const result = await work((line) => writeTo(file, line));
    file.end();
    await once(file, 'close');
    renameSync(half, out);
    return result;
  } catch (error) {
    rmSync(half, { force: true });
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new HoldfastError('bad_input', `the file cannot be written (${code})`, { place: out });
  }
}

async function writeTo(stream: Writable, line: string): Promise<void> {
  if (!stream.write(line)) await once(stream, 'drain');
}
