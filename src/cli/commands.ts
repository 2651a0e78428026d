import { version } from '../version.ts';
import type { CommandSpec, Format } from './command.ts';
import { listGroup, type OptionName } from './options.ts';

const offlineOptions: readonly OptionName[] = ['at', ...listGroup('manifests')];

const historyOptions: readonly OptionName[] = ['since', 'profile', 'values', 'overlay'];

const planningOptions = (['connection', 'manifests', 'plan', 'enforcement'] as const).flatMap(listGroup);
/** It knows by itself what was applied. */
const ofWatch = planningOptions.filter((name) => name !== 'base');

/** What shapes a plan of manifests, and no undo. */
const notOfUndo = ['detailedExitcode', 'showEmails', 'ruleUpdates', 'prune', 'replaceModified', 'base'];

const undoOptions = [...listGroup('plan').filter((name) => !notOfUndo.includes(name)), 'noSuspend'] as const;

const deciding: readonly OptionName[] = ['noSuspend', 'overrideWindow', 'confirmWithin', 'confirmWith'];

/** What a packet is named by, and where it is asked about. */
const packetOptions: readonly OptionName[] = ['user', 'destination', 'protocol', 'port', 'liveRules'];

const everyFormat: readonly Format[] = ['text', 'json', 'markdown', 'html', 'github'];
const answers: readonly Format[] = ['text', 'json', 'html'];
const tables: readonly Format[] = ['text', 'json', 'csv', 'markdown', 'html'];

/** What a command has none of: operands, options of its own, more than one thing to print. */
const absent = { operands: '', options: [], formats: [] };

