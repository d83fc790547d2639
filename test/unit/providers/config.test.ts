import { describe, expect, it } from 'vitest';
import { createProvider, type ProviderConfig } from '../../../providers/index.ts';

const GOOD: [string, ProviderConfig][] = [
  ['http', { kind: 'http', base_url: 'https://billing.example.org/api', headers: { 'X-App': 'a' } }],
  ['mcp', { kind: 'mcp', era: '2025-11-25', stdio: { command: 'server', args: ['dir'] }, definition_age_max: 1_000 }],
  ['mcp', { kind: 'mcp', era: '2026-07-28', http: { url: 'http://127.0.0.1:9/mcp' }, secret_as: 'header X-Key' }],
  [
    'mail',
    {
      kind: 'mail',
      domain: 'example.org',
      smtp: { host: 'mx', port: 25 },
      imap: { host: 'imap', port: 993, secure: true, user: 'a' },
    },
  ],
];

describe('createProvider', () => {
  it.each(GOOD)('makes a provider of kind %s', async (kind, config) => {
    const adapter = createProvider('p', config);
    expect({ kind: adapter.kind, name: adapter.name }).toEqual({ kind, name: 'p' });
    await adapter.close();
  });

  it.each([
    ['no kind', {}, 'providers.p.kind'],
    ['no object', 'http', 'providers.p'],
    ['another kind', { kind: 'ftp' }, 'providers.p.kind'],
    ['an unknown key', { kind: 'http', base_url: 'http://a', timeout: 1 }, 'providers.p'],
    ['no URL', { kind: 'http', base_url: 'a' }, 'providers.p.base_url'],
    ['a URL with a password', { kind: 'http', base_url: 'http://u:p@a/' }, 'providers.p.base_url'],
    ['another era', { kind: 'mcp', era: '2024-11-05', stdio: { command: 'x' } }, 'providers.p.era'],
    ['no transport', { kind: 'mcp', era: '2025-11-25' }, 'providers.p.stdio'],
    [
      'two transports',
      { kind: 'mcp', era: '2025-11-25', stdio: { command: 'x' }, http: { url: 'http://a' } },
      'providers.p.stdio',
    ],
    [
      'a bearer secret for a process',
      { kind: 'mcp', era: '2025-11-25', stdio: { command: 'x' }, secret_as: 'bearer' },
      'providers.p.secret_as',
    ],
    [
      'a port out of range',
      { kind: 'mail', domain: 'a.b', smtp: { host: 'a', port: 70_000 } },
      'providers.p.smtp.port',
    ],
    [
      'a domain with a line break',
      { kind: 'mail', domain: 'a\nb', smtp: { host: 'a', port: 25 } },
      'providers.p.domain',
    ],
  ])('refuses %s at its place', (_what, config, place) => {
    expect(() => createProvider('p', config)).toThrow(expect.objectContaining({ code: 'bad_config', place }));
  });
});
