import { kinds } from '../manifest/manifest.ts';
import { version } from '../version.ts';
import type { CommandSpec } from './command-spec.ts';
import {
  applyOptions,
  commonOptions,
  connectionOptions,
  enforcementOptions,
  manifestOptions,
  type OptionName,
  planOptions,
  watchOptionNames,
} from './options.ts';
import type { Format } from './output.ts';

const everyFormat: readonly Format[] = ['text', 'json', 'markdown', 'html', 'github'];
const answers: readonly Format[] = ['text', 'json'];
/** The guards that an undo obeys. */
const undoOptions: readonly OptionName[] = [
  'full',
  'maxDeletes',
  'maxChanges',
  'allowEmpty',
  'allowLockout',
  'maxExposure',
  'failOn',
  'bindSecret',
  'approve',
];

/** All options that a command takes. */
export function listOptions(spec: CommandSpec): readonly OptionName[] {
  const common = spec.formats.length > 0 ? commonOptions : commonOptions.filter((name) => name !== 'output');
  return [...spec.options, ...common];
}

/** Of commands that ask the manifests alone. */
const offline: readonly OptionName[] = ['at', ...manifestOptions];

const planning: readonly OptionName[] = [
  ...connectionOptions,
  ...manifestOptions,
  ...planOptions,
  ...enforcementOptions,
];

/** The command without a name: `reconcile [--plan | --watch] PATH`, which the verbs `plan`, `apply` and `watch` stand for. */
export const rootCommand: CommandSpec = {
  name: '',
  summary: 'the same as apply PATH',
  operands: 'PATH',
  options: [
    ...(['plan', 'at', 'snapshot', 'live', 'save', 'overrideWindow', 'watch'] as const),
    ...[...planning, ...applyOptions, ...watchOptionNames],
  ],
  examples: ['reconcile --plan policy', 'reconcile --yes policy'],
  formats: everyFormat,
  load: () => import('./commands/reconcile.ts'),
};

