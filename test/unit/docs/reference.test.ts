import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { z } from 'zod';
import type { Contract, JsonObject } from '../../../contracts/contract.ts';
import { contractFromSource, parseContractFile } from '../../../contracts/contract-file.ts';
import { formatContractRef } from '../../../contracts/contract-ref.ts';
import { contractShape } from '../../../contracts/contract-shape.ts';
import { DEFAULT_SETTINGS } from '../../../dispatcher/settings.ts';
import { checkConfig, fileShape } from '../../../workers/config.ts';

const page = (name: string): string => readFileSync(name, 'utf8');
const contractsPage = page('docs/contracts.md');
const configurationPage = page('docs/configuration.md');

/** The contents of the page's fenced blocks of one language. */
const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, block]) => block ?? '');

/** The words that the page shows as code. */
function codeWords(text: string): Set<string> {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '');
  const code = [...blocks(text, '[a-z]*'), ...[...prose.matchAll(/`([^`\n]+)`/g)].map(([, span]) => span ?? '')];
  return new Set(code.flatMap((each) => each.match(/[a-z][a-z_]*/g) ?? []));
}

interface Node {
  readonly type: string;
  readonly shape?: Record<string, z.core.$ZodType>;
  readonly options?: readonly z.core.$ZodType[];
  readonly [part: string]: unknown;
}

/** Every key of a schema's objects, at any depth. */
function keysOf(schema: z.core.$ZodType): string[] {
  const node = schema._zod.def as unknown as Node;
  const own = Object.entries(node.shape ?? {}).flatMap(([key, child]) => [key, ...keysOf(child)]);
  const parts = [node['innerType'], node['in'], node['element'], node['valueType'], ...(node.options ?? [])];
  return [...own, ...parts.filter((part) => part !== undefined).flatMap((part) => keysOf(part as z.core.$ZodType))];
}

/** Rows of the page's tables whose first column is a key: all cells, without their marks. */
const keyRows = (text: string): string[][] =>
  [...text.matchAll(/^\| key \|.*\n\|[-|]+\|\n((?:\|.*\n)+)/gm)].flatMap(([, rows = '']) =>
    rows
      .trim()
      .split('\n')
      .map((row) => row.split('|').map((cell) => cell.trim()))
      .map((cells) => cells.slice(1)),
  );
const spans = (cell: string | undefined): string[] =>
  [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? '');

describe('docs/contracts.md', () => {
  test('names every key of a contract file, and no other in its tables', () => {
    const keys = new Set(keysOf(contractShape));
    expect(keys.size).toBeGreaterThan(50);
    const words = codeWords(contractsPage);
    expect([...keys].filter((key) => !words.has(key))).toEqual([]);
    expect(
      keyRows(contractsPage)
        .flatMap(([first]) => spans(first))
        .filter((key) => !keys.has(key)),
    ).toEqual([]);
  });

  test('shows contracts that can be read', () => {
    const contracts = blocks(contractsPage, 'yaml').map((block) => parseContractFile(block, 'docs/contracts.md'));
    expect(contracts.map(({ tool }) => tool)).toEqual(['shop.price']);
  });

  test('says the defaults that hold: written out, they change nothing but the digests', () => {
    const rows = keyRows(contractsPage).flatMap(([first, second]) => {
      const [key, ...more] = spans(first);
      const [written] = spans(second);
      return key === undefined || more.length > 0 || written === undefined || second !== `\`${written}\``
        ? []
        : [[key, written]];
    }) as [string, string][];
    expect(rows.map(([key]) => key)).toEqual([
      ...['effect', 'capabilities', 'send_by', 'timeout', 'in_flight_max', 'resource', 'exclusive_writer'],
      ...['concurrent', 'repeats', 'answers', 'on_unknown', 'with', 'equals', 'absence', 'lag', 'retention'],
    ]);
    for (const [key, written] of rows) {
      const place = keysOf(contractShape.shape.execution.shape.evidence).includes(key) ? 'evidence' : 'execution';
      expect({ key, contract: promiseOf(withKey(place, key, parse(written))) }).toEqual({
        key,
        contract: promiseOf(bare()),
      });
    }
  });
});

/** A contract in which every default may be written out. */
function bare(): JsonObject {
  const digest = `sha256/v1:${'0'.repeat(64)}`;
  return {
    tool: 'shop.order',
    version: '1.0.0',
    owner: 'shop',
    selection: { description: 'Orders.' },
    parameters: { type: 'object' },
    execution: {
      provider: 'shop',
      http: { method: 'POST', path: '/orders', body: '{effect_key}' },
      evidence: {
        call: `shop.find@1.0.0#${digest}`,
        by: 'search',
        found: { where: { '/key': '{effect_key}' } },
        absent: { status: 200 },
        items: '/orders',
      },
    },
  };
}

function withKey(place: 'execution' | 'evidence', key: string, value: JsonObject): JsonObject {
  const source = structuredClone(bare()) as { execution: { evidence: object } };
  Object.assign(place === 'evidence' ? source.execution.evidence : source.execution, { [key]: value });
  return source as unknown as JsonObject;
}

function promiseOf(source: JsonObject): Omit<Contract, 'source' | 'digest' | 'digests'> {
  const { source: _, digest: __, digests: ___, ...promise } = contractFromSource(source);
  return promise;
}

describe('docs/configuration.md', () => {
  const [example = ''] = blocks(configurationPage, 'yaml');

  test('names every key of holdfast.yaml', () => {
    const keys = new Set(keysOf(fileShape));
    expect(keys.size).toBeGreaterThan(50);
    const words = codeWords(configurationPage);
    expect([...keys].filter((key) => !words.has(key))).toEqual([]);
  });

  test('shows a file that can be read, in which deployment, queue, worker and settings are the defaults', () => {
    const shown = checkConfig(parse(example), 'holdfast.yaml', {});
    const { health_port: _, ...worker } = shown.worker;
    const plain = checkConfig({}, null, {});
    expect({ ...pick(shown), worker }).toEqual({ ...pick(plain), worker: plain.worker });
    expect(shown.settings).toEqual(DEFAULT_SETTINGS);
  });

  test('lists every setting', () => {
    const { settings } = parse(example) as { settings: object };
    expect(Object.keys(settings).map(camel).sort()).toEqual(Object.keys(DEFAULT_SETTINGS).sort());
  });
});

const pick = ({ deployment, queue_prefix, settings, allow_unsafe_durability }: ReturnType<typeof checkConfig>) => ({
  deployment,
  queue_prefix,
  settings,
  allow_unsafe_durability,
});
const camel = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

test('the files that the README shows can be read, and its effect pins its question', () => {
  const [find = '', order = '', config = ''] = blocks(page('README.md'), 'yaml');
  const finder = parseContractFile(find, 'find.yaml');
  const pinned = order.replace('shop.find_order@1.0.0#sha256/v1:…', formatContractRef(finder));
  expect(parseContractFile(pinned, 'order.yaml').execution.evidence?.call.digest).toBe(finder.digest);
  const { providers } = checkConfig(parse(config), 'holdfast.yaml', {});
  expect(Object.keys(providers)).toEqual([finder.execution.provider]);
});
