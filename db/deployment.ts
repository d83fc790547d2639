import { isIdPart } from '../effects/effect.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { Ledger } from './connect.ts';

/**
 * Ties the database to one deployment id, which is part of every effect key: the first caller writes it,
 * everybody else has to have the same (PROTOCOL 1.1). Idempotent; safe to race.
 *
 * @throws HoldfastError `bad_config` for a malformed id, `deployment_mismatch`
 */
export async function checkDeployment(ledger: Ledger, deploymentId: string): Promise<void> {
  if (!isIdPart(deploymentId)) {
    throw new HoldfastError('bad_config', 'deployment: use 1 to 64 characters of A-Z a-z 0-9 . _ -', {
      place: 'deployment',
    });
  }
  const { sql } = ledger;
  await ledger.run(
    'write deployment',
    () => sql`INSERT INTO holdfast.deployments (deployment_id) VALUES (${deploymentId}) ON CONFLICT DO NOTHING`,
  );
  // In a second statement: the first cannot see a row that a racing one has just committed.
  const [row] = await ledger.run('read deployment', () => sql`SELECT deployment_id FROM holdfast.deployments`);
  if (row?.deployment_id !== deploymentId) {
    throw new HoldfastError(
      'deployment_mismatch',
      `the database belongs to deployment "${row?.deployment_id}", the configuration says "${deploymentId}"`,
      { place: ledger.address },
    );
  }
}
