import { version } from '../version.ts';
import { exitTable } from './command.ts';
import { commands } from './commands.ts';
import { isSetting, nameVariable, optionNames } from './options.ts';

/** `reconcile --help`: the commands first, five examples, and where more is. */
export function describeProgram(): string {
  const rows = [
    ...commands.map(({ name, operands, summary }): [string, string] => [
      `${name} ${operands.length > 12 ? '…' : operands}`.trim(),
      summary,
    ]),
    ['help COMMAND|TOPIC', `a command's options; topics: ${Object.keys(topics).join(', ')}`] as [string, string],
  ];
  const width = widest(rows.map(([usage]) => usage));
  return [
    `reconcile ${version}: your Firezone 0.7 firewall, as reviewed YAML in Git`,
    'Usage: reconcile COMMAND [options] …; reconcile PATH means reconcile apply PATH',
    'Commands:',
    ...rows.map(([usage, summary]) => `  ${usage.padEnd(width)}  ${summary}`),
    'Examples:',
    ...programExamples.map((line) => `  ${line}`),
    'Server: --base-url, --token-file, or RECONCILE_BASE_URL, RECONCILE_TOKEN_FILE',
    'Need no server: validate, fmt, build, test, diff, expiring, extend, reach, log …',
    'A PATH named like a command: ./NAME. Every flag: docs/reference/commands.md',
    '',
  ].join('\n');
}

const programExamples: readonly string[] = [
  'reconcile export --out policy     # the rules that are there, as manifests',
  'reconcile validate policy         # checks them; needs no server',
  'reconcile plan policy             # shows the changes; never writes',
  'reconcile apply policy            # shows, asks, applies; in scripts: --yes',
  'reconcile explain policy --destination 10.1.2.3 --protocol tcp --port 443',
];

function widest(texts: readonly string[]): number {
  return texts.reduce((width, { length }) => Math.max(width, length), 0);
}

/** What `reconcile help TOPIC` says; null for no topic. */
export function describeTopic(name: string): string | null {
  return topics[name]?.() ?? null;
}

const topics: Readonly<Record<string, () => string>> = {
  settings: describeSettings,
  'exit-codes': describeExitCodes,
};

function describeExitCodes(): string {
  return [
    'Exit codes, of which the first that applies is given, in every output mode:',
    '',
    ...exitTable.map(({ code, meaning }) => `  ${code}  ${meaning}`),
    '',
    'plan gives what an apply would be refused for.',
    '',
  ].join('\n');
}

function describeSettings(): string {
  const names = optionNames.filter(isSetting);
  const width = widest(names);
  return [
    'An option is looked for as a flag, then as a variable, then in the settings',
    'file, then it has its default.',
    'The settings file is YAML, named by --config FILE or RECONCILE_CONFIG, such as:',
    '',
    '  baseUrl: https://vpn.example.com',
    '  tokenFile: /run/secrets/token',
    '  maxDeletes: 10%',
    '',
    'It is never looked for among the manifests: anyone who can edit a manifest',
    'could send your token to another server. Only the file can hold protect, scope,',
    'secrets, limits, notify and kubernetes: docs/reference/commands.md',
    '',
    'Names in the file, and the variable of each:',
    '',
    ...names.map((name) => `  ${name.padEnd(width)}  ${nameVariable(name)}`),
    '',
  ].join('\n');
}

/** What a word that is no command means to people who know other tools. */
const otherVerbs: Readonly<Record<string, string>> = {
  sync: 'apply',
  deploy: 'apply',
  push: 'apply',
  run: 'apply',
  up: 'apply',
  preview: 'plan',
  lint: 'validate',
  check: 'validate',
  verify: 'validate',
  format: 'fmt',
  import: 'export',
  pull: 'export',
  dump: 'export',
  daemon: 'watch',
  serve: 'watch',
  why: 'explain',
  trace: 'explain',
};

/** What a flag that is none means to people who know other tools. */
const otherFlags: Readonly<Record<string, string>> = {
  '--auto-approve': '--yes',
  '--assume-yes': '--yes',
  '--no-input': '--yes',
  '--dry-run': 'reconcile plan PATH',
  '--check-only': 'reconcile plan PATH',
  '--daemon': 'reconcile watch PATH',
  '--server': '--base-url URL',
  '--url': '--base-url URL',
  '--host': '--base-url URL',
  '--token': '--token-file FILE (never the token itself: arguments are visible to every process)',
  '--json': '--output json',
  '-o': '--output',
  '--debug': '--verbose',
  '--no-prune': '--prune none',
  '--var-file': '--values FILE',
  '--file': 'PATH, the directory of the manifests',
  '-f': 'PATH, the directory of the manifests',
};

/** The command that a word of another tool stands for; null for any other word. */
export function translateVerb(word: string): string | null {
  return Object.hasOwn(otherVerbs, word) ? (otherVerbs[word] ?? null) : null;
}

/** What to type instead of a flag of another tool; null for any other flag. */
export function translateFlag(flag: string): string | null {
  return Object.hasOwn(otherFlags, flag) ? (otherFlags[flag] ?? null) : null;
}
