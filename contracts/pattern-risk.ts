/**
 * A backtracking engine can be made to work for hours by a pattern such as `^(a+)+$` on a short text. This reads a
 * regular expression far enough to refuse the exponential shapes and to count what makes the rest polynomial.
 */

/** Longest pattern looked at. */
export const PATTERN_CHARS_MAX = 1000;
/** Longest text matched, by number of unbounded quantifiers (one more when the pattern is not anchored). */
const TEXT_CHARS_MAX = [Infinity, Infinity, 20_000, 1_500, 400, 150, 100] as const;

/** Whether a pattern may be run, and on how long a text. */
export type PatternRisk =
  /** May run on texts of up to `charsMax` UTF-16 units in well under a second. */
  { readonly safe: true; readonly charsMax: number } | { readonly safe: false; readonly why: string };

/** One thing a pattern matches in sequence, with its quantifier. */
interface Atom {
  readonly source: string;
  /** Alternatives of a group; absent for a single character, class or escape. */
  readonly group?: readonly (readonly Atom[])[];
  /** Matches no characters itself: `^`, `$`, `\b`, look-around. */
  readonly zeroWidth: boolean;
  readonly max: number;
  readonly min: number;
}

/** Repeats above this are counted as unbounded when texts are measured. */
const REPEATS_MAX = 16;
/** In so many ways a repeated group may be read at most, where it is not read in one way only. */
const WAYS_MAX = 10_000;
/** In so many ways the bounded parts of a pattern may be combined at most. */
const CHOICES_MAX = 2_000_000;
const ESCAPE =
  /^\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|[1-9][0-9]*|[\s\S])/u;
const QUANTIFIER = /^(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})\??/;

/** Judges one pattern (ECMAScript, flag `u` or none). Says nothing about whether it compiles. */
export function patternRisk(pattern: string): PatternRisk {
  if (pattern.length > PATTERN_CHARS_MAX) return unsafe(`longer than ${PATTERN_CHARS_MAX} characters`);
  let tree: readonly (readonly Atom[])[];
  try {
    tree = new Reader(pattern).read();
  } catch (error) {
    if (error instanceof Unreadable) return unsafe(error.message);
    throw error;
  }
  const why = nested(tree);
  if (why !== undefined) return unsafe(why);
  if (choices(tree) > CHOICES_MAX) return unsafe('has too many optional parts');
  const anchored = tree.every((alternative) => alternative[0]?.source === '^');
  const exponent = unboundedIn(tree) + (anchored ? 0 : 1);
  const charsMax = TEXT_CHARS_MAX[exponent];
  return charsMax === undefined ? unsafe('too many unbounded quantifiers') : { safe: true, charsMax };
}

function unsafe(why: string): PatternRisk {
  return { safe: false, why };
}

class Unreadable extends Error {}

/** Recursive descent over the pattern; state is one position. */
class Reader {
  readonly #pattern: string;
  #at = 0;
  #depth = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  read(): readonly (readonly Atom[])[] {
    const tree = this.#alternatives();
    if (this.#at < this.#pattern.length) throw new Unreadable('has an unmatched ")"');
    return tree;
  }

  #alternatives(): (readonly Atom[])[] {
    const all: Atom[][] = [[]];
    while (this.#at < this.#pattern.length && this.#pattern[this.#at] !== ')') {
      if (this.#pattern[this.#at] === '|') {
        this.#at += 1;
        all.push([]);
      } else {
        all.at(-1)?.push(this.#atom());
      }
    }
    return all;
  }

  #atom(): Atom {
    const start = this.#at;
    const char = this.#pattern[start];
    if (char === '(') return this.#group(start);
    if (char === '[') this.#take(/^\[(?:\\[\s\S]|[^\]\\])*\]/);
    else if (char === '\\') this.#take(ESCAPE);
    else this.#take(/^[\s\S]/u);
    const source = this.#pattern.slice(start, this.#at);
    if (/^\\(?:[1-9]|k<)/.test(source)) throw new Unreadable('has a back-reference');
    return { source, zeroWidth: ['^', '$', '\\b', '\\B'].includes(source), ...this.#quantifier() };
  }