/** The commands with a name, in the order of `--help`. */
export const commands: readonly CommandSpec[] = [
  {
    name: 'plan',
    summary: 'show the changes that an apply would make; never write',
    operands: 'PATH',
    options: ['at', 'snapshot', 'save', ...planning],
    implies: { plan: true },
    examples: ['reconcile plan policy', 'reconcile plan policy --base main --output markdown=plan.md'],
    formats: everyFormat,
    load: rootCommand.load,
  },
  {
    name: 'apply',
    summary: 'plan, show, ask, apply, and verify; with PLAN only what was reviewed in it',
    operands: '[PLAN] PATH',
    options: ['dryRun', ...planning, ...applyOptions, 'overrideWindow'],
    examples: ['reconcile apply policy', 'reconcile apply --yes plan.json policy'],
    completes: 'files',
    formats: everyFormat,
    load: () => import('./commands/apply.ts'),
  },
  {
    name: 'watch',
    summary: 'stay, and keep the server in line with a directory or a Git branch',
    operands: '[PATH]',
    options: [...planning, ...applyOptions, ...watchOptionNames],
    implies: { watch: true },
    examples: [
      'reconcile watch policy --listen 127.0.0.1:8080',
      'reconcile watch --git-url https://git.example.com/net/policy.git --git-path prod',
    ],
    formats: everyFormat,
    load: rootCommand.load,
  },
  {
    name: 'status',
    summary: 'show what a sidecar says of itself; exit 0 when it is ready',
    operands: '[URL]',
    options: ['probe', 'listenTokenFile'],
    examples: ['reconcile status', 'reconcile status https://sidecar.example.com --listen-token-file token'],
    formats: answers,
    load: () => import('./commands/status.ts'),
  },
  {
    name: 'validate',
    summary: 'check manifests, a directory or files; needs no server and no token',
    operands: 'PATH...',
    options: offline,
    completes: 'files',
    examples: ['reconcile validate policy', 'reconcile validate --strict policy/office.yaml'],
    formats: everyFormat,
    load: () => import('./commands/validate.ts'),
  },
  {
    name: 'export',
    summary: 'write the live state as manifests',
    operands: '',
    options: [...connectionOptions, 'profile', 'out', 'force', 'rulesOnly', 'user'],
    examples: ['reconcile export --out policy', 'reconcile export --user alice@example.com'],
    formats: [],
    load: () => import('./commands/export.ts'),
  },
  {
    name: 'init',
    summary: 'make a repository for a server: manifests, settings, workflow, hooks',
    operands: '[DIR]',
    options: [...connectionOptions, 'profile', 'forge', 'example'],
    examples: ['reconcile init firewall --forge github', 'reconcile init firewall --example'],
    formats: [],
    load: () => import('./commands/init.ts'),
  },
  {
    name: 'build',
    summary: 'print the manifests resolved: sets, names, values and overlays',
    operands: 'PATH',
    options: offline,
    examples: ['reconcile build policy', 'reconcile build --overlay production policy'],
    formats: [],
    load: () => import('./commands/build.ts'),
  },
  {
    name: 'fmt',
    completes: 'files',
    summary: 'bring manifests to canonical spelling and order, comments kept',
    operands: 'PATH...',
    options: ['profile', 'check'],
    examples: ['reconcile fmt policy', 'reconcile fmt --check policy'],
    formats: [],
    load: () => import('./commands/fmt.ts'),
  },
  {
    name: 'schema',
    completes: kinds,
    summary: 'print the JSON Schema of a kind of manifest',
    operands: '[KIND]',
    options: [],
    examples: ['reconcile schema', 'reconcile schema RuleSet'],
    formats: [],
    load: () => import('./commands/schema.ts'),
  },
  {
    name: 'test',
    summary: 'run the policy tests below PATH; needs no server and no token',
    operands: 'PATH',
    options: offline,
    examples: ['reconcile test policy', 'reconcile test --output json policy'],
    formats: everyFormat,
    load: () => import('./commands/test.ts'),
  },
  {
    name: 'diff',
    summary: 'show what changes between two revisions or folders; needs no server and no token',
    operands: 'A..B|A|DIR [PATH|DIR]',
    options: ['mergeBase', 'failOn', 'detailedExitcode', 'full', ...offline],
    examples: ['reconcile diff main..HEAD policy', 'reconcile diff HEAD policy --fail-on opens'],
    formats: everyFormat,
    load: () => import('./commands/diff.ts'),
  },
  {
    name: 'expiring',
    summary: 'list the rules that end soon, and those that have ended; needs no server and no token',
    operands: 'PATH',
    options: ['within', ...offline],
    examples: ['reconcile expiring policy', 'reconcile expiring policy --within 4w'],
    formats: everyFormat,
    load: () => import('./commands/expiring.ts'),
  },
  {
    name: 'explain',
    summary: 'say which rule decides a packet, or what a rule decides',
    operands: '[PATH]',
    options: ['destination', 'protocol', 'port', 'user', 'rule', 'liveRules', ...connectionOptions, ...offline],
    examples: [
      'reconcile explain policy --destination 10.1.2.3 --protocol tcp --port 443',
      'reconcile explain --live --rule office/web policy',
    ],
    formats: answers,
    load: () => import('./commands/explain.ts'),
  },
  {
    name: 'reach',
    summary: 'say who can reach what; needs no server and no token',
    operands: 'PATH',
    options: ['user', 'destination', 'protocol', 'port', 'liveRules', ...connectionOptions, ...offline],
    examples: ['reconcile reach policy --user alice', 'reconcile reach policy --output csv=access.csv'],
    formats: ['text', 'json', 'csv', 'markdown'],
    load: () => import('./commands/reach.ts'),
  },
  {
    name: 'history',
    summary: 'list the applies that were made from here, or show one of them',
    operands: '[show N]',
    options: ['baseUrl', 'stateDir', 'forget'],
    examples: ['reconcile history', 'reconcile history show 7'],
    formats: answers,
    load: () => import('./commands/history.ts'),
  },
  {
    name: 'undo',
    summary: 'put back what an apply changed: the last one, or apply N',
    operands: '[N]',
    options: ['dryRun', ...connectionOptions, 'profile', ...undoOptions, ...applyOptions, 'overrideWindow'],
    examples: ['reconcile undo --dry-run', 'reconcile undo 7'],
    formats: everyFormat,
    load: () => import('./commands/undo.ts'),
  },
  {
    name: 'snapshot',
    summary: 'write the live state without secrets, for plans without a token',
    operands: '',
    options: [...connectionOptions, 'profile', 'out'],
    examples: ['reconcile snapshot --out live.json', 'reconcile plan --snapshot live.json policy'],
    formats: [],
    load: () => import('./commands/snapshot.ts'),
  },
  {
    name: 'drift',
    summary: 'compare the server with what was applied; exit 2 when it drifted',
    operands: 'PATH',
    options: [...connectionOptions, ...manifestOptions, 'base'],
    examples: ['reconcile drift policy', 'reconcile drift --base HEAD policy'],
    formats: everyFormat,
    load: () => import('./commands/drift.ts'),
  },
  {
    name: 'doctor',
    summary: 'check connection, clock, token and stored state; never write',
    operands: '',
    options: [...connectionOptions, 'enforcement', 'netns', 'profile', 'checkDiscovery'],
    examples: ['reconcile doctor', 'reconcile doctor --check-discovery'],
    formats: answers,
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'completion',
    completes: ['bash', 'zsh', 'fish'],
    summary: 'print the completion script of a shell: bash, zsh or fish',
    operands: 'SHELL',
    options: [],
    examples: ['source <(reconcile completion bash)', 'reconcile completion fish | source'],
    formats: [],
    load: () => import('./commands/completion.ts'),
  },
  {
    name: 'simulate',
    summary: 'serve the simulated API on loopback, for trying and for tests',
    operands: '',
    options: [
      'simulatorListen',
      'simulatorPort',
      'tokenFile',
      'latency',
      'data',
      'user',
      'discovery',
      'filterRate',
      'admin',
      'nftNetns',
    ],
    examples: [
      'reconcile simulate --token-file token --listen 8080',
      'reconcile simulate --token-file token --user alice@example.com=5a1d4e9c-0000-4000-8000-00000000a11c',
    ],
    formats: [],
    load: () => import('./commands/simulate.ts'),
  },
  {
    name: 'version',
    summary: 'print the version',
    operands: '',
    options: [],
    examples: ['reconcile version', 'reconcile --version'],
    formats: [],
    load: () => Promise.resolve({ run: () => Promise.resolve({ exit: 0, text: () => `${version}\n` }) }),
  },
];
