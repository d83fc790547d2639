import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkDeployment } from '../../../db/deployment.ts';
import { constraintOf } from '../../../db/errors.ts';
import { callOf, startProcess } from './fleet.ts';
import { openShop, type Shop } from './shop.ts';
import { openWorld, order, type World } from './world.ts';

let world: World;
let shop: Shop;
beforeAll(async () => {
  world = await openWorld();
  shop = await openShop();
});
afterAll(async () => {
  await world.close();
  await shop.close();
});

const code = (error: { code?: string }) => error.code ?? error;

describe('1.1 identity', () => {
  test.each(['a:b', 'a/b', '', 'é', 'a b', 'x'.repeat(65), 'a\n'])(
    '%j is no id part: refused before the ledger',
    async (part) => {
      const contract = await world.publish(order());
      const one = await startProcess(world, shop);
      for (const place of ['tenant', 'run', 'call']) {
        const call = { ...callOf(contract), [place]: part };
        expect([place, await one.dispatcher.dispatch(call).catch(code)]).toEqual([place, 'bad_id']);
      }
      expect(shop.asks.length).toBe(0);
      await one.stop();
    },
  );

  test('two deployments at one provider make two keys for one call; one makes one, whatever the process', async () => {
    const contract = await world.publish(order({ repeats: 'allowed' }, { tool: 'shop.keys' }));
    const keys = [];
    for (const [deploymentId, call] of [
      ['production', 'same'],
      ['staging', 'same-too'],
      ['production', 'same-three'],
    ] as const) {
      const one = await startProcess(world, shop, { deploymentId });
      await one.dispatcher.dispatch(callOf(contract, { run: deploymentId, call }));
      keys.push(shop.asks.at(-1)?.key);
      await one.stop();
    }
    expect(new Set(keys).size).toBe(3);
    expect(keys.every((key) => /^[0-9a-f]{64}$/.test(key ?? ''))).toBe(true);
    const { effectKey } = await import('../../../effects/effect-key.ts');
    const id = { tenant: 'acme', run: 'production', call: 'same' };
    const format = { alphabet: 'hex', length: 64 } as const;
    expect([effectKey('production', id, format), effectKey('staging', id, format) === keys[0]]).toEqual([
      keys[0],
      false,
    ]);
  });

  test('the deployment id is written once; another one is refused, also by 8 that race', async () => {
    const raced = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        checkDeployment(world.ledger, `race-${index % 2}`).then(
          () => `race-${index % 2}`,
          (error: { code: string }) => error.code,
        ),
      ),
    );
    const [row] = await world.admin`SELECT deployment_id FROM holdfast.deployments`;
    const winner = row?.deployment_id as string;
    expect(raced.sort()).toEqual([...Array(4).fill('deployment_mismatch'), ...Array(4).fill(winner)].sort());
    await expect(checkDeployment(world.ledger, 'other')).rejects.toMatchObject({ code: 'deployment_mismatch' });
    await expect(checkDeployment(world.ledger, winner)).resolves.toBe(undefined);
  });

  test('not even the owner of the schema changes the deployment id', async () => {
    const error = await world.admin`UPDATE holdfast.deployments SET deployment_id = 'x'`.catch(
      (thrown: unknown) => thrown,
    );
    expect(constraintOf(error)).toBe('deployments_immutable');
  });
});

describe('1.3 identity outlives payloads', () => {
  test('workers may not delete payloads of their own accord, nor any effect', async () => {
    const refused = (statement: string) =>
      world.ledger.sql.unsafe(statement).then(
        () => 'done',
        (error: { code: string }) => error.code,
      );
    expect(
      await Promise.all(['effects', 'payloads', 'contracts'].map((t) => refused(`DELETE FROM holdfast.${t}`))),
    ).toEqual(['42501', '42501', '42501']);
  });
});
