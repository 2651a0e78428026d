import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { GitHost, Upstream } from '../support/git-host.ts';
import { makeUpstream, serveGit } from '../support/git-host.ts';
import type { Sidecar, World } from '../support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../support/sidecar.ts';
import { sshd, startSsh } from '../support/ssh-host.ts';

let world: World;
let upstream: Upstream;
let host: GitHost;
let sidecar: Sidecar | null;

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
  upstream = makeUpstream();
  host = await serveGit(upstream);
  sidecar = null;
});

afterEach(async () => {
  await sidecar?.stop();
  await host.close();
  upstream.remove();
  await world.close();
});

async function start(...args: string[]): Promise<Sidecar> {
  sidecar = await startSidecar(world, [
    ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'],
    ...['--state-dir', world.state, '--interval', '1s', ...args],
  ]);
  return sidecar;
}

describe('reconcile --watch --git-url', () => {
  it('follows a branch over https’s protocol, commit by commit', async () => {
    const first = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start();
    await car.until(inEffect(first));
    expect(world.live()).toEqual(['10.0.0.1']);
    const second = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    const status = await car.until(inEffect(second));
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
    expect(status.revisions).toMatchObject({ observed: second, attempted: second, applied: second });
  });

  it('a signed webhook wakes it long before the interval, an unsigned one does not (long)', async () => {
    const secretFile = path.join(world.folder, 'hook-secret');
    writeFileSync(secretFile, 'hook-secret-canary\n');
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start('--interval', '1h', '--webhook-listen', '127.0.0.1:0', '--webhook-secret-file', secretFile);
    await car.until(inEffect());
    const second = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    const post = (signature: string) =>
      fetch(`${car.webhooks()}/webhook`, {
        method: 'POST',
        body: '{}',
        headers: { 'x-hub-signature-256': signature },
      });
    const reads = host.requests.length;
    expect((await post('sha256=00')).status).toBe(401);
    expect(host.requests.length).toBe(reads);
    const good = createHmac('sha256', 'hook-secret-canary').update('{}').digest('hex');
    expect((await post(`sha256=${good}`)).status).toBe(202);
    await car.until(inEffect(second));
    expect((await fetch(`${car.webhooks()}/status`)).status).toBe(404);
    expect(await car.metrics()).toContain('reconcile_webhooks_total{result="woken"} 1');
    expect(car.output()).not.toContain('hook-secret-canary');
  });

  it('fault 18: a black hole is named, the last good revision stays in force, and it recovers by itself (long)', async () => {
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start('--git-timeout', '500ms');
    await car.until(inEffect());
    host.mode = 'black-hole';
    await car.until((status) => status.conditions.Ready.reason === 'SourceFailed');
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    await until(() => world.live().join() === '10.0.0.1');
    const next = upstream.commit({ 'rules.yaml': rules('10.0.0.2') });
    host.mode = 'serve';
    await car.until(inEffect(next));
  });

  it('fault 21: a deleted branch prunes nothing (long)', async () => {
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start();
    await car.until(inEffect());
    upstream.git('push', '-q', 'origin', ':main');
    const status = await car.until((now) => now.conditions.Ready.reason === 'SourceFailed');
    expect(status.conditions.Stalled.status).toBe('True');
    expect(world.live()).toEqual(['10.0.0.1']);
  });

  it('fault 22: a force-push backwards is refused until it is allowed', async () => {
    const base = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const left = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    const car = await start();
    await car.until(inEffect(left));
    upstream.git('push', '-q', '--force', 'origin', `${base}:main`);
    const refused = await car.until((status) => status.conditions.Ready.reason === 'RewindRefused');
    expect(refused.revisions).toMatchObject({ observed: base, applied: left });
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
    await car.stop();
    const again = await start('--allow-rewind');
    await again.until(inEffect(base));
    expect(world.live()).toEqual(['10.0.0.1']);
  });

  it('follows a tag that is moved on, and keeps what is in effect when it is moved back, deleted, or hidden by a branch (long)', async () => {
    const tag = (commit: string): void => {
      upstream.git('tag', '-f', '-a', '-m', 'release', 'stable', commit);
      upstream.git('push', '-q', '--force', 'origin', 'stable');
    };
    const first = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const second = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    tag(first);
    const car = await start('--git-ref', 'stable');
    await car.until(inEffect(first));
    tag(second);
    await car.until(inEffect(second));
    tag(first);
    await car.until(({ conditions }) => conditions.Ready.reason === 'RewindRefused');
    upstream.git('push', '-q', 'origin', ':stable');
    await car.until(({ conditions }) => conditions.Ready.message.startsWith('the remote has no'));
    tag(second);
    await car.until(inEffect(second));
    upstream.git('push', '-q', 'origin', 'HEAD:refs/heads/stable');
    await car.until(({ conditions }) => conditions.Ready.message.startsWith('the remote has refs/heads/stable and'));
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
    expect(world.sim.requests().filter((call) => call.method === 'DELETE')).toEqual([]);
  });

  it('corrects drift to the last good revision while the repository is gone, and is ready soon after it is back (long)', async () => {
    const commit = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start();
    await car.until(inEffect(commit));
    renameSync(upstream.bare, `${upstream.bare}.gone`);
    await car.until(({ conditions }) => conditions.Ready.reason === 'SourceFailed');
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    await until(() => world.live().join() === '10.0.0.1');
    renameSync(`${upstream.bare}.gone`, upstream.bare);
    await car.until(inEffect(commit));
  });

  it('threat 18: the applied revision outlives a restart, so that a replay during it is refused too (long)', async () => {
    const base = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const left = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    const car = await start();
    await car.until(inEffect(left));
    await car.stop();
    upstream.git('push', '-q', '--force', 'origin', `${base}:main`);
    const again = await start();
    await again.until((status) => status.conditions.Ready.reason === 'RewindRefused');
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
  });

  it('fault 25: of two pushes within a second the newest is applied, once (long)', async () => {
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start();
    await car.until(inEffect());
    upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    const newest = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.3') });
    await car.until(inEffect(newest));
    const posts = world.sim.requests().filter((call) => call.method === 'POST' && call.body.includes('10.0.0.3'));
    expect(posts.length).toBe(1);
  });

  it('fault 26: a bad commit does not hold up the one that mends it (long)', async () => {
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start();
    await car.until(inEffect());
    upstream.commit({ 'rules.yaml': 'kind: [' });
    await car.until((status) => status.conditions.Ready.reason === 'ManifestsInvalid');
    const mended = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
    await car.until(inEffect(mended));
  });

  it('threat 17: an unsigned commit is refused, and the last good revision stays in force (long)', async () => {
    const key = path.join(world.folder, 'signer');
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    const signers = path.join(world.folder, 'signers');
    writeFileSync(signers, `a@example.org ${readFileSync(`${key}.pub`, 'utf8')}`);
    upstream.git('config', 'gpg.format', 'ssh');
    upstream.git('config', 'user.signingkey', `${key}.pub`);
    upstream.git('config', 'commit.gpgsign', 'true');
    const signed = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start('--git-verify-ssh', signers);
    await car.until(inEffect(signed));
    upstream.git('config', 'commit.gpgsign', 'false');
    const unsigned = upstream.commit({ 'rules.yaml': rules('10.0.0.2') });
    const status = await car.until((now) => now.conditions.Ready.reason === 'SignatureRefused');
    expect(status.revisions).toMatchObject({ observed: unsigned, applied: signed });
    expect(world.live()).toEqual(['10.0.0.1']);
  });

  it('takes secrets from files of the same commit, whatever their names, and follows no link to them (long)', async () => {
    const provider = (file: string): string =>
      `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: c}\nspec:\n  openid_connect_providers:\n    - {id: g, label: G, client_id: c, client_secret: {file: ${file}}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}\n  saml_identity_providers:\n    - {id: s, label: S, metadata: {file: idp.metadata}, auto_create_users: false}\n`;
    const metadata =
      '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"/>';
    const first = upstream.commit({
      'net/company/c.yaml': provider('../.secrets/oidc'),
      'net/company/idp.metadata': metadata,
      'net/.secrets/oidc': 'canary-oidc-1\n',
      above: 'canary-above\n',
    });
    const car = await start('--git-path', 'net');
    await car.until(inEffect(first));
    expect(JSON.stringify(world.sim.configuration())).toContain('"canary-oidc-1"');
    expect(JSON.stringify(world.sim.configuration())).toContain('https://idp.example/x');
    const second = upstream.commit({ 'net/.secrets/oidc': 'canary-oidc-2\n' });
    await car.until(inEffect(second));
    expect(JSON.stringify(world.sim.configuration())).toContain('"canary-oidc-2"');
    for (const [file, content, message] of [
      ['link', { link: '../.secrets/oidc' }, 'no plain file at this path'],
      ['link', { link: '/proc/self/environ' }, 'company/link is a symbolic link that may lead to a folder'],
      ['../../above', 'x', 'no plain file at this path'],
    ] as const) {
      upstream.commit({ 'net/company/c.yaml': provider(file), 'net/company/link': content });
      await car.until(({ conditions }) => conditions.Ready.message.includes(message));
      upstream.commit({ 'net/company/c.yaml': provider('../.secrets/oidc'), 'net/company/link': null });
      await car.until(inEffect());
    }
    expect(car.output()).not.toContain('canary-oidc');
  });

  it('works over ssh, and threat 16: refuses a host key that is not known (long)', async (context) => {
    if (sshd === null) return context.skip('openssh-server is not installed');
    const ssh = await startSsh(path.join(world.folder, 'ssh'));
    try {
      const commit = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
      const url = ['--git-url', `ssh://${ssh.user}@127.0.0.1:${ssh.port}${upstream.bare}`];
      const access = [
        '--git-ssh-key',
        ssh.keyFile,
        '--state-dir',
        path.join(world.folder, 'ssh-state'),
        '--interval',
        '1s',
      ];
      sidecar = await startSidecar(world, [
        ...url,
        ...access,
        '--git-ref',
        'main',
        '--git-known-hosts',
        ssh.knownHosts,
      ]);
      await sidecar.until(inEffect(commit));
      const next = upstream.commit({ 'rules.yaml': rules('10.0.0.1', '10.0.0.2') });
      await sidecar.until(inEffect(next));
      // The port of ssh is no port of a page, and the user's name stays out.
      const forge = `https://127.0.0.1${upstream.bare.replace(/\.git$/, '')}`;
      const told = await (await fetch(`${sidecar.url}/api/v1/status`)).json();
      expect(told).toMatchObject({ links: { applied: `${forge}/commit/${next}` }, authors: { applied: 'a' } });
      const page = await (await fetch(sidecar.url)).text();
      expect(page).toContain(
        `<a href="${forge}/commit/${next}" rel="noopener noreferrer">${next.slice(0, 7)}</a> by a`,
      );
      expect(page).toMatch(new RegExp(`<a href="${forge}/blob/${next}/rules.yaml#L(\\d+)" [^>]+>rules.yaml:\\1</a>`));
      expect(page).not.toContain(`${ssh.user}@`);
      await sidecar.stop();
      const stranger = readFileSync(path.join(world.folder, 'ssh/other.pub'), 'utf8');
      const wrong = path.join(world.folder, 'wrong_hosts');
      writeFileSync(wrong, `[127.0.0.1]:${ssh.port} ${stranger}`);
      sidecar = await startSidecar(world, [...url, ...access, '--git-ref', 'main', '--git-known-hosts', wrong]);
      const refused = await sidecar.until((status) => status.conditions.Ready.reason === 'SourceFailed');
      expect(refused.conditions.Ready.message).toContain('another one than in the known_hosts file');
      expect(refused.conditions.Ready.message).not.toContain('@@@');
    } finally {
      await ssh.close();
    }
  });

  it('threat 2: a URL that is not https or ssh stalls with a message instead of being tried (long)', async () => {
    for (const url of ['ext::sh -c id', 'http://127.0.0.1/x', 'https://user:canary-pass@h/x', '--upload-pack=x']) {
      sidecar = await startSidecar(world, ['--git-url', url, '--once']);
      expect(await sidecar.ended()).toBe(1);
      expect(sidecar.output()).not.toContain('canary-pass');
      sidecar = null;
    }
  });

  it('threats 1, 13 and 14: no token and no secret is in an argument, a log, the status, the metrics or on disk (long)', async () => {
    const tokenFile = path.join(world.folder, 'git-token');
    writeFileSync(tokenFile, 'canary/git+token=\n');
    host.password = 'canary/git+token=';
    const commit = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const car = await start('--git-token-file', tokenFile);
    await car.until(inEffect(commit));
    host.password = 'another';
    await car.until((status) => status.conditions.Ready.reason === 'SourceFailed');
    const everything = [
      car.output(),
      JSON.stringify(await car.status()),
      await car.metrics(),
      await (await fetch(car.url)).text(),
    ].join('\n');
    const disk = execFileSync('sh', ['-c', `cat $(find '${world.state}' -type f) | strings`], {
      encoding: 'utf8',
      maxBuffer: 1e9,
    });
    for (const secret of ['canary/git+token=', 'canary-api-token']) {
      const forms = [
        secret,
        encodeURIComponent(secret),
        Buffer.from(secret).toString('base64').replace(/=+$/, ''),
        JSON.stringify(secret).slice(1, -1),
      ];
      for (const form of forms) {
        expect(everything).not.toContain(form);
        expect(disk).not.toContain(form);
      }
    }
  });
});
