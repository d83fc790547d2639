import { describe, expect, it } from 'vitest';
import {
  readCount,
  readDuration,
  readEffectId,
  readJson,
  readJsonObject,
  readSize,
  readText,
  readToolVersion,
} from '../../../cli/values.ts';
import { HoldfastError } from '../../../effects/errors.ts';

function errorOf(work: () => unknown): { code: string; message: string; place: string | undefined } {
  try {
    work();
  } catch (error) {
    if (error instanceof HoldfastError) return { code: error.code, message: error.message, place: error.place };
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('values on the command line', () => {
  it('are read', () => {
    expect([
      readDuration('30s', '--wait'),
      readSize('64KiB', '--max'),
      readSize('1000', '--max'),
      readCount('12', '--limit'),
      readEffectId('effect:acme:r1:c1'),
      readEffectId('acme:r1:c1'),
      readToolVersion('billing.pay@1.0.0-rc.1'),
      readJson('[1]', '--result'),
      readJsonObject('{"a":1}', '--args'),
    ]).toEqual([
      30_000,
      65_536,
      1000,
      12,
      { tenant: 'acme', run: 'r1', call: 'c1' },
      { tenant: 'acme', run: 'r1', call: 'c1' },
      { tool: 'billing.pay', version: '1.0.0-rc.1' },
      [1],
      { a: 1 },
    ]);
  });

  it.each([
    ['a duration without unit', () => readDuration('30', '--wait'), 'bad_input', '--wait'],
    ['a size in other units', () => readSize('1GB', '--max'), 'bad_input', '--max'],
    ['a negative count', () => readCount('-1', '--limit'), 'bad_input', '--limit'],
    ['an effect id with two parts', () => readEffectId('effect:a:b'), 'bad_id', 'ID'],
    ['a contract without version', () => readToolVersion('billing.pay'), 'bad_input', 'TOOL@VERSION'],
    ['an array for arguments', () => readJsonObject('[]', '--args'), 'bad_input', '--args'],
    ['a file that is not there', () => readText('/no/such/file', 'FILE'), 'bad_input', '/no/such/file'],
  ])('are refused with their option as the place: %s', (_, work, code, place) => {
    expect(errorOf(work)).toMatchObject({ code, place });
  });

  it('never quote JSON that cannot be read', () => {
    expect(errorOf(() => readJson('{"token": "s3cr3t" oops', '--args'))).toEqual({
      code: 'bad_input',
      message: 'not JSON (at character 19)',
      place: '--args',
    });
  });
});
