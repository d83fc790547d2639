/** One rule, switched off on purpose in one place, and the test that has to notice. */
export interface Mutant {
  /** Number in PROTOCOL.md. */
  readonly rule: string;
  /** What is switched off, for people. */
  readonly off: string;
  /** Where, relative to the root. */
  readonly file: string;
  /** Text that stands exactly once in that file. */
  readonly find: string;
  readonly replace: string;
  /** Test file, relative to the root. */
  readonly test: string;
  /** Part of a test's title; every test with it runs, and one of them has to fail. */
  readonly title: string;
}

/** A numbered rule of PROTOCOL.md in a few words. */
export interface Rule {
  readonly rule: string;
  readonly says: string;
  /** Where the rest of it is tested, or why it cannot be here. */
  readonly elsewhere?: string;
}
