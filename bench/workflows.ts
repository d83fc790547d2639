import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import { holdfastFor } from '../workflows/public.ts';
import type { Invoice } from './plain.ts';

// A user's worker runs its own workflows beside Holdfast's.
export * from '../workflows/index.ts';

const { callProvider } = proxyActivities<{ callProvider(invoice: Invoice): Promise<object> }>({
  startToCloseTimeout: '10s',
});

/** The unprotected workflow: one plain activity. */
export async function plainOnce(invoice: Invoice): Promise<object> {
  return callProvider(invoice);
}

/** Calls in a row by plain activities. */
export async function plainMany(invoices: readonly Invoice[]): Promise<number> {
  for (const invoice of invoices) await callProvider(invoice);
  return invoices.length;
}

type Pin = { readonly tool: string; readonly version: string; readonly digest: string };

/** The same calls through Holdfast's local lane. */
export async function heldMany(invoices: readonly Invoice[], pin: Pin): Promise<number> {
  const holdfast = holdfastFor({ tenant: 'bench', run: workflowInfo().workflowId });
  for (const [index, invoice] of invoices.entries()) {
    await holdfast.dispatchConfirmed({ call: `call-${index}`, ...pin, args: { ...invoice } });
  }
  return invoices.length;
}
