import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { explain } from '../../src/index.ts';
import { runs } from '../property/runs.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reconcile-blame-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function cli(args: readonly string[], more: Partial<Terminal> = {}) {
  const written = { out: '', err: '' };
  const terminal: Terminal = {
    env: { PATH: process.env['PATH'], HOME: folder },
    cwd: folder,
    stdinIsTerminal: false,
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
    stdout: (text) => {
      written.out += text;
    },
    stderr: (text) => {
      written.err += text;
    },
    ask: async () => null,
    stop: new AbortController().signal,
    ...more,
  };
  const code = await runCli(args, terminal);
  return { code, ...written };
}

interface Made {
  readonly files: Readonly<Record<string, string>>;
  readonly parents: readonly number[];
  /** ISO; absent: an hour after the one before. */
  readonly at?: string;
}

const begin = Date.parse('2026-01-01T00:00:00Z');

/** Commits these with one run of git; the last is HEAD. Gives their ids. */
function commit(made: readonly Made[], where = folder): readonly string[] {
  execFileSync('git', ['init', '-q', '--template=', '-b', 'main', where]);
  const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
  const script = made.map(({ files, parents, at }, n) => {
    const time = at === undefined ? begin / 1000 + n * 3600 : Date.parse(at) / 1000;
    const from = parents.map((parent, k) => `${k === 0 ? 'from' : 'merge'} :${parent + 1}\n`).join('');
    const contents = Object.entries(files).map(([path, text]) => `M 100644 inline ${path}\n${data(text)}`);
    const who = `author A <a@example.test> ${time} +0000\ncommitter A <a@example.test> ${time} +0000\n`;
    const reset = parents.length === 0 ? `reset refs/heads/c${n}\n` : '';
    return `${reset}commit refs/heads/c${n}\nmark :${n + 1}\n${who}${data(`commit ${n}`)}${from}deleteall\n${contents.join('')}\n`;
  });
  const input = `${script.join('')}reset refs/heads/main\nfrom :${made.length}\n`;
  execFileSync('git', ['fast-import', '--quiet', '--force', `--export-marks=${where}/marks`], { cwd: where, input });
  const marks = execFileSync('cat', [`${where}/marks`], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const byMark = new Map(marks.map((line) => line.split(' ') as [string, string]));
  return made.map((_, n) => byMark.get(`:${n + 1}`) ?? '');
}

function rulesText(name: string, rules: readonly string[]): string {
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec:\n  rules:\n${rules.map((rule, n) => `    - {name: r${n}, ${rule}}\n`).join('')}`;
}

const packet = { destination: '10.1.2.3', protocol: 'tcp', port: 443 } as const;
const question = ['net', '--destination', packet.destination, '--protocol', 'tcp', '--port', `${packet.port}`];

const closed = 'action: drop, destination: 10.0.0.0/8';
const open = 'action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443';
const rules = [closed, open, 'action: drop, destination: 10.1.2.3', 'action: accept, destination: 10.1.2.0/24'];
const anyRules = fc.subarray(rules, { minLength: 0 });

/** What one commit does to the files of the commit before, and what it merges. */
const anyEdit = fc.record({
  kind: fc.constantFrom('write', 'write', 'rename', 'split', 'break', 'revert', 'elsewhere'),
  rules: anyRules,
  of: fc.nat(),
  parent: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
  merges: fc.option(fc.nat(), { freq: 3 }),
});

type Edit = typeof anyEdit extends fc.Arbitrary<infer T> ? T : never;

function filesAfter({ kind, rules: written, of }: Edit, before: Made['files'], all: readonly Made[], n: number) {
  const only = (texts: readonly string[]): Made['files'] =>
    texts.length === 0 ? { 'net/.keep': '' } : { 'net/a.yaml': rulesText('a', texts) };
  switch (kind) {
    case 'write':
      return only(written);
    case 'rename':
      return Object.fromEntries(
        Object.entries(before).map(([path, text]) => [path.replace('net/', `net/n${n}-`), text]),
      );
    case 'split':
      return Object.fromEntries(written.map((rule, k) => [`net/s${k}.yaml`, rulesText(`s${k}`, [rule])]));
    case 'break':
      return { ...before, 'net/broken.yaml': `broken: [${n}` };
    case 'revert':
      return all[of % all.length]?.files ?? before;
    case 'elsewhere':
      return { ...before, README: `${n}` };
  }
}

function historyOf(edits: readonly Edit[]): readonly Made[] {
  const made: Made[] = [];
  for (const [n, edit] of edits.entries()) {
    const first = n - 1 - Math.min(edit.parent, Math.max(0, n - 1));
    const second = n > 2 && edit.merges !== null ? edit.merges % (n - 1) : first;
    const parents = n === 0 ? [] : second === first ? [first] : [first, second];
    made.push({ parents, files: filesAfter(edit, made[first]?.files ?? {}, made, n) });
  }
  return made;
}

/** The commits whose verdict is that of none of the commits before them which can be read; `broken` are those that cannot. */
function expected(made: readonly Made[]): { readonly changed: readonly number[]; readonly broken: readonly number[] } {
  const readable = (n: number): readonly number[] =>
    verdicts[n] === null ? (made[n]?.parents ?? []).flatMap(readable) : [n];
  const verdicts = made.map(({ files }) => {
    const manifests = Object.entries(files).flatMap(([path, text]) =>
      path.endsWith('.yaml') ? [{ path: path.slice('net/'.length), text }] : [],
    );
    try {
      return manifests.length === 0 ? 'accept' : explain({ manifests, packet }).verdict;
    } catch {
      return null;
    }
  });
  const reached = new Set<number>();
  const reach = (n: number): void => {
    if (reached.has(n)) return;
    reached.add(n);
    made[n]?.parents.forEach(reach);
  };
  reach(made.length - 1);
  const numbers = made.map((_, n) => n).filter((n) => reached.has(n));
  const changed = numbers.filter((n) => {
    const before = (made[n]?.parents ?? []).flatMap(readable).map((parent) => verdicts[parent]);
    return verdicts[n] !== null && (before.length === 0 ? ['accept'] : before).every((one) => one !== verdicts[n]);
  });
  return { changed, broken: numbers.filter((n) => verdicts[n] === null) };
}

interface Answered {
  readonly verdict: string;
  readonly changes: readonly { commits: { id: string }[]; before: { verdict: string }; after: { verdict: string } }[];
  readonly problems: readonly { summary: string }[];
}

interface Logged {
  readonly changes: readonly {
    commits: { id: string }[];
    opens: { destinations: string[] }[];
    closes: { destinations: string[] }[];
  }[];
}

const byText = (texts: Iterable<string>): readonly string[] => [...texts].sort();

it('blame names the commits whose verdict differs from their parents’, and log says the same of all traffic', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyEdit, { minLength: 1, maxLength: 12 }), async (edits) => {
      const where = mkdtempSync(join(folder, 'r'));
      const made = historyOf(edits);
      const ids = commit(made, where);
      mkdirSync(join(where, 'net'));
      const { changed, broken } = expected(made);
      const answer = await cli(['blame', ...question, '--output', 'json'], { cwd: where });
      expect(answer.code).toBe(0);
      const { changes, problems } = JSON.parse(answer.out) as Answered;
      const blamed = changes.map(({ commits }) => commits[0]?.id ?? '');
      expect(byText(blamed)).toEqual(byText(changed.map((n) => ids[n] ?? '')));
      expect(byText(problems.map(({ summary }) => /commit ([0-9a-f]{12})/.exec(summary)?.[1] ?? summary))).toEqual(
        byText(broken.map((n) => ids[n]?.slice(0, 12) ?? '')),
      );
      const log = JSON.parse((await cli(['log', 'net', '--output', 'json'], { cwd: where })).out) as Logged;
      const logged = new Set(log.changes.map(({ commits }) => commits[0]?.id ?? ''));
      expect(blamed.filter((id) => !logged.has(id))).toEqual([]);
    }),
    { numRuns: runs(200) },
  );
});

describe('a history', () => {
  const times = 'expires: 2026-02-01T00:00:00Z, ticket: NET-12';
  function expiring(): readonly string[] {
    mkdirSync(join(folder, 'net'));
    return commit([
      { files: { 'net/a.yaml': rulesText('a', [closed]) }, parents: [] },
      { files: { 'net/a.yaml': rulesText('a', [closed, `${open}, ${times}`]) }, parents: [0] },
      { files: { 'net/b.yaml': rulesText('b', [closed, `${open}, ${times}`]) }, parents: [1] },
      { files: { 'net/b.yaml': rulesText('b', [closed]) }, parents: [2], at: '2026-03-01T00:00:00Z' },
    ]);
  }

  it('tells of a rule that ended by itself, and of the commit that set its time', async () => {
    const [, set = ''] = expiring();
    const { out } = await cli(['blame', ...question]);
    expect(out).toMatch(/^tcp 10\.1\.2\.3 port 443 .*: drop, since 2026-02-01T00:00:00Z$/m);
    expect(out).toContain(`2026-02-01T00:00:00Z  a rule began or ended, as set by ${set.slice(0, 12)}  A: commit 1`);
    expect(out).toMatch(/before {2}b\/r1 {2}accept 10\.1\.0\.0\/16 tcp 443 {2}b\.yaml:7.*ticket NET-12/);
    const log = await cli(['log', 'net', '--since', '2026-01-15']);
    expect(log.out.trim().split('\n')).toEqual([
      `2026-02-01T00:00:00Z  a rule began or ended, as set by ${set.slice(0, 12)}  A: commit 1`,
      '    closes  10.1.0.0/16 tcp 443 for everyone',
    ]);
  });

  it('is cut by --since, and the verdict of now is still said', async () => {
    expiring();
    const { out } = await cli(['blame', ...question, '--since', '2026-02-02']);
    expect(out).toBe("tcp 10.1.2.3 port 443 from nobody's device: drop, no commit changed it\n");
    expect((await cli(['log', 'net', '--since', '2026-02-02'])).out).toBe('No traffic was opened or closed.\n');
    expect((await cli(['log', 'net', '--since', 'yesterday'])).err).toContain('--since yesterday is not a time');
  });

  it('is a table for a spreadsheet and for a page', async () => {
    expiring();
    const { out } = await cli(['blame', ...question, '--output', 'csv']);
    expect(out.split('\r\n')[0]).toBe('when,by,commit,author,subject,verdict,rule before,rule after');
    expect(out.split('\r\n')).toHaveLength(5);
    expect((await cli(['log', 'net', '--output', 'markdown'])).out).toContain('0.0.0/8 for everyone |');
  });

  it('counts a merge only for what it changes by itself', async () => {
    mkdirSync(join(folder, 'net'));
    const [, , , merge = ''] = commit([
      { files: { 'net/a.yaml': rulesText('a', [closed]) }, parents: [] },
      { files: { 'net/a.yaml': rulesText('a', [closed]), 'net/b.yaml': rulesText('b', [open]) }, parents: [0] },
      { files: { 'net/a.yaml': rulesText('a', [closed]), README: '' }, parents: [0] },
      {
        files: {
          'net/a.yaml': rulesText('a', [closed, 'action: accept, destination: 10.9.9.9']),
          'net/b.yaml': rulesText('b', [open]),
        },
        parents: [2, 1],
      },
    ]);
    const log = JSON.parse((await cli(['log', 'net', '--output', 'json'])).out) as Logged;
    expect(log.changes[0]).toMatchObject({
      commits: [{ id: merge }],
      opens: [{ destinations: ['10.9.9.9'] }, { destinations: ['10.9.9.9'] }, { destinations: ['10.9.9.9'] }],
      closes: [],
    });
  });

  it('needs a packet, a work tree, a commit and all of the history', async () => {
    mkdirSync(join(folder, 'net'));
    expect((await cli(['blame', ...question])).err).toContain('is not in a Git work tree');
    execFileSync('git', ['init', '-q', '--template=', folder]);
    expect((await cli(['log', 'net'])).err).toContain('the repository has no commit');
    rmSync(join(folder, '.git'), { recursive: true });
    commit([
      { files: { 'net/a.yaml': rulesText('a', [closed]) }, parents: [] },
      { files: {}, parents: [0] },
    ]);
    expect((await cli(['blame', 'net'])).err).toContain('nothing is asked');
    expect((await cli(['blame', ...question.slice(0, 5)])).err).toContain('--port is missing');
    writeFileSync(join(folder, 'net/a.yaml'), rulesText('a', [closed]));
    expect((await cli(['blame', ...question, '--user', 'carol'])).err).toContain('there is no user carol');
    const shallow = join(folder, 'shallow');
    execFileSync('git', ['clone', '-q', '--depth', '1', `file://${folder}`, shallow], { stdio: 'pipe' });
    mkdirSync(join(shallow, 'net'));
    const cut = await cli(['log', 'net'], { cwd: shallow });
    expect([cut.code, cut.err]).toEqual([1, expect.stringContaining('this clone is shallow')]);
    expect(cut.err).toContain('git fetch --unshallow');
  });
});
