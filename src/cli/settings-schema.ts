import * as z from 'zod';
import { parseNetwork } from '../model/address.ts';
import { countMs, isTimezone } from '../model/instant.ts';
import { parsePortRange } from '../model/port-range.ts';
import { findNetworkFault } from '../model/state.ts';
import { parseSchedule, type Window } from '../plan/guard/windows.ts';
import type { Protected } from '../plan/input.ts';
import { isSetting, type OptionName, type OptionSpec, optionNames, options } from './options.ts';

// What a value must be is described at the value itself: messages about a wrong one say it (`describeWanted`).
const uuid = z.string().regex(/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/);
const someone = z
  .union([uuid, z.literal('global')])
  .describe('the UUID of a user, or `global` (names and addresses of users are not known here)');
const cidr = z.string().min(1).describe('an IP address or a network in CIDR notation');
/** A network whose traffic must be told from that of others. */
const network = cidr.superRefine((text, context) => {
  const message = findNetworkFault(text);
  if (message !== null) context.addIssue({ code: 'custom', message });
});
const some = <T extends z.ZodType>(item: T) => z.array(item).refine(({ length }) => length > 0, 'write at least one');

const file = z.string().min(1).describe('a path');
const name = z.string().min(1).describe('a text');
const matching = (pattern: RegExp, wanted: string): z.ZodString => z.string().regex(pattern).describe(wanted);
const program = z.array(z.string().min(1).describe('a text')).min(1).describe('a program and its arguments, as a list');
const positive = z.int().min(1).describe('a whole number from 1');
const address = { name: name.optional(), url: z.string().optional(), urlFile: file.optional() };
const generic = z.literal('generic').describe('generic, slack or github-status');
const notifyTarget = z.discriminatedUnion('type', [
  z.strictObject({ type: generic, ...address, secretFile: file.optional() }),
  z.strictObject({ type: z.literal('slack'), ...address }),
  z.strictObject({
    type: z.literal('github-status'),
    name: name.optional(),
    repository: matching(/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/, 'OWNER/NAME'),
    tokenFile: file,
    api: z.string().optional(),
    context: z.string().min(1).max(100).describe('a text of 1 to 100 characters').optional(),
  }),
]);

const age = matching(/^\d{1,5}[hdw]$/, 'hours, days or weeks, such as 12h, 90d or 4w').transform(countMs);
const note = z.enum(['owner', 'ticket', 'expires']);

const windowShape = z
  .strictObject({
    kind: z.enum(['allow', 'deny']),
    schedule: z
      .string()
      .superRefine((text, context) => {
        const read = parseSchedule(text, 'UTC');
        if (!read.ok) context.addIssue({ code: 'custom', message: read.error });
      })
      .describe('when it starts: the five fields of cron'),
    duration: name
      .describe('a time from 1m to 31d, such as 90m, 8h or 2d')
      .transform(countMs)
      .refine((ms) => ms >= 60_000 && ms <= 31 * 86_400_000, 'write a time from 1m to 31d, such as 90m, 8h or 2d'),
    timezone: z
      .string()
      .refine(isTimezone, 'this is not a time zone; write one such as UTC or Europe/Berlin')
      .default('UTC')
      .describe('the time zone of the schedule, such as Europe/Berlin'),
    scope: z
      .array(z.enum(['rules', 'configuration']))
      .min(1)
      .describe('one or both of rules, configuration')
      .default(['rules', 'configuration']),
  })
  .transform(({ kind, schedule, duration, timezone, scope }, context): Window => {
    const read = parseSchedule(schedule, timezone);
    if (read.ok) return { kind, schedule: read.value, durationMs: duration, scope };
    context.addIssue({ code: 'custom', path: ['schedule'], message: read.error });
    return z.NEVER;
  });

/** A member that may be left out; `help` is what the reference says of it. */
const optional = <T extends z.ZodType>(schema: T, help: string) => schema.optional().describe(help);