const table: Readonly<Record<string, Pick<CommandSpec, 'summary' | 'examples' | 'load'> & Partial<CommandSpec>>> = {
  plan: {
    summary: 'show the changes that an apply would make; never write',
    operands: 'PATH',
    options: ['at', 'snapshot', 'live', 'save', ...planningOptions, ...listGroup('apply'), ...listGroup('fleet')],
    examples: ['reconcile plan policy', 'reconcile plan policy --base main --output markdown=plan.md'],
    formats: everyFormat,
    load: async () => ({ run: (await import('./commands/reconcile.ts')).runPlan }),
  },
  apply: {
    summary: 'plan, ask, apply, verify; with PLAN exactly that plan',
    operands: '[PLAN] PATH',
    options: ['dryRun', ...planningOptions, ...listGroup('apply'), ...deciding, ...listGroup('fleet')],
    examples: ['reconcile apply policy', 'reconcile apply --yes plan.json policy'],
    formats: everyFormat,
    load: async () => ({ run: (await import('./commands/reconcile.ts')).runApply }),
  },
  confirm: {
    summary: 'keep the apply that waits to be confirmed',
    options: [...listGroup('connection'), 'profile', 'full', ...listGroup('enforcement'), ...listGroup('apply')],
    examples: ['reconcile confirm', 'reconcile confirm --state-dir /var/lib/reconcile'],
    formats: everyFormat,
    load: () => import('./commands/confirm.ts'),
  },
  watch: {
    summary: 'keep the server in line with a directory or Git branch',
    operands: '[PATH]',
    options: [...ofWatch, ...listGroup('apply'), ...listGroup('watch'), ...listGroup('fleet')],
    examples: [
      'reconcile watch policy --listen 127.0.0.1:8080',
      'reconcile watch --git-url https://git.example.com/policy.git --git-path prod',
    ],
    formats: ['text'],
    load: () => Promise.reject(new Error('a watch answers nothing')),
  },
  status: {
    summary: 'show the state of a sidecar; exit 0 when it is ready',
    operands: '[URL]',
    options: ['probe', 'listenTokenFile', ...listGroup('fleet')],
    examples: ['reconcile status', 'reconcile status https://sidecar.example.com --listen-token-file token'],
    formats: answers,
    load: () => import('./commands/status.ts'),
  },
  validate: {
    summary: 'check manifests, a directory or files',
    operands: 'PATH...',
    options: ['within', ...offlineOptions],
    examples: ['reconcile validate policy', 'reconcile validate --strict policy/office.yaml'],
    formats: everyFormat,
    load: () => import('./commands/validate.ts'),
  },
  export: {
    summary: 'write the live state as manifests',
    options: [...listGroup('connection'), 'profile', 'out', 'force', 'rulesOnly', 'user'],
    examples: ['reconcile export --out policy', 'reconcile export --user alice@example.com'],
    load: () => import('./commands/export.ts'),
  },
  init: {
    summary: 'write manifests, settings, workflow and hooks for a server',
    operands: '[DIR]',
    options: [...listGroup('connection'), 'profile', 'forge', 'example'],
    examples: ['reconcile init firewall --forge github', 'reconcile init firewall --example'],
    load: () => import('./commands/init.ts'),
  },
  build: {
    summary: 'print the final rules, with names and overlays resolved',
    operands: 'PATH',
    options: offlineOptions,
    examples: ['reconcile build policy', 'reconcile build --overlay production policy'],
    load: () => import('./commands/build.ts'),
  },
  fmt: {
    summary: 'format manifests in place; comments are kept',
    operands: 'PATH...',
    options: ['profile', 'check'],
    examples: ['reconcile fmt policy', 'reconcile fmt --check policy'],
    load: () => import('./commands/fmt.ts'),
  },
  schema: {
    summary: 'print the JSON Schema of a kind of manifest, or of `fleet`',
    operands: '[KIND]',
    examples: ['reconcile schema', 'reconcile schema RuleSet'],
    load: () => import('./commands/schema.ts'),
  },
  test: {
    summary: 'run the policy tests below PATH',
    operands: 'PATH',
    options: [...offlineOptions, ...listGroup('fleet')],
    examples: ['reconcile test policy', 'reconcile test --output json policy'],
    formats: everyFormat,
    load: () => import('./commands/test.ts'),
  },
  diff: {
    summary: 'show what changes between two revisions or folders',
    operands: 'A..B|A|DIR [PATH|DIR]',
    options: ['mergeBase', 'failOn', 'detailedExitcode', 'full', ...offlineOptions],
    examples: ['reconcile diff main..HEAD policy', 'reconcile diff HEAD policy --fail-on opens'],
    formats: everyFormat,
    load: () => import('./commands/diff.ts'),
  },
  expiring: {
    summary: 'list the rules that end soon, and those that have ended',
    operands: 'PATH',
    options: ['within', ...offlineOptions],
    examples: ['reconcile expiring policy', 'reconcile expiring policy --within 4w'],
    formats: everyFormat,
    load: () => import('./commands/expiring.ts'),
  },
  extend: {
    summary: 'write a later `expires` into the manifest',
    operands: 'SET/RULE [PATH] --until DATE',
    options: ['until', 'profile', 'overlay', 'values'],
    examples: ['reconcile extend office/web policy --until 2099-12-31', 'reconcile extend office --until 2099-12-31'],
    load: () => import('./commands/extend.ts'),
  },
  explain: {
    summary: 'say which rule decides a packet, or what a rule decides',
    operands: '[PATH]',
    options: ['rule', ...packetOptions, ...listGroup('connection'), ...offlineOptions],
    examples: [
      'reconcile explain policy --destination 10.1.2.3 --protocol tcp --port 443',
      'reconcile explain --live --rule office/web policy',
    ],
    formats: answers,
    load: () => import('./commands/explain.ts'),
  },
  reach: {
    summary: 'say who can reach what',
    operands: 'PATH',
    options: [...packetOptions, 'snapshot', ...listGroup('connection'), ...offlineOptions],
    examples: ['reconcile reach policy --user alice', 'reconcile reach policy --output csv=access.csv'],
    formats: tables,
    load: () => import('./commands/reach.ts'),
  },
  blame: {
    summary: "name the commits in which a packet's verdict changed",
    operands: 'PATH',
    options: ['destination', 'protocol', 'port', 'user', ...historyOptions],
    examples: [
      'reconcile blame policy --destination 10.1.2.3 --protocol tcp --port 443',
      'reconcile blame policy --destination 10.1.2.3 --protocol icmp',
    ],
    formats: tables,
    load: async () => ({ run: (await import('./commands/log.ts')).runBlame }),
  },
  log: {
    summary: 'say what each commit opened and closed',
    operands: 'PATH',
    options: historyOptions,
    examples: ['reconcile log policy --since 2026-10-01', 'reconcile log policy --output csv=changes.csv'],
    formats: tables,
    load: () => import('./commands/log.ts'),
  },
  history: {
    summary: 'list earlier applies from this machine, or show one',
    operands: '[show N]',
    options: ['baseUrl', 'stateDir', 'forget'],
    examples: ['reconcile history', 'reconcile history show 7'],
    formats: answers,
    load: () => import('./commands/history.ts'),
  },
  undo: {
    summary: 'undo what an apply changed: the last one, or apply N',
    operands: '[N]',
    options: ['dryRun', ...listGroup('connection'), 'profile', ...undoOptions, ...listGroup('apply'), 'overrideWindow'],
    examples: ['reconcile undo --dry-run', 'reconcile undo 7'],
    formats: everyFormat,
    load: () => import('./commands/undo.ts'),
  },
  snapshot: {
    summary: 'write the live state without secrets, to plan offline',
    options: [...listGroup('connection'), 'profile', 'out', ...listGroup('fleet')],
    examples: ['reconcile snapshot --out live.json', 'reconcile plan --snapshot live.json policy'],
    load: () => import('./commands/snapshot.ts'),
  },
  drift: {
    summary: 'compare the server with what was applied; exit 2: drift',
    operands: 'PATH',
    options: [...listGroup('connection'), ...listGroup('manifests'), 'base', ...listGroup('fleet')],
    examples: ['reconcile drift policy', 'reconcile drift --base HEAD policy'],
    formats: everyFormat,
    load: () => import('./commands/drift.ts'),
  },
  doctor: {
    summary: 'check connection, clock, token and stored state',
    options: [...listGroup('connection'), 'enforcement', 'netns', 'profile', 'checkDiscovery', ...listGroup('fleet')],
    examples: ['reconcile doctor', 'reconcile doctor --check-discovery'],
    formats: answers,
    load: () => import('./commands/doctor.ts'),
  },
  completion: {
    summary: 'print the completion script for bash, zsh or fish',
    operands: 'SHELL',
    examples: ['source <(reconcile completion bash)', 'reconcile completion fish | source'],
    load: () => import('./commands/completion.ts'),
  },
  simulate: {
    summary: 'serve a simulated API on loopback, to try and to test',
    options: [
      ...(['simulatorListen', 'simulatorPort', 'tokenFile', 'latency', 'data'] as const),
      ...(['user', 'discovery', 'filterRate', 'admin', 'nftNetns'] as const),
    ],
    examples: [
      'reconcile simulate --token-file token --listen 8080',
      'reconcile simulate --user bob=5a1d4e9c-0000-4000-8000-000000000b0b',
    ],
    load: () => import('./commands/simulate.ts'),
  },
  version: {
    summary: 'print the version',
    examples: ['reconcile version', 'reconcile --version'],
    load: () => Promise.resolve({ run: () => Promise.resolve({ text: () => `${version}\n` }) }),
  },
};

/** The commands with a name, in the order of `--help`. */
export const commands: readonly CommandSpec[] = Object.entries(table).map(([name, spec]) => ({
  ...absent,
  name,
  ...spec,
}));
