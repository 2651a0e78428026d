import { watchOptions } from './watch-options.ts';

/** What one flag is: its value, its default, its words in `--help`. */
export type OptionSpec =
  | {
      readonly kind: 'switch';
      readonly help: string;
      readonly default?: true;
      readonly only?: Only;
      /** The flag, where another command's option has the one that its name would give. */
      readonly flag?: string;
    }
  | {
      readonly kind: 'text' | 'path';
      readonly value: string;
      readonly help: string;
      readonly default?: string;
      readonly only?: Only;
    }
  | { readonly kind: 'list' | 'paths'; readonly value: string; readonly help: string; readonly only?: Only }
  | {
      readonly kind: 'choice';
      readonly choices: readonly string[];
      readonly help: string;
      readonly default?: string;
      readonly only?: Only;
    }
  | {
      readonly kind: 'count';
      readonly value: string;
      readonly help: string;
      readonly min: number;
      readonly max: number;
      readonly default?: number;
      readonly only?: Only;
    }
  | {
      readonly kind: 'duration';
      readonly value: string;
      readonly help: string;
      /** The value of the flag without one. */
      readonly bare?: string;
      /** ms */
      readonly default?: number;
      readonly only?: Only;
    };

/** `flag`: what one run does, never a setting; not read from the environment or the settings file. */
type Only = 'flag';

/**
 * Every option of every command, by its name in the settings file. The flag is the name in kebab case, the variable
 * `RECONCILE_` and the name in upper case. Durations are text with a unit (`500ms`, `15s`, `10m`, `1h`), ms here.
 */
export const options = {
  plan: { kind: 'switch', help: 'show what would be done; never write', only: 'flag' },
  config: { kind: 'path', value: 'FILE', help: "the operator's settings (YAML)", only: 'flag' },
  yes: { kind: 'switch', help: 'apply without asking' },
  output: {
    kind: 'list',
    value: 'FORMAT[=FILE]',
    help: 'text, json, markdown or github; to a file; repeat for several (default: text)',
  },
  detailedExitcode: { kind: 'switch', help: 'exit 2 when changes are pending' },
  logFormat: { kind: 'choice', choices: ['text', 'json'], default: 'text', help: 'format of the log on stderr' },
  verbose: { kind: 'switch', help: 'log what is done in detail' },
  color: { kind: 'switch', default: true, help: 'colour on terminals' },

  baseUrl: { kind: 'text', value: 'URL', help: 'where the API is, without /v0' },
  tokenFile: { kind: 'path', value: 'FILE', help: 'file with the API token (or RECONCILE_TOKEN)' },
  caFile: { kind: 'path', value: 'FILE', help: 'PEM file with the authorities to trust' },
  allowHttp: { kind: 'switch', help: 'allow plain http beyond loopback' },
  timeout: { kind: 'duration', value: 'TIME', default: 15_000, help: 'deadline of one request' },
  totalTimeout: { kind: 'duration', value: 'TIME', default: 600_000, help: 'deadline of the whole apply' },

  profile: {
    kind: 'choice',
    choices: ['firezone-0.7', 'generic'],
    default: 'firezone-0.7',
    help: 'what is assumed of the server',
  },
  ruleUpdates: {
    kind: 'choice',
    choices: ['replace', 'patch'],
    help: 'how a changed rule is sent (default: by profile)',
  },
  prune: { kind: 'choice', choices: ['all', 'none'], default: 'all', help: 'delete live rules that no manifest holds' },
  maxDeletes: {
    kind: 'text',
    value: 'N|N%',
    default: '30%',
    help: 'refuse when more rules vanish (a share counts once 10 live rules are in scope)',
  },
  allowEmpty: { kind: 'switch', help: 'allow a plan after which no rule is left' },
  allowLockout: { kind: 'switch', help: 'allow a Configuration that leaves no way to sign in' },
  replaceModified: { kind: 'switch', help: 'replace rules that were modified in place' },
  maxExposure: {
    kind: 'choice',
    choices: ['none', 'any'],
    default: 'any',
    help: 'none: refuse a plan that opens traffic on the way',
  },
  failOn: { kind: 'list', value: 'WHAT', help: 'exit 3 when the plan holds it: opens, closes, any, drift' },
  strict: { kind: 'switch', help: 'make warnings errors' },
  values: { kind: 'paths', value: 'FILE', help: 'values for names in manifests; later files win' },
  overlay: { kind: 'text', value: 'DIR', help: 'the environment to build: a directory with an Overlay' },
  out: { kind: 'path', value: 'PATH', help: 'write there (default: stdout)', only: 'flag' },
  force: { kind: 'switch', help: 'overwrite files that say something else', only: 'flag' },
  rulesOnly: { kind: 'switch', help: 'rules only, without the Configuration', only: 'flag' },
  check: { kind: 'switch', help: 'write nothing; exit 1 when something would change', only: 'flag' },
  base: { kind: 'text', value: 'REF|DIR', help: 'the manifests last applied: a Git ref, or a directory' },
  live: { kind: 'path', value: 'FILE', help: 'plan against a snapshot: no request, no token' },
  checkDiscovery: { kind: 'switch', help: 'fetch the discovery documents of the providers', only: 'flag' },
  save: { kind: 'path', value: 'FILE', help: 'save the plan for `reconcile apply FILE`', only: 'flag' },
  approve: { kind: 'list', value: 'DIGEST', help: 'release the refused plan with this digest, and no other' },

  enforcement: { kind: 'choice', choices: ['nft'], help: "compare the live rules with the kernel's packet filter" },
  netns: { kind: 'path', value: 'PATH', help: 'look into this network namespace, not our own' },
  waitEnforced: {
    kind: 'duration',
    value: 'TIMEOUT',
    bare: '60s',
    help: 'return when the kernel holds it (without a time: 60s)',
  },
  repair: { kind: 'switch', help: 'replace a rule that the kernel does not hold' },

  concurrency: { kind: 'count', value: 'N', min: 1, max: 64, default: 8, help: 'requests at once' },
  pace: { kind: 'count', value: 'N', min: 1, max: 100_000, help: 'writes a second at most (default: not paced)' },
  port: {
    kind: 'count',
    value: 'N',
    min: 0,
    max: 65_535,
    help: 'a port (simulate: to listen on; without it, any free one)',
    only: 'flag',
  },
  data: { kind: 'path', value: 'FILE', help: 'keep the data in this file', only: 'flag' },
  user: { kind: 'list', value: 'NAME', help: 'a user, by name or UUID (simulate: NAME=UUID, repeat)', only: 'flag' },
  discovery: {
    kind: 'choice',
    choices: ['accept', 'fetch'],
    default: 'accept',
    help: 'discovery documents of providers: believe, or fetch as the real server does',
    only: 'flag',
  },
  filterRate: {
    kind: 'count',
    value: 'N',
    min: 1,
    max: 1_000_000,
    help: 'the packet filter follows at N rules a second (default: at once)',
    only: 'flag',
  },
  admin: { kind: 'switch', help: 'serve the admin pages: verdicts, filter, faults', only: 'flag' },
  nftNetns: { kind: 'path', value: 'PATH', help: 'keep a real packet filter in this network namespace', only: 'flag' },

  destination: { kind: 'text', value: 'ADDRESS', help: 'the address that is asked about', only: 'flag' },
  protocol: { kind: 'text', value: 'NAME', help: 'tcp, udp, icmp or any other', only: 'flag' },
  rule: { kind: 'text', value: 'NAME', help: 'a rule, by its name (with --live: or its id)', only: 'flag' },
  liveRules: { kind: 'switch', flag: '--live', help: 'ask about the rules on the server', only: 'flag' },

  journal: { kind: 'path', value: 'FILE', help: 'append each step before and after it is sent' },

  ...watchOptions,
} as const satisfies Readonly<Record<string, OptionSpec>>;

