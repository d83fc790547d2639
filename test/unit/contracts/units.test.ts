import { expect, test } from 'vitest';
import { nearest } from '../../../contracts/did-you-mean.ts';
import { DURATION_MS_MAX, parseDuration, parseSize } from '../../../contracts/units.ts';

test.each([
  ['0s', 0],
  ['250ms', 250],
  ['5s', 5_000],
  ['10m', 600_000],
  ['24h', 86_400_000],
  ['90d', 7_776_000_000],
  ['3650d', DURATION_MS_MAX],
])('the duration %s is %i ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each(['', '5', 's', '05s', '-1s', '1.5s', '1 s', '1S', '1w', '1y', '3651d', '1s\n', '999999999999d'])(
  '%j is no duration',
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);

test.each([
  ['512B', 512],
  ['16KiB', 16_384],
  ['1MiB', 1_048_576],
  ['1KB', undefined],
  ['1k', undefined],
  ['1', undefined],
])('the size %s is %j bytes', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each([
  ['timeuot', 'timeout'],
  ['sendBy', 'send_by'],
  ['send-by', 'send_by'],
  ['efect', 'effect'],
  ['zzz', undefined],
  ['', undefined],
])('nearest to %j is %j', (word, near) => {
  expect(nearest(word, ['timeout', 'send_by', 'effect', 'http'])).toBe(near);
});
