import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseArguments } from '../../src/cli/arguments.ts';
import { formatFlag, type OptionName, options } from '../../src/cli/options.ts';
import { type CliRun, ended, spawnReconcile } from '../cli/harness.ts';
import { makeUpstream, serveGit } from '../controller/support/git-host.ts';
import { until } from '../controller/support/sidecar.ts';
import { elsewhere, foreignFlags } from './elsewhere.ts';
import { type DocumentedLine, documentedFlags, documentedLines, root } from './lines.ts';
import {
  type DocsWorld,
  drifted,
  giveEnd,
  hasOpenssl,
  inWorld,
  liveDestinations,
  serveTls,
  sharedTemplate,
  untouched,
  wanted,
} from './world.ts';

const lines = documentedLines();
const own = lines.filter(({ text }) => text.startsWith('reconcile '));
/**
 * What another test executes: a packet filter in programs.test.ts, what status, confirm and fleet.test.ts are named for, and lines
 * about files that the page itself shows in outputs.test.ts.
 */
const kernel = (text: string): boolean =>
  /--enforcement|--nft-netns|^reconcile (?:status|confirm)\b|--confirm-with|--fleet|fridays\.yaml|contractors\/audit/.test(
    text,
  );
const stays = (text: string): boolean => /^reconcile (?:--watch|watch|simulate)\b/.test(text);

const template = sharedTemplate();

