#!/usr/bin/env node
import { runCommand } from './run.ts';

// `holdfast effect list | head` closes the pipe early; that is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
// A connection that is still being made must not keep a finished command waiting.
process.exit(await runCommand(process.argv.slice(2)));
