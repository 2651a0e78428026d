import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDirectorySource } from '../../../src/adapters/source/directory.ts';
import type { GitSource } from '../../../src/adapters/source/git.ts';
import { parseRemote } from '../../../src/adapters/source/git-address.ts';
import { explainGitError, openHistory, readAtRef } from '../../../src/adapters/source/git-ref.ts';
import { GitError } from '../../../src/adapters/source/git-repository.ts';
import { defaultLimits } from '../../../src/desired/context.ts';
import type { Problem } from '../../../src/model/problem.ts';
import { makeUpstream, serveGit } from '../../controller/support/git-host.ts';
import type { GitWorld } from '../../controller/support/git-world.ts';
import { makeGitWorld } from '../../controller/support/git-world.ts';

const signal = new AbortController().signal;
const rule =
  'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: web}\nspec: {action: accept, destination: 10.0.0.1}\n';

let world: GitWorld;
let upstream: GitWorld['upstream'];
let host: GitWorld['host'];
let state: string;
let source: GitWorld['source'];

beforeEach(async () => {
  world = await makeGitWorld();
  ({ upstream, host, state, source } = world);
});

afterEach(() => world.close());

function texts(reading: Awaited<ReturnType<GitSource['read']>>): Record<string, string> {
  return Object.fromEntries(
    (reading.content?.files ?? []).map((file) => [file.path, Buffer.from(file.bytes).toString()]),
  );
}

function clonedKilobytes(): number {
  const packs = upstream.git('-C', path.join(state, 'clone.git'), 'count-objects', '-v');
  return Number(/size-pack: (\d+)/.exec(packs)?.[1]);
}

