import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { putCredential } from '../../db/credentials.ts';
import type { Call } from '../../effects/effect.ts';
import { exampleContracts } from '../../examples/contract-refs.ts';
import { type Dovecot, dovecotMissing, startDovecot } from '../support/dovecot.ts';
import { eventsOf, openWorld, TENANT, type World } from './support/world.ts';

const missing = dovecotMissing();
if (missing !== null) {
  if (process.env.CI) throw new Error(missing);
  console.warn(`SKIPPED: a worker killed while it sends mail (${missing})`);
}

/** A real mail server between the worker and its death: the contracts are those of `examples/mail-provider`. */
describe.skipIf(missing !== null)('a worker killed after the mail server took its mail', () => {
  let server: Dovecot;
  let world: World;
  beforeEach(async () => {
    server = await startDovecot();
    world = await openWorld({ contracts: examples() });
    await putCredential(world.ledger, { name: 'mailbox', version: 'v1', account: 'agent', grants: ['**'] });
  });
  afterEach(async () => {
    await world.close();
    await server.stop();
  });

  const examples = () =>
    exampleContracts(join(import.meta.dirname, '../../examples/mail-provider')).map(({ contract }) => contract);

  const providers = () => ({
    mail: {
      kind: 'mail',
      smtp: { host: server.host, port: server.lmtpPort, lmtp: true },
      imap: { host: server.host, port: server.imapPort, user: server.user },
      domain: 'holdfast.example.org',
    },
  });
  const worker = (more: Parameters<World['worker']>[1] = {}) =>
    world.worker(['dispatch', 'providers', 'reconcile'], {
      providers: providers(),
      env: { HOLDFAST_SECRET_MAILBOX: `v1:${server.password}` },
      ...more,
    });

  const mailTo = (call: string): Call => ({
    tenant: TENANT,
    run: world.run,
    call,
    tool: 'mail.send',
    version: '1.0.0',
    args: { to: 'agent@example.org', subject: 'Your invoice', text: 'Dear customer' },
  });

  test('leaves one mail, found by its Message-ID; the retried step hears that (case 18)', async () => {
    const holder = await worker({ armed: { point: 'answered', action: 'SIGKILL' } });
    const call = mailTo('step');
    const handle = await world.callMany([call], 'activity', { taskQueue: 'holdfast-provider-mail', waitMs: 30_000 });
    expect(await holder.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect({ reached: holder.reached(), mails: server.count() }).toEqual({ reached: ['step'], mails: 1 });

    await worker();
    const [outcome] = await handle.result();
    expect(outcome).toMatchObject({ status: 'CONFIRMED', settledBy: 'evidence', tool: 'mail.send' });
    const row = await world.row('step');
    const messageId = `<${world.keyOf(call)}@holdfast.example.org>`;
    expect({ reference: row?.providerRef, sends: row?.sends }).toEqual({ reference: messageId, sends: 1 });
    const [mail, ...more] = server.mails();
    expect(more).toEqual([]);
    // A long header is folded onto a line of its own.
    expect(mail?.replace(/\r?\n[ \t]+/g, ' ')).toContain(`Message-ID: ${messageId}`);
  });

  test('leaves one mail, however often its caller asks again under the same call id (case 18)', async () => {
    const holder = await worker({ armed: { point: 'answered', action: 'SIGKILL' } });
    const call = mailTo('asked-again');
    await expect(holder.dispatch([call], 30_000)).rejects.toThrow();
    const other = await worker();
    const heard = [];
    for (let again = 0; again < 3; again += 1) heard.push(...(await other.dispatch([call], 20_000)));
    expect(heard.map((one) => ('outcome' in one ? one.outcome.status : one.error))).toEqual([
      'CONFIRMED',
      'CONFIRMED',
      'CONFIRMED',
    ]);
    expect(await eventsOf(world, 'asked-again')).toEqual(['fenced', 'evidence']);
    expect(server.count()).toBe(1);
  });
});
