import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { defaultBinDir } from '../../../dev/temporal.ts';
import { serverDirectory } from '../../support/stack.ts';
import { type Shipped, shippedCommand } from '../cli/command.ts';

it('the demo kills workers in the middle of calls, loses and doubles nothing, and leaves nothing running', async () => {
  // Servers of its own, as a newcomer has them; only the Temporal binary is the one that the tests run on.
  const holdfast: Shipped = shippedCommand(serverDirectory());
  mkdirSync(join(holdfast.dir, '.holdfast'));
  if (existsSync(defaultBinDir())) symlinkSync(defaultBinDir(), join(holdfast.dir, '.holdfast/bin'));
  try {
    const ran = await holdfast.run(['demo', '--json']);
    expect({ exit: ran.exit, stderr: ran.stderr }).toEqual({ exit: 0, stderr: '' });
    const report = JSON.parse(ran.stdout);
    expect(report).toMatchObject({ ok: true, duplicates: 0, lost: 0, failures: [] });
    const healthy = ['DISPATCHED', 'CONFIRMED'];
    const troubled = ['DISPATCHED', 'UNKNOWN', 'CONFIRMED'];
    expect(
      report.effects.map((effect: Record<string, unknown>) => [
        String(effect['effectId']).split(':').at(-1),
        effect['tool'],
        effect['effectClass'],
        effect['statuses'],
        effect['providerCount'],
      ]),
    ).toEqual([
      ['rate-1', 'billing.rate', 'PURE', healthy, 1],
      ['invoice-1', 'billing.send_invoice', 'IDEMPOTENT', healthy, 1],
      ['file-1', 'files.write_file', 'NON_RETRYABLE', healthy, 1],
      ['invoice-2', 'billing.send_invoice', 'IDEMPOTENT', troubled, 1],
      ['payment-1', 'billing.pay', 'NON_RETRYABLE', troubled, 1],
      ['note-1', 'billing.note', 'UNKNOWN', troubled, 1],
    ]);
    expect(report.refusals).toMatchObject([{ code: 'tool_schema_drift', providerCount: 0 }]);
    expect(readFileSync(join(report.dir, 'processes.json'), 'utf8')).toBe('[]\n');
  } finally {
    holdfast.remove();
  }
}, 240_000);
