import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** `npm run build`: the published form in `dist/`, JavaScript with declarations, and the files that the code reads. */
const COMMAND = 'dist/cli/main.js';

rmSync('dist', { recursive: true, force: true });
const compiled = spawnSync(join('node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { stdio: 'inherit' });
if (compiled.status === 0) {
  cpSync('db/migrations', 'dist/db/migrations', { recursive: true });
  cpSync('examples', 'dist/examples', { recursive: true, filter: (file) => !file.endsWith('.ts') });
  if (existsSync(COMMAND)) chmodSync(COMMAND, 0o755);
}
process.exitCode = compiled.status ?? 1;
