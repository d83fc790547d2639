import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { checkHumanTexts } from '../effects/human-text.ts';
import type { Ledger } from './connect.ts';
import type { Admission } from './statements/admit.ts';

/** A recovery that nobody has called over yet. Instants are database-clock milliseconds. */
export interface OpenRecovery {
  /** Up to here the ledger is whole. */
  readonly sinceMs: number;
  /** When it was recovered, with the fleet stopped: whatever was forgotten left before. */
  readonly recoveredAtMs: number;
}

/** The recovery that is not over; of several, the earliest `since` and the latest time. */
export async function openRecovery(ledger: Ledger): Promise<OpenRecovery | undefined> {
  const [row] = await ledger.run(
    'read recovery',
    () => ledger.sql`
      SELECT (extract(epoch FROM min((data->>'since')::timestamptz)) * 1000)::float8 AS since_ms,
        (extract(epoch FROM max(at)) * 1000)::float8 AS at_ms
      FROM holdfast.effect_events
      WHERE tenant = '' AND run_id = '' AND call_id = '' AND kind = 'recovered' AND id > coalesce((
        SELECT max(id) FROM holdfast.effect_events
        WHERE tenant = '' AND run_id = '' AND call_id = '' AND kind = 'recovery_over'), 0)`,
  );
  return row?.since_ms == null ? undefined : { sinceMs: row.since_ms as number, recoveredAtMs: row.at_ms as number };
}

/**
 * Calls an open recovery over: from then on a call without a row is a new one again. False when none is open.
 * @throws HoldfastError `bad_input` where `checkHumanTexts` does
 */
export async function endRecovery(ledger: Ledger, actor: string, reason: string): Promise<boolean> {
  checkHumanTexts('a recovery', { actor, reason });
  if ((await openRecovery(ledger)) === undefined) return false;
  await ledger.run('end recovery', () =>
    ledger.db.execute(sql`
      INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, fence, actor, reason)
      VALUES ('', '', '', 'recovery_over', 0, ${actor}, ${reason})`),
  );
  return true;
}

/** A call that the provider shows although the ledger has no row of it: what an admission pins, and by whose word it is there. */
export interface Forgotten
  extends Omit<
    Admission,
    'stateBefore' | 'resources' | 'processId' | 'nonce' | 'sendByMs' | 'deadlineMs' | 'notAfter'
  > {
  readonly recovery: OpenRecovery;
  readonly actor: string;
  readonly reason: string;
}

/**
 * Writes the row that was forgotten: a claim that nobody holds, given up in the same transaction, so that nothing is ever sent
 * under it and its reconciliation settles it. False when a row was there meanwhile; that one decides.
 */
export function recordForgotten(ledger: Ledger, f: Forgotten): Promise<boolean> {
  // The earliest and the latest moment at which it can have left: retention and key window count from the one, the
  // in-flight limit from the other.
  const from = sql`to_timestamp(${f.recovery.sinceMs}::float8 / 1000)`;
  const until = sql`to_timestamp(${f.recovery.recoveredAtMs}::float8 / 1000)`;
  const { tenant, run, call } = f.id;
  const capabilities = JSON.stringify(f.capabilities);
  return ledger.run('record forgotten effect', () =>
    ledger.db.transaction(async (tx) => {
      const rows = await tx.execute(sql`
        INSERT INTO holdfast.effects (recorded_at, claimed_at, send_by_at, deadline_at, process_id, nonce, fence, sends,
          in_flight_max_ms, twin_guard, status, tenant, run_id, call_id, tool, version, contract_digest, effect_class,
          provider, effect_key, capabilities, credential, credential_version, account, args_hash, request_hash, args)
        VALUES (${from}, ${from}, ${until}, ${until}, ${randomUUID()}, ${randomUUID()}, 1, 1,
          ${f.inFlightMaxMs}, ${f.twinGuard}, 'DISPATCHED', ${tenant}, ${run}, ${call}, ${f.tool}, ${f.version},
          ${f.contractDigest}, ${f.effectClass}, ${f.provider}, ${f.effectKey},
          ARRAY(SELECT jsonb_array_elements_text(${capabilities}::text::jsonb)), ${f.credential}, ${f.credentialVersion},
          ${f.account}, ${f.argsHash}, ${f.requestHash}, ${f.args})
        ON CONFLICT DO NOTHING RETURNING 1`);
      if (rows.length === 0) return false;
      await tx.execute(sql`
        WITH moved AS (
          UPDATE holdfast.effects SET status = 'UNKNOWN', next_look_at = clock_timestamp(), reason = ${f.reason}
          WHERE tenant = ${tenant} AND run_id = ${run} AND call_id = ${call} AND status = 'DISPATCHED'
          RETURNING fence)
        INSERT INTO holdfast.effect_events (tenant, run_id, call_id, kind, from_status, to_status, fence, actor, reason)
        SELECT ${tenant}, ${run}, ${call}, 'recovered', 'DISPATCHED', 'UNKNOWN', fence, ${f.actor}, ${f.reason} FROM moved`);
      return true;
    }),
  );
}
