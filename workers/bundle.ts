import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleWithSourceMap } from '@temporalio/worker';

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), '..');
/** `.ts` in the repository, `.js` in the published package. */
const extension = extname(here);
/** Rooms whose code the workflows may import. */
const BUNDLED_ROOMS = ['workflows', 'activities', 'effects', 'contracts'];

/**
 * The workflow bundle. Building it takes seconds, so it is kept in `cacheDir` under a hash of all code
 * that can be in it and of the SDK's version; workers that start later, or at the same time, read it.
 */
export async function loadWorkflowBundle(cacheDir: string): Promise<WorkflowBundleWithSourceMap | { code: string }> {
  const path = join(cacheDir, `workflows-${bundleHash()}.js`);
  if (existsSync(path)) return { code: readFileSync(path, 'utf8') };
  const bundle = await bundleWorkflowCode({
    workflowsPath: join(root, 'workflows', `index${extension}`),
    logger: {
      log() {},
      trace() {},
      debug() {},
      info() {},
      warn() {},
      error: (message) => process.stderr.write(`${message}\n`),
    },
  });
  mkdirSync(cacheDir, { recursive: true });
  // Renamed into place: a second worker never reads half a file.
  const half = `${path}.${process.pid}`;
  writeFileSync(half, bundle.code);
  renameSync(half, path);
  return bundle;
}

function bundleHash(): string {
  const hash = createHash('sha256');
  hash.update(createRequire(import.meta.url)('@temporalio/worker/package.json').version as string);
  for (const room of BUNDLED_ROOMS) {
    for (const name of readdirSync(join(root, room)).sort()) {
      if (name.endsWith(extension)) hash.update(name).update(readFileSync(join(root, room, name)));
    }
  }
  return hash.digest('hex').slice(0, 16);
}
