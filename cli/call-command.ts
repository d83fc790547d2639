import { type Command, Option } from 'commander';
import type { Ledger } from '../client/admin.ts';
import type { DispatchRequest } from '../client/holdfast.ts';
import { isIdPart, type Outcome } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import { type Common, codecOf, optionsOf, type Places, places, withLedger, withTemporal } from './context.ts';
import { tellOutcome } from './outcome.ts';
import { readDuration, readJsonObject } from './values.ts';

const LANES = ['workflow', 'direct'] as const;

interface CallOptions extends Common {
  readonly toolVersion: string;
  readonly digest?: string;
  readonly tenant: string;
  readonly run: string;
  readonly call: string;
  readonly args: string;
  readonly lane: (typeof LANES)[number];
  readonly wait: string;
  readonly overrideActor?: string;
  readonly overrideReason?: string;
}

/** `call TOOL`: one call, as an agent would make it. */
export function addCallCommand(program: Command): void {
  program
    .command('call')
    .argument('<tool>', 'such as billing.pay')
    .description('make one call; the same call id again gives the same outcome')
    .requiredOption('--tool-version <v>', 'version of the contract')
    .option('--digest <d>', 'digest that this version must have, or nothing is sent')
    .requiredOption('--tenant <t>', 'who calls')
    .requiredOption('--run <r>', 'the agent run')
    .requiredOption('--call <c>', 'the call id, stable over your own retries')
    .option('--args <json>', 'arguments: JSON, @file, or - for standard input', '{}')
    .addOption(
      new Option('--lane <lane>', 'workflow goes on without you; direct sends from here')
        .choices(LANES)
        .default('workflow'),
    )
    .option('--wait <duration>', 'how long to wait for a settled outcome', '30s')
    .option('--override-actor <name>', 'who permits repeating an open effect in other words')
    .option('--override-reason <text>', 'and why')
    .addHelpText(
      'after',
      '\nExit codes: 0 CONFIRMED, 3 NOT_APPLIED, 4 UNKNOWN.' +
        '\n\nExample:\n  $ holdfast call billing.pay --tool-version 1.0.0 --tenant acme --run r1 --call pay-1 \\' +
        `\n      --args '{"payee": "ACME GmbH", "amount": 1250, "currency": "EUR"}'`,
    )
    .action(async (tool: string, _, command: Command) => {
      const options = optionsOf<CallOptions>(command);
      const request = requestOf(tool, options);
      const at = await places(options);
      const outcome =
        options.lane === 'direct'
          ? await direct(at, request)
          : await withLedger(at, (ledger) => byWorkflow(at, ledger, request));
      tellOutcome(outcome, options);
    });
}

function requestOf(tool: string, options: CallOptions): DispatchRequest {
  for (const name of ['tenant', 'run', 'call'] as const) {
    if (!isIdPart(options[name]))
      throw new HoldfastError('bad_id', `the ${name} id is malformed`, { place: `--${name}` });
  }
  const { overrideActor: actor, overrideReason: reason } = options;
  if ((actor === undefined) !== (reason === undefined)) {
    throw new HoldfastError('bad_input', 'an override needs both an actor and a reason', {
      place: actor === undefined ? '--override-actor' : '--override-reason',
    });
  }
  return {
    tool,
    version: options.toolVersion,
    tenant: options.tenant,
    run: options.run,
    call: options.call,
    args: readJsonObject(options.args, '--args'),
    waitMs: readDuration(options.wait, '--wait'),
    lane: options.lane,
    ...(options.digest === undefined ? {} : { digest: options.digest }),
    ...(actor === undefined || reason === undefined ? {} : { override: { actor, reason } }),
  };
}

async function byWorkflow(at: Places, ledger: Ledger, request: DispatchRequest): Promise<Outcome> {
  const { Holdfast } = await import('../client/holdfast.ts');
  const codec = await codecOf(at);
  return withTemporal(at, (temporal) => {
    const { queue_prefix: queuePrefix, settings } = at.config;
    return new Holdfast({ ledger, temporal, queuePrefix, settings, codec }).dispatch(request);
  });
}

/** Sends from this very process, with its own lease, providers and secrets, under the same conditions as a worker. */
async function direct(at: Places, request: DispatchRequest): Promise<Outcome> {
  const { Dispatcher, dispatcherDeps, openLedger } = await import('../workers/index.ts');
  const { awaitOutcome } = await import('../client/admin.ts');
  const ledger = await openLedger(at.config, 'holdfast cli');
  try {
    // An effect left UNKNOWN is due at once, so that the fleet's sweep takes it.
    const deps = dispatcherDeps(at.config, ledger, { unresolved() {} });
    const dispatcher = await Dispatcher.start(deps, { roles: ['cli'] });
    try {
      const { lane: _, waitMs = 0, ...call } = request;
      // The flight is waited for in any case: this process cannot leave before it has landed.
      const outcome = await dispatcher.dispatch(call);
      if (outcome.status !== 'UNKNOWN' || waitMs === 0) return outcome;
      return await awaitOutcome(deps, call, waitMs);
    } finally {
      await dispatcher.stop();
      await Promise.all([...deps.providers.values()].map((provider) => provider.close()));
    }
  } finally {
    await ledger.close();
  }
}