const protectedShape = z
  .strictObject({
    destination: cidr.describe('a network that no plan may open or cut off'),
    protocol: z.enum(['tcp', 'udp', 'other']).optional(),
    port: optional(
      z.union([z.int(), z.string()]).describe('a port or a range, such as 443 or 8000-8010'),
      'a port or a range; needs protocol tcp or udp',
    ),
    user: z
      .union([uuid, z.literal('nobody')])
      .describe('the UUID of a user, or `nobody` (names and addresses of users are not known here)')
      .optional()
      .describe('a UUID, or nobody; default: everyone'),
  })
  .transform(({ destination, protocol = null, port, user }, context): Protected => {
    const network = parseNetwork(destination);
    const ports = port === undefined ? null : parsePortRange(port, { low: 0, high: 65535 });
    const refuse = (member: string, message: string): never => {
      context.addIssue({ code: 'custom', path: [member], message });
      return z.NEVER;
    };
    if (!network.ok) return refuse('destination', 'write an IP address or a network in CIDR notation');
    if (ports?.ok === false) return refuse('port', 'write a port or a range such as 8000-8010');
    if (ports !== null && protocol !== 'tcp' && protocol !== 'udp')
      return refuse('protocol', 'write tcp or udp, because a port is given');
    const from = user === undefined ? {} : { user: user === 'nobody' ? null : user.toLowerCase() };
    return { destination: network.value.network, protocol, ports: ports?.value ?? null, ...from };
  });

