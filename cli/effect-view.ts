import type { EffectDetails, HistoryEntry } from '../client/admin.ts';
import { cleanText, fields, instant, relative, span, statusText, styled } from './output.ts';

/** One effect for a person: what it is pinned to, what happened, what comes next. */
export function effectText(effect: EffectDetails, link: string | null): string {
  const sections = [
    headline(effect),
    fields(pinned(effect)),
    `${styled('bold', 'What happened')}\n${timeline(effect.history)}`,
    `${styled('bold', 'What to do')}\n${whatToDo(effect)
      .map((line) => `  ${line}`)
      .join('\n')}`,
  ];
  const reconciled =
    effect.status === 'UNKNOWN' ||
    effect.history.some((entry) => entry.kind !== 'recorded' && entry.kind !== 'settled');
  if (link !== null && reconciled && effect.sends > 0) sections.push(`${styled('dim', 'Temporal UI')}  ${link}`);
  return sections.join('\n\n');
}

function headline(effect: EffectDetails): string {
  const person = effect.attention === null ? '' : `  ${styled('red', `needs a person: ${effect.attention}`)}`;
  return `${styled('bold', effect.effectId)}  ${statusText(effect.status)}${person}`;
}

function pinned(effect: EffectDetails): (readonly [string, string | null | undefined])[] {
  const credential =
    effect.credential === null
      ? null
      : `${effect.credential}@${effect.credentialVersion} for account ${cleanText(effect.account ?? '-')}`;
  return [
    ['tool', `${effect.tool}@${effect.version}`],
    ['class', effect.effectClass],
    ['provider', effect.provider],
    ['contract', effect.contractDigest],
    ['effect key', effect.effectKey],
    ['credential', credential],
    ['capabilities', effect.capabilities.map(cleanText).join(', ')],
    ['version', `status ${effect.status}, fence ${effect.fence}`],
    ['sends', `${effect.sends}, looks ${looksOf(effect)}${effect.sentLate ? ', bytes left after send-by' : ''}`],
    ['recorded', at(effect.recordedAt)],
    ['settled', effect.settledAt === null ? null : `${at(effect.settledAt)} by ${effect.settledBy}`],
    ['reference', effect.providerRef === null ? null : cleanText(effect.providerRef)],
    ['reason', reasonOf(effect)],
    ['arguments', effect.args == null ? null : cleanText(effect.args)],
    ['result', effect.result == null ? null : cleanText(effect.result)],
    ['next look', nextLook(effect)],
  ];
}

const at = (iso: string): string => `${instant(iso)} (${relative(iso)})`;

/** The look that settled it is evidence, and no longer counts as one that waits for the next. */
function looksOf({ looks, history }: EffectDetails): number {
  return Math.max(looks, history.filter((entry) => entry.kind === 'evidence').length);
}

function reasonOf({ reasonCode, reason }: EffectDetails): string | null {
  if (reasonCode === null) return reason === null ? null : cleanText(reason);
  return cleanText(reason === null || reason === '' ? reasonCode : `${reasonCode}: ${reason}`);
}

function nextLook({ status, nextLookAt }: EffectDetails): string | null {
  if (status !== 'UNKNOWN') return null;
  if (nextLookAt === null) return 'none is planned';
  return Date.parse(nextLookAt) > Date.now() ? at(nextLookAt) : `due since ${at(nextLookAt)}`;
}

/** Times are differences to the first entry, so that a glance shows how long each step took. */
function timeline(history: readonly HistoryEntry[]): string {
  const first = history.find((entry) => entry.at !== null)?.at;
  if (first == null) return '  nothing';
  const start = Date.parse(first);
  // A decision and its refusal are told together.
  const told = history.filter((entry) => entry.kind !== 'event' || entry.event !== 'decision_refused');
  const rows = told.map((entry) => {
    const when = entry.at === null ? '' : offset(Date.parse(entry.at) - start);
    const [head, ...more] = storyOf(entry);
    const indent = ' '.repeat(13);
    return [`  ${styled('dim', when.padStart(9))}  ${head}`, ...more.map((line) => `${indent}${line}`)].join('\n');
  });
  return [`  ${styled('dim', `from ${instant(first)}`)}`, ...rows].join('\n');
}

