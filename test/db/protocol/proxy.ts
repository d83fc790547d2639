import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * A wire to Postgres that the test can hold or cut. `hold`: what the server says stays on the way. `mute`: what the client
 * says does. `cut`: every connection is lost, with what was held. `down`: new ones are lost at once, until `up`.
 */
export interface Wire {
  readonly url: string;
  hold(): void;
  mute(): void;
  /** What the client said since `mute`, as it went over the wire. */
  unheard(): string;
  cut(): void;
  down(): void;
  up(): void;
  close(): Promise<void>;
}

export async function openProxy(target: string): Promise<Wire> {
  const to = new URL(target);
  const pairs = new Set<{ client: Socket; server: Socket }>();
  let held = false;
  let isMute = false;
  let unheard = '';
  let isDown = false;
  const listener = createServer((client) => {
    if (isDown) return void client.destroy();
    const server = connect({ host: to.hostname, port: Number(to.port), noDelay: true });
    const pair = { client, server };
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    client.on('data', (chunk) => {
      if (isMute) unheard += chunk.toString('latin1');
      else server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (!held) client.write(chunk);
    });
    for (const socket of [client, server]) socket.on('error', end).on('close', end);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((listener.address() as AddressInfo).port);
  const cut = (): void => {
    for (const { client, server } of pairs) {
      // The server side is ended politely, so that what it was told is done to the end.
      client.destroy();
      server.end();
    }
    held = false;
    isMute = false;
  };
  return {
    url: url.toString(),
    hold: () => {
      held = true;
    },
    mute: () => {
      isMute = true;
      unheard = '';
    },
    unheard: () => unheard,
    cut,
    down: () => {
      isDown = true;
      cut();
    },
    up: () => {
      isDown = false;
    },
    close: async () => {
      cut();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
