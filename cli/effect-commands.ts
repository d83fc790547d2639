import { type Command, Option } from 'commander';
import type { EffectFilter, EffectPage, EffectSummary } from '../client/admin.ts';
import { EFFECT_CLASSES, type EffectClass } from '../contracts/contract.ts';
import { ATTENTIONS, type Attention, EFFECT_STATUSES, type EffectStatus, effectIdText } from '../effects/effect.ts';
import { type Common, codecOf, optionsOf, type Places, places, withLedger, withTemporal } from './context.ts';
import { effectText } from './effect-view.ts';
import { effectLink, stuckLink } from './links.ts';
import { tellOutcome } from './outcome.ts';
import { print, printJson, relative, span, styled, table } from './output.ts';
import { readCount, readDuration, readEffectId } from './values.ts';

interface ListOptions extends Common {
  readonly stuck?: boolean;
  readonly status?: EffectStatus;
  readonly class?: EffectClass;
  readonly tenant?: string;
  readonly tool?: string;
  readonly attention?: Attention | true;
  readonly limit: string;
  readonly after?: string;
}

/** `effect list | show | check | wait`; all but `check` need only the ledger. */
export function addEffectCommands(program: Command): void {
  const effect = program.command('effect').description('what became of calls, and settling it by hand');
  effect
    .command('list')
    .description('list effects by id, or the stuck ones by age')
    .option('--stuck', 'only what is unknown, overdue or left by a dead worker, oldest first')
    .addOption(new Option('--status <status>', 'only this status').choices(EFFECT_STATUSES))
    .addOption(new Option('--class <class>', 'only this effect class').choices(EFFECT_CLASSES))
    .option('--tenant <t>', 'only this tenant')
    .option('--tool <tool>', 'only this tool')
    .addOption(new Option('--attention [kind]', 'only what needs a person').choices(ATTENTIONS))
    .option('--limit <n>', 'at most so many, up to 500', '50')
    .option('--after <cursor>', 'go on where the page before ended')
    .addHelpText('after', '\nExample:\n  $ holdfast effect list --stuck')
    .action((_, command: Command) => list(optionsOf<ListOptions>(command)));
  effect
    .command('show')
    .argument('<id>')
    .description('show one effect with its whole history')
    .option('--payloads', 'with arguments, result and observations')
    .addHelpText('after', '\nExample:\n  $ holdfast effect show effect:acme:r1:pay-1')
    .action((id: string, _, command: Command) => show(id, optionsOf<Common & { payloads?: boolean }>(command)));
  effect
    .command('check')
    .argument('<id>')
    .description('have the fleet ask the provider for evidence now')
    .addHelpText('after', '\nExample:\n  $ holdfast effect check effect:acme:r1:pay-1')
    .action((id: string, _, command: Command) => check(id, optionsOf(command)));
  effect
    .command('wait')
    .argument('<id>')
    .description('wait until an effect is settled')
    .option('--timeout <duration>', 'give up waiting after so long', '60s')
    .addHelpText(
      'after',
      '\nExit codes: 0 CONFIRMED, 3 NOT_APPLIED, 4 still UNKNOWN.' +
        '\n\nExample:\n  $ holdfast effect wait effect:acme:r1:pay-1 --timeout 5m',
    )
    .action((id: string, _, command: Command) => wait(id, optionsOf<Common & { timeout: string }>(command)));
}

async function list(options: ListOptions): Promise<void> {
  const filter: EffectFilter = {
    limit: readCount(options.limit, '--limit'),
    ...(options.stuck ? { stuck: true } : {}),
    ...(options.status === undefined ? {} : { status: options.status }),
    ...(options.class === undefined ? {} : { effectClass: options.class }),
    ...(options.tenant === undefined ? {} : { tenant: options.tenant }),
    ...(options.tool === undefined ? {} : { tool: options.tool }),
    ...(options.attention === undefined
      ? {}
      : { attention: options.attention === true ? ('any' as const) : options.attention }),
    ...(options.after === undefined ? {} : { after: options.after }),
  };
  const { listEffects } = await import('../client/admin.ts');
  const at = await places(options);
  const page = await withLedger(at, (ledger) => listEffects(ledger, filter));
  if (options.json) return printJson(page);
  if (page.effects.length === 0) return print(options.stuck ? 'Nothing is stuck.' : 'No effect fits.');
  print(table(['EFFECT', 'STATUS', 'TOOL', 'CLASS', 'AGE', 'NOTE'], page.effects.map(rowOf)));
  print(styled('dim', hintOf(page, options, at)));
}