describe('a Git source', () => {
  it('reads the manifests of a branch as objects, without a checkout', async () => {
    const commit = upstream.commit({
      'rules/web.yaml': rule,
      'rules/b.yml': 'b: 1\n',
      'README.md': 'x',
      '.github/ci.yaml': 'x',
    });
    const reading = await source().read(signal);
    expect(reading.problems).toEqual([]);
    expect(reading.content?.revision).toBe(commit);
    expect(texts(reading)).toEqual({ 'rules/b.yml': 'b: 1\n', 'rules/web.yaml': rule });
    expect(existsSync(path.join(state, 'clone.git', 'rules'))).toBe(false);
  });

  it('names JSON files beside manifests that seem to hold rules, by their names alone', async () => {
    const rules = '{"data": [{"action": "accept", "destination": "10.0.0.0/8"}]}';
    upstream.commit({ 'rules.json': rules, 'net/dump.json': rules, 'package.json': '{}' });
    const [none] = (await source().read(signal)).problems;
    expect(none).toMatchObject({
      code: 'no-manifests',
      summary: expect.stringContaining('(net/dump.json, package.json, rules.json)'),
    });
    upstream.commit({ 'net/a.yaml': rule });
    const reading = await source().read(signal);
    const places = (found: readonly Problem[] = []) => found.map(({ code, place }) => [code, place?.file]);
    expect(places(reading.problems)).toEqual([['json-not-read', 'rules.json']]);
    expect(Object.keys(texts(reading))).toEqual(['net/a.yaml']);
  });

  it('reads the files that manifests name, whatever their names, and fetches no other', async () => {
    upstream.commit({
      'net/a.yaml': 'a: 1\n',
      'net/saml/okta.metadata': '<x/>',
      'net/.secrets/oidc.yaml': 's3cret\n',
      'net/big.bin': 'x'.repeat(300_000),
      'above.txt': 'x',
    });
    const seen: string[] = [];
    const references = async (files: readonly { readonly path: string }[]): Promise<readonly string[]> => {
      seen.push(...files.map((file) => file.path));
      return ['saml/okta.metadata', '.secrets/oidc.yaml', 'a.yaml', 'missing', 'saml', '../above.txt'];
    };
    const git = source({ at: 'net', references });
    expect(texts(await git.read(signal))).toEqual({
      'a.yaml': 'a: 1\n',
      '.secrets/oidc.yaml': 's3cret\n',
      'saml/okta.metadata': '<x/>',
    });
    expect(seen).toEqual(['a.yaml']);
    expect(clonedKilobytes()).toBeLessThan(20);
  });

  it('starts git once for each folder of the longest path, however many files manifests name, and looks for no endless one', async () => {
    const folder = 'd/'.repeat(30);
    const names = Array.from({ length: 50 }, (_, at) => `.s/${folder}${at}.xml`);
    const commit = upstream.commit({ 'net/a.yaml': 'a: 1\n', [`net/${names[0]}`]: '<x/>', 'net/b/c.xml': '<y/>' });
    const [bin, log] = [path.join(state, 'bin'), path.join(state, 'log')];
    mkdirSync(bin, { recursive: true });
    const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
    writeFileSync(path.join(bin, 'git'), `#!/bin/sh\necho x >> '${log}'\nexec '${real}' "$@"\n`, { mode: 0o755 });
    const environment = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
    const request = { directory: path.join(upstream.work, 'net'), environment, signal, ref: commit };
    const read = (references: readonly string[], limits = defaultLimits) =>
      readAtRef({ ...request, limits, references: () => Promise.resolve(references) });
    const found = await read([...names, 'b/c.xml', `${'d/'.repeat(2000)}x.xml`]);
    expect(found.ok && found.value.files.map((file) => file.path)).toEqual(['a.yaml', names[0], 'b/c.xml']);
    expect(readFileSync(log, 'utf8').length / 2).toBeLessThan(50);
    const many = await read(names, { ...defaultLimits, files: 49 });
    expect(many).toMatchObject({
      ok: false,
      error: { code: 'source-too-large', summary: 'the manifests name more than 49 files' },
    });
  });

  it('threat 5: a link that a manifest names is not followed', async () => {
    upstream.commit({
      'a.yaml': 'a: 1\n',
      'file.txt': 'text',
      link: { link: 'file.txt' },
      '.out': { link: '../../../../../../../../../etc/passwd' },
    });
    const git = source({ references: () => Promise.resolve(['link', '.out']) });
    expect(texts(await git.read(signal))).toEqual({ 'a.yaml': 'a: 1\n' });
  });

  it('looks anew for what manifests name once it is told that they are read in another way (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n', one: '1', two: '2' });
    let named = ['one'];
    const git = source({ references: () => Promise.resolve(named) });
    expect(Object.keys(texts(await git.read(signal)))).toEqual(['a.yaml', 'one']);
    named = ['two'];
    expect(Object.keys(texts(await git.read(signal)))).toEqual(['a.yaml', 'one']);
    git.forget();
    expect(Object.keys(texts(await git.read(signal)))).toEqual(['a.yaml', 'two']);
  });

  it('asks the remote for the commit and fetches nothing while it stays', async () => {
    upstream.commit({ 'web.yaml': rule });
    const git = source();
    await git.read(signal);
    host.requests.length = 0;
    const again = await git.read(signal);
    expect(again.problems).toEqual([]);
    expect(texts(again)).toEqual({ 'web.yaml': rule });
    expect(host.requests.map((request) => request.split('?')[0])).toEqual([
      'GET /repo.git/info/refs',
      'POST /repo.git/git-upload-pack',
    ]);
  });

  it('sees a push, a deleted file and a change of one file among others', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n', 'b.yaml': 'b: 1\n' });
    const git = source();
    await git.read(signal);
    upstream.commit({ 'a.yaml': null, 'b.yaml': 'b: 2\n', 'c.yaml': 'c: 3\n' });
    expect(texts(await git.read(signal))).toEqual({ 'b.yaml': 'b: 2\n', 'c.yaml': 'c: 3\n' });
  });

  it('reads only below its path, which counts as the root', async () => {
    upstream.commit({ 'net/prod/a.yaml': 'a: 1\n', 'net/dev/b.yaml': 'b: 1\n', 'c.yaml': 'c: 1\n' });
    expect(texts(await source({ at: 'net/prod' }).read(signal))).toEqual({ 'a.yaml': 'a: 1\n' });
  });

  it('follows tags, full names, HEAD and commit ids (long)', async () => {
    const first = upstream.commit({ 'a.yaml': 'a: 1\n' });
    upstream.git('tag', '-a', 'v1', '-m', 'v1');
    upstream.git('push', '-q', 'origin', 'v1');
    const second = upstream.commit({ 'a.yaml': 'a: 2\n' });
    for (const [ref, commit] of [
      ['v1', first],
      ['refs/tags/v1', first],
      [first, first],
      ['HEAD', second],
      ['refs/heads/main', second],
    ] as const) {
      const reading = await source({ ref }).read(signal);
      expect([ref, reading.problems, reading.content?.revision]).toEqual([ref, [], commit]);
    }
  });

  it('works with a server that cannot leave out blobs', async () => {
    const plain = makeUpstream({ filter: false, anyId: false });
    const server = await serveGit(plain);
    try {
      plain.commit({ 'a.yaml': 'a: 1\n' });
      const remote = parseRemote(`${server.url}/repo.git`, ['http']);
      if (!remote.ok) throw new Error(remote.error);
      const git = source({ remote: remote.value });
      expect(texts(await git.read(signal))).toEqual({ 'a.yaml': 'a: 1\n' });
      plain.commit({ 'b.yaml': 'b: 1\n' });
      expect(texts(await git.read(signal))).toEqual({ 'a.yaml': 'a: 1\n', 'b.yaml': 'b: 1\n' });
    } finally {
      await server.close();
      plain.remove();
    }
  });

  it('reads an applied revision from its clone while the remote is away, also after a restart', async () => {
    const first = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const git = source();
    await git.read(signal);
    upstream.commit({ 'a.yaml': 'a: 2\n' });
    await git.read(signal);
    host.mode = 'black-hole';
    expect(texts(await source().readAt(first, signal))).toEqual({ 'a.yaml': 'a: 1\n' });
  });

  it('reads a revision that another replica applied, though this clone never saw it (long)', async () => {
    const applied = upstream.commit({ 'a.yaml': 'a: 1\n' });
    upstream.commit({ 'a.yaml': 'a: 2\n' });
    const git = source();
    await git.read(signal);
    expect(texts(await git.readAt(applied, signal))).toEqual({ 'a.yaml': 'a: 1\n' });
    const missing = await git.readAt('0'.repeat(40), signal);
    expect(missing.content).toBeNull();
    expect(missing.problems.length).toBe(1);
  });

  it('tells whether a commit descends from another, however far apart (long)', async () => {
    const first = upstream.commit({ 'a.yaml': 'a: 0\n' });
    for (let index = 1; index <= 130; index++) upstream.git('commit', '-q', '--allow-empty', '-m', `${index}`);
    const last = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const git = source();
    await git.read(signal);
    expect(await git.descends(first, last, signal)).toBe('yes');
    expect(await git.descends(last, first, signal)).toBe('no');
    upstream.git('checkout', '-q', '--orphan', 'other');
    const other = upstream.commit({ 'a.yaml': 'a: 3\n' });
    expect((await git.read(signal)).content?.revision).toBe(other);
    expect(await git.descends(last, other, signal)).toBe('no');
  });

  it('keeps blobs it does not need on the server', async () => {
    const big = 'x'.repeat(300_000);
    upstream.commit({ 'a.yaml': 'a: 1\n', 'big.bin': big });
    await source().read(signal);
    expect(clonedKilobytes()).toBeLessThan(20);
  });

  it('reads the token file for each request and keeps the token off disk and out of arguments (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.password = 'canary-1';
    const tokenFile = path.join(state, 'token');
    writeFileSync(tokenFile, 'canary-1\n');
    const git = source({ access: { gitTokenFile: tokenFile } });
    expect((await git.read(signal)).problems).toEqual([]);
    host.password = 'canary-2';
    expect((await git.read(signal)).problems.map((problem) => problem.code)).toEqual(['git-auth']);
    writeFileSync(tokenFile, 'canary-2\n');
    expect((await git.read(signal)).problems).toEqual([]);
    const config =
      readFileSync(path.join(state, 'clone.git', 'config'), 'utf8') + readFileSync(path.join(state, 'askpass'), 'utf8');
    expect(config).not.toContain('canary');
  });
});

