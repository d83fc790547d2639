import type { ProviderAnswer } from './provider.ts';

/** True for this very machine, where no TLS is asked for. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host);
}

/** The gate was closed: nothing was begun. */
export const LATE: ProviderAnswer & { kind: 'not_sent' } = {
  kind: 'not_sent',
  why: 'the send-by time had passed when the connection stood',
  code: 'late',
};

/** Said when a mail server was silent for too long. */
export const TIMED_OUT = 'no answer within the time limit';
