import { connect, constants, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** gRPC over HTTP/2 in front of a Temporal server, which can take the right to poll away. */
export interface TemporalProxy {
  readonly address: string;
  /** From now on every poll is answered with this gRPC status, and those that wait are ended with it. */
  refusePolls(grpcStatus: number): void;
  close(): void;
}

const POLL = /\/Poll(Workflow|Activity|Nexus)TaskQueue$/;

export async function startTemporalProxy(upstream: string): Promise<TemporalProxy> {
  const client = connect(`http://${upstream}`);
  client.on('error', () => {});
  const polls = new Set<ServerHttp2Stream>();
  let refused: number | undefined;
  const refuse = (stream: ServerHttp2Stream, status: number) =>
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': String(status), 'grpc-message': 'by test' },
      { endStream: true },
    );
  const server = createServer();
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    stream.on('error', () => {});
    const poll = POLL.test(headers[':path'] ?? '');
    if (poll && refused !== undefined) return refuse(stream, refused);
    if (poll) polls.add(stream);
    const up = client.request(headers);
    up.on('error', () => stream.close(constants.NGHTTP2_CANCEL));
    stream.on('close', () => {
      polls.delete(stream);
      up.close(constants.NGHTTP2_CANCEL);
    });
    let trailers: IncomingHttpHeaders = {};
    up.on('trailers', (given) => {
      trailers = given;
    });
    up.on('response', (given, flags) => {
      if (stream.destroyed || stream.headersSent) return;
      const ended = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      stream.respond(given, ended ? { endStream: true } : { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      if (!ended) up.pipe(stream);
    });
    stream.pipe(up);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    refusePolls(grpcStatus) {
      refused = grpcStatus;
      for (const stream of polls) if (!stream.headersSent) refuse(stream, grpcStatus);
    },
    close() {
      client.destroy();
      server.close();
    },
  };
}
