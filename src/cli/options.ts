import { fleetOptions, watchOptions } from './watch-options.ts';

/** What one option is: its value, its default, its words in `--help`. */
export type OptionSpec = OptionWords &
  (
    | { readonly kind: 'switch'; readonly default?: true }
    | { readonly kind: 'text'; readonly value: string; readonly default?: string }
    | { readonly kind: 'list'; readonly value: string; readonly choices?: readonly string[] }
    | { readonly kind: 'path' | 'paths' }
    | { readonly kind: 'choice'; readonly choices: readonly string[]; readonly default?: string }
    | { readonly kind: 'count'; readonly min: number; readonly max: number; readonly default?: number }
    // `default` in ms
    | { readonly kind: 'duration'; readonly default?: number }
  );

interface OptionWords {
  readonly help: string;
  /** What stands for its value in `--help`, where that is not what its kind says (`findPlaceholder`). */
  readonly value?: string;
  /** One letter that stands for the flag. */
  readonly short?: string;
  /** The flag, where another command's option has the one that its name would give. */
  readonly flag?: string;
  /** What each text of it looks like, and that in words. */
  readonly shape?: readonly [RegExp, string];
  /** Words that a shell completes its value with, where it may hold others too. */
  readonly words?: readonly string[];
}

type OptionTable = Readonly<Record<string, OptionSpec>>;

const connection = {
  baseUrl: { kind: 'text', value: 'URL', help: 'where the API is, without /v0' },
  tokenFile: { kind: 'path', help: 'file with the API token (or RECONCILE_TOKEN)' },
  caFile: { kind: 'path', help: 'PEM file with the authorities to trust' },
  allowHttp: { kind: 'switch', help: 'allow plain http beyond loopback' },
  proxy: { kind: 'choice', choices: ['env'], help: 'env: by the proxy that HTTPS_PROXY and NO_PROXY name' },
  timeout: { kind: 'duration', default: 15_000, help: 'deadline of a request; at least 40s for identity providers' },
} as const satisfies OptionTable;

const manifests = {
  profile: { kind: 'choice', choices: ['firezone-0.7', 'generic'], default: 'firezone-0.7', help: 'kind of server' },
  values: { kind: 'paths', help: 'values for names in manifests; later files win' },
  overlay: { kind: 'text', value: 'DIR', help: 'the environment to build: a directory with an Overlay' },
  strict: { kind: 'switch', help: 'make warnings of this command errors' },
} as const satisfies OptionTable;

const limit = {
  kind: 'text',
  value: 'N|N%',
  shape: [
    /^\s*(?:\d{1,9}|(?:100|\d{1,2}(?:\.\d+)?)%)\s*$/,
    'a number of rules (12) or a share of the live rules (30%)',
  ],
} as const;

const plan = {
  detailedExitcode: { kind: 'switch', help: 'exit 2 when changes are pending' },
  showEmails: { kind: 'switch', help: 'name users by e-mail address in files and logs too' },
  full: { kind: 'switch', help: 'all traffic and moments on the way, not the first twelve' },
  ruleUpdates: { kind: 'choice', choices: ['replace', 'patch'], help: 'how a change is sent (default: by profile)' },
  prune: { kind: 'choice', choices: ['all', 'none'], default: 'all', help: 'delete live rules that no manifest holds' },
  maxDeletes: {
    ...limit,
    default: '30%',
    help: 'refuse to delete more rules (a share: from 10 live rules in scope on)',
  },
  maxChanges: { ...limit, default: '50%', help: 'refuse to delete or rewrite more live rules (a share: as above)' },
  allowEmpty: { kind: 'switch', help: 'allow a plan that leaves no rule' },
  allowLockout: { kind: 'switch', help: 'allow a Configuration that leaves no way to sign in' },
  replaceModified: { kind: 'switch', help: 'replace rules that were modified in place' },
  maxExposure: {
    kind: 'choice',
    choices: ['none', 'any'],
    default: 'any',
    help: 'none: refuse a plan that opens traffic on the way',
  },
  failOn: {
    kind: 'list',
    value: 'WHAT',
    choices: ['opens', 'closes', 'any', 'drift', 'not-enforced'],
    help: 'exit 3 if the plan has it: opens, closes, any (drift, not-enforced: not with diff or undo)',
  },
  base: { kind: 'text', value: 'REF|DIR', help: 'the manifests last applied: a Git ref, or a directory' },
  bindSecret: {
    kind: 'list',
    value: 'NAME=PROVIDER@HOST',
    shape: [/^(.+)=([^=@]+)@([^=@]+)$/, 'NAME=PROVIDER@HOST, such as OIDC_SECRET=google@accounts.google.com'],
    help: "let this secret go to this provider's host",
  },
  approve: {
    kind: 'list',
    value: 'DIGEST',
    shape: [/^[0-9a-f]{32}$/, 'the digest of a plan: 32 digits 0-9 and a-f, as a refusal shows it'],
    help: 'apply the refused plan with this digest',
  },
} as const satisfies OptionTable;

