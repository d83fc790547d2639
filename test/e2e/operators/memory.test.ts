import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { until } from '../../crash/support/world.ts';
import { bundleTestWorkflows, startFleetProcess } from '../../support/fleet.ts';
import { openHouse, SETTINGS } from '../support/house.ts';

const OPEN = 1_000;
/** What a reconciling process may take with 1,000 open reconciliations; stated in docs/operations.md. */
const CEILING_MIB = 1_024;

const rssMib = (pid: number) =>
  Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) / 1024;

test(`a process with 1,000 open reconciliations stays below ${CEILING_MIB} MiB (case 13)`, async () => {
  const house = await openHouse();
  // Each is looked at once and then sleeps.
  const settings = { ...SETTINGS, look_min_ms: 3_600_000, look_max_ms: 3_600_000 };
  const config = {
    database: { url: house.url, connections_max: 8 },
    temporal: { address: house.address, namespace: house.namespace },
    worker: { roles: ['reconcile'], sweep_seconds: 60 },
    providers: { billing: { kind: 'http', base_url: house.billing.url } },
    settings,
    allow_unsafe_durability: true,
  };
  const env = { HOLDFAST_SECRET_BILLING: 'v1:for-tests' };
  const reconciling = await startFleetProcess({ config, env, bundle: await bundleTestWorkflows() });
  try {
    const idle = rssMib(reconciling.pid);
    await house.billing.faults(
      { route: 'POST /v1/payments', mode: 'accept_then_close' },
      { route: 'GET /v1/payments', mode: 'status', status: 503 },
    );
    const fleet = await house.fleet({
      roles: ['dispatch'],
      settings: { look_min_ms: 3_600_000, look_max_ms: 3_600_000 },
    });
    for (let done = 0; done < OPEN; done += 50) {
      const names = Array.from({ length: 50 }, (_, i) => `open-${done + i}`);
      const calls = names.map((name) => house.call('NON_RETRYABLE', name));
      await Promise.all(calls.map((call) => fleet.dispatcher.dispatch(call)));
    }
    await until(
      'all of them were looked at and sleep',
      async () => {
        const [row] = await house.ledger.sql`
          SELECT count(*)::int AS looked FROM holdfast.effects WHERE status = 'UNKNOWN' AND looks > 0`;
        return row?.looked === OPEN;
      },
      60_000,
    );
    const { count } = await house.temporal.workflow.count(
      'WorkflowType="reconcileEffect" AND ExecutionStatus="Running"',
    );
    const full = rssMib(reconciling.pid);
    console.log(`idle ${idle.toFixed(0)} MiB, with ${count} open reconciliations ${full.toFixed(0)} MiB`);
    expect(count).toBe(OPEN);
    expect(full).toBeLessThan(CEILING_MIB);
  } finally {
    await reconciling.stop();
    await house.close();
  }
});
