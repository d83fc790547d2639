import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { effectText } from '../../../cli/effect-view.ts';
import type { EffectDetails } from '../../../client/admin.ts';

const PROCESS = '5a3d656b-584c-44c5-8b83-dba751d42a33';
const effect: EffectDetails = {
  effectId: 'effect:acme:r1:pay-1',
  tenant: 'acme',
  run: 'r1',
  call: 'pay-1',
  status: 'UNKNOWN',
  fence: 2,
  sends: 1,
  looks: 1,
  tool: 'billing.pay',
  version: '1.0.0',
  effectClass: 'NON_RETRYABLE',
  provider: 'billing',
  attention: 'NEEDS_DECISION',
  reasonCode: null,
  reason: 'absent, which only suggests',
  recordedAt: '2026-12-01T10:00:00.000000Z',
  settledAt: null,
  settledBy: null,
  deadlineAt: '2026-12-01T10:00:17.000000Z',
  nextLookAt: '2026-12-01T10:02:08.000000Z',
  holder: null,
  contractDigest: 'sha256/v1:ab',
  effectKey: 'key-1',
  credential: 'billing',
  credentialVersion: 'v1',
  account: 'main',
  capabilities: ['payment:write:acme'],
  providerRef: null,
  sentLate: false,
  history: [
    { kind: 'recorded', at: '2026-12-01T10:00:00.000Z', to: 'DISPATCHED' },
    {
      kind: 'event',
      at: '2026-12-01T10:00:03.250Z',
      event: 'fenced',
      from: 'DISPATCHED',
      to: 'UNKNOWN',
      fence: 2,
      actor: PROCESS,
      reason: 'the lease of its holder lapsed',
      data: null,
    },
    {
      kind: 'evidence',
      at: '2026-12-01T10:01:00.000Z',
      askedAt: '2026-12-01T10:00:59.900Z',
      fence: 2,
      verdict: 'INCONCLUSIVE',
      why: 'absent, which only suggests\u001b[2J',
      actor: `planned@${PROCESS}`,
    },
    {
      kind: 'decision',
      at: '2026-12-01T10:02:00.000Z',
      decisionId: 'd1',
      ruling: 'not_applied',
      actor: 'ann',
      source: 'cli',
      reason: 'not in the books',
      expected: { status: 'UNKNOWN', fence: 1 },
      force: false,
      correction: false,
      applied: false,
      refusal: 'expected fence 1, but the effect has fence 2',
    },
    {
      kind: 'event',
      at: '2026-12-01T10:02:00.000Z',
      event: 'decision_refused',
      from: null,
      to: null,
      fence: 2,
      actor: 'ann',
      reason: 'expected fence 1, but the effect has fence 2',
      data: null,
    },
  ],
};

describe('effectText', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse('2026-12-01T10:02:05Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('tells what an effect is pinned to, what happened, what comes next and what to do', () => {
    expect(effectText(effect, 'http://ui/namespaces/default/workflows/effect:acme:r1:pay-1')).toBe(
      `effect:acme:r1:pay-1  UNKNOWN  needs a person: NEEDS_DECISION

  tool          billing.pay@1.0.0
  class         NON_RETRYABLE
  provider      billing
  contract      sha256/v1:ab
  effect key    key-1
  credential    billing@v1 for account main
  capabilities  payment:write:acme
  version       status UNKNOWN, fence 2
  sends         1, looks 1
  recorded      2026-12-01 10:00:00.000Z (2m 5s ago)
  reason        absent, which only suggests
  next look     2026-12-01 10:02:08.000Z (in 3s)

What happened
  from 2026-12-01 10:00:00.000Z
   +0.000 s  recorded and claimed → DISPATCHED
   +3.250 s  fenced: DISPATCHED → UNKNOWN, by process 5a3d656b
             the lease of its holder lapsed
        +1m  evidence: INCONCLUSIVE, by process 5a3d656b (planned)
             absent, which only suggests\u{fffd}[2J
        +2m  decision: not_applied by ann (cli), REFUSED
             because: not in the books
             refused: expected fence 1, but the effect has fence 2

What to do
  No further proof comes by itself. Find out at the provider, then rule. Do not repeat the call.
  holdfast effect confirm effect:acme:r1:pay-1 --actor YOU --reason "…"
  holdfast effect not-applied effect:acme:r1:pay-1 --actor YOU --reason "…"

Temporal UI  http://ui/namespaces/default/workflows/effect:acme:r1:pay-1`,
    );
  });

  it.each([
    [{ status: 'CONFIRMED', attention: null }, 'Nothing: it happened, once.'],
    [{ status: 'DISPATCHED', attention: null, holder: 'alive' }, 'Wait: its worker lives and may still answer.'],
    [
      { status: 'DISPATCHED', attention: null, holder: 'lapsed' },
      'Its worker is gone. Any running worker turns it to UNKNOWN and asks the provider: start one.',
    ],
    [
      { status: 'UNKNOWN', attention: 'PARKED' },
      'Bring up a worker that can serve the pinned contract and its provider.',
    ],
  ] as const)('says what to do when %j', (change, advice) => {
    const text = effectText({ ...effect, ...change }, null);
    expect(text.slice(text.indexOf('What to do')).split('\n')[1]).toBe(`  ${advice}`);
  });

  it('has no link for an effect that never had a reconciliation', () => {
    const healthy = { ...effect, status: 'CONFIRMED', attention: null, history: effect.history.slice(0, 1) } as const;
    expect(effectText(healthy, 'http://ui/x')).not.toContain('Temporal UI');
  });
});
