import { describe, expect, it } from 'vitest';
import { Failure, reportOf } from '../../../cli/failure.ts';
import { HoldfastError } from '../../../effects/errors.ts';

const plain = { json: false, debug: false };

describe('reportOf', () => {
  it('says code, message, place and next step in lines of their own, with the exit code of the table', () => {
    const error = new HoldfastError('temporal_unreachable', 'no answer from Temporal', { place: '127.0.0.1:7233' });
    expect(reportOf(error, plain)).toEqual({
      text: [
        'error temporal_unreachable: no answer from Temporal',
        '  at 127.0.0.1:7233',
        '  next: check the address and the server; nothing is lost, and the same call id is safe to repeat',
        '',
      ].join('\n'),
      exit: 5,
    });
  });

  it('moves the further lines of a message in', () => {
    const error = new HoldfastError('bad_contract', 'a.yaml:1:1: one\na.yaml:2:1: two', { place: 'a.yaml:1:1' });
    expect(reportOf(error, plain).text).toBe(
      'error bad_contract: a.yaml:1:1: one\n  a.yaml:2:1: two\n  at a.yaml:1:1\n  next: correct the file at the place named\n',
    );
  });

  it('says a place once that came through Temporal inside the message too', () => {
    const error = new HoldfastError('bad_arguments', '/amount must be integer (at /args/amount)', {
      place: '/args/amount',
    });
    expect(reportOf(error, plain).text).toBe(
      'error bad_arguments: /amount must be integer\n  at /args/amount\n  next: correct the arguments; the message names the place\n',
    );
  });

  it('is one JSON object with --json', () => {
    const error = new HoldfastError('ledger_unreachable', 'gone', { place: 'read' });
    expect(JSON.parse(reportOf(error, { json: true, debug: false }).text)).toEqual({
      error: {
        code: 'ledger_unreachable',
        message: 'gone',
        place: 'read',
        next: 'check the address and the server; the same call id is safe to repeat',
        retryable: true,
      },
    });
  });

  it('calls what nobody expected internal, without a stack trace', () => {
    const { text, exit } = reportOf(new TypeError('x is not a function'), plain);
    expect({ text, exit }).toEqual({
      text: 'error internal: x is not a function\n  next: please report it with the output of --debug\n',
      exit: 1,
    });
  });

  it('shows the stack of an error and of its cause only with --debug', () => {
    const error = new HoldfastError('internal', 'outer', { cause: new Error('inner') });
    const { text } = reportOf(error, { json: false, debug: true });
    expect(text).toMatch(/HoldfastError: outer\n\s+at /);
    expect(text).toMatch(/caused by Error: inner\n\s+at /);
  });

  it('ends a refused call with the exit code that the call chose', () => {
    const error = new HoldfastError('process_fenced', 'fenced');
    expect(reportOf(new Failure(error, 3), plain)).toEqual({ ...reportOf(error, plain), exit: 3 });
  });

  it.each([
    ['postgres://u:pa55@h:5432/d is down', 'postgres://u:***@h:5432/d is down'],
    ['see "https://u:pa55@h/x"', 'see "https://u:***@h/x"'],
    ['postgres://u:p:a/5@h/d', 'postgres://u:***@h/d'],
    ['http://127.0.0.1:8080/a@b', 'http://127.0.0.1:8080/a@b'],
  ])('never shows a password: %s', (message, shown) => {
    expect(reportOf(new Error(message), plain).text.split('\n')[0]).toBe(`error internal: ${shown}`);
  });

  it('lets no control character of a provider reach the terminal', () => {
    const { text } = reportOf(new HoldfastError('refused_by_provider', 'no\u001b[2J\u202e!'), plain);
    expect(text.split('\n')[0]).toBe('error refused_by_provider: no\u{fffd}[2J\u{fffd}!');
  });
});
