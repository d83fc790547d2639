import { readFileSync } from 'node:fs';
import { LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { DEFAULT_SETTINGS, type DispatcherSettings } from '../dispatcher/settings.ts';
import { HoldfastError } from '../effects/errors.ts';
import { providerConfig } from '../providers/index.ts';

/** What a process serves: calls and the local lane, the queues of its providers, reconciliations and the sweep. */
export const WORKER_ROLES = ['dispatch', 'providers', 'reconcile'] as const;
/** One of {@link WORKER_ROLES}. */
export type WorkerRole = (typeof WORKER_ROLES)[number];

const ms = z.int().min(1).max(86_400_000);
const count = z.int().min(1).max(100_000);

const settings = z.strictObject({
  beat_ms: ms.optional(),
  ttl_ms: ms.optional(),
  scan_ms: ms.optional(),
  clock_margin_ms: z.int().min(0).max(3_600_000).optional(),
  settle_margin_ms: ms.optional(),
  slots_per_provider: count.optional(),
  queue_wait_ms: ms.optional(),
  kept_answers_max: count.optional(),
  kept_bytes_max: z.int().min(1).max(4_294_967_296).optional(),
  look_min_ms: ms.optional(),
  look_max_ms: ms.optional(),
  attention_after_looks: count.optional(),
  pure_sends_max: count.optional(),
  inline_bytes_max: count.optional(),
  shutdown_ms: ms.optional(),
  give_up_ms: ms.optional(),
});

/** `holdfast.yaml`: one file for workers and commands. Strict: unknown keys are refused. */
export const fileShape = z.strictObject({
  /** Names this deployment; part of every effect key, so it can never change. */
  deployment: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .default('default'),
  database: z.strictObject({ url: z.string(), connections_max: count.optional() }).optional(),
  temporal: z
    .strictObject({
      address: z.string().min(1).optional(),
      namespace: z.string().min(1).optional(),
      tls: z.boolean().optional(),
      ui_url: z.url().optional(),
    })
    .default({}),
  queue_prefix: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .default('holdfast'),
  worker: z
    .strictObject({
      roles: z
        .array(z.enum(WORKER_ROLES))
        .min(1)
        .default([...WORKER_ROLES]),
      /** Port of /healthz, /readyz and /metrics on 127.0.0.1; 0 = any free one; absent = none. */
      health_port: z.int().min(0).max(65_535).optional(),
      health_host: z.string().default('127.0.0.1'),
      /** Every how many seconds the Schedule `sweep` runs. */
      sweep_seconds: z.int().min(1).max(3600).default(10),
      activities_max: count.default(200),
    })
    .prefault({}),
  /** JSON file of secrets; beside it the environment: HOLDFAST_SECRET_<NAME>. */
  secrets_file: z.string().optional(),
  /** JSON file of keys that encrypt payloads in the ledger and in history; absent = plain. */
  payload_keys_file: z.string().optional(),
  providers: z.record(z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/), providerConfig).default({}),
  settings: settings.default({}),
  /** For tests only: lets workers run on a Postgres that may forget commits. */
  allow_unsafe_durability: z.boolean().default(false),
});

/** The configuration as it was checked, with every default in place. Durations are in milliseconds unless a key says otherwise. */
export interface HoldfastConfig extends Omit<z.output<typeof fileShape>, 'settings'> {
  readonly settings: DispatcherSettings;
  /** Where it was read from, for messages. */
  readonly file: string | null;
}

/**
 * Reads the configuration: `path`, else `$HOLDFAST_CONFIG`, else `holdfast.yaml` where it exists, else defaults.
 * `DATABASE_URL`, `TEMPORAL_ADDRESS` and `TEMPORAL_NAMESPACE` win over the file.
 * Throws `bad_config` with file, line and key for every problem.
 */
export function loadConfig(path?: string, env: NodeJS.ProcessEnv = process.env): HoldfastConfig {
  const wanted = path ?? env.HOLDFAST_CONFIG;
  const file = wanted ?? 'holdfast.yaml';
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (wanted !== undefined) {
      throw new HoldfastError(
        'bad_config',
        `the configuration cannot be read (${(error as NodeJS.ErrnoException).code})`,
        { place: file },
      );
    }
    return checkConfig({}, null, env);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  const [fault] = document.errors;
  if (fault !== undefined) {
    const at = lines.linePos(fault.pos[0]);
    throw new HoldfastError('bad_config', `not YAML: ${fault.message.split('\n')[0]}`, {
      place: `${file}:${at.line}:${at.col}`,
    });
  }
  return checkConfig(document.toJS({ maxAliasCount: 50 }) ?? {}, file, env, (keys) => {
    for (let depth = keys.length; depth > 0; depth -= 1) {
      const node = document.getIn(keys.slice(0, depth), true) as { range?: [number, number, number] } | undefined;
      if (node?.range) return lines.linePos(node.range[0]).line;
    }
    return 1;
  });
}

/** Checks a configuration object; `lineOf` finds the line of a key path, for messages. */
export function checkConfig(
  value: unknown,
  file: string | null,
  env: NodeJS.ProcessEnv = process.env,
  lineOf?: (keys: readonly (string | number)[]) => number,
): HoldfastConfig {
  const checked = fileShape.safeParse(value);
  if (!checked.success) {
    const problems = checked.error.issues.map((issue) => {
      const keys = issue.path as (string | number)[];
      const place = file === null ? 'configuration' : `${file}${lineOf === undefined ? '' : `:${lineOf(keys)}`}`;
      return { place, text: `${place} ${keys.join('.') || '(root)'}: ${issue.message}` };
    });
    throw new HoldfastError('bad_config', problems.map((p) => p.text).join('\n'), {
      place: problems[0]?.place ?? 'configuration',
    });
  }
  const { settings: chosen, ...rest } = checked.data;
  const url = env.DATABASE_URL ?? rest.database?.url;
  const address = env.TEMPORAL_ADDRESS ?? rest.temporal.address;
  const namespace = env.TEMPORAL_NAMESPACE ?? rest.temporal.namespace;
  return {
    ...rest,
    ...(url === undefined ? {} : { database: { ...rest.database, url } }),
    temporal: {
      ...rest.temporal,
      ...(address === undefined ? {} : { address }),
      ...(namespace === undefined ? {} : { namespace }),
    },
    settings: settingsFrom(chosen, file),
    file,
  };
}

function settingsFrom(chosen: z.output<typeof settings>, file: string | null): DispatcherSettings {
  const camel = Object.entries(chosen).map(([key, value]) => [
    key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  const merged = { ...DEFAULT_SETTINGS, ...(Object.fromEntries(camel) as Partial<DispatcherSettings>) };
  if (merged.ttlMs < 3 * merged.beatMs) {
    throw new HoldfastError(
      'bad_config',
      `settings.ttl_ms (${merged.ttlMs}) is less than three beats of ${merged.beatMs}`,
      {
        place: file ?? 'configuration',
      },
    );
  }
  return merged;
}
