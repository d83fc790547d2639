import { describe, expect, test } from 'vitest';
import { Group } from '../../../db/group.ts';

/** A statement that ends when told, with everything done or with an error. */
function scripted() {
  const started: { items: readonly string[]; end: (how?: Error) => void }[] = [];
  const run = (items: readonly string[]): Promise<ReadonlySet<string>> =>
    new Promise((resolve, reject) => {
      started.push({ items, end: (how) => (how === undefined ? resolve(new Set(items)) : reject(how)) });
    });
  return { started, run, until: (count: number) => expect.poll(() => started.length).toBe(count) };
}

const REFUSED = new Error('refused');
const DOUBT = new Error('connection lost');
const refused = (error: unknown): boolean => error === REFUSED;

describe('group commit', () => {
  test('an item that finds nothing under way leaves at once and alone', () => {
    const { started, run } = scripted();
    void new Group(run, refused).add('a');
    expect(started.map(({ items }) => items)).toEqual([['a']]);
  });

  test('items that come while a statement is under way leave together in the next one', async () => {
    const { started, run, until } = scripted();
    const group = new Group(run, refused);
    const all = Promise.all(['a', 'b', 'c'].map((item) => group.add(item)));
    started[0]?.end();
    await until(2);
    started[1]?.end();
    expect(await all).toEqual([true, true, true]);
    expect(started.map(({ items }) => items)).toEqual([['a'], ['b', 'c']]);
  });

  test('items do not wait long behind a statement that hangs', async () => {
    const { started, run, until } = scripted();
    const group = new Group(run, refused);
    void group.add('hangs');
    const other = group.add('a');
    await until(2);
    started[1]?.end();
    expect(await other).toBe(true);
  });

  test('each item hears for itself whether it changed a row', async () => {
    const group = new Group<string>(async (items) => new Set(items.filter((item) => item !== 'b')), refused);
    expect(await Promise.all(['a', 'b', 'c'].map((item) => group.add(item)))).toEqual([true, false, true]);
  });

  test('a refused item is refused alone', async () => {
    const groups: (readonly string[])[] = [];
    const group = new Group<string>(async (items) => {
      groups.push(items);
      if (items.includes('bad')) throw REFUSED;
      return new Set(items);
    }, refused);
    const answers = await Promise.allSettled(['a', 'b', 'bad', 'c'].map((item) => group.add(item)));
    expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : answer.reason))).toEqual([
      true,
      true,
      REFUSED,
      true,
    ]);
    expect(groups).toEqual([['a'], ['b', 'bad', 'c'], ['b'], ['bad'], ['c']]);
  });

  test('when the fate of a statement is unknown every item is told, and none is tried again', async () => {
    const { started, run, until } = scripted();
    const group = new Group(run, refused);
    const first = group.add('a');
    const others = Promise.allSettled(['b', 'c'].map((item) => group.add(item)));
    started[0]?.end();
    await until(2);
    started[1]?.end(DOUBT);
    expect(await first).toBe(true);
    expect((await others).map((answer) => answer.status === 'rejected' && answer.reason)).toEqual([DOUBT, DOUBT]);
    expect(started.length).toBe(2);
  });

  test('no statement takes more than 64 items', async () => {
    const sizes: number[] = [];
    const group = new Group<number>(async (items) => {
      sizes.push(items.length);
      return new Set(items);
    }, refused);
    await Promise.all(Array.from({ length: 130 }, (_, n) => group.add(n)));
    expect(sizes).toEqual([1, 64, 64, 1]);
  });
});
