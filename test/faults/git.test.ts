import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { GitSource } from '../../src/adapters/source/git.ts';
import { parseGitPath, parseRef, parseRemote } from '../../src/adapters/source/git-address.ts';
import type { GitWorld } from '../controller/support/git-world.ts';
import { makeGitWorld, remoteOf } from '../controller/support/git-world.ts';
import { until } from '../controller/support/sidecar.ts';

const signal = new AbortController().signal;

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

const codes = (reading: Awaited<ReturnType<GitSource['read']>>): readonly string[] =>
  reading.problems.map((one) => one.code);
const names = (reading: Awaited<ReturnType<GitSource['read']>>): readonly string[] | undefined =>
  reading.content?.files.map((file) => file.path);

/** Command lines of all processes that mention `text`. */
function processesWith(text: string): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    })
    .filter(
      (line) => (line.includes(text) && line.startsWith('git')) || (line.includes(text) && line.includes('git-remote')),
    );
}

describe('faults of a Git remote', () => {
  it('fault 18: a remote that never answers is given up at the deadline, with its whole process group', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.mode = 'black-hole';
    const reading = await source({ timeoutMs: 700 }).read(signal);
    expect(codes(reading)).toEqual(['git-timeout']);
    expect(host.requests.length).toBe(1);
    expect(processesWith(host.url)).toEqual([]);
  });

  it('fault 19: a remote that trickles is given up at the same deadline (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.mode = 'trickle';
    const reading = await source({ timeoutMs: 700 }).read(signal);
    expect(codes(reading)).toEqual(['git-timeout']);
    expect(processesWith(host.url)).toEqual([]);
  });

  it('fault 20: a remote that asks for credentials fails at once and asks nobody', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.password = 'secret';
    const reading = await source().read(signal);
    expect(codes(reading)).toEqual(['git-auth']);
  });

  it('fault 20: a refused key is named with options that there are, and with the passphrase that nobody can type', async () => {
    const folder = path.join(state, 'bin');
    mkdirSync(folder);
    const git = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
    const words = 'echo "git@h: Permission denied (publickey)." >&2; exit 128';
    const script = `#!/bin/sh\ncase " $* " in *" ls-remote "*) ${words};; esac\nexec ${git} "$@"\n`;
    writeFileSync(path.join(folder, 'git'), script, { mode: 0o755 });
    const { problems } = await source({ environment: { PATH: folder } }).read(signal);
    expect(problems.map((one) => one.code)).toEqual(['git-auth']);
    const hint = problems[0]?.hint ?? '';
    expect(hint).toContain('a key with a passphrase cannot be used');
    expect(hint.match(/--[a-z-]+/g)).toEqual(['--git-token-file', '--git-ssh-key']);
  });

  it('fault 21: a deleted branch, an empty repository and a missing path are named, and give no content (long)', async () => {
    expect(codes(await source().read(signal))).toEqual(['git-ref-missing']);
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    expect(codes(await source({ at: 'gone' }).read(signal))).toEqual(['git-path-missing']);
    expect(codes(await source({ at: 'a.yaml' }).read(signal))).toEqual(['git-path-missing']);
    const git = source();
    const first = await git.read(signal);
    upstream.git('push', '-q', 'origin', ':main');
    const gone = await git.read(signal);
    expect([gone.content, codes(gone)]).toEqual([null, ['git-ref-missing']]);
    expect(names(await git.readAt(first.content?.revision ?? '', signal))).toEqual(['a.yaml']);
    upstream.commit({ 'a.yaml': null, 'b.txt': 'x' });
    expect(codes(await git.read(signal))).toEqual(['no-manifests']);
  });

  it('fault 22: after a force-push the new commit is read and known not to descend from the old one', async () => {
    const base = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const left = upstream.commit({ 'a.yaml': 'a: 2\n' });
    const git = source();
    await git.read(signal);
    upstream.git('reset', '-q', '--hard', base);
    expect((await git.read(signal)).content?.revision).toBe(left);
    upstream.git('push', '-q', '--force', 'origin', 'HEAD:main');
    expect((await git.read(signal)).content?.revision).toBe(base);
    expect(await git.descends(left, base, signal)).toBe('no');
    expect(await git.descends(base, left, signal)).toBe('yes');
  });

  it('fault 18: a remote that does not answer leaves open whether a far commit descends from another (long)', async () => {
    const first = upstream.commit({ 'a.yaml': 'a: 0\n' });
    for (let index = 1; index <= 30; index++) upstream.git('commit', '-q', '--allow-empty', '-m', `${index}`);
    const last = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const git = source({ timeoutMs: 2000 });
    expect(codes(await git.read(signal))).toEqual([]);
    host.mode = 'black-hole';
    expect(await git.descends(first, last, signal)).toBe('unasked');
    host.mode = 'serve';
    expect(await git.descends(first, last, signal)).toBe('yes');
  });

  it('fault 23: stale locks, a corrupt object and a half-written pack discard the clone, which is fetched again', async () => {
    const commit = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const clone = path.join(state, 'clone.git');
    await source().read(signal);
    for (const file of ['shallow.lock', 'HEAD.lock', 'refs/reconcile/incoming.lock', 'objects/pack/tmp_pack_x']) {
      mkdirSync(path.dirname(path.join(clone, file)), { recursive: true });
      writeFileSync(path.join(clone, file), '');
      const reading = await source().read(signal);
      expect([file, codes(reading), reading.content?.revision]).toEqual([file, [], commit]);
      expect(existsSync(path.join(clone, file))).toBe(false);
    }
    const packs = readdirSync(path.join(clone, 'objects/pack')).filter((name) => name.endsWith('.pack'));
    for (const pack of packs) {
      chmodSync(path.join(clone, 'objects/pack', pack), 0o600);
      truncateSync(path.join(clone, 'objects/pack', pack), 20);
    }
    writeFileSync(path.join(clone, 'HEAD'), 'garbage');
    const reading = await source().read(signal);
    expect([codes(reading), reading.content?.revision]).toEqual([[], commit]);
  });

  it('fault 23: a clone that breaks while it is open heals within one read (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    const git = source();
    await git.read(signal);
    const pack = path.join(state, 'clone.git/objects/pack');
    for (const name of readdirSync(pack)) rmSync(path.join(pack, name), { force: true });
    const commit = upstream.commit({ 'a.yaml': 'a: 2\n', 'b.yaml': 'b: 1\n' });
    const reading = await git.read(signal);
    expect([codes(reading), reading.content?.revision]).toEqual([[], commit]);
  });

  it('fault 23: whatever file of an open clone is damaged, the next commit is read at once (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 0\n' });
    await source().read(signal);
    const clone = path.join(state, 'clone.git');
    for (const kind of new Set(filesBelow(clone).map(generalName))) {
      for (const content of ['damaged', '', null]) {
        const git = source();
        await git.read(signal);
        for (const file of filesBelow(clone).filter((name) => generalName(name) === kind)) {
          rmSync(path.join(clone, file), { force: true });
          if (content !== null) writeFileSync(path.join(clone, file), content);
        }
        const commit = upstream.commit({ 'a.yaml': `a: ${kind} ${content}\n` });
        const reading = await git.read(signal);
        expect([kind, content, reading.problems, reading.content?.revision]).toEqual([kind, content, [], commit]);
      }
    }
  }, 120_000);

  it('fault 39: a clone, a home or a whole state folder that is removed under an open source is made anew (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 0\n' });
    const git = source();
    await git.read(signal);
    for (const gone of ['clone.git', 'home', 'askpass', '.']) {
      rmSync(path.join(state, gone), { recursive: true });
      const commit = upstream.commit({ 'a.yaml': `a: ${gone}\n` });
      const reading = await git.read(signal);
      expect([gone, reading.problems, reading.content?.revision]).toEqual([gone, [], commit]);
    }
  });

  it('fault 23: a clone that cannot even be begun is a problem, and never an exception that ends the process', async () => {
    const commit = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const empty = path.join(state, 'empty');
    mkdirSync(empty);
    const withoutGit = source({ environment: { PATH: empty } });
    expect(codes(await withoutGit.read(signal))).toEqual(['git-not-started']);
    expect(codes(await withoutGit.readAt(commit, signal))).toEqual(['git-not-started']);
    // `git init` that fails, as it does while something damages the folder at the same time.
    const failing = path.join(empty, 'git');
    writeFileSync(failing, '#!/bin/sh\necho "fatal: bad config line 1" >&2\nexit 128\n', { mode: 0o755 });
    expect(codes(await withoutGit.readAt(commit, signal))).toEqual(['git-broken']);
    expect(codes(await withoutGit.read(signal))).toEqual(['git-broken']);
    rmSync(failing);
    expect((await source().read(signal)).content?.revision).toBe(commit);
  });

  it('fault 24: a full disk is named and gives no content', async (context) => {
    const small = path.join(state, 'small');
    mkdirSync(small);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small], { stdio: 'ignore' });
    } catch {
      return context.skip('a small file system cannot be mounted here');
    }
    try {
      upstream.commit({ 'a.yaml': `a: ${'x'.repeat(100)}\n`, 'b.yaml': randomText(200_000) });
      const reading = await source({ stateFolder: small }).read(signal);
      expect([reading.content, codes(reading)]).toEqual([null, ['git-disk-full']]);
    } finally {
      execFileSync('umount', [small]);
    }
  });

  it('fault 25: of two pushes within a second the newest is read, once (long)', async () => {
    const git = source();
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    await git.read(signal);
    upstream.commit({ 'a.yaml': 'a: 2\n' });
    const newest = upstream.commit({ 'a.yaml': 'a: 3\n' });
    expect((await git.read(signal)).content?.revision).toBe(newest);
  });

  it('stops at once when the process is asked to end', async () => {
    host.mode = 'black-hole';
    const stop = new AbortController();
    const reading = source().read(stop.signal);
    await until(() => host.requests.length > 0);
    stop.abort();
    expect(codes(await reading)).toEqual(['git-aborted']);
    expect(processesWith(host.url)).toEqual([]);
  });
});

