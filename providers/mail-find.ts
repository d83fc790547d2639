import { type FetchMessageObject, ImapFlow } from 'imapflow';
import type { JsonObject } from '../contracts/contract.ts';
import { scrub } from './body.ts';
import type { MailRequest } from './mail-render.ts';
import { isLoopback, LATE, TIMED_OUT } from './mail-server.ts';
import type { ProviderAnswer, Secret, SendInput } from './provider.ts';

/** Where mails are looked for. */
export interface ImapServer {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte. Otherwise STARTTLS is required, except to a loopback address. */
  readonly secure?: boolean;
  readonly user: string;
}

/** A rendered search. */
export type MailToFind = Extract<MailRequest, { kind: 'find' }>;

/** A header search gives at most a few mails; more would mean that the server does not search. */
const CANDIDATES_MAX = 100;

/** Looks for a mail by its exact Message-ID. Reads only. */
export async function findMail(server: ImapServer, look: MailToFind, input: SendInput): Promise<ProviderAnswer> {
  const client = open(server, input);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    client.close();
  }, input.connectWithinMs + input.timeoutMs);
  // Without a listener a late socket error would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    if (input.gate() !== 'go') return LATE;
    input.wrote();
    return await search(client, look);
  } catch (error) {
    return timedOut ? { kind: 'no_answer', why: TIMED_OUT } : failed(error as Error, input.secret);
  } finally {
    clearTimeout(timer);
    client.close();
  }
}

function open(server: ImapServer, input: SendInput): ImapFlow {
  return new ImapFlow({
    host: server.host,
    port: server.port,
    secure: server.secure ?? false,
    ...(server.secure !== true && { doSTARTTLS: !isLoopback(server.host) }),
    auth: { user: server.user, pass: input.secret?.value ?? '' },
    connectionTimeout: input.connectWithinMs,
    greetingTimeout: input.connectWithinMs,
    socketTimeout: input.timeoutMs,
    disableAutoIdle: true,
    logger: false,
  });
}

async function search(client: ImapFlow, look: MailToFind): Promise<ProviderAnswer> {
  await client.mailboxOpen(look.mailbox, { readOnly: true });
  // The server searches for a substring, and answers `false` when it refused the search.
  const uids = await client.search({ header: { 'message-id': look.messageId } }, { uid: true });
  if (uids === false || uids === undefined) {
    return { kind: 'response', status: 'error', body: { message: 'the server refused the search' } };
  }
  if (uids.length > CANDIDATES_MAX) {
    return { kind: 'response', status: 'error', body: { message: `more than ${CANDIDATES_MAX} mails match` } };
  }
  const matches: JsonObject[] = [];
  if (uids.length > 0) {
    const candidates = await client.fetchAll(uids, { uid: true, envelope: true, size: true }, { uid: true });
    for (const mail of candidates) if (mail.envelope?.messageId === look.messageId) matches.push(matchOf(mail));
  }
  return { kind: 'response', status: 'ok', body: { count: matches.length, matches } };
}

function matchOf(mail: FetchMessageObject): JsonObject {
  const { envelope } = mail;
  return {
    messageId: envelope?.messageId ?? '',
    uid: mail.uid,
    subject: envelope?.subject ?? '',
    from: envelope?.from?.[0]?.address ?? '',
    to: (envelope?.to ?? []).map((one) => one.address ?? ''),
    size: mail.size ?? 0,
  };
}

function failed(error: Error, secret: Secret | null): ProviderAnswer {
  const { authenticationFailed, responseText, responseStatus } = error as Error & {
    authenticationFailed?: boolean;
    responseText?: string;
    responseStatus?: string;
  };
  const text = scrub(responseText ?? error.message, secret);
  if (authenticationFailed) return { kind: 'response', status: 'error', body: { message: `login refused: ${text}` } };
  if (responseStatus === 'NO' || responseStatus === 'BAD') {
    return { kind: 'response', status: 'error', body: { message: text } };
  }
  return { kind: 'no_answer', why: text };
}
