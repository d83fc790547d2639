import { type Client, WorkflowIdConflictPolicy, WorkflowIdReusePolicy } from '@temporalio/client';
import { type SearchAttributePair, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import type { UnresolvedEffect } from '../dispatcher/deps.ts';
import { effectIdText } from '../effects/effect.ts';
import type { reconcileEffect } from '../workflows/reconcile-effect.ts';
import { SEARCH_ATTRIBUTES, type SearchAttribute } from './search-attributes.ts';

/** Starts per second at most: a burst of UNKNOWNs must not become a burst of looks (PROTOCOL 4.4). */
const STARTS_PER_SECOND = 100;
const QUEUE_MAX = 10_000;

/** Starts and nudges `reconcileEffect` workflows, one per effect id. */
export class Reconciliations {
  readonly #client: Client;
  readonly #taskQueue: string;
  readonly #waiting = new Map<string, UnresolvedEffect>();
  #draining: Promise<void> | undefined;

  constructor(client: Client, taskQueue: string) {
    this.#client = client;
    this.#taskQueue = taskQueue;
  }

  /** Starts the reconciliation soon; never throws. What is lost here (a full queue, Temporal away) the sweep finds by its planned look. */
  startSoon(effect: UnresolvedEffect): void {
    if (this.#waiting.size >= QUEUE_MAX) return;
    this.#waiting.set(effectIdText(effect.id), effect);
    this.#draining ??= this.#drain().finally(() => {
      this.#draining = undefined;
    });
  }

  /** Makes sure that one runs and looks now: a Signal starts it where none runs, and is durable. Throws what Temporal throws. */
  async nudge(effect: UnresolvedEffect): Promise<void> {
    await this.#client.workflow.signalWithStart<typeof reconcileEffect, [{ actor?: string }?]>('reconcileEffect', {
      ...this.#options(effect),
      signal: 'checkNow',
      signalArgs: [{ actor: 'sweep' }],
    });
  }

  async #drain(): Promise<void> {
    for (let next = this.#take(); next !== undefined; next = this.#take()) {
      const started = Date.now();
      await this.#start(next).catch(() => undefined);
      const leftMs = 1000 / STARTS_PER_SECOND - (Date.now() - started);
      if (leftMs > 0 && this.#waiting.size > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
    }
  }

  #take(): UnresolvedEffect | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    this.#waiting.delete(first[0]);
    return first[1];
  }

  async #start(effect: UnresolvedEffect): Promise<void> {
    await this.#client.workflow.start<typeof reconcileEffect>('reconcileEffect', this.#options(effect));
  }

  #options({ id, tool, version, effectClass }: UnresolvedEffect) {
    const effectId = effectIdText(id);
    return {
      workflowId: effectId,
      taskQueue: this.#taskQueue,
      args: [{ id }] as [{ id: typeof id }],
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
      typedSearchAttributes: effectAttributes({
        EffectStatus: 'UNKNOWN',
        EffectClass: effectClass,
        ToolName: tool,
        ToolVersion: version,
        Tenant: id.tenant,
      }),
      // What never changes is here as well: current details need a live worker.
      memo: { effectId, tool, version, effectClass },
      staticSummary: `${tool}@${version} for ${id.tenant}: outcome unknown`,
      staticDetails: staticDetails(effectId, tool, version, effectClass),
    };
  }
}

/** Typed search attributes, for start options. */
export function effectAttributes(values: Partial<Record<SearchAttribute, string>>): TypedSearchAttributes {
  const pairs: SearchAttributePair[] = [];
  for (const name of SEARCH_ATTRIBUTES) {
    const value = values[name];
    if (value !== undefined) pairs.push({ key: { name, type: SearchAttributeType.KEYWORD }, value });
  }
  return new TypedSearchAttributes(pairs);
}

function staticDetails(effectId: string, tool: string, version: string, effectClass: string): string {
  return [
    `It is **not known** whether \`${tool}@${version}\` (class \`${effectClass}\`) took effect. Do **not** repeat it.`,
    '',
    'Holdfast asks the provider for evidence and settles it by itself where that proves something.',
    '',
    '- Look at once: Signal `checkNow`.',
    '- Rule by hand: Update `decide`, or Signal `decide` while no worker runs. The current details hold a payload to copy.',
    '- The same from a shell, also with the whole fleet down:',
    '',
    '```',
    // Short lines: the frame of the UI cuts long ones.
    `ID=${effectId}`,
    'holdfast effect show $ID',
    'holdfast effect confirm $ID \\\n  --actor NAME --reason TEXT',
    'holdfast effect not-applied $ID \\\n  --actor NAME --reason TEXT',
    '```',
    'Terminating or resetting this workflow is harmless: it sends nothing, and it is started again.',
  ].join('\n');
}
