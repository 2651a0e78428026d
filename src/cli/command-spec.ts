import type { RawValues, Run } from './command.ts';
import {
  commonOptions,
  connectionOptions,
  enforcementOptions,
  manifestOptions,
  type OptionName,
  planOptions,
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
  /** Two command lines that show it. */
  readonly examples: readonly [string, string];
  /** What `--output` may ask of it; empty: it prints one thing and has no `--output`. */
  readonly formats: readonly Format[];
  readonly load: () => Promise<{ readonly run: Run }>;
}

/** A parsed command line. */
export interface ParsedLine {
  readonly command: CommandSpec;
  readonly operands: readonly string[];
  readonly flags: RawValues;
}

/** Of commands that ask the manifests alone. */
export const offlineOptions: readonly OptionName[] = ['at', ...manifestOptions];

/** Of commands that follow the manifests through their commits. */
export const historyOptions: readonly OptionName[] = ['since', 'profile', 'values', 'overlay'];

/** Of commands that plan. */
export const planningOptions: readonly OptionName[] = [
  ...[...connectionOptions, ...manifestOptions],
  ...[...planOptions, ...enforcementOptions],
];

/** What shapes a plan of manifests, and no undo. */
const notOfUndo = ['detailedExitcode', 'showEmails', 'ruleUpdates', 'prune', 'replaceModified', 'base'];

/** The guards that an undo obeys. */
export const undoOptions: readonly OptionName[] = [
  ...planOptions.filter((name) => !notOfUndo.includes(name)),
  'noSuspend',
];

/** All options that a command takes. */
export function listOptions(spec: CommandSpec): readonly OptionName[] {
  const common = spec.formats.length > 0 ? commonOptions : commonOptions.filter((name) => name !== 'output');
  return [...spec.options, ...common];
}

/** Of a single apply. */
export const deciding: readonly OptionName[] = ['noSuspend', 'overrideWindow', 'confirmWithin', 'confirmWith'];

export const everyFormat: readonly Format[] = ['text', 'json', 'markdown', 'html', 'github'];
export const answers: readonly Format[] = ['text', 'json', 'html'];
export const tables: readonly Format[] = ['text', 'json', 'csv', 'markdown', 'html'];

export const simulateOptions: readonly OptionName[] = [
  ...(['simulatorListen', 'simulatorPort', 'tokenFile', 'latency', 'data'] as const),
  ...(['user', 'discovery', 'filterRate', 'admin', 'nftNetns'] as const),
];

/** What a packet or a rule to be explained is named by. */
export const explainOptions: readonly OptionName[] = [
  ...(['user', 'destination', 'protocol', 'port', 'liveRules', 'snapshot'] as const),
  ...connectionOptions,
  ...offlineOptions,
];
