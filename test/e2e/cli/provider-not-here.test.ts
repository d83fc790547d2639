import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Billing, startBilling } from '../../support/billing.ts';
import { type FreshDatabase, type FreshNamespace, freshDatabase, freshNamespace } from '../../support/stack.ts';
import { errorIn, type Ran, shippedCommand } from './command.ts';

const CONTRACTS = join(import.meta.dirname, '../../../examples/billing-provider/contracts');

/** One story in order: what the shipped command says where the contract's provider is not configured. */
describe('a provider that is not configured here', () => {
  const holdfast = shippedCommand();
  let database: FreshDatabase;
  let temporal: FreshNamespace;
  let billing: Billing;

  /** Writes the configuration, with these providers. */
  const configure = (name: string, providers: object): string => {
    const config = {
      database: { url: database.url },
      temporal: { address: temporal.address, namespace: temporal.namespace },
      providers,
      settings: { queue_wait_ms: 1_000 },
      allow_unsafe_durability: true,
    };
    writeFileSync(join(holdfast.dir, name), JSON.stringify(config));
    return name;
  };
  const call = (config: string, id: string, ...more: string[]): Promise<Ran> => {
    const ids = ['--tool-version', '1.0.0', '--tenant', 'acme', '--run', 'r', '--call', id];
    const args = ['--args', '{"currency":"EUR"}', '--config', config, ...more];
    return holdfast.run(['call', 'billing.rate', ...ids, ...args], { HOLDFAST_SECRET_BILLING: 'v1:token' });
  };
  const recorded = (id: string) => holdfast.run(['effect', 'show', `effect:acme:r:${id}`, '--config', 'without.yaml']);

  beforeAll(async () => {
    [database, temporal, billing] = await Promise.all([freshDatabase(), freshNamespace(), startBilling()]);
    configure('without.yaml', {});
    configure('with.yaml', { billing: { kind: 'http', base_url: billing.url } });
    configure('other-kind.yaml', { billing: { kind: 'mcp', era: '2025-11-25', http: { url: billing.url } } });
    const set = (...args: string[]) => holdfast.run([...args, '--config', 'without.yaml']);
    for (const ran of [
      await set('tenant', 'put', 'acme'),
      await set('credential', 'put', 'billing', '--credential-version', 'v1', '--account', 'a', '--grant', '**'),
      await set('contract', 'publish', join(CONTRACTS, 'rate.yaml')),
    ]) {
      expect({ exit: ran.exit, stderr: ran.stderr }).toEqual({ exit: 0, stderr: '' });
    }
  });
  afterAll(async () => {
    await billing?.stop();
    await database?.drop();
    holdfast.remove();
  });

  it.each([
    ['without.yaml', 'no provider billing is configured in this process'],
    ['other-kind.yaml', 'provider billing is configured as mcp, the contract needs http'],
  ])('a call that %s should make itself is refused, and leaves no row', async (config, message) => {
    const ran = await call(config, 'direct', '--lane', 'direct');
    expect({ exit: ran.exit, stdout: ran.stdout, ...errorIn(ran) }).toEqual({
      exit: 5,
      stdout: '',
      code: 'provider_not_here',
      message,
      place: 'billing',
      next: 'configure the provider, or let a worker that has it take the call',
    });
    expect(errorIn(await recorded('direct')).code).toBe('effect_not_found');
  });

  it('the same call id goes through where the provider is configured', async () => {
    expect(await call('with.yaml', 'direct', '--lane', 'direct')).toMatchObject({ exit: 0, stderr: '' });
    expect((await billing.audit()).length).toBe(1);
  });

  it('a fleet without the provider says so when the wait for a worker that has it is over, and the call is final', async () => {
    const worker = await holdfast.worker(['--config', 'without.yaml']);
    try {
      const ran = await call('with.yaml', 'queued', '--wait', '30s', '--json');
      expect({ exit: ran.exit, ...JSON.parse(ran.stdout) }).toMatchObject({
        exit: 3,
        status: 'NOT_APPLIED',
        reason: { code: 'provider_not_served' },
      });
      expect(JSON.parse(ran.stderr)).toMatchObject({
        error: {
          code: 'provider_not_served',
          next: 'start a worker that has this provider and the role providers, then make a new call',
        },
      });
    } finally {
      const stopped = await worker.stop();
      expect({ exit: stopped.exit, stderr: stopped.stderr }).toEqual({ exit: 0, stderr: '' });
    }
    expect((await billing.audit()).length).toBe(1);
  });
});