/** What stands on the pages for something that the reader has, and what this reader has. Each is used by some line. */
const given: readonly (readonly [RegExp, (world: DocsWorld) => string])[] = [
  [/A\.\.B\\\|A\\\|DIR \[PATH\\\|DIR\]/g, () => 'policy policy'],
  [/(?<=\S )\[(.*?)\]/g, () => '$1'], // an operand or flag that may be left out: is given
  [/\bPATH(?:…|\.\.\.)/g, () => 'policy/office.yaml policy/metadata.yaml'],
  [/\bPATH\b/g, () => 'policy'],
  [/(?<=extend )(?:SET\/RULE|NAME|office\/web)(?= )/g, () => 'metadata'],
  [/(?<=--until )DATE\b/g, () => '2099-12-31'],
  [/\bPLAN\b|(?<=apply )FILE\b/g, () => 'plan.json'],
  [/--destination A\b/g, () => '--destination 10.1.2.3'],
  [/--port N\b/g, () => '--port 443'],
  [/\bDIR\b/g, () => 'exported'],
  [/\bOLD NEW\b/g, () => 'policy policy'],
  [/main\.\.feature/g, () => 'HEAD..HEAD'],
  [/(?<=fmt )FILE\b/g, () => 'policy/office.yaml'],
  [/\bFILE\b/g, () => 'token'],
  [/\bKIND\b/g, () => 'Rule'],
  [/\bSHELL\b/g, () => 'bash'],
  [/\bSETTINGS\b/g, settingsWithWindow],
  [/https:\/\/vpn\.example\.com/g, ({ simulator }) => simulator.url],
  [/\bCOMMAND\b/g, () => 'validate'],
  [/(?<=undo |show )(?:7|N)\b/g, () => '1'],
  [/(?<=--port |--listen |--listen 127\.0\.0\.1:)8080/g, () => '0'],
  [/\/run\/secrets\//g, ({ folder }) => `${folder}/secrets/`],
  [/\/var\/lib\/reconcile/g, ({ folder }) => `${folder}/state`],
];

function settingsWithWindow({ folder }: DocsWorld): string {
  writeFileSync(join(folder, 'settings.yaml'), 'windows: [{kind: deny, schedule: "* * * * *", duration: 1h}]\n');
  return 'settings.yaml';
}

/** The words of a line in this world. A span that leaves operands out, because the sentence is about the command, gets them. */
function wordsOf({ text, span }: DocumentedLine, world: DocsWorld): readonly string[] {
  const filled = given.reduce((line, [pattern, value]) => line.replace(pattern, value(world)), text);
  const words = filled.split(/\s+/).slice(1);
  const parsed = parseArguments(words);
  if (!span || parsed.kind === 'text') return words;
  const isNamed = parsed.command.name !== 'apply' || words.includes('apply');
  const isWhole = parsed.command.name === 'apply' && parsed.operands.join() === 'policy';
  const left = isWhole ? [] : (leftOut[parsed.command.name] ?? []).slice(parsed.operands.length + (isNamed ? 0 : 1));
  const asks = !['explain', 'blame'].includes(parsed.command.name) || parsed.flags.destination !== undefined;
  return [...words, ...left, ...(asks ? [] : ['--destination', '10.1.2.3', '--protocol', 'tcp', '--port', '443'])];
}

/** Operands that a sentence leaves out. */
const leftOut: Readonly<Record<string, readonly string[]>> = {
  plan: ['policy'],
  watch: ['policy'],
  validate: ['policy'],
  build: ['policy'],
  fmt: ['policy'],
  test: ['policy'],
  apply: ['plan.json', 'policy'],
  drift: ['policy'],
  explain: ['policy'],
  reach: ['policy'],
  blame: ['policy'],
  log: ['policy'],
  diff: ['policy', 'policy'],
  expiring: ['policy'],
  extend: ['metadata', 'policy'],
  completion: ['bash'],
  init: ['fresh'],
};

/** Lines that the pages say do not end with 0, or that do not in a world in which something is pending; and the page's words. */
const codes: ReadonlyMap<string, { readonly code: number; readonly page: string; readonly words: string }> = new Map([
  ['reconcile plan policy --output markdown --fail-on opens', refused('`--fail-on`')],
  ['reconcile drift policy', pending('`reconcile drift` found drift')],
  ['reconcile drift PATH', pending('`reconcile drift` found drift')],
  ['reconcile drift policy --output github', pending('`reconcile drift` found drift')],
  ['reconcile drift', pending('`reconcile drift` found drift')],
  ['reconcile plan policy --detailed-exitcode', pending('only with `--detailed-exitcode`')],
]);
function refused(words: string) {
  return { code: 3, page: 'docs/reference/commands.md', words };
}
function pending(words: string) {
  return { code: 2, page: 'docs/reference/commands.md', words };
}

describe('every command line of the README and the docs, executed', () => {
  it('there are as many as there should be', () => {
    expect(own.length).toBeGreaterThan(45);
    expect(own.some(({ span }) => span) && own.some(({ span }) => !span)).toBe(true);
  });

  it('what stands for something of the reader’s is on the pages', () => {
    const unused = given.filter(([pattern]) => !own.some(({ text }) => text.search(pattern) >= 0));
    expect(unused.map(([pattern]) => String(pattern))).toEqual([]);
  });

  it('each exit code but 0 is one that the pages name, for a line that is on the pages', () => {
    for (const [text, { code, page, words }] of codes) {
      expect(own.map((line) => line.text)).toContain(text);
      const row = readFileSync(join(root, page), 'utf8')
        .split('\n')
        .find((line) => line.startsWith(`| ${code} |`));
      expect(row).toContain(words);
    }
  });

  it.each(own.filter(({ text }) => !kernel(text) && !stays(text)).map((line) => [line.page, line.text, line] as const))(
    '%s: %s',
    (_, text, line) =>
      inWorld(template(), drifted, async (world) => {
        const words = wordsOf(line, world);
        const parsed = parseArguments(words);
        if (parsed.kind === 'text')
          return expect(parsed.text).toMatch(/Usage: reconcile validate|^Exit codes|settings file/);
        const { name } = parsed.command;
        if (name === 'apply') expect((await world.cli(['--plan', '--save', 'plan.json', 'policy'])).code).toBe(0);
        if (name === 'extend') giveEnd(world);
        const state = { env: { RECONCILE_STATE_DIR: 'exported' } };
        const looksBack = name === 'history' || name === 'undo';
        if (looksBack) expect((await world.cli(['policy'], state)).code).toBe(0);
        const before = world.simulator.requests().length;
        const run = await world.cli(words, looksBack ? state : {});
        expectPlainWords(run);
        expect([run.code, run.out + run.err]).toEqual([codes.get(text)?.code ?? 0, expect.stringMatching(says(name))]);
        const writes = world.simulator
          .requests()
          .slice(before)
          .filter(({ method }) => method !== 'GET');
        if (name === 'apply') expect(liveDestinations(world)).toEqual(wanted);
        else if (name === 'undo' && parsed.flags['dryRun'] !== true)
          expect(liveDestinations(world)).not.toEqual(wanted);
        else expect(writes).toEqual([]);
      }),
  );

  it.each(
    own
      .filter(({ text }) => !kernel(text) && stays(text) && (hasOpenssl || !text.includes('git.example.com')))
      .map((line) => [line.page, line.text, line] as const),
  )('%s: %s', (_, text, line) =>
    inWorld(template(), untouched, async (world) => {
      const git = await documentedGit(world, text);
      const words = wordsOf({ ...line, text: text.replace('https://git.example.com/net/policy.git', git.url) }, world);
      const child = spawnReconcile(words, { cwd: world.folder, env: { ...world.env, ...git.env } });
      const end = ended(child);
      world.onClose(() => child.kill('SIGKILL'));
      if (text.includes('simulate')) {
        await new Promise<void>((resolve) => {
          child.stdout?.on('data', (chunk: string) => {
            if (/^listening http:\/\/127\.0\.0\.1:\d+$/m.test(chunk)) resolve();
          });
          child.once('close', () => resolve());
        });
      } else {
        const all = text.includes('./manifests') || text.includes('--git-url') ? wanted.slice(0, 2) : wanted;
        await until(() => child.exitCode !== null || liveDestinations(world).join() === all.join());
      }
      child.kill('SIGTERM');
      const { code, out, err } = await end;
      expectPlainWords({ out, err });
      expect([code, err]).toEqual([0, expect.not.stringContaining('"level":"error"')]);
    }),
  );
});

/** Neither wrong usage, nor a mistake of the program, nor a stack. */
function expectPlainWords({ out, err }: Pick<CliRun, 'out' | 'err'>): void {
  expect(out + err).not.toMatch(/\[usage\]|internal-error|in a way it should not|^ +at .*:\d+:\d+/m);
}

/** What each command says when it has done its work. */
function says(name: string): RegExp {
  const planned = /^1 to create, 1 to replace, 1 to delete|^\d+ to create|^### reconcile: \d+ to /m;
  const words: Readonly<Record<string, RegExp>> = {
    plan: planned,
    init: /In sync|rules; no problems/,
    version: /^\d+\.\d+\.\d+(-dev)?\n/,
    validate: /: \d rules(?: and the Configuration)?; (no problems|\d)/,
    export: /kind: Rule|files? written to/,
    build: /^metadata: \{name: /m,
    fmt: /files?, 0 changed|0 would change/,
    schema: /"title": "Firezone|"targets": \{/,
    test: /2 cases passed, 0 failed/,
    reach: /^who/m,
    blame: /^tcp 10\.1\.2\.3 port 443 .*: (accept|drop), (since \d{4}-|no commit changed it)/m,
    log: /^\d{4}-.*As it was applied|No traffic was opened|changes.csv|^\| when/m,
    expiring: /rules? of policy ends? within|::notice/,
    extend: /ends at 2100-01-01T00:00:00Z/,
    diff: /^No |opens nothing|unchanged|No traffic changes/m,
    explain: /: (accept|drop)\n {2}decided by/,
    apply: /a fresh read of the server agrees/,
    snapshot: /"kind": "snapshot"|written/,
    history: /2 created, 2 deleted, by \S+|1 record removed/,
    undo: /^Plan for http.* undo of apply 1|a fresh read of the server agrees/m,
    drift: /3 objects differ|^::warning .*title=drift::/m,
    doctor: /ok API: answers; 3 rules/,
    completion: /^complete .*_reconcile reconcile$/m,
  };
  return words[name] ?? /^$/;
}

/** A Git host with the repository of the page, where the line names one. */
async function documentedGit(world: DocsWorld, text: string) {
  if (!text.includes('git.example.com')) return { url: '', env: {} };
  const upstream = makeUpstream();
  const host = await serveGit(upstream);
  host.password = 'git-token-of-the-test';
  world.write('secrets/git-token', `${host.password}\n`);
  upstream.commit({ 'prod/office.yaml': world.read('manifests/office.yaml'), 'other/broken.yaml': 'kind: [' });
  world.onClose(() => host.close().then(() => upstream.remove()));
  const url = await serveTls(template(), host.url, world.onClose);
  return { url: `${url}/repo.git`, env: { RECONCILE_GIT_CA_FILE: join(world.folder, 'ca.pem') } };
}

describe('command lines of other programs', () => {
  const others = lines.filter(({ text }) => !text.startsWith('reconcile '));

  it.each(others.map(({ page, text }) => [page, text] as const))('%s: %s is executed by a named test', (_, text) => {
    const entry = elsewhere.find(({ line }) => line === text);
    expect(entry, 'name the test that executes it in test/docs/elsewhere.ts, or why none can').toBeDefined();
    if (entry?.test !== undefined) expect(readFileSync(join(root, entry.test), 'utf8')).toContain(entry.evidence);
  });

  it('no entry of that list is about a line that is gone, or lacks its reason', () => {
    expect(elsewhere.filter(({ line }) => !others.some(({ text }) => text === line))).toEqual([]);
    expect(elsewhere.filter(({ reason }) => reason.length < 20)).toEqual([]);
    expect(elsewhere.filter(({ line }) => line.startsWith('reconcile '))).toEqual([]);
  });
});

describe('every flag that a page names', () => {
  const ownFlags = new Set([
    '--help',
    '--version',
    '--plan',
    '--watch',
    ...(Object.keys(options) as OptionName[]).map(formatFlag),
  ]);

  it.each([...documentedFlags()])('%s (%s) is a flag of reconcile, or of a program that is named', (flag) => {
    expect(ownFlags.has(flag) || foreignFlags.has(flag), flag).toBe(true);
  });

  it('no program that is named has a flag that no page names', () => {
    expect([...foreignFlags].filter((flag) => !documentedFlags().has(flag))).toEqual([]);
  });
});
