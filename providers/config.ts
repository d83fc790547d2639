import { z } from 'zod';
import { MCP_ERAS } from './mcp-link.ts';
import { isHttpSecretPlace, isStdioSecretPlace } from './secret-place.ts';

/**
 * A provider in the configuration file, by `kind`. Strict: an unknown key is refused. Secrets never stand here;
 * contracts name credentials, and workers resolve them.
 */

const headers = z.record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name'), z.string());
const url = z.url({ protocol: /^https?$/, error: 'expected an http or https URL' });
const port = z.int().min(1).max(65_535);
const host = z.string().min(1).max(253);
const ageMs = z.int().min(0).max(86_400_000);

const httpConfig = z.strictObject({
  kind: z.literal('http'),
  base_url: url,
  headers: headers.optional(),
});

const mcpConfig = z
  .strictObject({
    kind: z.literal('mcp'),
    /** Protocol revision the server speaks; set by hand, since probing can start a second process. */
    era: z.enum(MCP_ERAS),
    stdio: z
      .strictObject({
        command: z.string().min(1),
        args: z.array(z.string()).default([]),
        env: z.record(z.string(), z.string()).optional(),
        cwd: z.string().optional(),
      })
      .optional(),
    http: z.strictObject({ url, headers: headers.optional() }).optional(),
    /** `bearer` or `header NAME` for http, `env NAME` for stdio. */
    secret_as: z.string().optional(),
    /** Milliseconds; default 60,000. */
    definition_age_max: ageMs.optional(),
  })
  .superRefine((config, context) => {
    if ((config.stdio === undefined) === (config.http === undefined)) {
      context.addIssue({ code: 'custom', path: ['stdio'], message: 'needs exactly one of stdio and http' });
      return;
    }
    const fits = config.stdio ? isStdioSecretPlace : isHttpSecretPlace;
    if (config.secret_as !== undefined && !fits(config.secret_as)) {
      const message = config.stdio ? 'expected env NAME' : 'expected bearer, or header NAME';
      context.addIssue({ code: 'custom', path: ['secret_as'], message });
    }
  });

const mailConfig = z.strictObject({
  kind: z.literal('mail'),
  smtp: z.strictObject({
    host,
    port,
    lmtp: z.boolean().optional(),
    secure: z.boolean().optional(),
    user: z.string().min(1).optional(),
  }),
  imap: z.strictObject({ host, port, secure: z.boolean().optional(), user: z.string().min(1) }).optional(),
  domain: z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, 'expected a domain name'),
});

/** The shape of one entry under `providers:`, defaults included. */
export const providerConfig = z.discriminatedUnion('kind', [httpConfig, mcpConfig, mailConfig]);

/** One entry under `providers:` in the configuration, as it is written. */
export type ProviderConfig = z.input<typeof providerConfig>;
/** The same after the check, with its defaults. */
export type CheckedProviderConfig = z.output<typeof providerConfig>;
