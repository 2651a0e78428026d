import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { effectBetween, explain } from '../../src/index.ts';
import { readNetworks } from '../../src/model/address.ts';
import type { DesiredRule } from '../../src/model/rule.ts';
import { makeTimeline } from '../../src/policy/timeline.ts';
import { makeTrafficDocument } from '../../src/report/traffic-json.ts';
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
  readonly subject?: string;
}

const begin = Date.parse('2026-01-01T00:00:00Z');

/** Commits these with one run of git; the last is HEAD. Gives their ids. */
function commit(made: readonly Made[], where = folder): readonly string[] {
  execFileSync('git', ['init', '-q', '--template=', '-b', 'main', where]);
  const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
  const script = made.map(({ files, parents, at, subject }, n) => {
    const time = at === undefined ? begin / 1000 + n * 3600 : Date.parse(at) / 1000;
    const from = parents.map((parent, k) => `${k === 0 ? 'from' : 'merge'} :${parent + 1}\n`).join('');
    const contents = Object.entries(files).map(([path, text]) => `M 100644 inline ${path}\n${data(text)}`);
    const who = `author A <a@example.test> ${time} +0000\ncommitter A <a@example.test> ${time} +0000\n`;
    const reset = parents.length === 0 ? `reset refs/heads/c${n}\n` : '';
    return `${reset}commit refs/heads/c${n}\nmark :${n + 1}\n${who}${data(subject ?? `commit ${n}`)}${from}deleteall\n${contents.join('')}\n`;
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
const rules = [
  closed,
  `${open}, expires: 2026-01-01T05:30:00Z`,
  'action: drop, destination: 10.1.2.3',
  'action: accept, destination: 10.1.2.0/24, notBefore: 2026-01-01T06:30:00Z',
];
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

type Manifests = Parameters<typeof explain>[0]['manifests'];

const noRules = 'apiVersion: firezone/v0\nkind: Network\nmetadata: {name: none}\nspec: {cidrs: [10.0.0.0/8]}\n';
const before: Manifests = [{ path: 'none.yaml', text: noRules }];

/** The policy of a commit; null for one that cannot be read. */
function policyOf({ files }: Made): Manifests | null {
  const manifests = Object.entries(files).flatMap(([path, text]) =>
    path.endsWith('.yaml') ? [{ path: path.slice('net/'.length), text }] : [],
  );
  if (manifests.length === 0) return before;
  try {
    explain({ manifests, packet });
    return manifests;
  } catch {
    return null;
  }
}

/** What the branch itself was, told by the library: its first parents that can be read, oldest first, each with the time from which it counts. */
function mainlineOf(made: readonly Made[]) {
  const line: number[] = [];
  for (let n: number | undefined = made.length - 1; n !== undefined; n = made[n]?.parents[0]) line.unshift(n);
  return line.flatMap((n) => {
    const policy = policyOf(made[n] as Made);
    return policy === null ? [] : [{ n, policy, at: begin + n * 3_600_000 }];
  });
}

/** All that HEAD holds. */
function reachableOf(made: readonly Made[]): readonly number[] {
  const reached = new Set([made.length - 1]);
  for (const n of reached) for (const parent of made[n]?.parents ?? []) reached.add(parent);
  return [...reached];
}

interface Answered {
  readonly verdict: string;
  readonly changes: readonly {
    readonly cause: string;
    readonly commits: { id: string }[];
    readonly before: { verdict: string };
    readonly after: { verdict: string };
  }[];
  readonly problems: readonly { summary: string }[];
}

interface Logged {
  readonly changes: readonly {
    readonly cause: string;
    readonly commits: readonly { readonly id: string }[];
    readonly opens: readonly unknown[];
    readonly closes: readonly unknown[];
  }[];
}

const byText = (texts: Iterable<string>): readonly string[] => [...texts].sort();

it.each([
  ['', 5],
  [' (long)', runs(200)],
])(
  'blame names what changed the branch’s own verdict, each change beginning where the one before ended, and log what each opened and closed%s',
  async (_, numRuns) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEdit, { minLength: 1, maxLength: 12 }), async (edits) => {
        const where = mkdtempSync(join(folder, 'r'));
        const made = historyOf(edits);
        const ids = commit(made, where);
        mkdirSync(join(where, 'net'));
        const line = mainlineOf(made);
        fc.pre(line.some(({ policy }) => policy !== before));
        const answer = await cli(['blame', ...question, '--output', 'json'], { cwd: where });
        expect(answer.code).toBe(0);
        const { verdict, changes, problems } = JSON.parse(answer.out) as Answered;
        const chain = [verdict, ...changes.map((one) => one.before.verdict)];
        expect(chain).toEqual([...changes.map((one) => one.after.verdict), 'accept']);
        expect(verdict).toBe(explain({ manifests: line.at(-1)?.policy ?? before, packet }).verdict);
        const byCommit = ({ cause }: { readonly cause: string }): boolean => cause === 'commit';
        const former = (k: number): Manifests => line[k - 1]?.policy ?? before;
        const blamed = line.filter(({ policy, at }, k) => {
          const [then, now] = [former(k), policy].map((manifests) => explain({ manifests, packet, at }).verdict);
          return then !== now;
        });
        expect(byText(changes.filter(byCommit).map(({ commits }) => commits[0]?.id ?? ''))).toEqual(
          byText(blamed.map(({ n }) => ids[n] ?? '')),
        );
        const broken = reachableOf(made).flatMap((n) =>
          policyOf(made[n] as Made) === null ? [ids[n]?.slice(0, 12) ?? ''] : [],
        );
        expect(byText(problems.map(({ summary }) => /commit ([0-9a-f]{12})/.exec(summary)?.[1] ?? summary))).toEqual(
          byText(broken),
        );
        const log = JSON.parse((await cli(['log', 'net', '--output', 'json'], { cwd: where })).out) as Logged;
        const logged = log.changes.filter(byCommit);
        const told = line.flatMap(({ n, policy, at }, k) => {
          const effect = effectBetween({ manifests: former(k), at }, { manifests: policy, at });
          if (effect.opens.length + effect.closes.length === 0) return [];
          return [[ids[n], effect.opens.map(makeTrafficDocument), effect.closes.map(makeTrafficDocument)]];
        });
        expect(logged.map(({ commits, opens, closes }) => [commits[0]?.id, opens, closes]).reverse()).toEqual(told);
      }),
      { numRuns },
    );
  },
);

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

  it('is cut by --since, which is said with the verdict of now', async () => {
    expiring();
    const { out } = await cli(['blame', ...question, '--since', '2026-02-02']);
    expect(out).toBe("tcp 10.1.2.3 port 443 from nobody's device: drop, no commit changed it since 2026-02-02\n");
    expect((await cli(['log', 'net', '--since', '2026-02-02'])).out).toBe('No traffic was opened or closed.\n');
    expect((await cli(['log', 'net', '--since', 'yesterday'])).err).toContain('--since yesterday is not a time');
  });

  it('is read with a line on the terminal that changes, from a second on and until the answer', async () => {
    expiring();
    let now = 0;
    const clock = vi.spyOn(systemClock, 'now').mockImplementation(() => (now += 450));
    try {
      const { err } = await cli(['log', 'net'], { stderrIsTerminal: true });
      expect(err).toBe('\r\u001b[Kreading commits: 3 of 4\r\u001b[Kreading commits: 4 of 4\r\u001b[K');
      now = 0;
      expect((await cli(['log', 'net'])).err).toBe('');
      clock.mockImplementation(() => 0);
      expect((await cli(['log', 'net'], { stderrIsTerminal: true })).err).toBe('');
    } finally {
      clock.mockRestore();
    }
  });

  it('is a table for a spreadsheet and for a page', async () => {
    expiring();
    const { out } = await cli(['blame', ...question, '--output', 'csv']);
    expect(out.split('\r\n')[0]).toBe('when,by,commit,author,subject,verdict,rule before,rule after');
    expect(out.split('\r\n')).toHaveLength(5);
    expect((await cli(['log', 'net', '--output', 'markdown'])).out).toContain('0.0.0/8 for everyone |');
  });

  it('of a folder that no commit holds, or that none holds readably, is none', async () => {
    commit([
      { files: { 'old/a.yaml': rulesText('a', [open]) }, parents: [] },
      { files: { 'old/a.yaml': rulesText('a', [open]), 'broken/a.yaml': 'broken: [' }, parents: [0] },
    ]);
    mkdirSync(join(folder, 'broken'));
    mkdirSync(join(folder, 'net'));
    writeFileSync(join(folder, 'net/a.yaml'), rulesText('a', [closed]));
    const log = await cli(['log', 'net']);
    expect(log).toMatchObject({ code: 1, out: '' });
    expect(log.err).toMatch(/no commit holds manifests in .*net\n +hint: commit them first/);
    expect(await cli(['blame', ...question])).toMatchObject({ code: 1, out: '', err: log.err });
    const broken = await cli(['blame', 'broken', ...question.slice(1)]);
    expect(broken).toMatchObject({ code: 1, out: '' });
    expect(broken.err).toMatch(
      /no commit that can be read holds manifests in .*broken[\s\S]*\(commit 1\) is skipped: a\.yaml:1/,
    );
  });

  it('skips and names a commit with a link that has the name of a manifest', async () => {
    commit([{ files: { 'net/a.yaml': rulesText('a', [closed]), 'net/.b.yaml': rulesText('b', [open]) }, parents: [] }]);
    execFileSync('git', ['checkout', '-q', 'main'], { cwd: folder });
    const who = ['-c', 'user.name=a', '-c', 'user.email=a@example.test'];
    for (const target of ['a.yaml', '.b.yaml']) {
      rmSync(join(folder, 'net/link.yaml'), { force: true });
      symlinkSync(target, join(folder, 'net/link.yaml'));
      execFileSync('git', ['add', 'net'], { cwd: folder });
      execFileSync('git', [...who, 'commit', '-qm', `link to ${target}`], { cwd: folder });
    }
    for (const asked of [
      ['blame', ...question],
      ['log', 'net'],
    ]) {
      const { code, out, err } = await cli(asked);
      expect([code, out]).toEqual([0, expect.stringContaining('commit 0')]);
      expect(err.match(/is skipped: link.yaml is a symbolic link, which is not followed/g)).toHaveLength(2);
    }
  });

  it('knows the values that each commit had', async () => {
    const named = rulesText('a', [['action: drop, destination: "$', '{net}"'].join('')]);
    const [, second = '', , fourth = ''] = commit([
      { files: { 'net/a.yaml': rulesText('a', [open]) }, parents: [] },
      { files: { 'net/a.yaml': named, 'values.yaml': 'net: 10.0.0.0/8' }, parents: [0] },
      { files: { 'net/a.yaml': named, 'values.yaml': 'net: 10.0.0.0/8', README: '' }, parents: [1] },
      { files: { 'net/a.yaml': named, 'values.yaml': 'net: 10.64.0.0/16' }, parents: [2] },
    ]);
    mkdirSync(join(folder, 'net'));
    const values = ['--values', 'values.yaml', '--output', 'json'];
    const blamed = JSON.parse((await cli(['blame', ...question, ...values])).out) as Answered;
    expect(blamed.changes.map(({ commits }) => commits[0]?.id)).toEqual([fourth, second]);
    expect(blamed.problems).toEqual([]);
    const log = JSON.parse((await cli(['log', 'net', ...values])).out) as Logged;
    expect(log.changes.map(({ commits }) => commits[0]?.id)).toEqual([fourth, second]);
    rmSync(join(folder, 'marks'));
    const outside = mkdtempSync(join(tmpdir(), 'reconcile-values-'));
    writeFileSync(join(outside, 'v.yaml'), 'net: 10.0.0.0/8\n');
    const same = await cli(['log', 'net', '--values', join(outside, 'v.yaml')]);
    rmSync(outside, { recursive: true });
    expect([same.code, same.err]).toEqual([0, expect.stringContaining('[same-values]')]);
  });

  it('names a merge for all that it changes, and the commits of its branch that changed it', async () => {
    mkdirSync(join(folder, 'net'));
    const main = { 'net/a.yaml': rulesText('a', [closed]) };
    const branch = { 'net/b.yaml': rulesText('b', [open]) };
    const [, , request = '', , , merge = ''] = commit([
      { files: main, parents: [] },
      { files: { ...main, 'net/c.yaml': rulesText('c', ['action: drop, destination: 10.9.9.9']) }, parents: [0] },
      { files: { ...main, ...branch }, parents: [1] },
      { files: { ...main, ...branch, README: '' }, parents: [2] },
      { files: { ...main, README: 'main' }, parents: [0] },
      {
        files: { 'net/a.yaml': rulesText('a', [closed, 'action: accept, destination: 10.9.9.9']), ...branch },
        parents: [4, 3],
      },
    ]);
    const log = JSON.parse((await cli(['log', 'net', '--output', 'json'])).out) as Logged;
    expect(log.changes[0]).toMatchObject({
      commits: [{ id: merge }, { id: request }],
      opens: expect.arrayContaining([expect.objectContaining({ destinations: ['10.9.9.9'] })]),
      closes: [],
    });
    expect(log.changes).toHaveLength(2);
    const { out } = await cli(['blame', ...question]);
    expect(out).toContain(`${merge.slice(0, 12)}  A: commit 5; ${request.slice(0, 12)}  A: commit 2\n`);
  });

  const incident = { at: '2026-11-03T00:00:00Z', files: { 'net/a.yaml': rulesText('a', [closed]) } };
  it.each([
    ['ended before its merge', `${open}, expires: 2026-11-05`, ['2026-01-01T00:00:00Z']],
    ['began before it', `${open}, notBefore: 2026-11-05`, ['2026-11-10T00:00:00Z', '2026-01-01T00:00:00Z']],
  ])('counts a rule of a branch that %s from the merge on', async (_, rule, when) => {
    mkdirSync(join(folder, 'net'));
    commit([
      { files: incident.files, parents: [] },
      { files: { 'net/a.yaml': rulesText('a', [closed, rule]) }, parents: [0], at: '2026-11-02T00:00:00Z' },
      { ...incident, files: { ...incident.files, README: '' }, parents: [0] },
      { files: { 'net/a.yaml': rulesText('a', [closed, rule]) }, parents: [2, 1], at: '2026-11-10T00:00:00Z' },
    ]);
    const clock = vi.spyOn(systemClock, 'wallTime').mockReturnValue(Date.parse('2026-11-20T00:00:00Z'));
    try {
      for (const asked of [
        ['blame', ...question],
        ['log', 'net'],
      ]) {
        const { changes } = JSON.parse((await cli([...asked, '--output', 'json'])).out) as {
          changes: { at: string }[];
        };
        expect(changes.map(({ at }) => at)).toEqual(when);
      }
    } finally {
      clock.mockRestore();
    }
  });

  it('names the merge that opens again what main closed meanwhile, with the author of the rule', async () => {
    mkdirSync(join(folder, 'net'));
    const base = { 'net/a.yaml': rulesText('a', [closed, 'action: accept, destination: 10.1.0.0/16']) };
    const branch = { 'net/b.yaml': rulesText('b', [open]) };
    const [, request, , merge] = commit([
      { files: base, parents: [] },
      { files: { ...base, ...branch }, parents: [0] },
      { files: incident.files, parents: [0] },
      { files: { ...incident.files, ...branch }, parents: [2, 1] },
    ]);
    const { changes } = JSON.parse((await cli(['blame', ...question, '--output', 'json'])).out) as Answered;
    expect(changes[0]).toMatchObject({ commits: [{ id: merge }, { id: request }], after: { verdict: 'accept' } });
  });

  it.each([
    ["Merge branch 'main' of ssh://git@example.com/net", 1],
    ["Merge remote-tracking branch 'origin/main'", 1],
    ["Merge branch 'b' of ssh://git@example.com/fork", 3],
    ["Merge remote-tracking branch 'origin/main' into b", 3],
  ])('%s: the entry is of commit %i', async (subject, by) => {
    mkdirSync(join(folder, 'net'));
    const base = { 'net/a.yaml': rulesText('a', [closed]) };
    const pushed = { ...base, 'net/b.yaml': rulesText('b', [open]) };
    const ids = commit([
      { files: base, parents: [] },
      { files: pushed, parents: [0] },
      { files: { ...base, README: 'mine' }, parents: [0] },
      { files: { ...pushed, README: 'mine' }, parents: [2, 1], subject },
    ]);
    const { changes } = JSON.parse((await cli(['blame', ...question, '--output', 'json'])).out) as Answered;
    expect(changes[0]).toMatchObject({ commits: [{ id: ids[by] }, ...(by === 3 ? [{ id: ids[1] }] : [])] });
  });

  it('needs a packet, a work tree, a commit and all of the history', async () => {
    mkdirSync(join(folder, 'net'));
    expect((await cli(['blame', ...question])).err).toContain('is not in a Git work tree');
    expect((await cli(['log', 'gone'])).err).toContain('gone is not a folder that is there');
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
    // A user of two names goes by the first of them.
    const id = 'ca110c4b-adc3-4574-932a-94461cf85c07';
    const people = `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: p}\nspec: {carol: ${id}, caro: ${id}}\n`;
    writeFileSync(join(folder, 'net/p.yaml'), people);
    writeFileSync(join(folder, 'net/broken.yaml'), 'broken: [');
    expect(await cli(['blame', ...question, '--user', 'carol'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('from a device of'),
    });
    // The name may stand in what cannot be read, or stand for two people: the errors say so, and no other user is blamed.
    writeFileSync(join(folder, 'net/p.yaml'), people.replace('ca110c4b', 'nobody'));
    const unread = await cli(['blame', ...question, '--user', 'carol']);
    expect([unread.code, unread.err]).toEqual([4, expect.stringMatching(/p\.yaml:4:\d+ error/)]);
    writeFileSync(join(folder, 'net/p.yaml'), people);
    writeFileSync(join(folder, 'net/q.yaml'), people.replace('name: p', 'name: q').replace('ca110c4b', 'ca110c4c'));
    const twice = await cli(['blame', ...question, '--user', 'carol']);
    expect([twice.code, twice.err]).toEqual([4, expect.stringContaining('The user `carol` is defined twice.')]);
    rmSync(join(folder, 'net/q.yaml'));
    writeFileSync(join(folder, 'net/p.yaml'), people);
    const shallow = join(folder, 'shallow');
    execFileSync('git', ['clone', '-q', '--depth', '1', `file://${folder}`, shallow], { stdio: 'pipe' });
    mkdirSync(join(shallow, 'net'));
    const cut = await cli(['log', 'net'], { cwd: shallow });
    expect([cut.code, cut.err]).toEqual([1, expect.stringContaining('this clone is shallow')]);
    expect(cut.err).toContain('git fetch --unshallow');
  });

  it('says that a tree is missing, instead of taking its commit for one without manifests', async () => {
    mkdirSync(join(folder, 'net'));
    const [first = ''] = commit([
      { files: { 'net/a.yaml': rulesText('a', [closed]) }, parents: [] },
      { files: { 'net/a.yaml': rulesText('a', []) }, parents: [0] },
    ]);
    const git = (...args: readonly string[]): string => execFileSync('git', args, { cwd: folder, encoding: 'utf8' });
    const root = git('rev-parse', `${first}^{tree}`).trim();
    // Loose objects, so that one can be taken away.
    const objects = join(folder, '.git/objects');
    for (const name of readdirSync(join(objects, 'pack')).filter((one) => one.endsWith('.pack'))) {
      renameSync(join(objects, 'pack', name), join(folder, name));
      execFileSync('git', ['unpack-objects', '-q'], { cwd: folder, input: readFileSync(join(folder, name)) });
    }
    rmSync(join(objects, root.slice(0, 2), root.slice(2)));
    const { code, err } = await cli(['log', 'net']);
    expect([code, err]).toEqual([1, expect.stringContaining('the manifests cannot be read from the repository')]);
  });
});

