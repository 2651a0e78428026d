import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { makeNetwork } from '../src/model/address.ts';
import type { Rule } from '../src/model/rule.ts';
import { computeReach } from '../src/policy/reach.ts';
import type { FigureBench } from './figure.ts';

const command = join(new URL('..', import.meta.url).pathname.replace(/dist\/$/, ''), 'dist/reconcile.js');

function file(n: number, rules: number, of: (rule: number) => number): string {
  const text = Array.from({ length: rules }, (_, k) => {
    const at = n * rules + k;
    return `    - {name: r${k}, action: accept, destination: 10.${at >> 8}.${at & 255}.0/24, port_type: tcp, port_range: ${of(k)}}\n`;
  });
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s${n}}\nspec:\n  rules:\n${text.join('')}`;
}

/** A repository with `commits` commits, each of which changes one rule of one of the files. */
function repository(commits: number, files: number, rules: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const ports = new Map<string, number>();
  const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
  const put = (n: number): string =>
    `M 100644 inline policy/s${n}.yaml\n${data(file(n, rules, (k) => ports.get(`${n}/${k}`) ?? 443))}`;
  const made = Array.from({ length: commits }, (_, n) => {
    ports.set(`${n % files}/${n % rules}`, 1 + n);
    const who = `author A <a@example.test> ${1_700_000_000 + n * 60} +0000\ncommitter A <a@example.test> ${1_700_000_000 + n * 60} +0000\n`;
    const all = n === 0 ? Array.from({ length: files }, (_, k) => put(k)).join('') : put(n % files);
    return `commit refs/heads/main\n${who}${data(`commit ${n}`)}${all}\n`;
  });
  spawnSync('git', ['init', '-q', '--template=', '-b', 'main', folder]);
  spawnSync('git', ['fast-import', '--quiet'], { cwd: folder, input: made.join('') });
  mkdirSync(join(folder, 'policy'));
  return folder;
}

interface Run {
  readonly ms: number;
  readonly mb: number;
}

function run(args: readonly string[], cwd: string): Run {
  const told =
    "process.on('exit', () => { const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage(); process.stderr.write('used ' + maxRSS + ' ' + (userCPUTime + systemCPUTime)); })";
  const argv = ['--import', `data:text/javascript,${told}`, command, ...args, '--output', 'json'];
  const { status, stderr } = spawnSync(process.execPath, argv, { cwd, encoding: 'utf8', maxBuffer: 1e9 });
  if (status !== 0) throw new Error(stderr);
  const [, rss, cpu] = /used ([0-9]+) ([0-9]+)$/.exec(stderr) ?? [];
  return { ms: Number(cpu) / 1000, mb: Number(rss) / 1024 };
}

function inHistory(args: readonly string[], of: keyof Run): () => number {
  return () => {
    const folder = repository(1_000, 50, 20);
    try {
      return run(args, folder)[of];
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

/** Two folders of 10,000 rules in 50 files, some of which differ, over the time in which the YAML library parses both. */
function diffRatio(changed: number): number {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const sides = ['old', 'new'].map((name, side) => {
    mkdirSync(join(folder, name));
    return Array.from({ length: 50 }, (_, n) => {
      const text = file(n, 200, (k) => (k === 0 && n < changed ? 80 + side : 443));
      writeFileSync(join(folder, name, `s${n}.yaml`), text);
      return text;
    });
  });
  try {
    const parse = cpuOf(() => sides.flat().map((text) => parseAllDocuments(text)));
    return run(['diff', 'old', 'new'], folder).ms / parse;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Everything that 300 users reach under 3,000 rules, ten each. */
function reachTime(): number {
  const rules = Array.from({ length: 3_000 }, (_, n): Rule => {
    const user = `00000000-0000-4000-8000-${String(n % 300).padStart(12, '0')}`;
    return {
      action: n % 3 === 0 ? 'drop' : 'accept',
      destination: makeNetwork(4, BigInt(0x0a000000 + (n << 8)), 24),
      ports: n % 2 === 0 ? null : { type: 'tcp', low: 1 + (n % 1000), high: 1 + (n % 1000) + 10 },
      userId: user,
    };
  });
  return cpuOf(() => computeReach(rules));
}

/** CPU time of the work, ms: other processes of the machine do not count. */
function cpuOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const packet = ['--destination', '10.0.7.1', '--protocol', 'tcp', '--port', '443'];

/** Questions to a policy and to its history. The limits are those that docs/explanation/policy.md promises. */
export const benches: readonly FigureBench[] = [
  {
    name: 'CPU of blame, 1,000 commits, 1,000 rules in 50 files',
    unit: 'ms',
    limit: 3_000,
    measure: inHistory(['blame', 'policy', ...packet], 'ms'),
  },
  {
    name: 'CPU of log, 1,000 commits, 1,000 rules in 50 files',
    unit: 'ms',
    limit: 10_000,
    measure: inHistory(['log', 'policy'], 'ms'),
  },
  { name: 'memory of that log', unit: 'MB', limit: 400, measure: inHistory(['log', 'policy'], 'mb') },
  ...[5, 50].map((changed) => ({
    name: `CPU of a diff of 10,000 rules in 50 files, ${changed} of them changed, over the YAML library’s parse of both sides`,
    unit: 'ratio' as const,
    limit: 1.2,
    measure: () => diffRatio(changed),
  })),
  { name: 'CPU of reach of 300 users under 3,000 rules', unit: 'ms', limit: 1_000, measure: reachTime },
];