const offset = (ms: number): string => (ms < 60_000 ? `+${(ms / 1000).toFixed(3)} s` : `+${span(ms)}`);

/** The lines that tell one entry. */
function storyOf(entry: HistoryEntry): string[] {
  switch (entry.kind) {
    case 'recorded':
      return [`recorded and claimed → ${statusText(entry.to)}`];
    case 'settled':
      return [`answered → ${statusText(entry.to)}, by ${actorName(entry.actor)}`];
    case 'event':
      if (entry.event === 'decision') return [`decided${move(entry.from, entry.to)}`];
      return [
        `${entry.event}${move(entry.from, entry.to)}, by ${actorName(entry.actor)}`,
        ...(entry.reason === null ? [] : [cleanText(entry.reason)]),
      ];
    case 'evidence':
      return [
        `evidence: ${entry.verdict}, by ${actorName(entry.actor)}`,
        ...(entry.why === null ? [] : [cleanText(entry.why)]),
        ...(entry.observed == null ? [] : [`observed ${cleanText(entry.observed)}`]),
      ];
    case 'decision':
      return [
        `decision: ${entry.ruling} by ${cleanText(entry.actor)} (${cleanText(entry.source)})${entry.force ? ', forced' : ''}${entry.correction ? ', a correction' : ''}${entry.applied ? '' : ', REFUSED'}`,
        `because: ${cleanText(entry.reason)}`,
        ...(entry.refusal === null ? [] : [`refused: ${cleanText(entry.refusal)}`]),
      ];
  }
}

function move(from: string | null, to: string | null): string {
  if (to === null) return '';
  return from === null ? ` → ${statusText(to)}` : `: ${statusText(from)} → ${statusText(to)}`;
}

/** A process of the fleet is known by a UUID, after what made it act; the beginning is enough to tell two apart. */
function actorName(actor: string): string {
  const [, trigger, process] = /^(?:(\w+)@)?([0-9a-f]{8})-[0-9a-f-]{27}$/.exec(actor) ?? [];
  if (process === undefined) return cleanText(actor);
  return trigger === undefined ? `process ${process}` : `process ${process} (${trigger})`;
}

function whatToDo(effect: EffectDetails): string[] {
  const { effectId } = effect;
  const rule = [
    `holdfast effect confirm ${effectId} --actor YOU --reason "…"`,
    `holdfast effect not-applied ${effectId} --actor YOU --reason "…"`,
  ];
  switch (effect.attention) {
    case 'CONFLICT':
      return [
        'Compare with the provider: what it shows contradicts what was sent or ruled. Do not repeat the call.',
        ...(effect.status === 'UNKNOWN' ? rule : []),
      ];
    case 'EXPIRED':
      return ['The provider can no longer show this effect. Find out there another way, then rule:', ...rule];
    case 'NEEDS_DECISION':
      return [
        'No further proof comes by itself. Find out at the provider, then rule. Do not repeat the call.',
        ...rule,
      ];
    case 'PARKED':
      return ['Bring up a worker that can serve the pinned contract and its provider.'];
    case null:
      break;
  }
  switch (effect.status) {
    case 'CONFIRMED':
      return ['Nothing: it happened, once.'];
    case 'NOT_APPLIED':
      return ['Nothing: it did not happen. If it is still wanted, make a new call with a new call id.'];
    case 'DISPATCHED':
      return effect.holder === 'alive'
        ? ['Wait: its worker lives and may still answer.']
        : ['Its worker is gone. Any running worker turns it to UNKNOWN and asks the provider: start one.'];
    case 'UNKNOWN':
      return [
        'Nothing yet: evidence is being asked for. Do not repeat the call.',
        `Ask now: holdfast effect check ${effectId}`,
      ];
  }
}
