import type { Contract } from '../contracts/contract.ts';
import { findMail, type ImapServer } from './mail-find.ts';
import { type MailRequest, renderMail } from './mail-render.ts';
import { type SmtpServer, sendMail } from './mail-send.ts';
import type { ProviderAdapter, ProviderAnswer, Scope, SendInput } from './provider.ts';

/** One mail system. */
export interface MailProviderOptions {
  readonly name: string;
  readonly smtp: SmtpServer;
  /** Where sent mails can be found again; without it there is no evidence. */
  readonly imap?: ImapServer;
  /** Right side of every Message-ID: `<effect key@domain>`. */
  readonly domain: string;
}

/**
 * Mail by SMTP or LMTP, found again by IMAP. The effect key is the Message-ID, so a mail that was accepted
 * can be told from one that was not. The secret is the password of both users.
 */
export function mailProvider(options: MailProviderOptions): ProviderAdapter {
  return {
    name: options.name,
    kind: 'mail',
    render: (contract: Contract, scope: Scope) => renderMail(contract, scope, options.domain),
    verify: async () => ({ kind: 'not_checked' }),
    send: (input) => perform(options, input),
    // Every send opens and ends its own connection.
    close: async () => undefined,
  };
}

async function perform(options: MailProviderOptions, input: SendInput): Promise<ProviderAnswer> {
  const request = input.request as unknown as MailRequest;
  try {
    if (request.kind === 'send') return await sendMail(options.smtp, request, input);
    if (options.imap) return await findMail(options.imap, request, input);
    return { kind: 'not_sent', why: `provider ${options.name} has no imap server configured` };
  } catch (error) {
    // Only composing can fail here: what happens on a connection is an answer already.
    return { kind: 'not_sent', why: (error as Error).message };
  }
}
