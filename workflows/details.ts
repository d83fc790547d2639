import type { ReconcileStep } from '../activities/types.ts';

const LOOKS_SHOWN = 5;

/**
 * The Markdown that the Temporal UI shows on a running reconciliation. Important lines first: the
 * frame clips the end. Untrusted text is escaped, since the UI lets raw HTML pass.
 */
export function currentDetails(step: ReconcileStep): string {
  const lines = [
    `**${step.status}**${step.attention === null ? '' : ` · needs a person: **${step.attention}**`} · ${code(`${step.tool}@${step.version}`)} · class ${step.effectClass} · fence ${step.fence}`,
    '',
    whatToDo(step),
    '',
    step.nextAt === null
      ? 'No further look is planned.'
      : `Next look: ${step.nextAt} (Signal \`checkNow\` looks at once).`,
    '',
    `Known: ${step.reason === null ? 'nothing yet' : escapeText(step.reason)}`,
    '',
    '**Evidence so far** (newest first)',
    '',
    ...(step.looks.length === 0
      ? ['- none yet']
      : step.looks
          .slice(0, LOOKS_SHOWN)
          .map((look) => `- ${look.at} ${look.verdict}${look.why === null ? '' : `: ${escapeText(look.why)}`}`)),
    '',
    'To rule by hand, send Update (or Signal) `decide` with:',
    '```json',
    decideExample(step),
    '```',
  ];
  return lines.join('\n');
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

/** Text that no Markdown or HTML reader takes for more than text; line breaks become spaces. */
export function escapeText(text: string): string {
  return text
    .slice(0, 500)
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/[\\`*_{}[\]()#+!|~-]/g, (character) => `\\${character}`);
}

const code = (text: string): string => `\`${text.replaceAll('`', "'")}\``;
