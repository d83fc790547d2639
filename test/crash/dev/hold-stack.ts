import { findStack, startStack, stopStack, untilSignal } from '../../../dev/stack.ts';

/** Starts a stack in the directory given, prints its state as one line of JSON, and holds it until a signal comes. */
const dir = process.argv[2] as string;
const binDir = process.argv[3] as string;
const stack = await startStack({ dir, binDir, ui: false, fastUnsafe: true, log: (line) => console.error(line) });
const signal = untilSignal(); // Before the line that tells the test that it may signal.
console.log(JSON.stringify(findStack(dir)));
if (process.argv[4] === 'throw') throw new Error('an error nobody catches');
await signal;
await stopStack(stack);
