import type { JsonValue } from '../contracts/contract.ts';
import type { SchemaProblem } from '../contracts/json-schema.ts';

/** What came back from one send, before the contract's `answers:` give it a meaning. */
export type ProviderAnswer =
  | {
      readonly kind: 'response';
      /** HTTP or SMTP code; `ok`, `error`, `input_required`, or a JSON-RPC code as text for MCP; `ok` for mail searches. */
      readonly status: number | string;
      readonly body: JsonValue;
      /** Lower-case names; only what evidence and answers may look at. */
      readonly headers?: Readonly<Record<string, string>>;
      /** The body was cut at the adapter's limit: proves nothing. */
      readonly truncated?: boolean;
    }
  /** The error came before the request was given to a connected socket. */
  | { readonly kind: 'not_sent'; readonly why: string; readonly code?: string }
  /** The request may have been seen. */
  | { readonly kind: 'no_answer'; readonly why: string };

/** Said about a kept result that is not exactly what the provider sent. */
export interface ResultNotes {
  /** The body was larger than `returns.size_max` or than the adapter's limit, or nested too deeply. */
  readonly resultTruncated?: true;
  /** The answer does not fit `returns.schema`. It is applied all the same. */
  readonly returnsMismatch?: readonly SchemaProblem[];
}

/** What an answer means under the contract (PROTOCOL 5.3). Results are redacted and cut to size. */
export type Answer =
  | ({ readonly kind: 'applied'; readonly result: JsonValue; readonly reference: string | null } & ResultNotes)
  | ({
      readonly kind: 'applied_partly';
      readonly result: JsonValue;
      readonly parts: JsonValue;
      readonly reference: string | null;
    } & ResultNotes)
  /** Taken, but not done yet: UNKNOWN without alarm, evidence by `reference`. */
  | { readonly kind: 'accepted'; readonly reference: string | null }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly result: JsonValue }
  | { readonly kind: 'no_answer'; readonly why: string; readonly reference?: string }
  | { readonly kind: 'not_sent'; readonly why: string; readonly code?: string };
