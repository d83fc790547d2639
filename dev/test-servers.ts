import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type PostgresHandle, startPostgres } from './postgres.ts';
import { bornAt } from './process.ts';
import type { Log } from './roads.ts';
import { startTemporal, type TemporalHandle } from './temporal.ts';

/** The servers that all test files of one run share. */
export interface TestServers {
  readonly postgres: PostgresHandle;
  /** Null when the layer does without. */
  readonly temporal: TemporalHandle | null;
  /** Stops them and removes their data. */
  stop(): Promise<void>;
}

const PREFIX = 'holdfast-test-';

/**
 * Starts Postgres (fsync off) and, when asked, Temporal on throw-away data.
 *
 * @throws HoldfastError `stack_unavailable`
 */
export async function startTestServers(options: { temporal: boolean; log?: Log }): Promise<TestServers> {
  removeLeftovers();
  const dir = serverDirectory();
  const log = options.log ?? (() => {});
  const starting = [
    startPostgres({ dataDir: join(dir, 'postgres'), fastUnsafe: true, log }),
    options.temporal ? startTemporal({ dataDir: join(dir, 'temporal'), log }) : null,
  ] as const;
  const [postgres, temporal] = await Promise.allSettled(starting);
  const stop = async () => {
    await Promise.all([postgres, temporal].map((one) => (one.status === 'fulfilled' ? one.value?.stop() : undefined)));
    rmSync(dir, { recursive: true, force: true });
  };
  if (postgres.status === 'rejected' || temporal.status === 'rejected') {
    await stop();
    throw postgres.status === 'rejected' ? postgres.reason : (temporal as PromiseRejectedResult).reason;
  }
  return { postgres: postgres.value, temporal: temporal.value, stop };
}

/**
 * A throw-away directory for the data of servers. The user that root lends to Postgres can pass through it. It is removed
 * by whoever asked for it, or by a later run when this process died first.
 */
export function serverDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  chmodSync(dir, 0o711);
  return dir;
}

/** Data of runs that were killed before they could tidy up. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(PREFIX) ? Number.parseInt(name.slice(PREFIX.length), 10) : Number.NaN;
    if (Number.isNaN(pid) || bornAt(pid) !== null) continue;
    const dir = join(tmpdir(), name);
    const { uid } = statSync(dir);
    if (uid === process.getuid?.()) rmSync(dir, { recursive: true, force: true });
  }
}
