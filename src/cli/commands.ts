import type { Run } from './command.ts';
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

/** One command: its words, its options, and where its code is; loaded only when it runs. */
export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  /** Operands as `--help` shows them; `[NAME]` may be left out, `...` may be repeated. */
  readonly operands: string;
  /** Its options beside the common ones. */
  readonly options: readonly OptionName[];
  /** What `--output` may ask of it; empty: it prints one thing and has no `--output`. */
  readonly formats: readonly Format[];
  readonly load: () => Promise<{ readonly run: Run }>;
}

const everyFormat: readonly Format[] = ['text', 'json', 'markdown', 'html', 'github'];
const answers: readonly Format[] = ['text', 'json'];

/** All options that a command takes. */
export function optionsOf(spec: CommandSpec): readonly OptionName[] {
  const common = spec.formats.length > 0 ? commonOptions : commonOptions.filter((name) => name !== 'output');
  return [...spec.options, ...common];
}

/** The command without a name: `reconcile [--plan | --watch] PATH`. */
export const rootCommand: CommandSpec = {
  name: '',
  summary: 'bring the server in line with the manifests below PATH',
  operands: 'PATH',
  options: [
    'plan',
    'live',
    'save',
    ...connectionOptions,
    ...manifestOptions,
    ...planOptions,
    ...enforcementOptions,
    ...applyOptions,
    ...watchOptionNames,
  ],
  formats: everyFormat,
  load: () => import('./commands/reconcile.ts'),
};

/** The commands with a name, in the order of `--help`. */
export const commands: readonly CommandSpec[] = [
  {
    name: 'validate',
    summary: 'check the manifests below PATH; needs no server and no token',
    operands: 'PATH',
    options: manifestOptions,
    formats: everyFormat,
    load: () => import('./commands/validate.ts'),
  },
  {
    name: 'export',
    summary: 'write the live state as manifests',
    operands: '',
    options: [...connectionOptions, 'profile', 'out', 'force', 'rulesOnly', 'user'],
    formats: [],
    load: () => import('./commands/export.ts'),
  },
  {
    name: 'build',
    summary: 'print the manifests resolved: sets, names, values and overlays',
    operands: 'PATH',
    options: manifestOptions,
    formats: [],
    load: () => import('./commands/build.ts'),
  },
  {
    name: 'fmt',
    summary: 'bring manifests to canonical spelling and order, comments kept',
    operands: 'PATH...',
    options: ['profile', 'check'],
    formats: [],
    load: () => import('./commands/fmt.ts'),
  },
  {
    name: 'schema',
    summary: 'print the JSON Schema of a kind of manifest',
    operands: '[KIND]',
    options: [],
    formats: [],
    load: () => import('./commands/schema.ts'),
  },
  {
    name: 'test',
    summary: 'run the policy tests below PATH; needs no server and no token',
    operands: 'PATH',
    options: manifestOptions,
    formats: everyFormat,
    load: () => import('./commands/test.ts'),
  },
  {
    name: 'diff',
    summary: 'show what changes between two revisions or folders; needs no server and no token',
    operands: 'A..B|A|DIR [PATH|DIR]',
    options: ['mergeBase', 'failOn', 'detailedExitcode', 'full', ...manifestOptions],
    formats: everyFormat,
    load: () => import('./commands/diff.ts'),
  },
  {
    name: 'explain',
    summary: 'say which rule decides a packet, or what a rule decides',
    operands: '[PATH]',
    options: ['destination', 'protocol', 'port', 'user', 'rule', 'liveRules', ...connectionOptions, ...manifestOptions],
    formats: answers,
    load: () => import('./commands/explain.ts'),
  },
  {
    name: 'apply',
    summary: 'apply a saved plan, and only what was reviewed in it',
    operands: 'PLAN PATH',
    options: [...connectionOptions, ...manifestOptions, ...planOptions, ...enforcementOptions, ...applyOptions],
    formats: everyFormat,
    load: () => import('./commands/apply.ts'),
  },
  {
    name: 'snapshot',
    summary: 'write the live state without secrets, for plans without a token',
    operands: '',
    options: [...connectionOptions, 'profile', 'out'],
    formats: [],
    load: () => import('./commands/snapshot.ts'),
  },
  {
    name: 'drift',
    summary: 'compare the server with what was applied; exit 2 when it drifted',
    operands: 'PATH',
    options: [...connectionOptions, ...manifestOptions, 'base'],
    formats: everyFormat,
    load: () => import('./commands/drift.ts'),
  },
  {
    name: 'doctor',
    summary: 'check connection, clock, token and stored state; never write',
    operands: '',
    options: [...connectionOptions, 'enforcement', 'netns', 'profile', 'checkDiscovery'],
    formats: answers,
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'completion',
    summary: 'print the completion script of a shell: bash, zsh or fish',
    operands: 'SHELL',
    options: [],
    formats: [],
    load: () => import('./commands/completion.ts'),
  },
  {
    name: 'simulate',
    summary: 'serve the simulated API on loopback, for trying and for tests',
    operands: '',
    options: ['port', 'tokenFile', 'data', 'user', 'discovery', 'filterRate', 'admin', 'nftNetns'],
    formats: [],
    load: () => import('./commands/simulate.ts'),
  },
];
