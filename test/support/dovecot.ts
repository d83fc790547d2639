import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';

export interface Dovecot {
  readonly host: string;
  readonly lmtpPort: number;
  readonly imapPort: number;
  readonly user: string;
  readonly password: string;
  readonly pid: number;
  /** Mails in a user's inbox, counted in the maildir itself. */
  count(user?: string): number;
  /** Their raw texts, in no particular order. */
  mails(user?: string): string[];
  stop(): Promise<void>;
}

const BINARY = ['/usr/sbin/dovecot', '/usr/local/sbin/dovecot', '/usr/bin/dovecot'];
const PARTS = [
  ['/usr/lib/dovecot/imap', 'dovecot-imapd'],
  ['/usr/lib/dovecot/lmtp', 'dovecot-lmtpd'],
] as const;
const READY_WITHIN_MS = 10_000;

/** Why no Dovecot can be started here; null when it can. */
export function dovecotMissing(): string | null {
  if (!BINARY.some(existsSync)) return 'no dovecot here: apt-get install dovecot-imapd dovecot-lmtpd';
  const lacking = PARTS.find(([file]) => !existsSync(file) && !existsSync(file.replace('/lib/', '/libexec/')));
  return lacking ? `no ${lacking[1]} here: apt-get install ${lacking[1]}` : null;
}

/**
 * A throw-away mail server: LMTP in, IMAP out, maildir, any user name with one password, on free
 * loopback ports. Works as root and as anybody else. Throws with the server's own log when it does not come up.
 */
export async function startDovecot(): Promise<Dovecot> {
  const missing = dovecotMissing();
  if (missing !== null) throw new Error(missing);
  const base = mkdtempSync(join(tmpdir(), 'hf-dovecot-'));
  // The mail processes run as another user when the server is started by root.
  chmodSync(base, 0o755);
  const mail = join(base, 'mail');
  mkdirSync(mail);
  chmodSync(mail, 0o777);
  const [lmtpPort, imapPort] = [await freePort(), await freePort()];
  const password = 'dovecot-test-password';
  writeFileSync(join(base, 'dovecot.conf'), config(base, lmtpPort, imapPort, password));

  const binary = BINARY.find(existsSync) ?? 'dovecot';
  const child = spawn(binary, ['-F', '-c', join(base, 'dovecot.conf')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const stop = () => end(child, base);
  try {
    await bannerOf(lmtpPort, '220', child);
    await bannerOf(imapPort, '* OK', child);
  } catch (error) {
    const log = existsSync(join(base, 'log')) ? readFileSync(join(base, 'log'), 'utf8') : '';
    await stop();
    throw new Error(`dovecot did not come up: ${(error as Error).message}\n${said}${log}`);
  }
  const user = 'agent';
  const files = (who: string): string[] =>
    ['new', 'cur'].flatMap((part) => {
      const directory = join(mail, who, part);
      return existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [];
    });
  return {
    host: '127.0.0.1',
    lmtpPort,
    imapPort,
    user,
    password,
    pid: child.pid ?? 0,
    count: (who = user) => files(who).length,
    mails: (who = user) => files(who).map((file) => readFileSync(file, 'utf8')),
    stop,
  };
}

function config(base: string, lmtpPort: number, imapPort: number, password: string): string {
  const { uid, gid, username } = userInfo();
  const root = uid === 0;
  const owner = root ? 'uid=nobody gid=nogroup' : `uid=${uid} gid=${gid}`;
  // Without root nothing may change its user or its root directory.
  const users = root
    ? ''
    : `default_internal_user = ${username}
default_internal_group = ${groupName(gid)}
default_login_user = ${username}`;
  const chroot = root ? '' : 'chroot =';
  return `
base_dir = ${base}/run
state_dir = ${base}/state
log_path = ${base}/log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:${base}/mail/%u
first_valid_uid = 1
first_valid_gid = 1
${users}
passdb {
  driver = static
  args = password=${password}
}
userdb {
  driver = static
  args = ${owner} home=${base}/mail/%u allow_all_users=yes
}
# A refused login would slow down every later one from this address.
auth_failure_delay = 0
service anvil {
  ${chroot}
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service imap-login {
  ${chroot}
  inet_listener imap {
    port = ${imapPort}
  }
  inet_listener imaps {
    port = 0
  }
}
service lmtp {
  inet_listener lmtp {
    port = ${lmtpPort}
  }
}
protocol lmtp {
  auth_username_format = %n
}
auth_username_format = %n
`;
}

function groupName(gid: number): string {
  const row = readFileSync('/etc/group', 'utf8')
    .split('\n')
    .find((one) => one.split(':')[2] === String(gid));
  return row?.split(':')[0] ?? String(gid);
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** The port is open before the service behind it is up, so wait for its first words. */
async function bannerOf(port: number, wanted: string, child: ChildProcess): Promise<void> {
  const until = Date.now() + READY_WITHIN_MS;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`it ended with code ${child.exitCode}`);
    if ((await firstWords(port)).startsWith(wanted)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`no "${wanted}" on port ${port} in time`);
}

function firstWords(port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const done = (text: string): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(text);
    };
    const timer = setTimeout(() => done(''), 1_000);
    socket.once('data', (chunk: Buffer) => done(chunk.toString()));
    socket.once('error', () => done(''));
    socket.once('close', () => done(''));
  });
}

async function end(child: ChildProcess, base: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }
  rmSync(base, { recursive: true, force: true });
}
