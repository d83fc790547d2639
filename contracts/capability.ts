import type { Contract } from './contract.ts';
import { renderText, type Scope } from './template.ts';

/**
 * The concrete capabilities a call needs: the contract's templates filled, each value percent-encoded outside
 * `[A-Za-z0-9._~@-]`, so that an argument can neither add a segment nor be a wildcard.
 * @throws HoldfastError `request_not_renderable` when an argument named is missing or empty.
 */
export function fillCapabilities(contract: Contract, scope: Scope): string[] {
  return contract.execution.capabilities.map((template, index) =>
    renderText(template, scope, 'capability', `/execution/capabilities/${index}`),
  );
}

/**
 * The concrete resources a call writes, encoded like capabilities, so that equal text means equal resource.
 * @throws HoldfastError `request_not_renderable` when an argument named is missing or empty.
 */
export function fillResources(contract: Contract, scope: Scope): string[] {
  return contract.execution.resource.map((template, index) =>
    renderText(template, scope, 'capability', `/execution/resource/${index}`),
  );
}

/**
 * True when one of `grants` covers `capability`. Segments are parted by `:`; in a grant `*` stands for one whole
 * segment and a trailing `**` for all the rest (one segment or more). Nothing else is special.
 */
export function grantCovers(grants: readonly string[], capability: string): boolean {
  const wanted = capability.split(':');
  return capability !== '' && grants.some((grant) => covers(grant.split(':'), wanted));
}

/** Those of `capabilities` that no grant covers, in their order. */
export function uncovered(grants: readonly string[], capabilities: readonly string[]): string[] {
  return capabilities.filter((capability) => !grantCovers(grants, capability));
}

function covers(grant: readonly string[], wanted: readonly string[]): boolean {
  const open = grant.at(-1) === '**';
  const fixed = open ? grant.slice(0, -1) : grant;
  if (open ? wanted.length <= fixed.length : wanted.length !== fixed.length) return false;
  return fixed.every((segment, index) => segment === wanted[index] || (segment === '*' && wanted[index] !== ''));
}
