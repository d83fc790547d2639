import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { beforeAll, describe, expect, test } from 'vitest';
import { bundleTestWorkflows } from '../support/fleet.ts';

const DIRECTORY = join(import.meta.dirname, '../histories');
const names = readdirSync(DIRECTORY).filter((name) => name.endsWith('.json'));

let codePath: string;

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  codePath = await bundleTestWorkflows();
});

const read = (name: string): unknown => JSON.parse(readFileSync(join(DIRECTORY, name), 'utf8'));

const replay = (history: unknown, name: string) =>
  Worker.runReplayHistory({ workflowBundle: { codePath } }, historyFromJSON(history), name);

describe('recorded histories', () => {
  test('there are some of every workflow', () => {
    expect(names.map((name) => name.replace(/\.json$/, '')).sort()).toEqual([
      'dispatch-call-handed-over',
      'dispatch-call-local',
      'dispatch-call-withdrawn',
      'reconcile-effect-continued',
      'reconcile-effect-decided',
      'reconcile-effect-evidence',
      'sweep',
      'user-workflow-activity',
      'user-workflow-local',
    ]);
  });

  test.each(names)('%s replays on the code of today', async (name) => {
    await replay(read(name), name);
  });

  test('a history that the code would not write fails, so the check can fail', async () => {
    const history = read('user-workflow-activity.json') as { events: Record<string, unknown>[] };
    const text = JSON.stringify(history).replaceAll('"dispatchEffect"', '"somethingElse"');
    await expect(replay(JSON.parse(text), 'changed')).rejects.toThrow(DeterminismViolationError);
  });
});
