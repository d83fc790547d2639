import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection } from '@temporalio/worker';
import { historyConverter } from '../client/history-codec.ts';
import { HoldfastError } from '../effects/errors.ts';
import { openCodec } from './codec.ts';
import type { HoldfastConfig } from './config.ts';

const DEFAULT_ADDRESS = '127.0.0.1:7233';
const CONNECT_TIMEOUT_MS = 10_000;

/** One connection to Temporal, and what workers and clients on it need. */
export interface TemporalParts {
  readonly connection: NativeConnection;
  /** On the workers' own connection, which is what eager starts need. */
  readonly client: Client;
  readonly namespace: string;
  /** For clients and workers alike: encodes history as the ledger's payloads are. */
  readonly dataConverter: DataConverter;
}

/** Connects to Temporal. Throws `temporal_unreachable`. */
export async function connectTemporal(config: HoldfastConfig): Promise<TemporalParts> {
  const { address = DEFAULT_ADDRESS, namespace = 'default', tls } = config.temporal;
  const dataConverter = historyConverter(openCodec(config));
  try {
    const connection = await withTimeout(
      NativeConnection.connect({ address, ...(tls ? { tls: true } : {}) }),
      CONNECT_TIMEOUT_MS,
    );
    return { connection, client: new Client({ connection, namespace, dataConverter }), namespace, dataConverter };
  } catch (error) {
    throw new HoldfastError('temporal_unreachable', `no answer from Temporal at ${address}`, {
      place: address,
      cause: error,
    });
  }
}

async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('timed out')), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
