/**
 * The one table of errors. `docs/errors.md` is generated from it, `ApplicationFailure.type` is the code.
 * `exit` is the CLI's exit code: 2 usage or bad input, 3 refused, 4 unknown outcome, 5 a part is unreachable, 1 anything else.
 */
export const ERRORS = {
  // Bad input: refused without a row.
  bad_id: {
    means: 'a tenant, run or call id is malformed',
    next: 'use 1 to 64 characters of A-Z a-z 0-9 . _ -',
    retryable: false,
    exit: 2,
  },
  bad_arguments: {
    means: "the arguments do not fit the contract's parameters",
    next: 'correct the arguments; the message names the place',
    retryable: false,
    exit: 2,
  },
  bad_contract: {
    means: 'a contract file is malformed',
    next: 'correct the file at the place named',
    retryable: false,
    exit: 2,
  },
  bad_config: {
    means: 'the configuration is malformed or contradicts the database',
    next: 'correct the key named',
    retryable: false,
    exit: 2,
  },
  bad_input: {
    means: 'a value given to a command or function is malformed',
    next: 'correct the value named',
    retryable: false,
    exit: 2,
  },
  payload_too_large: {
    means: 'arguments or result exceed the limit of the tenant',
    next: 'send less, or raise the limit of the tenant',
    retryable: false,
    exit: 2,
  },
  request_not_renderable: {
    means: 'a template of the contract cannot be filled from the call',
    next: 'give the argument named, or correct the template',
    retryable: false,
    exit: 2,
  },
  runtime_field_supplied: {
    means: 'a caller supplied a field that belongs to the runtime',
    next: 'leave it out; contracts and credentials decide it',
    retryable: false,
    exit: 2,
  },
  call_id_reused: {
    means: 'this call id already names another call',
    next: 'use a new call id for a new call',
    retryable: false,
    exit: 3,
  },
  // Refusals that are recorded as NOT_APPLIED.
  tool_contract_not_found: {
    means: 'no such tool and version is published',
    next: 'publish the contract, or correct name and version',
    retryable: false,
    exit: 3,
  },
  tool_schema_drift: {
    means: 'the digest differs from the published version, or the live tool from the pinned one',
    next: 'take the new digest after a review, or publish a new version',
    retryable: false,
    exit: 3,
  },
  credential_policy_changed: {
    means: 'the credential is missing, rotated, or its grants do not cover the call',
    next: 'deploy the current credential version, or grant the capability',
    retryable: false,
    exit: 3,
  },
  contract_not_live: {
    means: 'the contract is being retired',
    next: 'move to a newer version',
    retryable: false,
    exit: 3,
  },
  tenant_unknown: {
    means: 'the tenant does not exist',
    next: 'create it: holdfast tenant put',
    retryable: false,
    exit: 3,
  },
  tenant_suspended: {
    means: 'the tenant is suspended',
    next: 'resume it: holdfast tenant put --state active',
    retryable: false,
    exit: 3,
  },
  effect_unresolved: {
    means: 'an equal call, or a writer of the same resource, is still open',
    next: 'wait for the effect named, or settle it; do not repeat in other words',
    retryable: false,
    exit: 3,
  },
  live_definition_unverified: {
    means: 'the provider could not show the definition of the tool before the call',
    next: 'try again with a new call id when the provider is back',
    retryable: false,
    exit: 3,
  },
  not_after_passed: {
    means: 'the time limit of the call passed before it was claimed',
    next: 'make a new call if it is still wanted',
    retryable: false,
    exit: 3,
  },
  withdrawn: {
    means: 'the call was withdrawn before anything was sent',
    next: 'make a new call if it is still wanted',
    retryable: false,
    exit: 3,
  },
  provider_not_served: {
    means: 'no worker took the call from the queue of its provider in time, and it was withdrawn; nothing was sent',
    next: 'start a worker that has this provider and the role providers, then make a new call',
    retryable: false,
    exit: 3,
  },
  not_sent: {
    means: 'no connection to the provider could be made; no byte left',
    next: 'make a new call when the provider is back',
    retryable: false,
    exit: 3,
  },
  sent_too_late: {
    means: 'the worker woke after its send-by time and stayed silent',
    next: 'make a new call',
    retryable: false,
    exit: 3,
  },
  refused_by_provider: {
    means: 'the provider refused the request',
    next: 'read the answer of the provider',
    retryable: false,
    exit: 3,
  },
  proven_absent: {
    means: 'the provider showed that the effect never happened',
    next: 'make a new call if it is still wanted',
    retryable: false,
    exit: 3,
  },
  decided_not_applied: {
    means: 'a person decided that the effect did not happen',
    next: 'make a new call if it is still wanted',
    retryable: false,
    exit: 3,
  },
  pure_no_answer: {
    means: 'a call without effect got no answer in the allowed number of sends',
    next: 'make a new call',
    retryable: false,
    exit: 3,
  },
  // Decisions.
  decision_refused: {
    means: 'the decision does not fit the state of the effect',
    next: 'look again: holdfast effect show',
    retryable: false,
    exit: 3,
  },
  effect_not_found: {
    means: 'the ledger has no such effect',
    next: 'check the id: holdfast effect list',
    retryable: false,
    exit: 3,
  },
  outcome_unknown: {
    means: 'it is not known whether the effect happened',
    next: 'do not repeat it; wait or settle it: holdfast effect show',
    retryable: false,
    exit: 4,
  },
  // Administration.
  fleet_running: {
    means: 'the command needs the fleet stopped, but a process of it has a live lease',
    next: 'stop every worker and every host of the direct lane, then run it again',
    retryable: false,
    exit: 3,
  },
  // A part is away. Nothing was lost; the same call id may be used again.
  busy: {
    means: 'every slot for this provider is taken',
    next: 'try the same call id again',
    retryable: true,
    exit: 5,
  },
  ledger_unreachable: {
    means: 'Postgres did not answer',
    next: 'check the address and the server; the same call id is safe to repeat',
    retryable: true,
    exit: 5,
  },
  ledger_refused: {
    means: 'Postgres refused a statement',
    next: 'see the constraint or SQLSTATE named',
    retryable: false,
    exit: 1,
  },
  recovery_open: {
    means: 'the ledger was recovered, and no evidence shows yet whether this call was sent before',
    next: 'repeat the same call id; without evidence an operator has to end the recovery: holdfast db recovered --over',
    retryable: true,
    exit: 5,
  },
  temporal_unreachable: {
    means: 'Temporal did not answer',
    next: 'check the address and the server; nothing is lost, and the same call id is safe to repeat',
    retryable: true,
    exit: 5,
  },
  schema_version_unsupported: {
    means: 'the database has a schema this release cannot serve',
    next: 'run holdfast db migrate, or deploy a matching release',
    retryable: false,
    exit: 5,
  },
  deployment_mismatch: {
    means: 'the configured deployment id is not the one of the database',
    next: 'correct deployment in the configuration',
    retryable: false,
    exit: 2,
  },
  unsafe_durability: {
    means: 'Postgres runs with fsync or synchronous_commit off',
    next: 'turn them on; tests may set allow_unsafe_durability',
    retryable: false,
    exit: 5,
  },
  process_fenced: {
    means: 'the lease of this process was fenced',
    next: 'the process takes a new id by itself; try the same call id again',
    retryable: true,
    exit: 5,
  },
  provider_not_here: {
    means: 'this worker has no adapter for the provider',
    next: 'configure the provider, or let a worker that has it take the call',
    retryable: true,
    exit: 5,
  },
  contract_parked: {
    means: 'the recorded contract cannot be loaded or served here',
    next: 'bring up a worker that can serve the pinned contract',
    retryable: true,
    exit: 5,
  },
  payload_unreadable: {
    means: 'a stored payload cannot be decoded',
    next: 'configure the key named; if it is, the row was changed outside Holdfast',
    retryable: false,
    exit: 1,
  },
  stack_unavailable: {
    means: 'the embedded stack could not be started',
    next: 'run holdfast doctor',
    retryable: false,
    exit: 5,
  },
  internal: {
    means: 'a fault in Holdfast itself',
    next: 'please report it with the output of --debug',
    retryable: false,
    exit: 1,
  },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly means: string;
  readonly next: string;
  readonly retryable: boolean;
  readonly exit: number;
}

/** A code of the table. */
export type ErrorCode = keyof typeof ERRORS;

/** Every error Holdfast throws. `place` says where (file:line, JSON Pointer, host:port, statement). Never holds a secret. */
export class HoldfastError extends Error {
  readonly code: ErrorCode;
  readonly place: string | undefined;
  readonly next: string;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: { place?: string; next?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'HoldfastError';
    this.code = code;
    this.place = options.place;
    this.next = options.next ?? ERRORS[code].next;
    this.retryable = ERRORS[code].retryable;
  }
}

/** True for an error of the table. */
export function isHoldfastError(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError;
}
