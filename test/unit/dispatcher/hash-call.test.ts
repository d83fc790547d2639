import { expect, test } from 'vitest';
import { hashCall } from '../../../dispatcher/prepare.ts';
import type { Call } from '../../../effects/effect.ts';

const call: Call = { tenant: 'acme', run: 'r', call: 'c', tool: 'billing.pay', version: '1.0.0', args: { amount: 1 } };

test.each(['capabilities', 'effectClass', 'effect', 'credential', 'credentialVersion', 'account', 'evidence', 'fence'])(
  'a caller that supplies %s is refused: that belongs to the runtime',
  (field) => {
    expect(() => hashCall({ ...call, [field]: 'x' })).toThrow(
      expect.objectContaining({ code: 'runtime_field_supplied', place: `/${field}` }),
    );
  },
);

test('the order of the arguments does not change their hash', () => {
  const hash = (args: Call['args']) => hashCall({ ...call, args }).argsHash.toString('hex');
  expect(hash({ a: 1, b: 2 })).toBe(hash({ b: 2, a: 1 }));
});