/** Settings that only the file can hold, beside the flags. */
const nested = {
  protect: optional(z.array(protectedShape), 'traffic that no plan may open or cut off (exit 3)'),
  scope: optional(
    z.strictObject({
      rules: z.boolean().optional(),
      configuration: z.boolean().optional(),
      users: optional(z.array(someone), 'only rules of these users; global: without a user'),
      networks: optional(z.array(network), 'only rules whose destination lies inside one of these'),
    }),
    'the part of the server that this repository is responsible for',
  ),
  require: optional(
    z.array(
      z
        .union([note, z.strictObject({ note, users: some(someone).optional(), networks: some(network).optional() })])
        .describe('owner, ticket or expires, or {note: owner, networks: […], users: […]}'),
    ),
    'notes that every rule must have: owner, ticket, or {note: owner, networks: […], users: […]} for some rules',
  ),
  maxExpiry: optional(age, 'how far ahead the `expires` of an accept rule may lie: 12h, 90d, 4w'),
  confirmWith: optional(
    z.strictObject({
      command: program,
      within: z.optional(matching(/^[1-9][0-9]{0,5}[sm]$/, 'a time, such as 90s or 5m').transform(countMs)),
    }),
    'a command that ends with 0 while all is well: --watch takes back what it does not confirm in time',
  ),
  windows: optional(z.array(windowShape), 'when plans that open traffic or change the Configuration may be applied'),
  secrets: z
    .strictObject({
      env: optional(
        z.array(matching(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable')),
        'variables that manifests may name, beside RECONCILE_SECRET_*',
      ),
      dirs: optional(z.array(file), 'folders that manifests may take secret files from'),
      bind: optional(
        z.array(z.strictObject({ name, provider: name, host: name })),
        'where secrets may go: the name in the reference, the id of the provider, the host of its discovery document',
      ),
    })
    .optional(),
  secretsFrom: optional(program, 'a command that prints secrets, as JSON or NAME=VALUE; run again once an interval'),
  limits: optional(
    z
      .strictObject({
        ...{ fileBytes: positive, totalBytes: positive, files: positive, depth: positive, documents: positive },
        ...{ fetchBytes: positive, work: positive, fileWork: positive },
        parseMb: z.int().min(16).describe('a whole number from 16'),
      })
      .partial(),
    'what reading manifests may cost',
  ),
  notify: optional(z.array(notifyTarget), 'whom --watch tells when it breaks, recovers or has applied'),
  notifyBefore: optional(age, 'how long before a rule begins or ends `notify` tells: 12h, 2d; default 24h, 0h: not'),
  kubernetes: optional(
    z.strictObject({
      server: matching(/^https?:\/\//, 'a URL that begins with http:// or https://'),
      tokenFile: file,
      caFile: file.optional(),
    }),
    'the API server that holds the lease, when --watch runs outside the cluster',
  ),
};

const flags = Object.fromEntries(
  optionNames.filter(isSetting).map((name) => [name, optional(schemaOf(options[name]), options[name].help)]),
);

/** The operator's settings file: every flag in camel case, and what no flag can hold. */
export const settingsSchema = z.strictObject({ ...flags, ...nested });

/** The members of the settings file that are not flags. */
export const nestedSchema = z.object(nested);

export interface SettingsFile {
  readonly path: string;
  /** What relative paths in it are relative to. */
  readonly folder: string;
  readonly options: Readonly<Partial<Record<OptionName, unknown>>>;
  readonly nested: z.infer<typeof nestedSchema>;
  /** The line that each member at its top stands on. */
  readonly lines?: ReadonlyMap<string, number>;
}

const targetShape = {
  caFile: file.optional(),
  tokenFile: file.optional(),
  path: file.optional(),
  config: file.optional(),
  overlay: name.optional(),
  values: z.array(file).optional(),
  scope: nested.scope,
  labels: z.record(name, name).optional().describe('what --label chooses by'),
  wave: positive.optional().describe('from 1; the lowest is written first'),
};

/** The operator's list of servers; `defaults` holds what targets leave out. */
export const fleetSchema = z
  .strictObject({
    defaults: z.strictObject(targetShape).optional(),
    targets: z
      .array(
        z.strictObject({
          name: matching(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/, 'letters, digits, dots and hyphens'),
          baseUrl: z.string().min(1).describe('a URL'),
          ...targetShape,
        }),
      )
      .min(1)
      .describe('a list of at least one target'),
    soak: schemaOf(options.interval)
      .transform((time) => countMs(String(time)))
      .refine((ms) => ms < 2 ** 31, 'at most 24 days')
      .optional()
      .describe('how long a revision stays in a wave before the next begins'),
    maxParallel: positive.optional().describe('how many targets of a wave begin a revision at once'),
    paused: z.boolean().optional().describe('no target begins a revision'),
    abort: matching(/^(?:sha256:)?[0-9a-f]{7,64}$/, 'the id of a revision, at least 7 digits of it')
      .optional()
      .describe('no further target begins this revision'),
  })
  .superRefine(({ targets, defaults }, context) => {
    const names = new Set<string>();
    const servers = new Map<string, boolean>();
    for (const [index, { name: given, baseUrl, scope = defaults?.scope }] of targets.entries()) {
      const key = given.toLowerCase().replaceAll('_', '-');
      const wrong = (member: string, message: string): void =>
        context.addIssue({ code: 'custom', path: ['targets', index, member], message });
      if (names.has(key)) wrong('name', 'two targets have this name (case, - and _ count alike)');
      names.add(key);
      const server = (URL.canParse(baseUrl) ? new URL(baseUrl).href : baseUrl).replace(/\/+$/, '');
      const scoped = servers.get(server);
      if (scoped !== undefined && !(scoped && scope !== undefined))
        wrong('baseUrl', 'two targets have this server and would undo each other; give each of them a `scope`');
      servers.set(server, scope !== undefined);
    }
  });

export type Fleet = z.infer<typeof fleetSchema>;

/** What the value at a path must be, in words; null where its schema does not say. */
export function describeWanted([step, ...rest]: readonly PropertyKey[], of: z.core.$ZodType): string | null {
  const schema = required(of);
  if (step === undefined) return schema instanceof z.ZodType ? (schema.description ?? null) : null;
  if (schema instanceof z.ZodUnion)
    return schema.options.map((one) => describeWanted([step, ...rest], one)).find((text) => text !== null) ?? null;
  if (schema instanceof z.ZodArray) return describeWanted(rest, schema.element);
  return schema instanceof z.ZodObject ? describeWanted(rest, schema.shape[String(step)] ?? z.never()) : null;
}

function required(schema: z.core.$ZodType): z.core.$ZodType {
  const inner = schema instanceof z.ZodOptional ? schema.unwrap() : schema;
  return inner instanceof z.ZodPipe ? inner.in : inner;
}

function schemaOf(spec: OptionSpec): z.ZodType {
  switch (spec.kind) {
    case 'switch':
      return z.boolean();
    case 'count':
      return z.int().min(spec.min).max(spec.max).describe(`a whole number from ${spec.min} to ${spec.max}`);
    case 'choice':
      return z.enum(spec.choices as [string, ...string[]]);
    case 'list':
    case 'paths':
      return z.union([z.string(), z.array(z.string())]).describe('a text or a list of texts');
    case 'text':
      return z.union([z.string(), z.number()]).describe('a text');
    case 'path':
      return z.string();
    case 'duration':
      return matching(/^[0-9]+(ms|s|m|h)$/, 'a time with a unit, such as 500ms, 15s, 10m or 1h');
  }
}
