import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Holdfast } from '../../../client/holdfast.ts';
import type { Contract } from '../../../contracts/contract.ts';
import { callOf, type Process, startProcess } from '../protocol/fleet.ts';
import { openShop, type Shop } from '../protocol/shop.ts';
import { openWorld, order, type World } from '../protocol/world.ts';

let world: World;
let shop: Shop;
let process: Process;
let contract: Contract;
let silent: Server;
const sockets = new Set<Socket>();
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
  process = await startProcess(world, shop);
  contract = await world.publish(order());
  silent = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => silent.close(resolve));
  await process.stop();
  await world.close();
  await shop.close();
});

/** Longer than the floor of 3 s, much shorter than the 20 s for which the client tries by itself. */
const REFUSED_WITHIN_MS = 10_000;

describe.each([
  ['takes no connection', () => '127.0.0.1:1'],
  ['takes connections and says nothing', () => `127.0.0.1:${(silent.address() as AddressInfo).port}`],
])('with a Temporal that %s', (_, address) => {
  const away = async (work: (holdfast: Holdfast) => Promise<unknown>) => {
    const connection = Connection.lazy({ address: address() });
    const { dispatcher } = process;
    try {
      return await work(new Holdfast({ ledger: world.ledger, temporal: new Client({ connection }), dispatcher }));
    } finally {
      await connection.close();
    }
  };

  test(
    'a call in a hurry is refused soon, and the same call id goes through in the other lane, once',
    {
      timeout: REFUSED_WITHIN_MS,
    },
    () =>
      away(async (holdfast) => {
        const call = callOf(contract);
        const before = shop.sends();
        await expect(holdfast.dispatch({ ...call, waitMs: 100 })).rejects.toMatchObject({
          code: 'temporal_unreachable',
          retryable: true,
          next: expect.stringContaining('the same call id is safe to repeat'),
        });
        expect(shop.sends()).toBe(before);
        expect(await holdfast.dispatch({ ...call, lane: 'direct' })).toMatchObject({ status: 'CONFIRMED' });
        expect(shop.sends()).toBe(before + 1);
      }),
  );

  test(
    'a decision stands, and the workflow that cannot be told does not hold it up',
    {
      timeout: REFUSED_WITHIN_MS,
    },
    () =>
      away(async (holdfast) => {
        shop.onSend = () => 'drop';
        const call = callOf(contract);
        await process.dispatcher.dispatch(call);
        shop.onSend = (ask) => shop.apply(ask);
        const said = { id: call, actor: 'ann', source: 'test', reason: 'seen' };
        expect(await holdfast.decide({ ...said, ruling: 'confirm' })).toMatchObject({ applied: true });
      }),
  );
});