/** A tree of files and links; what the readers of Git list of the folder `net` in it, and the work tree too, or a word of the problem. */
const linked: readonly (readonly [
  string,
  Record<string, string | { readonly link: string }>,
  readonly string[] | RegExp,
  (readonly string[])?,
])[] = [
  [
    'a folder beside',
    { 'net/a.yaml': 'a: 1\n', 'net/shared/x.yaml': 'x: 1\n', 'net/b/team': { link: '../shared' } },
    /^b\/team is a symbolic link to a folder/,
    ['a.yaml', 'b/team/x.yaml', 'shared/x.yaml'],
  ],
  [
    'a hidden folder',
    { 'net/a.yaml': 'a: 1\n', 'net/.s/x.yaml': 'x: 1\n', 'net/s': { link: './.s/.' } },
    /^s is a symbolic link to a folder/,
    ['a.yaml', 's/x.yaml'],
  ],
  [
    'a folder outside',
    { 'net/a.yaml': 'a: 1\n', 'shared/x.yaml': 'x: 1\n', 'net/s': { link: '../shared' } },
    /^s is a (?:symbolic link to a folder|link that leads out of the directory)/,
  ],
  ...(
    [
      ['a folder behind a hidden link', { 'net/.to': { link: 'er/in' }, 'net/s': { link: '.to/../.r' } }],
      ['a folder that a partial clone cannot see', { too: { link: 'net' }, 'net/s': { link: '../too/.s' } }],
      ['a folder outside whose name begins with dots', { '..r/x.yaml': 'x: 1\n', 'net/s': { link: '../..r' } }],
      ['a folder with a line feed', { 'net/.s\nb/x.yaml': 'x: 1\n', 'net/s': { link: '.s\nb' } }],
      ['a folder through a link that begins with a dot', { 'net/.to': { link: './.s' }, 'net/s': { link: '.to' } }],
      ['a folder too deep to look for', { 'net/s': { link: `${'d/'.repeat(64)}d` } }],
      ['a folder from the top', { 'net/s': { link: '/srv/policy/net/.s' } }],
    ] as const
  ).map(([name, links]): (typeof linked)[number] => [
    name,
    { 'net/a.yaml': 'a: 1\n', 'net/er/in/x': '', 'net/er/.r/x.yaml': 'x: 1\n', 'net/.s/x.yaml': 'x: 1\n', ...links },
    /^s is a symbolic link (?:to|that may lead to) a folder/,
    [],
  ]),
  [
    'its own folder',
    { 'net/a.yaml': 'a: 1\n', 'net/again': { link: '.' } },
    /^again is a (?:symbolic link to a folder|link that leads back)/,
  ],
  [
    'a file outside',
    { 'net/a.yaml': { link: '../x.yaml' }, 'x.yaml': 'x: 1\n' },
    /^a.yaml is a (?:symbolic link, which|link that leads out of the directory)/,
  ],
  ...(
    [
      ['a manifest beside', 'z.yaml', 'd/z.yaml', ['d/z.yaml', 'z.yaml']],
      ['a document as a manifest', 'z.yaml', 'd/z.txt', ['d/z.yaml', 'z.yaml']],
      ['nothing out of the repository', 'z', '../../../../../../../../../gone', ['d/z.yaml']],
    ] as const
  ).map(([name, link, target, there]): (typeof linked)[number] => [
    name,
    { 'net/d/z.yaml': 'z: 1\n', 'net/d/z.txt': 'z: 1\n', [`net/${link}`]: { link: target } },
    /^z(?:\.yaml)? is a symbolic link(?:,| that may lead to a folder,) which is not followed/,
    there,
  ]),
  [
    'hidden files, documents, and nothing',
    {
      'net/a.yaml': 'a: 1\n',
      '.lint': '',
      'README.md': '',
      'net/.x': '',
      'net/lint': { link: '../.lint' },
      'net/README.md': { link: '../README.md' },
      'net/x': { link: '.x' },
      'net/gone': { link: './nowhere' },
      'net/file': { link: 'a.yaml/x' },
      'net/.hidden': { link: '..' },
    },
    ['a.yaml'],
  ],
  [
    'a folder without manifests, and to a document through links',
    {
      'net/a.yaml': 'a: 1\n',
      'net/docs/v1/deep/a.md': '',
      'net/docs/latest': { link: 'v1' },
      'net/next': { link: 'docs/latest/deep' },
      'net/libx.so': { link: 'libx.so.1' },
      'net/libx.so.1': { link: 'libx.so.1.2' },
      'net/libx.so.1.2': '',
      'net/t': { link: 'a.yaml' },
      'net/s': { link: 't' },
    },
    ['a.yaml'],
  ],
  [
    'a folder with a link in it',
    { 'net/a.yaml': 'a: 1\n', 'net/.s/x': { link: '../a.yaml' }, 'net/s': { link: '.s' } },
    /^s is a symbolic link to a folder/,
    ['a.yaml'],
  ],
  [
    'a folder behind a hidden link whose name breaks a line',
    {
      'net/a.yaml': 'a: 1\n',
      'net/.n': { link: 'gone\n1'.repeat(3) },
      'net/r': { link: '.n' },
      'net/.s/x.yaml': 'x: 1\n',
      'net/s': { link: '.s' },
    },
    /^(?:r|s) is a symbolic link/,
    ['a.yaml', 's/x.yaml'],
  ],
];

