import { connect, type Socket } from 'node:net';

interface Target {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path?: string | false;
}

/**
 * Makes the sockets of postgres.js clients and can tell which of them are dead.
 *
 * A frozen server, a fail-over or a dropped NAT entry leaves connections on which nothing ever comes back. The
 * kernel notices after about a quarter of an hour, and until then each statement on one of them holds a place of the pool.
 * The server ends every statement at its own time-out, so a connection with an open statement on which
 * no byte came for longer than that is dead. Bytes are counted below TLS.
 */
export class SocketWatch {
  readonly #open = new Set<Socket>();
  readonly #silenceMs: number;
  #turn = 0;
  #looking = false;

  /** @param silenceMs - longer than the server's statement time-out */
  constructor(silenceMs: number) {
    this.#silenceMs = silenceMs;
  }

  /**
   * The `socket` option of postgres.js. Returned while it still connects (writes wait for it), because postgres.js
   * loses a place of its pool for ever when this function rejects.
   */
  readonly open = (target: Target): Socket => {
    const index = this.#turn++ % target.host.length;
    const socket = target.path
      ? connect(target.path)
      : connect({ host: target.host[index] as string, port: target.port[index] as number, noDelay: true });
    this.#open.add(socket);
    // postgres.js drops the listeners of a socket that it wraps in TLS, so closed ones are also swept in suspect().
    socket.once('close', () => this.#open.delete(socket));
    // postgres.js reads the name for TLS here.
    return Object.assign(socket, { host: target.host[index] });
  };

  /**
   * To be called when a statement missed its deadline: destroys the connections on which no byte comes within the next
   * `silenceMs`. Those are the dead ones, and idle ones, which the pool simply opens again.
   */
  suspect(): void {
    if (this.#looking) return;
    this.#looking = true;
    const seen = [...this.#open].map((socket) => ({ socket, bytes: socket.bytesRead }));
    setTimeout(() => {
      this.#looking = false;
      for (const { socket, bytes } of seen) {
        if (socket.destroyed) this.#open.delete(socket);
        else if (socket.bytesRead === bytes) socket.destroy(Object.assign(new Error('dead'), { code: 'SILENCE' }));
      }
    }, this.#silenceMs).unref();
  }
}
