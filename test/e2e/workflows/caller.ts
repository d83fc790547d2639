/** A caller that is killed while its call is under way: `node caller.ts '{"url", "address", "namespace", "call"}'`. */
import { Client, Connection } from '@temporalio/client';
import { Holdfast } from '../../../client/holdfast.ts';
import { connect } from '../../../db/connect.ts';
import type { Call } from '../../../effects/effect.ts';

interface Order {
  readonly url: string;
  readonly address: string;
  readonly namespace: string;
  readonly call: Call;
}

const { url, address, namespace, call } = JSON.parse(process.argv[2] ?? '') as Order;
const connection = await Connection.connect({ address });
const holdfast = new Holdfast({
  ledger: connect(url, { connectionsMax: 1 }),
  temporal: new Client({ connection, namespace }),
});
console.log(JSON.stringify(await holdfast.dispatch(call)));
process.exit(0);