  #group(start: number): Atom {
    this.#depth += 1;
    if (this.#depth > 20) throw new Unreadable('is nested too deeply');
    const head = this.#take(/^\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?/);
    const group = this.#alternatives();
    if (this.#pattern[this.#at] !== ')') throw new Unreadable('has an unmatched "("');
    this.#at += 1;
    this.#depth -= 1;
    const source = this.#pattern.slice(start, this.#at);
    return { source, group, zeroWidth: /^\(\?<?[=!]/.test(head), ...this.#quantifier() };
  }

  #quantifier(): { min: number; max: number } {
    const match = QUANTIFIER.exec(this.#pattern.slice(this.#at));
    if (match === null) return { min: 1, max: 1 };
    this.#at += match[0].length;
    const [text, low, comma, high] = match;
    if (low === undefined) return { min: text[0] === '+' ? 1 : 0, max: text[0] === '?' ? 1 : Infinity };
    const min = Number(low);
    return { min, max: comma === undefined ? min : high === '' ? Infinity : Number(high) };
  }

  #take(syntax: RegExp): string {
    const match = syntax.exec(this.#pattern.slice(this.#at));
    if (match === null) throw new Unreadable('cannot be read');
    this.#at += match[0].length;
    return match[0];
  }
}

const repeats = (atom: Atom): boolean => atom.max > REPEATS_MAX;

function unboundedIn(tree: readonly (readonly Atom[])[]): number {
  const perAlternative = tree.map((alternative) =>
    alternative.reduce((sum, atom) => sum + (repeats(atom) ? 1 : 0) + (atom.group ? unboundedIn(atom.group) : 0), 0),
  );
  return Math.max(0, ...perAlternative);
}

/** Why some repeated group can match one text in very many ways; `undefined` when none can. */
function nested(tree: readonly (readonly Atom[])[]): string | undefined {
  for (const atom of tree.flat()) {
    if (atom.group === undefined) continue;
    const once = waysOf(atom.group);
    if (atom.max > 1 && once > 1 && once ** atom.max > WAYS_MAX && !oneWay(atom.group)) {
      return `has nested or overlapping repeats in ${atom.source.slice(0, 40)}`;
    }
    const inside = nested(atom.group);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

/** In how many ways the bounded parts can be combined: `a?a?a?…` doubles with each. Unbounded repeats are counted apart. */
function choices(tree: readonly (readonly Atom[])[]): number {
  return tree.reduce(
    (sum, alternative) => sum + alternative.reduce((product, atom) => product * choicesOf(atom), 1),
    0,
  );
}

function choicesOf(atom: Atom): number {
  const counts = atom.max === Infinity ? 1 : atom.max - atom.min + 1;
  if (atom.group === undefined) return counts;
  const once = choices(atom.group);
  // Rounds that `nested` let pass are read in one way, or were few.
  return counts * (atom.max > WAYS_MAX || once ** atom.max > WAYS_MAX ? once : once ** atom.max);
}

/** In how many ways one round of a group can be read at most. */
function waysOf(group: readonly (readonly Atom[])[]): number {
  return group.reduce(
    (sum, alternative) => sum + alternative.reduce((product, atom) => product * waysOfAtom(atom), 1),
    0,
  );
}

/** `(a{1,50}){1,50}` is as bad as `(a+)+`: the number of rounds varies, and so does each round. */
function waysOfAtom(atom: Atom): number {
  const once = atom.group === undefined ? 1 : waysOf(atom.group);
  return (atom.max - atom.min + 1) * (once === 1 ? 1 : once ** atom.max);
}

/**
 * True when a repeated group can be read in one way only: each round begins (or ends) with a character that nothing
 * else inside can match, as in `(\.[a-z]+)*` and `([a-z]+\.)*`, or it chooses between fixed texts.
 */
function oneWay(group: readonly (readonly Atom[])[]): boolean {
  const atoms = group.flat();
  if (atoms.length === 0 || atoms.some((atom) => atom.group !== undefined || atom.zeroWidth)) return false;
  if (atoms.every(isOneChar)) return prefixFree(group);
  const backwards = group.map((alternative) => alternative.toReversed());
  return marked(group) || (group.length === 1 && marked(backwards));
}

/** Each alternative has a first character of its own, which no later atom of any alternative can match. */
function marked(group: readonly (readonly Atom[])[]): boolean {
  const marks = group.map((alternative) => alternative[0]);
  const rest = group.flatMap((alternative) => alternative.slice(1));
  return marks.every(
    (mark, index) =>
      mark !== undefined &&
      isOneChar(mark) &&
      marks.slice(index + 1).every((other) => other === undefined || !overlap(mark, other)) &&
      rest.every((atom) => !overlap(mark, atom)) &&
      varying(group[index] ?? []) <= 1,
  );
}

const isOneChar = (atom: Atom): boolean =>
  atom.group === undefined && !atom.zeroWidth && atom.min === 1 && atom.max === 1;

const varying = (atoms: readonly Atom[]): number => atoms.filter((atom) => atom.max !== atom.min).length;

/** For alternatives of single characters: no two match one text, nor one the beginning of another. */
function prefixFree(group: readonly (readonly Atom[])[]): boolean {
  return group.every((one, index) =>
    group.slice(index + 1).every((other) => {
      const shared = Math.min(one.length, other.length);
      return one.slice(0, shared).some((atom, at) => !overlap(atom, other[at] as Atom));
    }),
  );
}

/** Whether two one-character atoms share a character, by trial over Latin-1 and the characters the two name. */
function overlap(a: Atom, b: Atom): boolean {
  const [one, other] = [tester(a), tester(b)];
  if (one === undefined || other === undefined) return true;
  for (let code = 0; code < 0x100; code += 1) {
    const char = String.fromCharCode(code);
    if (one.test(char) && other.test(char)) return true;
  }
  // Beyond Latin-1 two classes cannot be compared by trial, so only one of them may reach there.
  return reachesBeyond(one, a) && reachesBeyond(other, b);
}

function tester(atom: Atom): RegExp | undefined {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(`^(?:${atom.source})$`, flags);
    } catch {
      // Not a pattern under this flag; without any flag left it counts as overlapping.
    }
  }
  return undefined;
}

const BEYOND = ['\u0100', '\u0436', '\u2003', '\u4e2d', '\u{1f600}', '\uffff'];

function reachesBeyond(test: RegExp, atom: Atom): boolean {
  return /[^\0-\xff]|\\[up]/i.test(atom.source) || BEYOND.some((char) => test.test(char));
}
