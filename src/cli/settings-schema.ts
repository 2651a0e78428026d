import * as z from 'zod';
import { type OptionName, type OptionSpec, options } from './options.ts';

const uuid = z.string().regex(/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/);
const cidr = z.string().min(1);

const file = z.string().min(1);
const address = { name: z.string().min(1).optional(), url: z.string().optional(), urlFile: file.optional() };
const notifyTargets = [
  z.strictObject({ type: z.literal('generic'), ...address, secretFile: file.optional() }),
  z.strictObject({ type: z.literal('slack'), ...address }),
  z.strictObject({
    type: z.literal('github-status'),
    name: z.string().min(1).optional(),
    repository: z.string().regex(/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/),
    tokenFile: file,
    api: z.string().optional(),
    context: z.string().min(1).max(100).optional(),
  }),
] as const;

/** Settings that only the file can hold, beside the flags. */
const nested = {
  protect: z
    .array(
      z.strictObject({
        destination: cidr.describe('network that no plan may open or cut off'),
        protocol: z.enum(['tcp', 'udp', 'other']).optional(),
        port: z.union([z.int(), z.string()]).optional().describe('a port or a range; needs protocol tcp or udp'),
        user: z
          .union([uuid, z.literal('nobody')])
          .optional()
          .describe('a UUID, or nobody; default: everyone'),
      }),
    )
    .optional()
    .describe('traffic that no plan may open or cut off (exit 3)'),
  scope: z
    .strictObject({
      rules: z.boolean().optional(),
      configuration: z.boolean().optional(),
      users: z
        .array(z.union([uuid, z.literal('global')]))
        .optional()
        .describe('only rules of these users; global: without a user'),
      networks: z.array(cidr).optional().describe('only rules whose destination lies inside one of these'),
    })
    .optional()
    .describe('the part of the server that this repository is responsible for'),
  secrets: z
    .strictObject({
      env: z
        .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/))
        .optional()
        .describe('variables that manifests may name, beside RECONCILE_SECRET_*'),
      dirs: z.array(z.string().min(1)).optional().describe('folders that manifests may take secret files from'),
    })
    .optional(),
  limits: z
    .strictObject({
      fileBytes: z.int().min(1).optional(),
      totalBytes: z.int().min(1).optional(),
      files: z.int().min(1).optional(),
      depth: z.int().min(1).optional(),
      documents: z.int().min(1).optional(),
      parseMs: z.int().min(1).optional(),
      parseMb: z.int().min(16).optional(),
    })
    .optional()
    .describe('what reading manifests may cost'),
  notify: z
    .array(z.discriminatedUnion('type', notifyTargets))
    .optional()
    .describe('whom --watch tells when it breaks, recovers or has applied'),
  kubernetes: z
    .strictObject({
      server: z.string().regex(/^https?:\/\//),
      tokenFile: z.string().min(1),
      caFile: z.string().min(1).optional(),
    })
    .optional()
    .describe('the API server that holds the lease, when --watch runs outside the cluster'),
};

const flags = Object.fromEntries(
  Object.entries<OptionSpec>(options)
    .filter(([, spec]) => spec.only !== 'flag')
    .map(([name, spec]) => [name, schemaOf(spec).optional().describe(spec.help)]),
);

/** The operator's settings file: every flag in camel case, and what no flag can hold. */
export const settingsSchema = z.strictObject({ ...flags, ...nested });

const nestedSchema = z.object(nested);

/** The members of the settings file that are not flags. */
export type NestedSettings = z.infer<typeof nestedSchema>;

/** A settings file that was read and checked. */
export interface SettingsFile {
  readonly path: string;
  /** What relative paths in it are relative to. */
  readonly folder: string;
  readonly options: Readonly<Partial<Record<OptionName, unknown>>>;
  readonly nested: NestedSettings;
}

function schemaOf(spec: OptionSpec): z.ZodType {
  switch (spec.kind) {
    case 'switch':
      return z.boolean();
    case 'count':
      return z.int().min(spec.min).max(spec.max);
    case 'choice':
      return z.enum(spec.choices as [string, ...string[]]);
    case 'list':
    case 'paths':
      return z.union([z.string(), z.array(z.string())]);
    case 'text':
      return z.union([z.string(), z.number()]);
    case 'path':
      return z.string();
    case 'duration':
      return z.string().regex(/^[0-9]+(ms|s|m|h)$/);
  }
}
