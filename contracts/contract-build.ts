import type { AnswerPattern, AnswerRule, Contract, EvidenceRule, Execution, Transport } from './contract.ts';
import type { ContractShape } from './contract-shape.ts';

type ExecutionShape = ContractShape['execution'];
type EvidenceShape = NonNullable<ExecutionShape['evidence']>;
type PatternShape = EvidenceShape['found'];

const KEY_LENGTH = { hex: 64, uuid: 36, base62: 43 } as const;
const DAY_MS = 86_400_000;

/** The file's keys as the type's: names in camelCase, units in names, defaults in place. */
export function buildContract(shape: ContractShape): Omit<Contract, 'digests' | 'digest' | 'source'> {
  const { tool, version, owner, selection, parameters, returns } = shape;
  return {
    tool,
    version,
    owner,
    selection: {
      ...(selection.title !== undefined && { title: selection.title }),
      description: selection.description,
      useWhen: selection.use_when,
      doNotUseWhen: selection.do_not_use_when,
    },
    parameters,
    execution: buildExecution(shape.execution),
    returns: {
      ...(returns?.schema !== undefined && { schema: returns.schema }),
      sizeMaxBytes: returns?.size_max ?? 1024 * 1024,
      redact: returns?.redact ?? [],
    },
    behaviour: shape.behaviour ?? {},
    compatibility: shape.compatibility ?? {},
  };
}

function buildExecution(shape: ExecutionShape): Execution {
  const alphabet = shape.key?.alphabet ?? 'hex';
  const { idempotency, evidence } = shape;
  return {
    provider: shape.provider,
    effect: shape.effect,
    capabilities: shape.capabilities,
    ...(shape.credential !== undefined && { credential: shape.credential }),
    timeoutMs: shape.timeout,
    sendByMs: shape.send_by,
    inFlightMaxMs: shape.in_flight_max,
    transport: buildTransport(shape),
    ...(idempotency !== undefined && {
      idempotency: {
        ...(idempotency.send_as !== undefined && { sendAs: idempotency.send_as }),
        // Without a window (other classes than IDEMPOTENT) nobody may count on the key.
        windowMs: idempotency.window ?? 0,
      },
    }),
    key: { alphabet, length: shape.key?.length ?? KEY_LENGTH[alphabet] },
    resource: shape.resource,
    exclusiveWriter: shape.exclusive_writer,
    concurrent: shape.concurrent,
    repeats: shape.repeats,
    ...(evidence !== undefined && { evidence: buildEvidence(evidence) }),
    answers: shape.answers.map(
      (rule): AnswerRule => ({
        ...buildPattern(rule),
        means: rule.means,
        ...(rule.ref !== undefined && { ref: rule.ref }),
        ...(rule.parts !== undefined && { parts: rule.parts }),
      }),
    ),
    onUnknown: { waitMs: shape.on_unknown?.wait ?? 5_000 },
  };
}

function buildTransport({ http, mcp, mail }: ExecutionShape): Transport {
  if (http !== undefined) {
    const { method, path, query, headers, body, secret_as: secretAs } = http;
    return { kind: 'http', method, path, query, headers, ...(body !== undefined && { body }), secretAs };
  }
  if (mcp !== undefined) {
    const { tool, arguments: args, upstream } = mcp;
    return { kind: 'mcp', tool, arguments: args, ...(upstream !== undefined && { upstream }) };
  }
  return {
    kind: 'mail',
    ...(mail?.send !== undefined && { send: mail.send }),
    ...(mail?.find !== undefined && { find: { messageId: mail.find.message_id, mailbox: mail.find.mailbox } }),
  };
}

function buildPattern(shape: PatternShape): AnswerPattern {
  return {
    ...(shape.status !== undefined && { status: shape.status }),
    ...(shape.where !== undefined && { where: shape.where }),
  };
}

function buildEvidence(shape: EvidenceShape): EvidenceRule {
  return {
    call: shape.call,
    by: shape.by,
    with: shape.with,
    found: buildPattern(shape.found),
    absent: buildPattern(shape.absent ?? {}),
    ...(shape.items !== undefined && { items: shape.items }),
    ...(shape.next !== undefined && { next: shape.next }),
    ...(shape.cursor_arg !== undefined && { cursorArg: shape.cursor_arg }),
    equals: shape.equals,
    ...(shape.reference !== undefined && { reference: shape.reference }),
    ...(shape.result !== undefined && { result: shape.result }),
    absence: shape.absence,
    lagMs: shape.lag ?? 5_000,
    retentionMs: shape.retention ?? 30 * DAY_MS,
  };
}
