import { Readable } from 'node:stream';
import MailComposer from 'nodemailer/lib/mail-composer';
import SMTPConnection, { type SentMessageInfo, type SMTPError } from 'nodemailer/lib/smtp-connection';
import type { JsonObject } from '../contracts/contract.ts';
import { scrub } from './body.ts';
import type { MailRequest } from './mail-render.ts';
import { isLoopback, LATE, TIMED_OUT } from './mail-server.ts';
import type { ProviderAnswer, Secret, SendInput } from './provider.ts';

/** Where mails are handed over. */
export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  /** Local delivery (RFC 2033) instead of SMTP. */
  readonly lmtp?: boolean;
  /** TLS from the first byte. Otherwise STARTTLS is required, except to a loopback address and for LMTP. */
  readonly secure?: boolean;
  /** Logs in as this user, with the secret as password. */
  readonly user?: string;
}

/** A rendered mail. */
export type MailToSend = Extract<MailRequest, { kind: 'send' }>;

const RETRY_MS = 100;

/**
 * Sends one mail over one connection in one transaction. The gate is asked after greeting and login,
 * before MAIL FROM. Before the message's first line is written nothing can have been delivered.
 */
export async function sendMail(server: SmtpServer, mail: MailToSend, input: SendInput): Promise<ProviderAnswer> {
  const message = await compose(mail);
  const connectBy = performance.now() + input.connectWithinMs;
  const connected = await connectWithin(server, mail, input.secret, connectBy);
  if (connected.kind !== 'connected') return connected;
  const { connection } = connected;
  try {
    if (input.gate() !== 'go') return LATE;
    return await transact(connection, mail, message, input);
  } finally {
    leave(connection);
  }
}

/** QUIT is a courtesy: the answer neither waits for it nor depends on it. */
function leave(connection: SMTPConnection): void {
  try {
    if (connection.destroyed) connection.close();
    else connection.quit();
  } catch {
    connection.close();
  }
}

function compose(mail: MailToSend): Promise<Buffer> {
  const { messageId, from, to, subject, text } = mail;
  const composer = new MailComposer({
    messageId,
    from,
    to: [...to],
    subject,
    text,
    // A text that looks like a path or an address stays a text.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return composer.compile().build();
}

type Connected =
  | { readonly kind: 'connected'; readonly connection: SMTPConnection }
  | { readonly kind: 'not_sent'; readonly why: string; readonly code?: string };

async function connectWithin(
  server: SmtpServer,
  mail: MailToSend,
  secret: Secret | null,
  by: number,
): Promise<Connected> {
  for (;;) {
    const outcome = await connect(server, mail, secret, Math.max(1, by - performance.now()));
    const mayPass = outcome.kind === 'not_sent' && outcome.code === 'ESOCKET';
    if (!mayPass || performance.now() + RETRY_MS >= by) return outcome;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function connect(server: SmtpServer, mail: MailToSend, secret: Secret | null, withinMs: number): Promise<Connected> {
  return new Promise((resolve) => {
    const plain = server.secure !== true && (server.lmtp === true || isLoopback(server.host));
    const connection = new SMTPConnection({
      host: server.host,
      port: server.port,
      secure: server.secure ?? false,
      lmtp: server.lmtp ?? false,
      ...(plain ? { ignoreTLS: true } : { requireTLS: server.secure !== true }),
      name: mail.messageId.slice(mail.messageId.indexOf('@') + 1, -1),
      logger: false,
    });
    const fail = (error: SMTPError): void => {
      clearTimeout(timer);
      connection.close();
      resolve({ kind: 'not_sent', why: scrub(error.message, secret), code: error.code ?? 'ESOCKET' });
    };
    const done = (): void => {
      clearTimeout(timer);
      resolve({ kind: 'connected', connection });
    };
    const timer = setTimeout(
      () =>
        fail(Object.assign(new Error(`no session with ${server.host}:${server.port} in time`), { code: 'ETIMEDOUT' })),
      withinMs,
    );
    // The library also emits what it hands to callbacks; an 'error' without a listener would end the process.
    connection.on('error', fail);
    connection.connect((error) => {
      if (error) return fail(error as SMTPError);
      if (server.user === undefined) return done();
      connection.login({ credentials: { user: server.user, pass: secret?.value ?? '' } }, (refused) =>
        refused ? fail(refused as SMTPError) : done(),
      );
    });
  });
}

function transact(
  connection: SMTPConnection,
  mail: MailToSend,
  message: Buffer,
  input: SendInput,
): Promise<ProviderAnswer> {
  return new Promise((resolve) => {
    let began = false;
    const settle = (answer: ProviderAnswer): void => {
      clearTimeout(timer);
      resolve(answer);
    };
    const lost = (why: string, code?: string): void =>
      settle(
        began
          ? { kind: 'no_answer', why }
          : { kind: 'not_sent', why: `${why}; the message itself was not begun`, ...(code !== undefined && { code }) },
      );
    const timer = setTimeout(() => {
      lost(TIMED_OUT, 'ETIMEDOUT');
      connection.close();
    }, input.timeoutMs);
    // Read only once the server has said 354: that is where the message begins.
    const source = new Readable({
      read() {
        began = true;
        this.push(message);
        this.push(null);
      },
    });
    source.once('end', () =>
      setImmediate(() => {
        if (input.wrote() !== 'drop') return;
        lost('the message left after its send-by time, so the connection was dropped', 'late');
        connection.close();
      }),
    );
    connection.on('error', (error: SMTPError) => lost(scrub(error.message, input.secret), error.code));
    connection.send({ from: mail.from, to: [...mail.to], size: message.length }, source, (error, info) => {
      if (!error && info) return settle(accepted(info, input.secret));
      const failure = error as SMTPError;
      const reply = refusalOf(failure, began, input.secret);
      if (reply) settle(reply);
      else lost(scrub(failure.message, input.secret), failure.code);
    });
  });
}

/** A reply to MAIL, RCPT or DATA is definite; 421 after the message began may be a shutdown that answers nothing. */
function refusalOf(error: SMTPError, began: boolean, secret: Secret | null): ProviderAnswer | undefined {
  const { responseCode, command, response } = error;
  if (responseCode === undefined || command === undefined) return undefined;
  if (command !== 'MAIL FROM' && command !== 'RCPT TO' && command !== 'DATA') return undefined;
  if (began && responseCode === 421) return undefined;
  return { kind: 'response', status: responseCode, body: { command, response: scrub(response ?? '', secret) } };
}

/** LMTP answers for each recipient after the message; when it refused them all, that is the answer. */
function accepted(info: SentMessageInfo, secret: Secret | null): ProviderAnswer {
  const rejected = (info.rejectedErrors ?? []).map(
    (error): JsonObject => ({
      recipient: (error as SMTPError & { recipient?: string }).recipient ?? '',
      status: error.responseCode ?? 0,
      response: scrub(error.response ?? '', secret),
    }),
  );
  const first = info.rejectedErrors?.[0];
  if (info.accepted.length === 0 && first) {
    const refusal = refusalOf(first as SMTPError, true, secret);
    return refusal ?? { kind: 'no_answer', why: 'every recipient was answered without a definite reply' };
  }
  return {
    kind: 'response',
    status: Number(/^\d{3}/.exec(info.response)?.[0] ?? 250),
    body: { command: 'DATA', response: scrub(info.response, secret), accepted: [...info.accepted], rejected },
  };
}
