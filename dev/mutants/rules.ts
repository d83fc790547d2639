import type { Rule } from './mutant.ts';

/** The numbered rules of PROTOCOL.md, in its order. */
export const RULES: readonly Rule[] = [
  {
    rule: '1.1',
    says: 'Ids have one form; the effect key hashes deployment and ids; another deployment id is refused',
  },
  {
    rule: '1.2',
    says: 'A run is one logical run; the call id has no default; a model turn is recorded before its calls',
    elsewhere:
      'The type `WorkflowCall` requires `call` (checked by the compiler). Model turns belong to `agentSession`, which is not built yet.',
  },
  { rule: '1.3', says: 'Identity is never purged; payloads may expire' },
  { rule: '2.1', says: 'An existing row decides before any rule; other content is call_id_reused' },
  { rule: '2.2', says: 'Record and claim are one statement with every condition in it' },
  { rule: '2.3', says: 'Zero rows: a second statement reads the row' },
  { rule: '2.4', says: 'A refusal that may change is a row; a malformed call is none; withdraw first' },
  { rule: '2.5', says: 'Open twins are refused; repeats and overrides by host code only' },
  {
    rule: '2.6',
    says: 'Retirement and rotation race without locks, bounded by the time limit of the admission statement',
    elsewhere: 'The two-step retirement itself comes with the life cycle of contracts; here its ground is tested.',
  },
  {
    rule: '2.7',
    says: 'Committed means durable, or the worker does not start; a recovered ledger parks sends behind evidence',
    elsewhere: 'What a recovery cannot bring back is documented in `docs/operations.md`.',
  },
  {
    rule: '3.1',
    says: 'A claim carries fence, sends, nonce, process, send-by, deadline; local time counts from before the claim',
  },
  {
    rule: '3.2',
    says: 'Right before the first byte: both clocks, and a fresh lease; after the write again; late bytes forbid absence',
    elsewhere: 'A real SIGSTOP past send-by: `test/crash/paused-worker.test.ts`.',
  },
  { rule: '3.3', says: 'A claim in doubt is read back by nonce, or withdrawn; a settle in doubt is read again' },
  { rule: '3.4', says: 'A flight belongs to the process; others join or wait while its lease lives' },
  {
    rule: '3.5',
    says: 'Shutdown: stop claiming, await, settle the rest UNKNOWN, end the lease; kept answers are bounded',
  },
  { rule: '3.6', says: 'A re-send goes through UNKNOWN under every condition at once' },
  { rule: '3.7', says: 'REPLAYABLE holds its resource, past CONFIRMED too' },
  { rule: '4.1', says: 'One lease per process start; a claim locks its lease without blocking the beat' },
  { rule: '4.2', says: 'The fencer locks, then moves claims in a second statement; the sweep takes the rest' },
  {
    rule: '4.3',
    says: 'Only an observer that has beaten without a gap may judge; one scanner',
    elsewhere: 'A real restart of Postgres under a fleet: `test/crash/postgres-restart.test.ts`.',
  },
  { rule: '4.4', says: 'Overdue looks drive the sweep: limited, skipping what is locked' },
  { rule: '5.1', says: 'An adapter makes one request' },
  { rule: '5.2', says: '"Not sent" is before the connected socket only; idle sockets are not reused' },
  { rule: '5.3', says: 'Answers; what no class covers; the provider\u2019s own id at once' },
  { rule: '5.4', says: 'The secret is resolved before the claim, with the right label' },
  { rule: '6.1', says: 'Evidence is pinned; found and absent are both positive patterns' },
  { rule: '6.2', says: 'Absence proves or suggests; suggests is the default' },
  {
    rule: '6.3',
    says: 'When absence proves: settle_at, asked_at, retention, all pages, two passes',
    elsewhere: 'Templates know no time, so no contract can filter by it and nothing has to be widened.',
  },
  { rule: '6.4', says: 'A verdict names the status and fence that it judged' },
  { rule: '6.5', says: 'Sources, comparison, CONFLICT; one artefact confirms one effect' },
  { rule: '6.6', says: 'Evidence by the newest credential version of the same account only' },
  {
    rule: '7',
    says: 'The table of moves; late answers; decisions',
    elsewhere: '`checkNow` and continue-as-new: `test/e2e/workflows/reconcile.test.ts`.',
  },
  {
    rule: '8.1',
    says: 'The lane is a value in history',
    elsewhere: 'Replay of recorded histories: `test/replay/`; in history: `test/e2e/workflows/in-history.test.ts`.',
  },
  {
    rule: '8.2',
    says: 'Not cancellable; bulkheads; bounded local waits; queues of their own',
    elsewhere: 'Cancellation, queues and lanes on a real server: `test/e2e/workflows/`.',
  },
  { rule: '8.3', says: 'Large arguments are stored first and travel by reference; one payload hook' },
];
