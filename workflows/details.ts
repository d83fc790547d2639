import type { ReconcileStep } from '../activities/types.ts';

const LOOKS_SHOWN = 5;
const TEXT_MAX = 500;

/**
 * The Markdown that the Temporal UI shows on a running reconciliation. Important lines first: the
 * frame clips the end. Untrusted text is escaped, since the UI lets raw HTML pass.
 */
export function currentDetails(step: ReconcileStep): string {
  const settled = step.status === 'CONFIRMED' || step.status === 'NOT_APPLIED';
  const lines = [
    `**${step.status}**${step.attention === null ? '' : ` · needs a person: **${step.attention}**`}`,
    '',
    whatToDo(step),
    '',
    step.nextAt === null
      ? 'No further look is planned.'
      : `Next look: ${step.nextAt} (Signal \`checkNow\` looks at once).`,
    '',
    `Known: ${step.reason === null ? 'nothing yet' : escapeText(step.reason)}`,
    '',
    `${code(`${step.tool}@${step.version}`)} · class ${code(step.effectClass)} · fence ${step.fence}`,
    '',
    ...(settled ? [] : howToRule(step)),
    '**Evidence so far** (newest first)',
    '',
    ...evidenceLines(step),
  ];
  return lines.join('\n');
}

function howToRule(step: ReconcileStep): string[] {
  return ['To rule by hand, send Update (or Signal) `decide` with:', '```json', decideExample(step), '```'];
}

function evidenceLines({ looks }: ReconcileStep): string[] {
  if (looks.length === 0) return ['- none yet'];
  return looks
    .slice(0, LOOKS_SHOWN)
    .map((look) => `- ${look.at} ${look.verdict}${look.why === null ? '' : `: ${escapeText(look.why)}`}`);
}

function whatToDo(step: ReconcileStep): string {
  if (step.status === 'CONFIRMED' || step.status === 'NOT_APPLIED') return 'Settled; nothing to do.';
  switch (step.attention) {
    case 'CONFLICT':
      return 'Do: compare with the provider. What it shows contradicts what was sent. Do **not** repeat the call.';
    case 'EXPIRED':
      return 'Do: ask the provider outside Holdfast, then rule. It can no longer show this effect. Do **not** repeat the call.';
    case 'NEEDS_DECISION':
      return 'Do: find out at the provider, then rule. No further proof comes by itself. Do **not** repeat the call.';
    case 'PARKED':
      return 'Do: bring up a worker that can serve the pinned contract and its provider.';
    case null:
      return 'Do: nothing; evidence is being asked for. Do **not** repeat the call.';
  }
}

/** A ready-to-copy payload with the current version of the effect. */
export function decideExample(step: Pick<ReconcileStep, 'status' | 'fence' | 'effectId'>): string {
  const payload = {
    decisionId: `${step.effectId.split(':').at(-1)?.slice(0, 40)}-${step.fence}-1`,
    ruling: 'confirm',
    actor: 'YOUR NAME',
    reason: 'YOUR REASON',
    expected: { status: step.status, fence: step.fence },
  };
  // One line per key: the frame of the UI cuts long lines.
  return JSON.stringify(payload, null, 1);
}

/** Text that no Markdown or HTML reader takes for more than text; line breaks become spaces, and long text is clipped. */
export function escapeText(text: string): string {
  // By characters, not by code units: half of a surrogate pair would show as a fault of ours. One unit more than the longest
  // text that is shown whole tells that there is more.
  const characters = Array.from(text.slice(0, 2 * TEXT_MAX + 1));
  const clipped = characters.length > TEXT_MAX ? `${characters.slice(0, TEXT_MAX).join('')}…` : text;
  return (
    clipped
      .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
      .replace(/&/g, '&amp;')
      .replace(/</g, '&lt;')
      .replace(/>/g, '&gt;')
      .replace(/[\\`*_{}[\]()#+!|~@-]/g, (character) => `\\${character}`)
      // Else a bare address becomes a link.
      .replace(/:\/\//g, '\\://')
      .replace(/www\./gi, (www) => `${www.slice(0, 3)}\\.`)
  );
}

const code = (text: string): string => `\`${text.replace(/[`<>]/g, "'")}\``;