describe('links', () => {
  it.each(linked.map(([name, files, expected, there]) => ({ name, files, expected, there })))(
    'to $name are never left out where a work tree has manifests',
    async ({ files, expected, there }) => {
      const commit = upstream.commit(files);
      const folder = path.join(upstream.work, 'net');
      const readings = [
        await createDirectorySource(folder, defaultLimits).read(signal),
        await source({ at: 'net' }).read(signal),
      ];
      const request = { directory: folder, environment: process.env, signal, limits: defaultLimits };
      const atRef = await readAtRef({ ...request, ref: commit, references: () => Promise.resolve([]) });
      readings.push({ content: atRef.ok ? atRef.value : null, problems: atRef.ok ? [] : [atRef.error] });
      const history = await openHistory({ ...request, files: [] });
      if (!history.ok) throw new Error(history.error.summary);
      for await (const { content } of history.value.contents)
        readings.push({ content: content.ok ? content.value : null, problems: content.ok ? [] : [content.error] });
      for (const [index, { content, problems }] of readings.entries()) {
        if (index === 0 && there?.length === 0) continue;
        const wanted = index === 0 ? (there ?? expected) : expected;
        if (wanted instanceof RegExp) expect(problems[0]?.summary).toMatch(wanted);
        else expect([content?.files.map((file) => file.path), problems]).toEqual([wanted, []]);
      }
      expect(readings).toHaveLength(4);
    },
  );
});

it.each([
  ['git-not-started', /^install git;/],
  ['git-timeout', /^run it again, and check the disk and the repository: git fsck;/],
] as const)('says what helps with %s of a repository here', (code, hint) => {
  expect(explainGitError(new GitError(code, 'no answer')).hint).toMatch(hint);
});
