import { closeSync, existsSync, fsync, mkdirSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** What the provider did with one request; the auditor reads nothing else. */
export interface AuditLine {
  readonly seq: number;
  readonly at: string;
  /** Such as `POST /v1/payments`. */
  readonly route: string;
  /** Idempotency-Key header, else the body's `reference`, else X-Request-Id. */
  readonly key: string | null;
  /** False: the request was seen, but a fault or a check kept it from having any effect. */
  readonly accepted: boolean;
  readonly outcome: 'created' | 'deduped' | 'updated' | 'read' | 'refused' | 'dropped';
  readonly artefact?: Artefact;
  readonly body: unknown;
}

export interface Artefact {
  readonly kind: 'invoice' | 'payment' | 'setting' | 'note';
  readonly id: string;
  readonly key: string | null;
  /** Milliseconds since 1970; before it the artefact does not show in look-ups. */
  readonly visibleAt: number;
  readonly createdAt: string;
  /** The request's body, as canonical text, to tell a replay from a mismatch. */
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/**
 * The provider's own memory: one append-only file of JSON lines. A line counts once fsync has
 * returned, so nothing that was answered is ever forgotten; a torn last line never counted.
 */
export class Store {
  readonly lines: AuditLine[] = [];
  readonly artefacts: Artefact[] = [];
  readonly #fd: number;
  readonly #durable: boolean;
  #waiting: (() => void)[] = [];
  #syncing = false;

  constructor(directory: string, durable: boolean) {
    mkdirSync(directory, { recursive: true });
    const file = join(directory, 'billing.jsonl');
    if (existsSync(file)) this.#load(file);
    this.#fd = openSync(file, 'a');
    this.#durable = durable;
  }

  /** Appends a line; with `sync` it resolves only when the line is on disk. */
  async append(line: Omit<AuditLine, 'seq' | 'at'>, sync: boolean): Promise<AuditLine> {
    const full: AuditLine = { seq: this.lines.length + 1, at: new Date().toISOString(), ...line };
    this.#take(full);
    writeSync(this.#fd, `${JSON.stringify(full)}\n`);
    if (sync && this.#durable) await this.#synced();
    return full;
  }

  nextId(prefix: string): string {
    return `${prefix}_${String(this.lines.length + 1).padStart(6, '0')}`;
  }

  /** Body of the newest write that was seen with this key, whatever became of it. */
  seenBody(key: string): unknown {
    return this.lines.findLast((line) => line.key === key && line.outcome !== 'read')?.body;
  }

  close(): void {
    closeSync(this.#fd);
  }

  #take(line: AuditLine): void {
    this.lines.push(line);
    if (line.artefact && line.outcome !== 'deduped') this.artefacts.push(line.artefact);
  }

  #load(file: string): void {
    const text = readFileSync(file, 'utf8');
    const end = text.lastIndexOf('\n') + 1;
    if (end < text.length) truncateSync(file, Buffer.byteLength(text.slice(0, end)));
    for (const line of text.slice(0, end).split('\n')) if (line !== '') this.#take(JSON.parse(line) as AuditLine);
  }

  /** One fsync serves everybody who wrote before it began. */
  #synced(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (!this.#syncing) this.#sync();
    });
  }

  #sync(): void {
    const served = this.#waiting;
    this.#waiting = [];
    this.#syncing = true;
    fsync(this.#fd, (error) => {
      if (error) throw error;
      this.#syncing = false;
      for (const resolve of served) resolve();
      if (this.#waiting.length > 0) this.#sync();
    });
  }
}
