import { ApplicationFailure } from '@temporalio/common';
import { describe, expect, it } from 'vitest';
import { logLine } from '../../../workers/worker-log.ts';

const timestampNanos = BigInt(Date.parse('2026-12-01T00:00:00Z')) * 1_000_000n;

describe('logLine', () => {
  it('says a warning in one line with what it is about', () => {
    const error = new Error('Activity task failed', {
      cause: ApplicationFailure.create({ type: 'ledger_unreachable', message: 'no\nanswer' }),
    });
    const meta = { workflowId: 'call:a:b:c', attempt: 3, taskToken: 'x', error };
    expect(logLine({ level: 'WARN', message: 'Activity failed', meta, timestampNanos }, false)).toBe(
      '2026-12-01T00:00:00.000Z WARN Activity failed workflowId=call:a:b:c attempt=3 error=ledger_unreachable: no | answer',
    );
  });

  it.each(['bad_arguments', 'call_id_reused'])('leaves out a refusal, which its caller is told: %s', (type) => {
    const meta = { error: ApplicationFailure.create({ type, message: 'no' }) };
    expect(logLine({ level: 'WARN', message: 'Workflow failed', meta, timestampNanos }, false)).toBeUndefined();
  });

  it('shows a stack trace only when asked', () => {
    const entry = { level: 'ERROR', message: 'x', meta: { error: new Error('y') }, timestampNanos } as const;
    expect([logLine(entry, false), logLine(entry, true)].map((line) => /\n\s+at /.test(line ?? ''))).toEqual([
      false,
      true,
    ]);
  });
});
