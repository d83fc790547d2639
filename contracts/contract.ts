/** JSON as RFC 8259 knows it; what travels in arguments, results and evidence. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** `sha256/v1:<64 hex>` over RFC 8785 canonical JSON. */
export type Digest = string & { readonly __brand: 'Digest' };

/** What a repeated send of one recorded call does in the outside world (see DESIGN, "Effect classes"). */
export const EFFECT_CLASSES = ['PURE', 'IDEMPOTENT', 'REPLAYABLE', 'UNKNOWN', 'NON_RETRYABLE'] as const;
/** One of {@link EFFECT_CLASSES}. */
export type EffectClass = (typeof EFFECT_CLASSES)[number];

/** The layers of a contract; each has a digest of its own. */
export const CONTRACT_LAYERS = ['selection', 'parameters', 'execution', 'returns', 'behaviour'] as const;
/** One of {@link CONTRACT_LAYERS}. */
export type ContractLayer = (typeof CONTRACT_LAYERS)[number];

/** A JSON Schema, draft 2020-12 unless `$schema` names draft-07. */
export type JsonSchema = JsonObject;

/** `tool@version#digest`: how one contract names another so that it can never drift. */
export interface ContractRef {
  readonly tool: string;
  readonly version: string;
  readonly digest: Digest;
}

/**
 * A positive pattern over a provider's answer. `status` lists what may stand in
 * {@link ProviderAnswer}'s status (numbers for HTTP and SMTP, `ok`, `error` … for MCP and mail,
 * or a class such as `4xx`); every `where` entry (JSON Pointer → template or literal) must hold.
 * `{ exists: true }` asks for presence, `{ matches: "…" }` for a substring of a text.
 */
export interface AnswerPattern {
  readonly status?: readonly (number | string)[];
  readonly where?: Readonly<Record<string, JsonValue>>;
}

/** What an answer may mean; `accepted`: taken but not done yet, `no_answer`: it proves nothing. */
export const ANSWER_MEANINGS = ['applied', 'applied_partly', 'accepted', 'refused', 'no_answer'] as const;
/** One of {@link ANSWER_MEANINGS}. */
export type AnswerMeaning = (typeof ANSWER_MEANINGS)[number];

/** One row of `execution.answers`: first match wins, before the defaults of the provider's kind. */
export interface AnswerRule extends AnswerPattern {
  readonly means: AnswerMeaning;
  /** JSON Pointer to the provider's reference (an `accepted` job, an artefact's id). */
  readonly ref?: string;
  /** JSON Pointer to the list of parts, for `applied_partly`. */
  readonly parts?: string;
}

/** How the provider is asked about an effect later. Data inside the pinned contract. */
export interface EvidenceRule {
  /** A PURE contract, pinned by version and digest. */
  readonly call: ContractRef;
  readonly by: 'key' | 'ref' | 'listing' | 'search' | 'state';
  /** Arguments of that call, as templates. */
  readonly with: JsonObject;
  /** Positive pattern for "it is there"; for listings applied to each item. */
  readonly found: AnswerPattern;
  /** Positive pattern for "it is not there"; an answer that matches neither proves nothing. For listings: the page was read as it should. */
  readonly absent: AnswerPattern;
  /** Listings and searches: JSON Pointer to the page's array. */
  readonly items?: string;
  /** JSON Pointer to the next page's cursor (missing, null or empty = last page). */
  readonly next?: string;
  /** The argument of the evidence call that takes the cursor. */
  readonly cursorArg?: string;
  /** JSON Pointer into the evidence (or item) → template it has to equal; else CONFLICT. */
  readonly equals: Readonly<Record<string, JsonValue>>;
  /** JSON Pointer to the provider's own reference of the artefact. */
  readonly reference?: string;
  /** JSON Pointer to what is kept as the result; default: the whole answer or item. */
  readonly result?: string;
  /** Default `suggests`: absence never settles by itself. */
  readonly absence: 'proves' | 'suggests';
  /** How long after its in-flight limit an effect may stay invisible to this look. */
  readonly lagMs: number;
  /** How long the provider can still show the effect. */
  readonly retentionMs: number;
}