describe('a commit whose rules end at many times', () => {
  const place = { file: 'a.yaml', line: 1, column: 1 };
  const only = { id: 'c', time: 0, parents: [], author: '', subject: '' };
  const rules = Array.from({ length: 10 }, (_, n): DesiredRule => {
    const [destination] = readNetworks([`10.0.0.${n}`]);
    if (destination === undefined) throw new Error('no network');
    return { name: `r${n}`, place, expires: n + 1, rule: { action: 'accept', destination, ports: null, userId: null } };
  });
  const endingsOf = (since: number) => {
    const timeline = makeTimeline([only], 100, since, 55);
    timeline.add(only, { commit: only, rules, userNames: new Map() });
    const moments = timeline.end();
    return { moments, times: moments.map(({ time }) => time), until: timeline.until() };
  };

  it('looks at them as far as its looks go, says where they end, and goes on from there when it is asked to', () => {
    expect(endingsOf(0)).toMatchObject({ times: [1, 2, 3, 4, 5], until: 6 });
    expect(endingsOf(6)).toMatchObject({ times: [6, 7, 8, 9, 10], until: null });
  });

  it('holds the rules of none of these times', () => {
    const [first] = endingsOf(0).moments;
    expect([first?.before.length, first?.after.length]).toEqual([10, 9]);
    expect(first?.before).not.toBe(first?.before);
  });
});
