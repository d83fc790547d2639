import type { Contract, EvidenceRule, JsonObject } from '../contracts/contract.ts';
import { digestBytes } from '../contracts/digest.ts';
import type { Scope } from '../contracts/template.ts';
import { readClock } from '../db/statements/index.ts';
import type { EffectKey } from '../effects/effect.ts';
import { isHoldfastError } from '../effects/errors.ts';
import { evidenceArguments, type LookContext, nextCursor, type Observed, observe } from '../effects/read-evidence.ts';
import type { ProviderAnswer, Secret } from '../providers/provider.ts';
import { sleep } from './clock.ts';
import type { DispatcherDeps } from './deps.ts';
import { askAboutForgotten } from './forgotten.ts';
import { checkArguments, type Prepared, providerOf, secretFor } from './prepare.ts';

const PAGES_MAX = 200;
/** A longer lag between two passes is not waited for inside one look. */
const PASS_WAIT_MAX_MS = 60_000;

/** Whom and what to ask. */
export interface Question {
  /** The effect's own, recorded contract; its `execution.evidence` is the rule. */
  readonly contract: Contract;
  readonly scope: Scope;
  readonly account: string | null;
  /** From this moment absence can prove; a second pass over a listing is made only then. Database-clock ms. */
  readonly settleAtMs: number;
  /** Source `state`: it was recorded as different before the send. */
  readonly differedBefore: boolean;
}

/** What the provider showed, and when it was asked. */
export interface LookResult extends Observed {
  /** Database clock, read before the look started. */
  readonly askedAtMs: number;
}

/**
 * Asks the provider about one effect, with all pages and, where absence by listing is at stake, in two
 * full passes. Never throws for what the provider does: that is INCONCLUSIVE. Throws `contract_parked`
 * or `provider_not_here` when this process cannot ask, and `ledger_unreachable`.
 */
export async function look(deps: DispatcherDeps, rule: EvidenceRule, q: Question): Promise<LookResult> {
  const asker = await askerFor(deps, rule, q);
  const askedAtMs = await deps.ledger.run('read clock', () => readClock(deps.ledger.sql));
  if ('why' in asker)
    return { askedAtMs, observation: { kind: 'inconclusive', why: asker.why }, reference: null, result: null };
  const context: LookContext = { redactPage: asker.contract.returns.redact, differedBefore: q.differedBefore };
  const first = await onePass(asker.ask, rule, q, context);
  const byListing = rule.by === 'listing' || rule.by === 'search';
  const { observation } = first;
  if (
    observation.kind !== 'absent' ||
    !observation.complete ||
    !byListing ||
    askedAtMs < q.settleAtMs ||
    rule.lagMs > PASS_WAIT_MAX_MS
  ) {
    return { ...first, askedAtMs };
  }
  await sleep(rule.lagMs);
  const againAtMs = await deps.ledger.run('read clock', () => readClock(deps.ledger.sql));
  const second = await onePass(asker.ask, rule, q, { ...context, passes: 2, passesApartMs: againAtMs - askedAtMs });
  return { ...second, askedAtMs };
}

/**
 * What is looked at before the claim. Source `state`: what the resource looked like (PROTOCOL 6.5); null where it does not
 * matter or was not to be seen. Throws `recovery_open` while a recovered ledger may have forgotten the call (2.7).
 */
export async function stateBefore(deps: DispatcherDeps, p: Prepared): Promise<string | null> {
  await askAboutForgotten(deps, p, look);
  const rule = p.contract.execution.evidence;
  if (rule?.by !== 'state') return null;
  const seen = await look(deps, rule, {
    contract: p.contract,
    scope: p.scope,
    account: p.credential?.account ?? null,
    settleAtMs: 0,
    differedBefore: true,
  });
  if (seen.observation.kind !== 'state') return null;
  return seen.observation.equal ? 'equal' : 'different';
}

type Ask = (args: JsonObject) => Promise<ProviderAnswer>;
interface Asker {
  readonly contract: Contract;
  readonly ask: Ask;
}

/** How to make one evidence call, or why nothing it showed could be believed. */
async function askerFor(deps: DispatcherDeps, rule: EvidenceRule, q: Question): Promise<Asker | { why: string }> {
  const contract = await deps.registry.byDigest(digestBytes(rule.call.digest));
  if (contract === undefined)
    return { why: `the evidence contract ${rule.call.tool}@${rule.call.version} is not in the registry` };
  if (contract.execution.effect !== 'PURE') return { why: `the evidence contract ${rule.call.tool} is not PURE` };
  const provider = providerOf(deps, contract);
  let secret = await evidenceSecret(deps, contract, q.account);
  if (secret !== null && 'why' in secret) {
    // The cached policy may be old.
    deps.registry.forgetPolicy();
    secret = await evidenceSecret(deps, contract, q.account);
  }
  if (secret !== null && 'why' in secret) return secret;
  const live = await provider.verify(contract, secret);
  if (live.kind !== 'same' && live.kind !== 'not_checked')
    return { why: `the evidence tool is ${live.kind}: ${live.why}` };
  const effectKey = q.scope.effectKey as EffectKey;
  const ask: Ask = async (args) => {
    try {
      checkArguments(contract, args);
      return await provider.send({
        contract,
        request: provider.render(contract, { ...q.scope, args }),
        effectKey,
        secret,
        timeoutMs: contract.execution.timeoutMs,
        connectWithinMs: contract.execution.sendByMs,
        gate: () => 'go',
        wrote: () => 'keep',
      });
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      return { kind: 'no_answer', why: `the evidence call cannot be made: ${error.message}` };
    }
  };
  return { contract, ask };
}

/** The newest credential version will do if it acts as the same account, else what it sees proves nothing (PROTOCOL 6.6). */
async function evidenceSecret(
  deps: DispatcherDeps,
  contract: Contract,
  account: string | null,
): Promise<Secret | null | { why: string }> {
  const name = contract.execution.credential;
  if (name === undefined) return null;
  const credential = await deps.registry.currentCredential(name);
  if (credential === undefined) return { why: `there is no credential ${name} to ask with` };
  if (account !== null && credential.account !== account) {
    return { why: `credential ${name} acts as account ${credential.account}, the effect was sent as ${account}` };
  }
  try {
    return secretFor(deps, credential);
  } catch (error) {
    if (isHoldfastError(error)) return { why: error.message };
    throw error;
  }
}

async function onePass(ask: Ask, rule: EvidenceRule, q: Question, context: LookContext): Promise<Observed> {
  const pages: ProviderAnswer[] = [];
  let cursor: string | number | undefined;
  do {
    let args: JsonObject;
    try {
      args = evidenceArguments(rule, q.scope, cursor);
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      return { observation: { kind: 'inconclusive', why: error.message }, reference: null, result: null };
    }
    const page = await ask(args);
    pages.push(page);
    cursor = nextCursor(rule, page);
  } while (cursor !== undefined && rule.cursorArg !== undefined && pages.length < PAGES_MAX);
  return observe(q.contract, q.scope, pages, context);
}
