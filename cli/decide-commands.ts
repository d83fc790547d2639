import { type Command, Option } from 'commander';
import type { Ledger } from '../client/admin.ts';
import type { DecideRequest } from '../client/holdfast.ts';
import { EFFECT_STATUSES, type EffectId, type EffectStatus } from '../effects/effect.ts';
import { HoldfastError, isHoldfastError } from '../effects/errors.ts';
import { type Common, codecOf, optionsOf, type Places, places, withLedger, withTemporal } from './context.ts';
import { cleanText, print, printJson, statusText, styled } from './output.ts';
import { readCount, readEffectId, readJson } from './values.ts';

interface DecideOptions extends Common {
  readonly actor: string;
  readonly reason: string;
  readonly result?: string;
  readonly decisionId?: string;
  readonly expectedStatus?: EffectStatus;
  readonly expectedFence?: string;
  readonly correction?: boolean;
  readonly force?: boolean;
}

/** How long a decision that already stands may spend on telling the workflow. */
const TELL_WITHIN_MS = 3_000;

/** `effect confirm | not-applied`: a person rules. Recorded in the ledger at once, also with fleet and Temporal down. */
export function addDecideCommands(program: Command): void {
  const effect = program.commands.find((command) => command.name() === 'effect');
  if (effect === undefined) throw new Error('addEffectCommands comes first');
  const example = "holdfast effect confirm effect:acme:r1:note-1 --actor ann --reason 'seen in the books'";
  common(effect.command('confirm'))
    .description('rule that the effect happened')
    .option('--result <json>', 'what the provider is known to have answered: JSON, @file, or -')
    .addHelpText('after', `\nExample:\n  $ ${example}`)
    .action((id: string, _, command: Command) => decide('confirm', id, optionsOf<DecideOptions>(command)));
  common(effect.command('not-applied'))
    .description('rule that the effect did not happen')
    .option('--force', 'also before the request can no longer take effect')
    .option('--correction', 'overrule a CONFIRMED effect; it is marked CONFLICT')
    .addHelpText(
      'after',
      `\nExample:\n  $ ${example.replace('confirm', 'not-applied').replace('seen in', 'absent from')}`,
    )
    .action((id: string, _, command: Command) => decide('not_applied', id, optionsOf<DecideOptions>(command)));
}

function common(command: Command): Command {
  return command
    .argument('<id>')
    .requiredOption('--actor <name>', 'who rules, self-declared')
    .requiredOption('--reason <text>', 'what it rests on')
    .option('--decision-id <id>', 'repeat-safe: the same id again gives the first answer')
    .addOption(new Option('--expected-status <status>', 'rule only if it is still this').choices(EFFECT_STATUSES))
    .option('--expected-fence <n>', 'and still this fence');
}

async function decide(ruling: DecideRequest['ruling'], text: string, options: DecideOptions): Promise<void> {
  const id = readEffectId(text);
  const request = requestOf(ruling, id, options);
  const at = await places(options);
  const { Holdfast } = await import('../client/holdfast.ts');
  const codec = await codecOf(at);
  const { answer, told } = await withLedger(at, async (ledger) => {
    const answer = await new Holdfast({ ledger, settings: at.config.settings, codec }).decide(request);
    return { answer, told: answer.applied ? await tellWorkflow(at, ledger, id) : null };
  });
  if (options.json) printJson({ ...answer, workflowTold: told?.ok ?? null });
  if (!answer.applied) {
    throw new HoldfastError('decision_refused', answer.refusal ?? 'the decision was refused', {
      place: `${answer.effectId}, now ${answer.status} with fence ${answer.fence}`,
      next: `look again: holdfast effect show ${answer.effectId}`,
    });
  }
  if (options.json) return;
  const first = answer.repeated ? 'this decision stands already' : 'decided';
  print(`${first}: ${styled('bold', answer.effectId)} is ${statusText(answer.status)}`);
  print(`  decision ${answer.decisionId}, by ${cleanText(options.actor)} (self-declared)`);
  if (told !== null && !told.ok) {
    print(
      `  The workflow could not be told (${told.why}). The decision stands; the workflow reads it when it is back.`,
    );
  }
}

function requestOf(ruling: DecideRequest['ruling'], id: EffectId, options: DecideOptions): DecideRequest {
  const { expectedStatus: status, expectedFence: fence } = options;
  if ((status === undefined) !== (fence === undefined)) {
    throw new HoldfastError('bad_input', 'an expected version is a status and a fence', {
      place: status === undefined ? '--expected-status' : '--expected-fence',
      next: 'take both from: holdfast effect show',
    });
  }
  return {
    id,
    ruling,
    actor: options.actor,
    reason: options.reason,
    source: 'cli',
    force: options.force ?? false,
    correction: options.correction ?? false,
    ...(options.decisionId === undefined ? {} : { decisionId: options.decisionId }),
    ...(options.result === undefined ? {} : { result: readJson(options.result, '--result') }),
    ...(status === undefined || fence === undefined
      ? {}
      : { expected: { status, fence: readCount(fence, '--expected-fence') } }),
  };
}

/** Only so that the workflow closes soon: the ledger has the decision, and the workflow reads the ledger. */
async function tellWorkflow(
  at: Places,
  ledger: Ledger,
  id: EffectId,
): Promise<{ ok: true } | { ok: false; why: string }> {
  const { Holdfast } = await import('../client/holdfast.ts');
  try {
    await withTemporal(
      at,
      (temporal) => new Holdfast({ ledger, temporal, queuePrefix: at.config.queue_prefix }).checkNow(id),
      TELL_WITHIN_MS,
    );
    return { ok: true };
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return { ok: false, why: `${error.code}: ${error.message.split('\n')[0]}` };
  }
}
