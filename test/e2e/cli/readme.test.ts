import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freshDatabase, freshNamespace } from '../../support/stack.ts';
import { type Shipped, shippedCommand } from './command.ts';

const ROOT = join(import.meta.dirname, '../../..');
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
const FIRST_TOOL = README.slice(README.indexOf('## A first tool of your own'), README.indexOf('## What holds today'));

const blocks = (language: string): string[] =>
  [...FIRST_TOOL.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, text]) => text ?? '');

/** What the README tells a newcomer to type after `npm run holdfast --`, as arguments. */
const commands = (): string[][] =>
  blocks('sh')
    .join('')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line.startsWith('npm run holdfast -- '))
    .map((line) => line.slice('npm run holdfast -- '.length).replace(/\s+#.*$/, ''))
    .map((line) => (line.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replace(/^'|'$/g, '')));

/** The page "A first tool of your own", word for word; only the stack, and so the addresses, are those of the test. */
describe('the first tool of the README', () => {
  const holdfast: Shipped = shippedCommand();
  const ends: (() => unknown)[] = [];
  let env: Record<string, string>;

  beforeAll(async () => {
    const [database, temporal] = await Promise.all([freshDatabase(), freshNamespace()]);
    ends.push(() => database.drop());
    env = {
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
    };
    const shop = await openShop();
    ends.push(shop.close);
    const [find = '', order = '', config = ''] = blocks('yaml');
    writeFileSync(join(holdfast.dir, 'find.yaml'), find);
    // Tests run on a Postgres that may forget, and beside others on other ports.
    writeFileSync(
      join(holdfast.dir, 'holdfast.yaml'),
      `${config.replace('http://127.0.0.1:8080', shop.url)}allow_unsafe_durability: true\n`,
    );
    const published = await holdfast.run(['contract', 'publish', 'find.yaml'], env);
    const [digest = ''] = /sha256\/v1:[0-9a-f]{64}/.exec(published.stdout) ?? [];
    writeFileSync(join(holdfast.dir, 'order.yaml'), order.replace('sha256/v1:…', digest));
  });
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
    holdfast.remove();
  });

  test('can be made, called and looked at by the commands as they stand there', async () => {
    const seen: Record<string, { exit: number; said: string }> = {};
    for (const args of commands()) {
      const [what = '', verb = ''] = args;
      if (what === 'dev') continue;
      if (what === 'worker') {
        const worker = await holdfast.worker(args.slice(1), env);
        ends.push(() => worker.stop());
        continue;
      }
      const { exit, stdout, stderr } = await holdfast.run(args, env);
      seen[what === 'call' ? what : `${what} ${verb}`] = { exit, said: `${stdout}${stderr}`.split('\n')[0] ?? '' };
    }
    expect(seen).toEqual({
      'tenant put': { exit: 0, said: expect.stringMatching(/^tenant acme created/) },
      'contract publish': { exit: 0, said: expect.stringMatching(/^published {2}shop\.order@1\.0\.0/) },
      call: { exit: 0, said: 'CONFIRMED  effect:acme:run-1:order-1  shop.order@1.0.0 (NON_RETRYABLE)' },
      'effect show': { exit: 0, said: 'effect:acme:run-1:order-1  CONFIRMED' },
    });
  });
});

async function openShop(): Promise<{ url: string; close(): void }> {
  const child = spawn(process.execPath, [join(ROOT, 'examples/shop.ts'), '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said = await new Promise<string>((resolve) => child.stdout?.once('data', (chunk) => resolve(String(chunk))));
  return { url: /http:\S+/.exec(said)?.[0] ?? '', close: () => void child.kill() };
}
