import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * One process and when it was born. A pid alone is not enough: after a crash or a reboot the same number may belong to
 * a stranger, and a stranger must never be killed.
 */
export interface ProcessId {
  readonly pid: number;
  /** Opaque; equal only for the very same process. */
  readonly born: string;
}

/** When `pid` was born, or null when no such process lives (a zombie does not). */
export function bornAt(pid: number): string | null {
  if (process.platform === 'linux') return bornAtLinux(pid);
  try {
    const text = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { stdio: ['ignore', 'pipe', 'ignore'] });
    return text.toString().trim() || null;
  } catch {
    return null;
  }
}

function bornAtLinux(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold anything, so fields are counted from the last one: state is 3rd, start time 22nd.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const state = fields[0];
    if (state === 'Z' || state === 'X') return null;
    return `${bootId()}/${fields[19]}`;
  } catch {
    return null;
  }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'boot';
  }
}

/** The living process with this pid. Null when there is none. */
export function identify(pid: number): ProcessId | null {
  const born = bornAt(pid);
  return born === null ? null : { pid, born };
}

/** Whether this very process still lives. */
export function isAlive(id: ProcessId): boolean {
  return bornAt(id.pid) === id.born;
}

/** The command line of a living process, arguments joined by spaces; null when it cannot be read. */
export function commandLine(pid: number): string | null {
  try {
    if (process.platform === 'linux') {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    }
    const text = execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { stdio: ['ignore', 'pipe', 'ignore'] });
    return text.toString().trim();
  } catch {
    return null;
  }
}

/** Sends a signal to this very process; does nothing when it is gone. */
export function signal(id: ProcessId, name: NodeJS.Signals): void {
  if (!isAlive(id)) return;
  try {
    process.kill(id.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Waits until this process is gone; false when it still lives after `deadlineMs`. */
export async function waitGone(id: ProcessId, deadlineMs: number): Promise<boolean> {
  const deadline = performance.now() + deadlineMs;
  while (isAlive(id)) {
    if (performance.now() >= deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}

/** Asks with `name`, and with SIGKILL when that took longer than `graceMs`. Resolves when the process is gone. */
export async function stopProcess(id: ProcessId, name: NodeJS.Signals, graceMs = 10_000): Promise<void> {
  signal(id, name);
  if (await waitGone(id, graceMs)) return;
  signal(id, 'SIGKILL');
  await waitGone(id, graceMs);
}