const enforcement = {
  enforcement: { kind: 'choice', choices: ['nft'], help: "compare the live rules with the kernel's packet filter" },
  netns: { kind: 'path', value: 'PATH', help: 'look into this network namespace' },
  waitEnforced: {
    kind: 'duration',
    value: 'TIMEOUT',
    help: 'wait until the kernel holds the rules (without a time: 60s)',
  },
  repair: { kind: 'switch', help: 'replace a rule that the kernel does not hold' },
} as const satisfies OptionTable;

const apply = {
  yes: { kind: 'switch', short: 'y', help: 'do not ask; needed without a terminal' },
  totalTimeout: { kind: 'duration', default: 600_000, help: 'deadline of reading, and of the apply' },
  concurrency: { kind: 'count', min: 1, max: 64, default: 8, help: 'requests at once' },
  pace: { kind: 'count', min: 1, max: 100_000, help: 'writes a second at most (default: not paced)' },
  journal: { kind: 'path', help: 'append each step before and after it is sent' },
  suspend: { kind: 'switch', help: 'write nothing, whatever else is asked for' },
  stateDir: { kind: 'path', value: 'DIR', help: "where state lies (default: the user's folder; a sidecar: temporary)" },
} as const satisfies OptionTable;

const own = {
  overrideWindow: { kind: 'text', value: 'REASON', help: 'apply though no window is open; recorded' },
  noSuspend: { kind: 'switch', flag: '--no-suspend', help: 'apply once though the settings suspend' },
  confirmWithin: { kind: 'duration', help: 'go back unless it is confirmed in time' },
  confirmWith: { kind: 'text', value: 'COMMAND', help: 'confirm it when this ends with 0; no shell' },
  out: { kind: 'path', value: 'PATH', help: 'write there (default: stdout)' },
  forge: { kind: 'choice', choices: ['github', 'gitlab'], help: "whose workflow; default: origin's" },
  example: { kind: 'switch', help: 'example manifests, without a server' },
  force: { kind: 'switch', help: 'overwrite files that say something else' },
  rulesOnly: { kind: 'switch', help: 'rules only, without the Configuration' },
  check: { kind: 'switch', help: 'write nothing; exit 1 where it would, or for host bits' },
  at: { kind: 'text', value: 'TIME', help: 'as if it were that time: 2026-12-01' },
  since: { kind: 'text', value: 'TIME', help: 'only what changed from then on: 2026-10-01' },
  until: { kind: 'text', value: 'DATE', help: 'the new end: 2026-12-31, or a time with its zone' },
  within: {
    kind: 'text',
    value: 'TIME',
    shape: [/^\d{1,5}[hdw]$/, 'hours, days or weeks: 12h, 30d, 4w'],
    help: 'how far ahead: 12h, 14d, 4w (expiring: 30d without it)',
  },
  mergeBase: { kind: 'switch', help: 'compare from where the two branches parted' },
  snapshot: { kind: 'path', help: 'a snapshot instead of the server; no token' },
  live: { kind: 'path', help: 'the same as --snapshot (as in 0.1)' },
  dryRun: { kind: 'switch', help: 'only the plan; write nothing' },
  forget: { kind: 'switch', flag: '--prune', help: 'remove all records' },
  probe: { kind: 'switch', help: 'ask only whether it makes progress (/healthz)' },
  checkDiscovery: { kind: 'switch', help: 'fetch the discovery documents' },
  save: { kind: 'path', help: 'save the plan for `reconcile apply FILE`' },
  port: { kind: 'count', min: 0, max: 65_535, help: "the packet's port" },
  simulatorListen: { kind: 'text', flag: '--listen', value: '[HOST:]PORT', help: 'default: any free loopback port' },
  simulatorPort: { kind: 'count', flag: '--port', min: 0, max: 65_535, help: 'the same as --listen 127.0.0.1:N' },
  latency: { kind: 'duration', help: 'answer each request this much later' },
  data: { kind: 'path', help: 'keep the data in this file' },
  user: { kind: 'list', value: 'NAME', help: 'name, address or UUID of a user (simulate: NAME=UUID)' },
  discovery: { kind: 'choice', choices: ['accept', 'fetch'], default: 'accept', help: 'believe or fetch documents' },
  filterRate: { kind: 'count', min: 1, max: 1_000_000, help: 'rules a second that its filter takes (default: all)' },
  admin: { kind: 'switch', help: 'serve the admin pages: verdicts, filter, faults' },
  nftNetns: { kind: 'path', value: 'PATH', help: 'keep a real packet filter in this network namespace' },
  destination: { kind: 'text', value: 'ADDRESS', help: 'the address that is asked about' },
  protocol: { kind: 'text', value: 'NAME', words: ['tcp', 'udp', 'icmp'], help: 'tcp, udp, icmp or any other' },
  rule: { kind: 'text', value: 'NAME', help: 'a rule, by its name (with --live: or its id)' },
  liveRules: { kind: 'switch', flag: '--live', help: 'ask about the rules on the server' },
} as const satisfies OptionTable;