function rowOf(effect: EffectSummary): string[] {
  return [
    effect.effectId,
    effect.status,
    `${effect.tool}@${effect.version}`,
    effect.effectClass ?? '-',
    span(Date.now() - Date.parse(effect.recordedAt)),
    noteOf(effect),
  ];
}

/** What matters about it right now. */
function noteOf(effect: EffectSummary): string {
  const person = effect.attention === null ? [] : [`needs a person: ${effect.attention}`];
  switch (effect.status) {
    case 'CONFIRMED':
      return [...person, `by ${effect.settledBy ?? 'holder'}`].join('; ');
    case 'NOT_APPLIED':
      return [...person, effect.reasonCode ?? `by ${effect.settledBy}`].join('; ');
    case 'DISPATCHED':
      return [...person, effect.holder === 'alive' ? 'in flight' : 'its worker is gone'].join('; ');
    case 'UNKNOWN':
      return [...person, lookNote(effect.nextLookAt)].join('; ');
  }
}

function lookNote(nextLookAt: string | null): string {
  if (nextLookAt === null) return 'no look is planned';
  return Date.parse(nextLookAt) > Date.now() ? `next look ${relative(nextLookAt)}` : 'a look is due';
}

function hintOf(page: EffectPage, options: ListOptions, at: Places): string {
  const lines: string[] = [];
  const open = page.effects.find((effect) => effect.status === 'UNKNOWN' || effect.attention !== null);
  const first = open ?? page.effects[0];
  lines.push(`${page.effects.length} shown. Look closer: holdfast effect show ${first?.effectId}`);
  if (page.next !== null) lines.push(`There are more: --after ${page.next}`);
  if (options.stuck && at.uiUrl !== null) lines.push(`In the Temporal UI: ${stuckLink(at.uiUrl, at.namespace)}`);
  return lines.join('\n');
}

async function show(text: string, options: Common & { payloads?: boolean }): Promise<void> {
  const id = readEffectId(text);
  const { showEffect } = await import('../client/admin.ts');
  const at = await places(options);
  const codec = options.payloads ? await codecOf(at) : undefined;
  const effect = await withLedger(at, (ledger) => showEffect(ledger, id, codec));
  const link = at.uiUrl === null ? null : effectLink(at.uiUrl, at.namespace, id);
  if (options.json) printJson({ ...effect, link });
  else print(effectText(effect, link));
}

async function check(text: string, options: Common): Promise<void> {
  const id = readEffectId(text);
  const { Holdfast } = await import('../client/holdfast.ts');
  const at = await places(options);
  await withLedger(at, (ledger) =>
    withTemporal(at, (temporal) =>
      new Holdfast({ ledger, temporal, queuePrefix: at.config.queue_prefix }).checkNow(id),
    ),
  );
  const effectId = effectIdText(id);
  if (options.json) return printJson({ effectId, asked: true });
  print(`asked: a worker looks at ${effectId} as soon as one runs`);
  print(styled('dim', `See what it finds: holdfast effect wait ${effectId}`));
}

async function wait(text: string, options: Common & { timeout: string }): Promise<void> {
  const id = readEffectId(text);
  const waitMs = readDuration(options.timeout, '--timeout');
  const { awaitOutcome } = await import('../client/admin.ts');
  const at = await places(options);
  const codec = await codecOf(at);
  const outcome = await withLedger(at, (ledger) => awaitOutcome({ ledger, codec }, id, waitMs));
  tellOutcome(outcome, options);
}
