import { createServer } from 'node:net';

/** Ports handed out by this process lately: the system may give the same free port twice until somebody listens on it. */
const handedOut = new Set<number>();
const HANDED_OUT_MAX = 1_000;

/** A TCP port that is free on 127.0.0.1 now. Another process may still take it before the caller listens. */
export async function freePort(): Promise<number> {
  if (handedOut.size >= HANDED_OUT_MAX) handedOut.clear();
  for (;;) {
    const port = await askSystem(0);
    if (port === null || handedOut.has(port)) continue;
    handedOut.add(port);
    return port;
  }
}

/** `port` when it is free on 127.0.0.1, otherwise any free one. So that an address survives a restart where it can. */
export async function preferPort(port: number | undefined): Promise<number> {
  if (port === undefined || handedOut.has(port) || (await askSystem(port)) === null) return freePort();
  handedOut.add(port);
  return port;
}

function askSystem(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address();
      const taken = typeof address === 'object' && address !== null ? address.port : null;
      server.close(() => resolve(taken));
    });
  });
}
