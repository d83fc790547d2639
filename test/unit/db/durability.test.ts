import { expect, test } from 'vitest';
import { unsafeSettings } from '../../../db/durability.ts';

const safe = { fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on', has_standbys: false };

test.each([
  [{}, []],
  [{ fsync: 'off' }, ['fsync=off']],
  [{ full_page_writes: 'off' }, ['full_page_writes=off']],
  [{ synchronous_commit: 'off' }, ['synchronous_commit=off']],
  [{ synchronous_commit: 'local' }, []],
  [{ synchronous_commit: 'local', has_standbys: true }, ['synchronous_commit=local']],
  [{ synchronous_commit: 'remote_write', has_standbys: true }, ['synchronous_commit=remote_write']],
  [{ synchronous_commit: 'remote_apply', has_standbys: true }, []],
  [{ fsync: 'off', synchronous_commit: 'off' }, ['fsync=off', 'synchronous_commit=off']],
])('%j leaves %j unsafe', (change, expected) => {
  expect(unsafeSettings({ ...safe, ...change })).toEqual(expected);
});