export type OptionName = keyof typeof options;
export type OptionsTable = typeof options;

/** Options that every command takes. */
export const commonOptions: readonly OptionName[] = ['config', 'output', 'logFormat', 'verbose', 'color'];

/** Options of every command that talks to the API. */
export const connectionOptions: readonly OptionName[] = ['baseUrl', 'tokenFile', 'caFile', 'allowHttp', 'timeout'];

/** Options of every command that reads manifests. */
export const manifestOptions: readonly OptionName[] = ['profile', 'values', 'overlay', 'strict'];

/** Options of every command that makes a plan. */
export const planOptions: readonly OptionName[] = [
  'detailedExitcode',
  'ruleUpdates',
  'prune',
  'maxDeletes',
  'allowEmpty',
  'allowLockout',
  'replaceModified',
  'maxExposure',
  'failOn',
  'base',
  'approve',
];

/** Options of every command that looks at the kernel's packet filter. */
export const enforcementOptions: readonly OptionName[] = ['enforcement', 'netns'];

/** Options of every command that writes. */
export const applyOptions: readonly OptionName[] = [
  'yes',
  'totalTimeout',
  'concurrency',
  'pace',
  'journal',
  'waitEnforced',
  'repair',
];

/** `baseUrl` → `--base-url`. A switch that is on by default is turned off by its flag: `color` → `--no-color`. */
export function flagOf(name: OptionName): string {
  const spec: OptionSpec = options[name];
  if (spec.kind === 'switch' && spec.flag !== undefined) return spec.flag;
  const kebab = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return spec.kind === 'switch' && spec.default ? `--no-${kebab}` : `--${kebab}`;
}

/** `baseUrl` → `RECONCILE_BASE_URL`. */
export function variableOf(name: OptionName): string {
  return `RECONCILE_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
