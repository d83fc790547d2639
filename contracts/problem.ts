/** One thing that is wrong with a contract: where (JSON Pointer into the file's content), what, and how to mend it. */
export interface Problem {
  readonly pointer: string;
  readonly message: string;
  readonly hint?: string;
  /** The place is the property's name, not its value. */
  readonly atKey?: boolean;
}
