import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** The demo's timeline on standard output: seconds since the start, what, and the rest. Silent with `--json`. */
export class Timeline {
  readonly #start = performance.now();
  #silent: boolean;

  constructor(silent: boolean) {
    this.#silent = silent;
  }

  /** Seconds since the demo began. */
  seconds(): number {
    return (performance.now() - this.#start) / 1000;
  }

  /** Nothing more is printed: what still runs in the background has lost its audience. */
  mute(): void {
    this.#silent = true;
  }

  act(title: string): void {
    this.#write(`\n${paint('bold', title)}\n`);
  }

  /** One line with its time. `style` colours the first word only. */
  line(word: string, text: string, style: Style = 'dim'): void {
    const time = paint('dim', `${this.seconds().toFixed(1).padStart(6)} s`);
    this.#write(`${time}  ${paint(style, word.padEnd(10))}  ${text}\n`);
  }

  /** Below the line before. */
  more(text: string): void {
    this.#write(`${' '.repeat(22)}${text}\n`);
  }

  plain(text: string): void {
    this.#write(`${text}\n`);
  }

  #write(text: string): void {
    if (!this.#silent) process.stdout.write(text);
  }
}

export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

const STATUS_STYLES: Readonly<Record<string, Style>> = {
  CONFIRMED: 'green',
  NOT_APPLIED: 'yellow',
  UNKNOWN: 'red',
  DISPATCHED: 'cyan',
};

export function statusWord(status: string): string {
  return paint(STATUS_STYLES[status] ?? 'reset', status);
}

/** `3.4 s`. */
export function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
