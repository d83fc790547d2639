import addressparser from 'nodemailer/lib/addressparser';
import type { Contract, MailExecution } from '../contracts/contract.ts';
import { renderText } from '../contracts/template.ts';
import { HoldfastError } from '../effects/errors.ts';
import type { RenderedRequest, Scope } from './provider.ts';

/** A mail, or a look for one, without secrets. */
export type MailRequest =
  | {
      readonly kind: 'send';
      readonly messageId: string;
      readonly from: string;
      readonly to: readonly string[];
      readonly subject: string;
      readonly text: string;
    }
  | { readonly kind: 'find'; readonly messageId: string; readonly mailbox: string };

const PLACE = '/execution/transport';
/** RFC 5322, 2.1.1: a line has at most 998 characters; longer subjects would be folded in ways servers differ on. */
const SUBJECT_CHARS_MAX = 998;
const RECIPIENTS_MAX = 50;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const ADDRESS = /^[^\s<>()[\]:;@\\,"]+@[^\s<>()[\]:;@\\,"]+$/;

/**
 * Fills a mail contract's templates. Pure. A value can add neither a header nor a recipient.
 * Throws HoldfastError `request_not_renderable`, place = JSON Pointer.
 */
export function renderMail(contract: Contract, scope: Scope, domain: string): RenderedRequest {
  const { transport } = contract.execution;
  if (transport.kind !== 'mail') throw unfit(PLACE, `a contract of kind ${transport.kind} at a mail provider`);
  if (transport.send) return renderSend(transport.send, scope, domain) as unknown as RenderedRequest;
  if (transport.find) return renderFind(transport.find, scope, domain) as unknown as RenderedRequest;
  throw unfit(PLACE, 'neither send nor find is declared');
}

function renderSend(send: NonNullable<MailExecution['send']>, scope: Scope, domain: string): MailRequest {
  const [from = ''] = addresses(send.from, scope, `${PLACE}/send/from`);
  const subject = line(send.subject, scope, `${PLACE}/send/subject`);
  if (subject.length > SUBJECT_CHARS_MAX) throw unfit(`${PLACE}/send/subject`, 'longer than 998 characters');
  return {
    kind: 'send',
    messageId: `<${scope.effectKey}@${domain}>`,
    from,
    to: addresses(send.to, scope, `${PLACE}/send/to`),
    subject,
    text: renderText(send.text, scope, 'plain', `${PLACE}/send/text`),
  };
}

function renderFind(find: NonNullable<MailExecution['find']>, scope: Scope, domain: string): MailRequest {
  const place = `${PLACE}/find/message_id`;
  const id = line(find.messageId, scope, place).replace(/^<|>$/g, '');
  // A bare effect key stands for the Message-ID that `send` made of it.
  const whole = id.includes('@') ? id : `${id}@${domain}`;
  if (!ADDRESS.test(whole)) throw unfit(place, 'not a Message-ID');
  return { kind: 'find', messageId: `<${whole}>`, mailbox: line(find.mailbox, scope, `${PLACE}/find/mailbox`) };
}

function line(template: string, scope: Scope, place: string): string {
  const text = renderText(template, scope, 'plain', place);
  if (CONTROL.test(text)) throw unfit(place, 'a line break or control character would start another header');
  return text;
}

/** Bare addresses; as many as the template itself lists, so that a comma in an argument adds nobody. */
function addresses(template: string, scope: Scope, place: string): string[] {
  const parsed = addressparser(line(template, scope, place));
  const found = parsed.map((entry) => ('group' in entry && entry.group ? '' : (entry.address ?? '')));
  if (found.length === 0 || found.length > RECIPIENTS_MAX) throw unfit(place, `1 to ${RECIPIENTS_MAX} addresses`);
  if (found.length !== addressparser(template).length)
    throw unfit(place, 'a value would change the number of addresses');
  const wrong = found.findIndex((address) => !ADDRESS.test(address));
  if (wrong >= 0) throw unfit(place, `address ${wrong + 1} is malformed`);
  return found;
}

function unfit(place: string, why: string): HoldfastError {
  return new HoldfastError('request_not_renderable', why, { place });
}
