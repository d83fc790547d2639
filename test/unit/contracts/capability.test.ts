import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fillCapabilities, fillResources, grantCovers, uncovered } from '../../../contracts/capability.ts';
import { effectiveClass } from '../../../contracts/effective-class.ts';
import { contractWith, HTTP, SCOPE } from './samples.ts';

test.each<[string, string, boolean]>([
  ['invoice:write:acme', 'invoice:write:acme', true],
  ['invoice:write:*', 'invoice:write:acme', true],
  ['invoice:*:acme', 'invoice:write:acme', true],
  ['*:*:*', 'invoice:write:acme', true],
  ['invoice:**', 'invoice:write:acme', true],
  ['invoice:**', 'invoice:write', true],
  ['**', 'invoice:write:acme', true],
  ['invoice:write', 'invoice:write:acme', false],
  ['invoice:write:*', 'invoice:write', false],
  ['invoice:write:*', 'invoice:write:acme:x', false],
  ['invoice:**', 'invoice', false],
  ['invoice:wri*', 'invoice:write', false],
  ['**:acme', 'invoice:write:acme', false],
  ['invoice:write:*', 'invoice:write:', false],
  ['invoice.*', 'invoicex', false],
  ['Invoice:write', 'invoice:write', false],
  ['', '', false],
  ['**', '', false],
])('the grant %j and the capability %j: %s', (grant, capability, covered) => {
  expect(grantCovers([grant], capability)).toBe(covered);
});

test('uncovered lists what no grant covers', () => {
  expect(uncovered(['a:*', 'b:c'], ['a:1', 'b:c', 'b:d', 'e'])).toEqual(['b:d', 'e']);
  expect(uncovered([], ['a'])).toEqual(['a']);
});

test('an argument never widens a capability: what is filled in stays one segment and no wildcard', () => {
  const contract = contractWith(`effect: UNKNOWN\n${HTTP}\ncapabilities: ["thing:{args.id}:{tenant}"]`);
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'binary' }), (id) => {
      fc.pre(id.isWellFormed());
      const [capability = ''] = fillCapabilities(contract, { ...SCOPE, args: { id } });
      expect(capability.split(':')).toHaveLength(3);
      expect(grantCovers(['thing:other:acme'], capability)).toBe(id === 'other');
    }),
  );
});

test('resources are filled like capabilities, and different arguments never give one resource', () => {
  const contract = contractWith(`effect: UNKNOWN\n${HTTP}\nresource: ["a/{args.x}/{args.y}"]`);
  const resources = (x: string, y: string) => fillResources(contract, { ...SCOPE, args: { x, y } });
  expect(resources('1', '2/3')).toEqual(['a/1/2%2F3']);
  expect(resources('1/2', '3')).toEqual(['a/1%2F2/3']);
  expect(() => resources('', '3')).toThrow('{args.x} is empty');
});

test.each([
  ['effect: REPLAYABLE\nresource: ["a"]\nexclusive_writer: true', 'REPLAYABLE'],
  ['effect: REPLAYABLE\nresource: ["a"]', 'NON_RETRYABLE'],
  ['effect: REPLAYABLE\nexclusive_writer: true', 'NON_RETRYABLE'],
  ['effect: UNKNOWN\nresource: ["a"]\nexclusive_writer: true', 'UNKNOWN'],
  ['effect: NON_RETRYABLE', 'NON_RETRYABLE'],
  ['effect: PURE', 'PURE'],
  ['repeats: refused', 'UNKNOWN'],
  ['effect: IDEMPOTENT\nidempotency: { send_as: query key, window: 1h }', 'IDEMPOTENT'],
])('a contract with %j is handled as %s', (execution, effect) => {
  expect(effectiveClass(contractWith(`${HTTP}\n${execution}`))).toBe(effect);
});
