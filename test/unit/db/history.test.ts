import { expect, test } from 'vitest';
import { type EffectRecord, type EventRecord, historyOf, withoutPayloads } from '../../../db/history.ts';

const at = (seconds: number) => new Date(Date.parse('2026-11-30T12:00:00.000Z') + seconds * 1_000);
const row = (over: object) =>
  ({
    sends: 1,
    recordedAt: at(0),
    status: 'CONFIRMED',
    settledAt: at(2),
    settledBy: 'holder',
    ...over,
  }) as EffectRecord;
let ids = 0;
const event = (
  seconds: number,
  kind: string,
  fromStatus: string | null,
  toStatus: string | null,
  data: unknown = null,
) =>
  ({ id: ++ids, at: at(seconds), kind, fromStatus, toStatus, fence: 1, actor: 'a', reason: null, data }) as EventRecord;
const story = (record: EffectRecord, events: EventRecord[]) =>
  historyOf({ row: record, events, evidence: [], decisions: [] }).map((entry) =>
    entry.kind === 'event' ? entry.event : entry.kind === 'settled' ? `settled ${entry.at}` : entry.kind,
  );

test('a refusal that was never sent has only its event', () => {
  const refused = row({ sends: 0, status: 'NOT_APPLIED', settledBy: 'admission' });
  expect(story(refused, [event(0, 'refused', null, 'NOT_APPLIED')])).toEqual(['refused']);
});

test('an open claim is recorded and no more', () => {
  expect(story(row({ status: 'DISPATCHED', settledAt: null }), [])).toEqual(['recorded']);
});

test("the holder's answer stands before what was noted about the settled effect", () => {
  const notes = [event(1, 'sent_late', null, null), event(9, 'decision_refused', null, null)];
  expect(story(row({}), notes)).toEqual([
    'recorded',
    'sent_late',
    'settled 2026-11-30T12:00:02.000Z',
    'decision_refused',
  ]);
});

test('a re-sent effect is settled after its last claim', () => {
  const events = [event(1, 'fenced', 'DISPATCHED', 'UNKNOWN'), event(2, 'resent', 'UNKNOWN', 'DISPATCHED')];
  expect(story(row({ sends: 2, settledAt: at(3) }), events)).toEqual([
    'recorded',
    'fenced',
    'resent',
    'settled 2026-11-30T12:00:03.000Z',
  ]);
});

test('a troubled settlement is told by its event and not a second time', () => {
  const events = [event(1, 'fenced', 'DISPATCHED', 'UNKNOWN'), event(5, 'evidence', 'UNKNOWN', 'CONFIRMED')];
  expect(story(row({ settledAt: at(5), settledBy: 'evidence' }), events)).toEqual(['recorded', 'fenced', 'evidence']);
});

test('a correction stands behind the healthy answer that it corrects, with its time where it was kept', () => {
  const corrected = row({ status: 'NOT_APPLIED', settledAt: at(9), settledBy: 'decision' });
  const kept = { before: { settledAt: '2026-11-30T12:00:02+00:00' } };
  expect(story(corrected, [event(9, 'decision', 'CONFIRMED', 'NOT_APPLIED', kept)])).toEqual([
    'recorded',
    'settled 2026-11-30T12:00:02.000Z',
    'decision',
  ]);
  expect(story(corrected, [event(9, 'decision', 'CONFIRMED', 'NOT_APPLIED')])).toEqual([
    'recorded',
    'settled null',
    'decision',
  ]);
});

test('payloads are dropped from an event at any depth, the rest stays', () => {
  const data = { to: 'CONFIRMED', result: 1, deep: [{ args: 1, nonce: 'n' }], refusedBecause: 'late' };
  expect(withoutPayloads(data)).toEqual({ to: 'CONFIRMED', deep: [{ nonce: 'n' }], refusedBecause: 'late' });
  expect([withoutPayloads(null), withoutPayloads('x')]).toEqual([null, 'x']);
});
