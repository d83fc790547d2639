import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { expect, test } from 'vitest';
import { ensureSearchAttributes, SEARCH_ATTRIBUTES } from '../../../client/search-attributes.ts';
import { freshNamespace } from '../../support/stack.ts';

test('case 12: a workflow with every search attribute starts right after the namespace was prepared', async () => {
  const { address, namespace } = await freshNamespace();
  const connection = await Connection.connect({ address });
  const client = new Client({ connection, namespace });
  const handle = await client.workflow.start('nobodyServesThis', {
    taskQueue: 'none',
    workflowId: 'attributes',
    typedSearchAttributes: new TypedSearchAttributes(
      SEARCH_ATTRIBUTES.map((name) => ({ key: defineSearchAttributeKey(name, 'KEYWORD'), value: `a ${name}` })),
    ),
  });
  const { typedSearchAttributes } = await handle.describe();
  await handle.terminate();
  const values = SEARCH_ATTRIBUTES.map((name) => typedSearchAttributes.get(defineSearchAttributeKey(name, 'KEYWORD')));
  await connection.close();
  expect(values).toEqual(SEARCH_ATTRIBUTES.map((name) => `a ${name}`));
});

test('preparing a namespace is idempotent, also when many do it at once', async () => {
  const { address } = await freshNamespace();
  const connection = await Connection.connect({ address });
  const { namespace } = await freshNamespace();
  await Promise.all(Array.from({ length: 8 }, () => ensureSearchAttributes(connection, namespace)));
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  await connection.close();
  expect(Object.keys(customAttributes ?? {}).sort()).toEqual([...SEARCH_ATTRIBUTES].sort());
});

test('a namespace that does not exist is reported with the place', async () => {
  const { address } = await freshNamespace();
  const connection = await Connection.connect({ address });
  const failure = await ensureSearchAttributes(connection, 'nowhere', 0).catch((error: unknown) => error);
  await connection.close();
  expect(failure).toMatchObject({ code: 'temporal_unreachable', place: 'namespace nowhere' });
});