const common = {
  config: { kind: 'path', help: "the operator's settings (YAML)" },
  output: {
    kind: 'list',
    value: 'FORMAT[=FILE]',
    help: 'with =FILE into a file; repeat for more (default: text)',
    words: ['text', 'json', 'markdown', 'html', 'csv', 'github'],
  },
  logFormat: { kind: 'choice', choices: ['text', 'json'], default: 'text', help: 'format of the log' },
  verbose: { kind: 'switch', short: 'v', help: 'log more detail' },
  color: { kind: 'switch', default: true, help: 'colour on terminals' },
} as const satisfies OptionTable;

/** Options that commands take together, each group with its heading in `--help`; `own`: of single commands. */
const groups = {
  own: ['This command', own],
  connection: ['The server', connection],
  manifests: ['The manifests', manifests],
  plan: ['The plan, and what it is refused for', plan],
  enforcement: ["The kernel's packet filter", enforcement],
  apply: ['Applying', apply],
  watch: ['Watching', watchOptions],
  fleet: ['Many servers', fleetOptions],
  common: ['Output and settings', common],
} as const;

/** Every option by its name in the settings file, from which its flag and its variable follow. Durations are ms here. */
export const options = {
  ...own,
  ...connection,
  ...manifests,
  ...plan,
  ...enforcement,
  ...apply,
  ...watchOptions,
  ...fleetOptions,
  ...common,
} as const;

export type OptionsTable = typeof options;
export type OptionName = keyof OptionsTable;

const namesIn = (table: OptionTable): readonly OptionName[] => Object.keys(table) as OptionName[];
export const optionNames = namesIn(options);

/** The options of a group, in the order of the table. */
export const listGroup = (name: keyof typeof groups): readonly OptionName[] => namesIn(groups[name][1]);

/** Whether it may stand in the environment or the settings file; else it is what one run does, and a flag alone. */
export function isSetting(name: OptionName): boolean {
  if (name === 'snapshot' || name === 'live') return true;
  return !(name in own || name in fleetOptions || name === 'config' || name === 'once');
}

const readAgain: readonly OptionName[] = ['once', 'allowRewind', 'interval', 'quiet', 'deleteQuiet', 'onDrift'];

/** What a watch opens once: another value counts from its next start. */
export const startOptions: readonly OptionName[] = [
  ...listGroup('connection'),
  ...listGroup('watch').filter((name) => !readAgain.includes(name)),
  ...(['journal', 'stateDir', 'logFormat', 'verbose'] as const),
];

const placeholders: Partial<Readonly<Record<OptionSpec['kind'], string>>> = {
  path: 'FILE',
  paths: 'FILE',
  count: 'N',
  duration: 'TIME',
};

/** What stands for its value in `--help`: `FILE`, `text|json`; empty for a switch. */
export function findPlaceholder(spec: OptionSpec): string {
  return spec.kind === 'choice' ? spec.choices.join('|') : (spec.value ?? placeholders[spec.kind] ?? '');
}

/** The heading of `--help` that an option stands under. */
export function findGroup(name: OptionName): string {
  return Object.values(groups).find(([, table]) => name in table)?.[0] ?? '';
}

/** `baseUrl` → `--base-url`. A switch that is on by default is turned off by its flag: `color` → `--no-color`. */
export function formatFlag(name: OptionName): string {
  const spec: OptionSpec = options[name];
  if (spec.flag !== undefined) return spec.flag;
  const kebab = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return spec.kind === 'switch' && spec.default ? `--no-${kebab}` : `--${kebab}`;
}

/** `baseUrl` → `RECONCILE_BASE_URL`. */
export function nameVariable(name: OptionName): string {
  return `RECONCILE_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