/** One HTTP request. Texts are templates. */
export interface HttpExecution {
  readonly kind: 'http';
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path template below the provider's `base_url`; placeholders are percent-encoded. */
  readonly path: string;
  readonly query: JsonObject;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON template; `undefined` sends no body. `"{args}"` is the whole argument object. */
  readonly body?: JsonValue;
  /** Where the secret travels: `bearer`, or `header NAME`. Default `bearer`. */
  readonly secretAs: string;
}

/** One `tools/call` of an MCP server. */
export interface McpExecution {
  readonly kind: 'mcp';
  /** The tool's name at the MCP server. */
  readonly tool: string;
  /** JSON template of the arguments; default `"{args}"`. */
  readonly arguments: JsonValue;
  /** Digest of the live definition (name, inputSchema, outputSchema, annotations, description) this contract was made for. */
  readonly upstream?: Digest;
}

/** One mail to send, or to find again: exactly one of the two. Texts are templates. */
export interface MailExecution {
  readonly kind: 'mail';
  /** Send one mail; its Message-ID is made from the effect key. */
  readonly send?: {
    readonly from: string;
    readonly to: string;
    readonly subject: string;
    readonly text: string;
  };
  /** PURE: find a mail by exact Message-ID in a mailbox. */
  readonly find?: { readonly messageId: string; readonly mailbox: string };
}

/** How the provider is spoken to. */
export type Transport = HttpExecution | McpExecution | MailExecution;

/** How a call is made, and what may be done when its outcome is not known. Defaults of the file are in place. */
export interface Execution {
  readonly provider: string;
  readonly effect: EffectClass;
  /** Templates such as `invoice:write:{tenant}`. */
  readonly capabilities: readonly string[];
  /** Name of the credential; absent: the tool needs none. */
  readonly credential?: string;
  /** How long the holder waits for the answer, from its first byte. */
  readonly timeoutMs: number;
  /** From claim to first byte. */
  readonly sendByMs: number;
  /** How long after send-by the provider may still be working on a request. */
  readonly inFlightMaxMs: number;
  readonly transport: Transport;
  readonly idempotency?: {
    /** `header NAME`, `query NAME` or `body /pointer`. Absent where a template already carries `{effect_key}`. */
    readonly sendAs?: string;
    readonly windowMs: number;
  };
  /** Shape of the effect key: `hex` (default, 64), `uuid`, or `base62` with a length. */
  readonly key: { readonly alphabet: 'hex' | 'uuid' | 'base62'; readonly length: number };
  /** Templates of the resources written; needed for REPLAYABLE. */
  readonly resource: readonly string[];
  readonly exclusiveWriter: boolean;
  /** `safe`: the provider takes two requests with one key at the same time. */
  readonly concurrent: 'safe' | 'unsafe';
  /** `allowed`: a second call with equal arguments is legitimate while the first is open. */
  readonly repeats: 'allowed' | 'refused';
  readonly evidence?: EvidenceRule;
  readonly answers: readonly AnswerRule[];
  readonly onUnknown: { readonly waitMs: number };
}

/** One immutable version of one tool. Deep-frozen; equal digest means equal content. */
export interface Contract {
  readonly tool: string;
  readonly version: string;
  readonly owner: string;
  readonly selection: {
    readonly title?: string;
    readonly description: string;
    readonly useWhen: readonly string[];
    readonly doNotUseWhen: readonly string[];
  };
  readonly parameters: JsonSchema;
  readonly execution: Execution;
  readonly returns: {
    readonly schema?: JsonSchema;
    readonly sizeMaxBytes: number;
    /** JSON Pointers whose values never reach the ledger. */
    readonly redact: readonly string[];
  };
  readonly behaviour: JsonObject;
  readonly compatibility: JsonObject;
  readonly digests: Readonly<Record<ContractLayer, Digest>>;
  readonly digest: Digest;
  /** The file's own content, as parsed: what the digests cover and the registry stores. */
  readonly source: JsonObject;
}
