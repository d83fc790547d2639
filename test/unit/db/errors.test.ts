import { inspect } from 'node:util';
import { DrizzleQueryError } from 'drizzle-orm/errors';
import { describe, expect, test } from 'vitest';
import { constraintOf, isConnectionDoubt, sqlStateOf, translate } from '../../../db/errors.ts';
import { HoldfastError } from '../../../effects/errors.ts';

/** An error as postgres.js makes it of a server's message; every text holds a value. */
function server(code: string, over: object = {}): Error {
  return Object.assign(new Error('hunter2'), {
    name: 'PostgresError',
    severity: 'ERROR',
    code,
    detail: 'Key (a)=(hunter2)',
    where: 'parameter $1 = hunter2',
    query: 'select hunter2',
    parameters: ['hunter2'],
    ...over,
  });
}
const fatal = (code: string) => server(code, { severity: 'FATAL' });
const socket = (code: string) => Object.assign(new Error(`write ${code} db.example:5432`), { code });

describe('each error has a code, and is in doubt or not', () => {
  const rows: [string, Error, string, boolean][] = [
    ['unique violation', server('23505'), 'ledger_refused', false],
    ['a guard', server('23000'), 'ledger_refused', false],
    ['no permission', server('42501'), 'ledger_refused', false],
    ['statement time-out', server('57014'), 'ledger_unreachable', false],
    ['lock time-out', server('55P03'), 'ledger_unreachable', false],
    ['serialization', server('40001'), 'ledger_unreachable', false],
    ['deadlock', server('40P01'), 'ledger_unreachable', false],
    ['disk full', server('53100'), 'ledger_unreachable', false],
    ['read-only standby', server('25006'), 'ledger_unreachable', false],
    ['completion unknown', server('40003'), 'ledger_unreachable', true],
    ['admin shutdown', fatal('57P01'), 'ledger_unreachable', true],
    ['crash shutdown', fatal('57P02'), 'ledger_unreachable', true],
    ['starting up', fatal('57P03'), 'ledger_unreachable', false],
    ['too many connections', fatal('53300'), 'ledger_unreachable', false],
    ['wrong password', fatal('28P01'), 'bad_config', false],
    ['no such database', fatal('3D000'), 'bad_config', false],
    ['role missing at connect', fatal('22023'), 'schema_version_unsupported', false],
    ['role not granted at connect', fatal('42501'), 'schema_version_unsupported', false],
    ['out of memory, fatal', fatal('53200'), 'ledger_unreachable', true],
    ['table missing', server('42P01'), 'schema_version_unsupported', false],
    ['column missing', server('42703'), 'schema_version_unsupported', false],
    ['a NUL in a text', server('22021'), 'bad_input', false],
    ['connection closed', socket('CONNECTION_CLOSED'), 'ledger_unreachable', true],
    ['connection destroyed', socket('CONNECTION_DESTROYED'), 'ledger_unreachable', true],
    ['reset', socket('ECONNRESET'), 'ledger_unreachable', true],
    ['broken pipe', socket('EPIPE'), 'ledger_unreachable', true],
    ['nobody listens', socket('ECONNREFUSED'), 'ledger_unreachable', false],
    ['no such host', socket('ENOTFOUND'), 'ledger_unreachable', false],
    ['connect time-out', socket('CONNECT_TIMEOUT'), 'ledger_unreachable', false],
    ['client ended', socket('CONNECTION_ENDED'), 'ledger_unreachable', false],
    ['undefined value', socket('UNDEFINED_VALUE'), 'internal', false],
    ['a fault of ours', new TypeError('hunter2'), 'internal', false],
    ['deadline', new HoldfastError('ledger_unreachable', 'late'), 'ledger_unreachable', true],
    ['another HoldfastError', new HoldfastError('bad_input', 'x'), 'bad_input', false],
  ];
  test.each(rows)('%s', (_, error, code, doubt) => {
    // Asked before and after translation, and through drizzle's wrapper.
    const wrapped = new DrizzleQueryError('select $1', ['hunter2'], error);
    expect(isConnectionDoubt(error)).toBe(doubt);
    for (const each of [error, ...(error instanceof HoldfastError ? [] : [wrapped])]) {
      const translated = translate(each, { what: 'a statement', address: 'db:5432/x' });
      expect({ code: translated.code, doubt: isConnectionDoubt(translated) }).toEqual({ code, doubt });
      expect(inspect(translated, { depth: 10, showHidden: true })).not.toContain('hunter2');
    }
  });
});

test('a translated error keeps SQLSTATE, constraint, table, place and address, and nothing else', () => {
  const error = server('23505', { constraint_name: 'effects_open_twin', table_name: 'effects' });
  const translated = translate(error, { what: 'admit', address: 'db:5432/x' });
  expect([sqlStateOf(translated), constraintOf(translated), translated.place]).toEqual([
    '23505',
    'effects_open_twin',
    'admit',
  ]);
  expect(translated.message).toBe(
    'Postgres refused the statement (SQLSTATE 23505, constraint effects_open_twin, table effects), at db:5432/x',
  );
  expect(translated.cause).toBeUndefined();
  expect([sqlStateOf(error), constraintOf(error), sqlStateOf(new Error('x'))]).toEqual([
    '23505',
    'effects_open_twin',
    undefined,
  ]);
});

test('what was never sent is not in doubt, whatever ended it', () => {
  expect(isConnectionDoubt(translate(fatal('57P01'), { unsent: true }))).toBe(false);
  expect(isConnectionDoubt(translate(new HoldfastError('ledger_unreachable', 'late'), { unsent: true }))).toBe(false);
});

test('a fault of our own names where it happened, not what it said', () => {
  const translated = translate(new TypeError('hunter2'), { what: 'look' });
  expect(translated.message).toBe("TypeError in the ledger's code");
  expect(translated.place).toMatch(/^look errors\.test\.ts:\d+$/);
});
