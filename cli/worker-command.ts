import type { Command } from 'commander';
import { optionsOf, places } from './context.ts';
import { print, printJson, styled } from './output.ts';

/** `worker`: one process of the fleet, until SIGINT or SIGTERM. */
export function addWorkerCommand(program: Command): void {
  program
    .command('worker')
    .description('run one process of the fleet until Ctrl-C or SIGTERM')
    .addHelpText(
      'after',
      '\nProviders, roles and ports come from holdfast.yaml; secrets from HOLDFAST_SECRET_<NAME>=<version>:<value>.' +
        '\n\nExample:\n  $ HOLDFAST_SECRET_BILLING=2026-11:s3cr3t holdfast worker --config holdfast.yaml',
    )
    .action(async (_, command: Command) => {
      const common = optionsOf(command);
      const { config } = await places(common);
      const { runWorker } = await import('../workers/run-worker.ts');
      await runWorker(config, {
        stacks: common.debug,
        onReady(ready) {
          if (common.json) return printJson({ event: 'ready', ...ready });
          const health = ready.healthPort === null ? '' : ` · health on port ${ready.healthPort}`;
          const roles = ready.roles.join(', ');
          print(`${styled('bold', 'worker ready')} · pid ${ready.pid} · process ${ready.processId} · roles ${roles}`);
          print(`  polls ${ready.taskQueues.join(', ')}${health}`);
          if (Object.keys(config.providers).length === 0) {
            print('  no provider is configured, so it can send nothing: see providers in holdfast.yaml');
          }
        },
      });
      if (!common.json) print('worker stopped: every flight is settled');
    });
}