describe('threats by way of Git', () => {
  it('threat 1: refs and paths that look like options, ranges or patterns are refused before git sees them', () => {
    const canary = path.join(state, 'canary');
    const refs = [
      '-x',
      '--output=/x',
      `--upload-pack=touch ${canary}`,
      '--exec=x',
      'a..b',
      'a^{/x}',
      'HEAD~1',
      'a:b',
      '@{u}',
      'a b',
      '*',
      'a*',
      'a?',
      'a[b]',
      'a\\b',
      'refs/pull/1/head',
      'refs/../x',
      'a.lock',
      'a/.b',
      '',
      '@',
      'x\ny',
      'x\0y',
      'a//b',
      'a/',
      '/a',
      'refs/heads/',
    ];
    for (const ref of refs) expect([ref, parseRef(ref).ok]).toEqual([ref, false]);
    for (const at of ['/etc', '../x', 'a/../../x', 'a\n', '.git/hooks'])
      expect([at, parseGitPath(at).ok]).toEqual([at, false]);
    for (const ref of ['main', 'release/1.2', 'v1.0+x', 'refs/heads/x-y', 'a@b', 'HEAD', 'f'.repeat(40)]) {
      expect([ref, parseRef(ref).ok]).toEqual([ref, true]);
    }
    expect(existsSync(canary)).toBe(false);
  });

  it('threat 1: a branch on the remote whose name is an option does no harm', async () => {
    const commit = upstream.commit({ 'a.yaml': 'a: 1\n' });
    writeFileSync(path.join(upstream.bare, 'packed-refs'), `${commit} refs/heads/--upload-pack=touch\n`);
    expect((await source().read(signal)).content?.revision).toBe(commit);
  });

  it('threat 2: hostile URLs are refused, and only https and ssh pass without a word from the operator', () => {
    const hostile = [
      'ext::sh -c id',
      '--upload-pack=id',
      '-x',
      'file:///etc',
      'http://h/x',
      'ftp://h/x',
      'git://h/x',
      'https://u:p@h/x',
      'https://tok@h/x',
      'https://h/x?token=1',
      'https://h/x#y',
      'https://-h/x',
      'https:///x',
      'ssh://-oProxyCommand=id/x',
      'ssh://u:p@h/x',
      '-u@h:x',
      'u@-h:x',
      'u@h:-x',
      'u@h:x y',
      'https://h/x\n',
      'https://h/\u0000',
      'HTTPS://h/x',
      'fd::3',
      '/etc',
      '../x',
      'https://h/x;id',
      'https://h/$(id)',
      'u@h:`id`',
    ];
    for (const url of hostile) expect([url, parseRemote(url).ok]).toEqual([url, false]);
    for (const url of [
      'https://git.example.org/a/b.git',
      'https://[::1]:8443/a',
      'ssh://git@h:22/a/b',
      'git@h:a/b.git',
      'git@h:/srv/a.git',
    ]) {
      expect([url, parseRemote(url).ok]).toEqual([url, true]);
    }
    expect(parseRemote('http://h/x', ['http']).ok).toBe(true);
    expect(parseRemote('file:///x', ['file']).ok).toBe(true);
  });

  it('threat 3: a hostile environment has no effect', async () => {
    const canary = path.join(state, 'canary');
    const script = path.join(state, 'evil');
    writeFileSync(script, `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 });
    const commit = upstream.commit({ 'a.yaml': 'a: 1\n' });
    const evil = {
      GIT_DIR: '/nowhere',
      GIT_WORK_TREE: '/',
      GIT_INDEX_FILE: '/x',
      GIT_SSH_COMMAND: script,
      GIT_ASKPASS: script,
      SSH_ASKPASS: script,
      GIT_EDITOR: script,
      EDITOR: script,
      PAGER: script,
      GIT_PAGER: script,
      GIT_EXTERNAL_DIFF: script,
      GIT_PROXY_COMMAND: script,
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'core.fsmonitor',
      GIT_CONFIG_VALUE_0: script,
      GIT_CONFIG_PARAMETERS: "'core.fsmonitor=evil'",
      GIT_EXEC_PATH: '/nowhere',
      GIT_TRACE: canary,
      GIT_OBJECT_DIRECTORY: '/nowhere',
      GIT_NAMESPACE: 'x',
      GIT_CONFIG_GLOBAL: script,
      LD_PRELOAD: '/nowhere.so',
      GIT_TEMPLATE_DIR: state,
    };
    const before = { ...process.env };
    Object.assign(process.env, evil);
    try {
      const reading = await source({ environment: { ...process.env } }).read(signal);
      expect([codes(reading), reading.content?.revision]).toEqual([[], commit]);
    } finally {
      for (const name of Object.keys(evil)) delete process.env[name];
      Object.assign(process.env, before);
    }
    expect(existsSync(canary)).toBe(false);
  });

  it('threat 4: configuration, hooks and attributes planted in the repository or the clone start nothing (long)', async () => {
    const canary = path.join(state, 'canary');
    const script = path.join(state, 'evil');
    writeFileSync(script, `#!/bin/sh\ntouch ${canary}\ncat\n`, { mode: 0o755 });
    upstream.commit({
      'a.yaml': 'a: 1\n',
      '.gitattributes': '* filter=evil diff=evil\n',
      '.gitmodules': '[submodule "x"]\n\tpath = x\n\turl = ext::sh\n',
      '.lfsconfig': '[lfs]\n',
    });
    await source().read(signal);
    const clone = path.join(state, 'clone.git');
    const config = path.join(clone, 'config');
    writeFileSync(
      config,
      `${readFileSync(config, 'utf8')}\n[core]\n\tfsmonitor = ${script}\n\thooksPath = ${state}\n\tsshCommand = ${script}\n\taskPass = ${script}\n[filter "evil"]\n\tsmudge = ${script}\n[diff "evil"]\n\ttextconv = ${script}\n[credential]\n\thelper = ${script}\n`,
    );
    for (const hook of ['reference-transaction', 'post-checkout', 'post-fetch']) {
      mkdirSync(path.join(clone, 'hooks'), { recursive: true });
      writeFileSync(path.join(clone, 'hooks', hook), `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 });
    }
    const commit = upstream.commit({ 'b.yaml': 'b: 1\n' });
    const reading = await source().read(signal);
    expect([codes(reading), reading.content?.revision]).toEqual([[], commit]);
    expect(existsSync(canary)).toBe(false);
  });

  it('threat 4: a state directory inside somebody’s repository believes nothing of it (long)', async () => {
    const around = path.join(state, 'around');
    execFileSync('git', ['init', '-q', around]);
    execFileSync('git', ['-C', around, 'config', 'url.http://127.0.0.1:1/.insteadOf', `${host.url}/`]);
    const commit = upstream.commit({ 'a.yaml': 'a: 1\n' });
    for (const stateFolder of [path.join(around, 'state'), path.join(around, '.git', 'state')]) {
      const reading = await source({ stateFolder }).read(signal);
      expect([codes(reading), reading.content?.revision]).toEqual([[], commit]);
    }
  });

  it('threat 5: links, submodules and LFS pointers named like manifests are problems, never followed; filters never run (long)', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n', 'link.yaml': { link: '/etc/passwd' } });
    expect(codes(await source().read(signal))).toEqual(['not-a-regular-file']);
    upstream.commit({ 'link.yaml': null, 'dir/x.yaml': 'x: 1\n', elsewhere: { link: 'dir' } });
    expect(codes(await source().read(signal))).toEqual(['not-a-regular-file']);
    expect(codes(await source({ at: 'elsewhere' }).read(signal))).toEqual(['git-path-missing']);
    upstream.commit({ elsewhere: null });
    expect(names(await source().read(signal))).toEqual(['a.yaml', 'dir/x.yaml']);
    // A submodule of any name: its manifests would be missing here, and their rules be deleted.
    for (const name of ['sub.yaml', 'dir/shared']) {
      upstream.git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},${name}`);
      upstream.git('commit', '-q', '-m', 'submodule');
      upstream.git('push', '-q', '--force', 'origin', 'HEAD:main');
      const reading = await source().read(signal);
      expect(reading.problems.map(({ summary }) => summary)).toEqual([
        `${name} is a submodule, whose files are not read`,
      ]);
      upstream.git('rm', '-q', '--cached', name);
    }
    upstream.commit({ 'big.yaml': 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' });
    expect(codes(await source().read(signal))).toEqual(['git-lfs']);
  });

  it('threat 13: the token is never in an argument of any process, nor in the clone', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.password = 'canary-token-7';
    const tokenFile = path.join(state, 'token');
    writeFileSync(tokenFile, 'canary-token-7\n');
    const seen: string[] = [];
    let watching = true;
    const watch = (async () => {
      while (watching) {
        for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
          try {
            seen.push(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
          } catch {
            // the process has ended
          }
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    expect(codes(await source({ access: { gitTokenFile: tokenFile } }).read(signal))).toEqual([]);
    watching = false;
    await watch;
    expect(seen.some((line) => line.includes('git-remote-http'))).toBe(true);
    expect(seen.filter((line) => line.includes('canary-token-7'))).toEqual([]);
    rmSync(tokenFile);
    const found = execFileSync('sh', ['-c', `grep -rlF canary-token-7 '${state}' || true`], { encoding: 'utf8' });
    expect(found).toBe('');
  });

  it('threat 15: a redirect of the Git server is not followed, so the token stays with the configured host', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    host.mode = 'redirect';
    expect(codes(await source().read(signal))).toEqual(['git-redirect']);
    expect(host.requests.filter((request) => request.includes('elsewhere'))).toEqual([]);
  });

  it('threat 13: a Git server that quotes the token over many lines does not get it into a problem', async () => {
    const tokenFile = path.join(state, 'token');
    writeFileSync(tokenFile, 'canary-token-of-git-7\n');
    const server = createServer(({ headers }, response) => {
      const header = headers.authorization ?? '';
      if (header === '') return response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      const quoted = Buffer.from(header.slice(6), 'base64').toString().split(':')[1] ?? '';
      return response.writeHead(500, { 'content-type': 'text/plain' }).end(quoted.replace(/.{5}/g, '$&\n'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const remote = remoteOf({ ...host, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    try {
      const { problems } = await source({ remote, access: { gitTokenFile: tokenFile } }).read(signal);
      expect(problems.map(({ code }) => code)).toHaveLength(1);
      expect(JSON.stringify(problems)).not.toMatch(/canar|y-tok/);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it.each([
    ['as it is', (token: string) => token],
    ['as it came', (_: string, header: string) => header],
    ['percent-encoded', (token: string) => Buffer.from(token).toString('hex').replace(/../g, '%$&')],
    ['as a prompt', (token: string) => `could not read Password for '${token}'`],
  ])('threat 13: a Git server that quotes the token, %s, does not get it into a problem', async (_how, quote) => {
    const tokenFile = path.join(state, 'token');
    writeFileSync(tokenFile, 'canary-token-of-git-7\n');
    let quoted = '';
    const server = createServer(({ headers }, response) => {
      const header = headers.authorization ?? '';
      if (header === '') return response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      quoted = quote(Buffer.from(header.slice(6), 'base64').toString().split(':')[1] ?? '', header);
      const line = `ERR no: ${quoted} `;
      const body = `001e# service=git-upload-pack\n0000${(line.length + 4).toString(16).padStart(4, '0')}${line}`;
      return response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const remote = remoteOf({ ...host, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    try {
      const reading = await source({ remote, access: { gitTokenFile: tokenFile } }).read(signal);
      expect(codes(reading)).toHaveLength(1);
      expect(quoted).not.toBe('');
      expect(JSON.stringify(reading.problems)).not.toContain(quoted.replace('Basic ', ''));
      expect(JSON.stringify(reading.problems)).not.toContain('canary');
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it('threat 13: a proxy that asks for credentials does not get the token', async () => {
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    const tokenFile = path.join(state, 'token');
    writeFileSync(tokenFile, 'canary-token\n');
    const asked: string[] = [];
    const proxy = createServer((request, response) => {
      asked.push(
        Buffer.from(String(request.headers['proxy-authorization']).replace('Basic ', ''), 'base64').toString(),
      );
      response.writeHead(407, { 'proxy-authenticate': 'Basic realm="proxy"' }).end();
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.address() as AddressInfo;
    const environment = { PATH: process.env['PATH'], http_proxy: `http://someone@127.0.0.1:${port}` };
    try {
      const reading = await source({ access: { gitTokenFile: tokenFile }, environment }).read(signal);
      expect([codes(reading), asked.join()]).toEqual([['git-proxy-auth'], expect.not.stringContaining('canary')]);
      expect(reading.problems[0]?.summary).toContain(`http://127.0.0.1:${port} asked for credentials`);
    } finally {
      await new Promise((resolve) => proxy.close(resolve));
    }
  });

  it('threat 17: with OpenPGP keys given, commits that are unsigned or signed by another key are refused (long)', async () => {
    const keys = openpgpKeys();
    const git = source({ access: { gitVerifyOpenpgp: keys.file } });
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    const unsigned = await git.read(signal);
    expect([unsigned.content, codes(unsigned)]).toEqual([null, ['git-signature']]);
    expect(unsigned.observed).toBe(upstream.git('rev-parse', 'HEAD'));
    signCommit(keys.home, keys.own);
    expect(codes(await git.read(signal))).toEqual([]);
    signCommit(keys.home, keys.other);
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
    signCommit(keys.home, keys.expired);
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
  });

  it('threat 17: an expired key does not count for a new commit whose dates are set back, but does for one seen before (long)', async () => {
    const own = sshKey('own');
    const sshFile = path.join(state, 'signers');
    writeFileSync(sshFile, `a@example.org valid-before="20200101" ${readFileSync(`${own}.pub`, 'utf8')}`);
    const dates = { GIT_COMMITTER_DATE: '2019-06-01T00:00:00Z', GIT_AUTHOR_DATE: '2019-06-01T00:00:00Z' };
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    const settings = ['-c', 'gpg.format=ssh', '-c', `user.signingkey=${own}.pub`];
    upstream.gitWith(dates, ...settings, 'commit', '-q', '--allow-empty', '-S', '-m', 'x');
    upstream.git('push', '-q', '--force', 'origin', 'HEAD:main');
    const commit = upstream.git('rev-parse', 'HEAD');
    const git = source({ access: { gitVerifySsh: sshFile } });
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
    const firstSeen = { [commit]: Date.parse('2019-07-01') };
    expect(codes(await git.read(signal, firstSeen))).toEqual([]);
    writeFileSync(sshFile, `a@example.org ${readFileSync(`${sshKey('another')}.pub`, 'utf8')}`);
    expect(codes(await git.read(signal, firstSeen))).toEqual(['git-signature']);
  });

  it('threat 17: with SSH allowed signers given, commits that are unsigned or signed by another key are refused', async () => {
    const own = sshKey('own');
    const other = sshKey('other');
    const sshFile = path.join(state, 'signers');
    writeFileSync(sshFile, `a@example.org ${readFileSync(`${own}.pub`, 'utf8')}`);
    const git = source({ access: { gitVerifySsh: sshFile } });
    const sign = (key: string): void => {
      upstream.git(
        '-c',
        'gpg.format=ssh',
        '-c',
        `user.signingkey=${key}.pub`,
        'commit',
        '-q',
        '--allow-empty',
        '-S',
        '-m',
        'x',
      );
      upstream.git('push', '-q', '--force', 'origin', 'HEAD:main');
    };
    upstream.commit({ 'a.yaml': 'a: 1\n' });
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
    sign(own);
    expect(codes(await git.read(signal))).toEqual([]);
    sign(other);
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
    writeFileSync(sshFile, `a@example.org valid-before="20200101" ${readFileSync(`${own}.pub`, 'utf8')}`);
    sign(own);
    expect(codes(await git.read(signal))).toEqual(['git-signature']);
  });
});

function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true, encoding: 'utf8' })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}

/** The kind of a file in a clone: its name without the ids in it. */
function generalName(file: string): string {
  return file.replace(/[0-9a-f]{38,}/g, 'ID').replace(/objects\/[0-9a-f]{2}\//, 'objects/');
}

function sshKey(name: string): string {
  const file = path.join(state, name);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
  return file;
}

function openpgpKeys(): { file: string; home: string; own: string; other: string; expired: string } {
  const home = path.join(state, 'keys');
  mkdirSync(home, { mode: 0o700 });
  const gpg = (...args: string[]): string =>
    execFileSync(
      'gpg',
      ['--homedir', home, '--batch', '--quiet', '--pinentry-mode', 'loopback', '--passphrase', '', ...args],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
    );
  const make = (name: string, expires: string, ...more: string[]): string => {
    gpg(...more, '--quick-gen-key', `${name} <${name}@example.org>`, 'ed25519', 'sign', expires);
    return `${name}@example.org`;
  };
  const own = make('own', 'never');
  const other = make('other', 'never');
  const expired = make('expired', '2020-02-01', '--faked-system-time', '20200101T000000');
  const file = path.join(state, 'keys.asc');
  writeFileSync(file, gpg('--armor', '--export', own, expired));
  return { file, home, own, other, expired };
}

function signCommit(home: string, key: string): void {
  const program = path.join(home, 'sign.sh');
  const when = key.startsWith('expired') ? '--faked-system-time 20200115T000000 ' : '';
  writeFileSync(program, `#!/bin/sh\nexec gpg ${when}--homedir '${home}' --batch "$@"\n`, { mode: 0o755 });
  upstream.git(
    '-c',
    `gpg.program=${program}`,
    '-c',
    `user.signingkey=${key}`,
    'commit',
    '-q',
    '--allow-empty',
    '-S',
    '-m',
    'signed',
  );
  upstream.git('push', '-q', '--force', 'origin', 'HEAD:main');
}

function randomText(length: number): string {
  return `x: ${execFileSync('head', ['-c', String(length), '/dev/urandom']).toString('base64')}\n`;
}
