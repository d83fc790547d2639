import type { Contract, JsonObject } from '../contracts/contract.ts';
import type { Scope } from '../contracts/template.ts';
import type { ProviderAnswer } from '../effects/answer.ts';
import type { EffectKey } from '../effects/effect.ts';

export type { Scope } from '../contracts/template.ts';
export type { ProviderAnswer } from '../effects/answer.ts';

/** A resolved credential. Lives in memory only, from just before the claim until the answer. */
export interface Secret {
  readonly name: string;
  readonly version: string;
  readonly value: string;
}

/** The request without secrets; its canonical JSON text is what `request_hash` covers. */
export type RenderedRequest = JsonObject;

/**
 * Checked by the adapter right before the first byte is handed to a **connected** socket.
 * `late`: do not send, answer `not_sent`.
 */
export type Gate = () => 'go' | 'late';

/** Asked right after the write: whether to wait for the answer. */
export type Wrote = () => 'keep' | 'drop';

/** One send: what, under which key and secret, and until when. */
export interface SendInput {
  readonly contract: Contract;
  readonly request: RenderedRequest;
  readonly effectKey: EffectKey;
  readonly secret: Secret | null;
  /** Milliseconds from now until the holder stops waiting for the answer. */
  readonly timeoutMs: number;
  /** Milliseconds from now during which connecting may be retried while nothing was sent. */
  readonly connectWithinMs: number;
  readonly gate: Gate;
  /** Called once, right after the request was written. `drop`: it left too late, so the connection is given up (PROTOCOL 3.2). */
  readonly wrote: Wrote;
}

/** The live definition of a tool at its provider, compared with the contract's pin before anything is recorded. */
export type LiveDefinition =
  | { readonly kind: 'same' }
  | { readonly kind: 'not_checked' }
  | { readonly kind: 'drifted'; readonly why: string }
  | { readonly kind: 'gone'; readonly why: string }
  | { readonly kind: 'unreachable'; readonly why: string };

/**
 * One outside system. An adapter makes **exactly one** request per `send`: no redirects, no
 * retries, no resumed streams. Evidence is a `send` of the PURE contract that the evidence rule pins.
 */
export interface ProviderAdapter {
  readonly name: string;
  readonly kind: 'http' | 'mcp' | 'mail';
  /** Pure: the request for a call, without secrets. Throws HoldfastError `request_not_renderable`. */
  render(contract: Contract, scope: Scope): RenderedRequest;
  /** No older than the provider's declared age. Never throws. A provider that wants a secret before it shows its tools needs it here too. */
  verify(contract: Contract, secret?: Secret | null): Promise<LiveDefinition>;
  /** Never throws: every failure is an answer. */
  send(input: SendInput): Promise<ProviderAnswer>;
  close(): Promise<void>;
}
