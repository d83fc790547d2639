import type { Client, Tool } from '@modelcontextprotocol/client';
import type { Digest, JsonObject, JsonValue } from '../contracts/contract.ts';
import { sha256v1 } from '../contracts/digest.ts';
import { elapsedMs, type Mark, markNow } from './clock.ts';

/** What of a tool's definition the caller relies on; presentation such as icons may change freely. */
const PINNED_KEYS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'] as const;

/** Digest of a live MCP tool definition, as `transport.upstream` pins it: SHA-256 over the keys that are present. */
export function upstreamDigest(definition: JsonObject): Digest {
  const pinned: Record<string, JsonValue> = {};
  for (const key of PINNED_KEYS) {
    const value = definition[key];
    if (value !== undefined) pinned[key] = value;
  }
  return sha256v1(pinned);
}

/** One tool of a server's list. */
export interface LiveTool {
  readonly digest: Digest;
  /** What the SDK is told about the tool: without outputSchema, since it would judge the answer after the tool ran. */
  readonly definition: Tool;
}

/** The server's tools as last seen. Concurrent askers share one look. */
export class Definitions {
  readonly #ageMaxMs: number;
  #seen: { readonly at: Mark; readonly tools: ReadonlyMap<string, LiveTool> } | undefined;
  #looking: Promise<ReadonlyMap<string, LiveTool>> | undefined;

  constructor(ageMaxMs: number) {
    this.#ageMaxMs = ageMaxMs;
  }

  /** No older than the declared age, counted from the start of the look. Throws what the client throws. */
  async current(client: Client): Promise<ReadonlyMap<string, LiveTool>> {
    if (this.#seen && elapsedMs(this.#seen.at) <= this.#ageMaxMs) return this.#seen.tools;
    this.#looking ??= this.#look(client).finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** The definition to hand to the SDK with a call; a bare one when the tool was never looked at. */
  forCall(tool: string): Tool {
    return this.#seen?.tools.get(tool)?.definition ?? { name: tool, inputSchema: { type: 'object' } };
  }

  /** The server said that its tools changed. */
  forget(): void {
    this.#seen = undefined;
  }

  async #look(client: Client): Promise<ReadonlyMap<string, LiveTool>> {
    const at = markNow();
    // Walks all pages, at most 64 (the SDK's limit), and never takes the SDK's own cache for an answer.
    const { tools } = await client.listTools(undefined, { cacheMode: 'bypass' });
    const byName = new Map<string, LiveTool>();
    for (const tool of tools) {
      const { outputSchema: _, ...definition } = tool;
      byName.set(tool.name, { digest: upstreamDigest(tool as unknown as JsonObject), definition });
    }
    this.#seen = { at, tools: byName };
    return byName;
  }
}
