import { HoldfastError } from '../effects/errors.ts';
import type { ContractRef } from './contract.ts';
import { isDigest } from './digest.ts';

const TOOL = /^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/;
// The grammar of semver.org 2.0.0, clause "Is there a suggested regular expression".
const VERSION =
  /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$/;

/** `namespace.name`: lower-case, dotted, at least two parts, at most 128 characters. */
export function isToolName(text: string): boolean {
  return text.length <= 128 && TOOL.test(text);
}

/** A full semantic version such as `2.1.0` or `2.1.0-rc.1`, at most 64 characters. */
export function isVersion(text: string): boolean {
  return text.length <= 64 && VERSION.test(text);
}

/** `tool@version#digest`. */
export function formatContractRef(ref: ContractRef): string {
  return `${ref.tool}@${ref.version}#${ref.digest}`;
}

/**
 * Reads `tool@version#digest`. All three parts are needed: a name without its digest could drift.
 * @throws HoldfastError `bad_input` for anything else.
 */
export function parseContractRef(text: string): ContractRef {
  const match = /^([^@#]{1,128})@([^@#]{1,64})#([^@#]{1,128})$/.exec(text);
  const [, tool = '', version = '', digest = ''] = match ?? [];
  if (isToolName(tool) && isVersion(version) && isDigest(digest)) return { tool, version, digest };
  throw new HoldfastError('bad_input', 'not a contract reference: expected tool@version#sha256/v1:<64 hex digits>');
}
