import { measureLongest } from '../report/paint.ts';
import { version } from '../version.ts';
import { exitTable } from './command.ts';
import { commands } from './commands.ts';
import { isSetting, nameVariable, optionNames } from './options.ts';

/** `reconcile --help`: the commands first, five examples, and where more is. */
export function describeProgram(): string {
  const rows = commands.map(({ name, operands, summary }) => {
    return { usage: `${name} ${operands.length > 12 ? '…' : operands}`.trim(), summary };
  });
  const topicNames = [...topics.keys()].join(', ');
  rows.push({ usage: 'help COMMAND|TOPIC', summary: `a command's options; topics: ${topicNames}` });
  const width = measureLongest(rows.map(({ usage }) => usage));
  return [
    `reconcile ${version}: your Firezone 0.7 firewall, as reviewed YAML in Git`,
    'Usage: reconcile COMMAND [options] …; reconcile PATH means reconcile apply PATH',
    'Commands:',
    ...rows.map(({ usage, summary }) => `  ${usage.padEnd(width)}  ${summary}`),
    'Examples:',
    '  reconcile export --out policy     # the rules that are there, as manifests',
    '  reconcile validate policy         # checks them; needs no server',
    '  reconcile plan policy             # shows the changes; never writes',
    '  reconcile apply policy            # shows, asks, applies; in scripts: --yes',
    '  reconcile explain policy --destination 10.1.2.3 --protocol tcp --port 443',
    'Server: --base-url, --token-file, or RECONCILE_BASE_URL, RECONCILE_TOKEN_FILE',
    'Need no server: validate, fmt, build, test, diff, expiring, extend, reach, log …',
    'A PATH named like a command: ./NAME. Every flag: docs/reference/commands.md',
    '',
  ].join('\n');
}

/** What `reconcile help TOPIC` says, by the topic. */
export const topics: ReadonlyMap<string, () => string> = new Map([
  ['settings', describeSettings],
  ['exit-codes', describeExitCodes],
]);

function describeExitCodes(): string {
  return [
    'Exit codes, of which the first that applies is given, in every output mode:',
    '',
    ...exitTable.map(({ code, meaning }) => `  ${code}  ${meaning}`),
    '',
    'A plan exits with 3 or 4 where its apply would, but for a closed window and --suspend.',
    '',
  ].join('\n');
}

function describeSettings(): string {
  const names = optionNames.filter(isSetting);
  const width = measureLongest(names);
  return [
    'Flags count before variables, those before the settings file, then the default.',
    'The settings file is YAML, named by --config FILE or RECONCILE_CONFIG, such as:',
    '',
    '  baseUrl: https://vpn.example.com',
    '  tokenFile: /run/secrets/token',
    '  maxDeletes: 10%',
    '',
    'It is never looked for among the manifests. Only the file can hold protect,',
    'scope, windows, secrets, limits, notify and more: docs/reference/commands.md',
    '',
    'Names in the file, and the variable of each:',
    '',
    ...names.map((name) => `  ${name.padEnd(width)}  ${nameVariable(name)}`),
    '',
  ].join('\n');
}

/** Each command, by what other tools call it. */
const otherVerbs: Readonly<Record<string, readonly string[]>> = {
  apply: ['sync', 'deploy', 'push', 'run', 'up'],
  plan: ['preview'],
  validate: ['lint', 'check', 'verify'],
  fmt: ['format'],
  export: ['import', 'pull', 'dump'],
  watch: ['daemon', 'serve'],
  explain: ['why', 'trace'],
  undo: ['rollback', 'revert', 'restore'],
};

/** What to type here, by the flags that other tools have for it. */
const otherFlags: Readonly<Record<string, readonly string[]>> = {
  '--yes': ['--auto-approve', '--assume-yes', '--no-input'],
  'reconcile plan PATH, which writes nothing': ['--dry-run', '--check-only'],
  'reconcile watch PATH': ['--daemon'],
  '--base-url URL': ['--server', '--url', '--host'],
  '--token-file FILE (never the token itself: every process can see it)': ['--token'],
  '--output json': ['--json'],
  '--output': ['-o'],
  '--verbose': ['--debug'],
  '--prune none': ['--no-prune'],
  '--values FILE': ['--var-file'],
  'PATH, the directory of the manifests': ['--file', '-f'],
};

/** What a word of another tool stands for here, a command by its verb or what to type for a flag; null for any other word. */
export function translateWord(word: string, of: 'verb' | 'flag'): string | null {
  const others = Object.entries(of === 'verb' ? otherVerbs : otherFlags);
  return others.find(([, words]) => words.includes(word))?.[0] ?? null;
}
