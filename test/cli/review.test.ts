import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startSimulator } from '../../src/simulator/server.ts';
import { alice, bob, configuration, rule, startWorld, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

const git = (...args: readonly string[]): string =>
  execFileSync(
    'git',
    ['-c', 'user.name=T', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main', ...args],
    {
      cwd: world.folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
const commit = (message: string): void => {
  git('add', '-A');
  git('commit', '-q', '-m', message);
};
const web = rule('web', 'action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443');
const closed = rule('closed', 'action: drop, destination: 10.0.0.0/8');
const provider = (secret: string): string =>
  configuration(
    `openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: ${secret}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}`,
  );
const secretEnv = { RECONCILE_SECRET_G: 'CANARY-first', RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=g@idp.example' };

describe('snapshots', () => {
  it('a plan against a snapshot needs no token and makes no request, and equals the plan against the server', async () => {
    world.simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'drop', destination: '192.0.2.0/24', user_id: alice },
    ]);
    world.write('m/a.yaml', web + closed);
    expect((await world.cli(['snapshot', '--out', 'live.json'])).code).toBe(0);
    const online = (await world.cli(['--plan', '--output', 'json', 'm'])).json();
    const before = world.simulator.requests().length;
    const offline = await world.cli(['--plan', '--live', 'live.json', '--output', 'json', 'm'], {
      env: { RECONCILE_TOKEN: '', RECONCILE_BASE_URL: '' },
    });
    expect(offline.code).toBe(0);
    expect(world.simulator.requests().length).toBe(before);
    expect(offline.json().changes).toEqual(online.changes);
    expect(offline.json().steps).toEqual(online.steps);
    expect(offline.json()).toMatchObject({
      snapshot: { taken_at: expect.stringMatching(/^\d{4}-/), age_ms: expect.any(Number) },
    });
  });

  it.each([
    ['{configuration: false, networks: [10.0.0.0/8]}', '10.0.0.1'],
    ['{rules: false}', null],
  ])(
    'with scope %s a plan that was saved against a snapshot applies with the approval of its digest',
    async (scope, destination) => {
      world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
      world.write('s.yaml', `scope: ${scope}\n`);
      const configuration =
        'apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: c}\nspec: {default_client_mtu: 1300}\n';
      world.write(
        'm/a.yaml',
        destination === null ? configuration : rule('a', `action: drop, destination: ${destination}`),
      );
      await world.cli(['snapshot', '--out', 'live.json']);
      const saved = await world.cli(['--plan', '--live', 'live.json', '--save', 'p.json', '--config', 's.yaml', 'm']);
      expect(saved.code).toBe(0);
      const again = ['apply', 'p.json', 'm', '--config', 's.yaml', '--yes'];
      const refused = await world.cli(again);
      const { plan } = (JSON.parse(world.read('p.json')) as Saved).digest;
      expect([refused.code, refused.out + refused.err]).toEqual([3, expect.stringContaining(`--approve ${plan}`)]);
      const run = await world.cli([...again, '--approve', String(plan)]);
      expect(run.code, run.out + run.err).toBe(0);
      expect(world.simulator.rules().length).toBe(destination === null ? 1 : 2);
      expect(world.simulator.configuration()['default_client_mtu']).toBe(destination === null ? 1300 : 1280);
    },
  );

  it('holds no secret and no e-mail address, and is the same whatever the order of the list', async () => {
    world.write('m/a.yaml', provider('{env: RECONCILE_SECRET_G}') + closed);
    expect((await world.cli(['m'], { env: secretEnv })).code).toBe(0);
    const first = await world.cli(['snapshot']);
    expect(first.out).not.toMatch(/CANARY|client_secret|alice@example/);
    const second = await world.cli(['snapshot']);
    const withoutTime = (text: string): string => text.replace(/"taken_at": "[^"]*"/, '');
    expect(withoutTime(second.out)).toBe(withoutTime(first.out));
  });

  it('secrets are unknown against it: shown, and never a change that is sent', async () => {
    world.write('m/a.yaml', provider('{env: RECONCILE_SECRET_G}'));
    await world.cli(['m'], { env: secretEnv });
    await world.cli(['snapshot', '--out', 'live.json']);
    const plan = await world.cli(['--plan', '--live', 'live.json', '--output', 'json', 'm'], { env: secretEnv });
    expect(plan.json().steps).toEqual([]);
  });

  it('resolves e-mail addresses of manifests without holding any', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8, user: alice@example.com'));
    await world.cli(['snapshot', '--out', 'live.json']);
    const plan = await world.cli(['--plan', '--live', 'live.json', '--output', 'json', 'm'], {
      env: { RECONCILE_TOKEN: '' },
    });
    expect(plan.json().changes[0]?.fields['user_id']?.after).toBe(alice);
  });

  it.each([
    ['not there', null, /ENOENT/],
    ['not JSON', 'x', /not JSON/],
    ['something else', '{"kind":"plan"}', /not a snapshot/],
    [
      'of a time that says more than a time',
      '{"kind":"snapshot","format_version":"1.0","taken_at":"1 Jan 2026 (</sub>@everyone)"}',
      /does not say when it was taken/,
    ],
  ])('a file that is %s is said, exit 1', async (_, text, words) => {
    world.write('m/a.yaml', closed);
    if (text !== null) world.write('live.json', text);
    const run = await world.cli(['--plan', '--live', 'live.json', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringMatching(words)]);
  });

  it('cannot be written to', async () => {
    world.write('m/a.yaml', closed);
    await world.cli(['snapshot', '--out', 'live.json']);
    const run = await world.cli(['--live', 'live.json', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('--live goes with `reconcile plan`')]);
  });

  it.each([['--enforcement', 'nft'], ['--netns', '/run/netns/a'], ['--wait-enforced=5s'], ['--repair']])(
    'tells of no kernel: %s beside it is a wrong usage, in the settings it waits for an apply',
    async (...flags) => {
      world.write('m/a.yaml', closed);
      await world.cli(['snapshot', '--out', 'live.json']);
      const run = await world.cli(['--plan', '--live', 'live.json', ...flags, 'm']);
      expect([run.code, run.err]).toEqual([
        1,
        expect.stringContaining(`${flags[0]?.split('=')[0]} and a plan against`),
      ]);
      world.write('s.yaml', 'enforcement: nft\n');
      expect((await world.cli(['--plan', '--live', 'live.json', '--config', 's.yaml', 'm'])).code).toBe(0);
    },
  );
});

describe('--base', () => {
  beforeEach(() => {
    git('init', '-q');
    world.write('m/a.yaml', web + closed);
    commit('applied');
  });

  it('attributes each change to this revision, to drift, or to what was not applied', async () => {
    await world.cli(['m']);
    const drifted = world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('m/a.yaml', web + closed + rule('new', 'action: drop, destination: 192.0.2.0/24'));
    const plan = (await world.cli(['--plan', '--base', 'HEAD', '--output', 'json', '--max-deletes', '5', 'm'])).json();
    expect(drifted).toHaveLength(1);
    const origins = plan.changes
      .filter(({ action }) => action !== 'keep')
      .map(({ name, action, origin }) => [name, action, origin]);
    expect(origins.sort()).toEqual([
      [null, 'delete', 'drift'],
      ['new', 'create', 'this-revision'],
    ]);
  });

  it('a directory as the base says the same as the commit', async () => {
    await world.cli(['m']);
    world.write('before/a.yaml', web + closed);
    world.write('m/a.yaml', web);
    const [byRef, byDirectory] = [
      await world.cli(['--plan', '--base', 'main', '--output', 'json', 'm']),
      await world.cli(['--plan', '--base', 'before', '--output', 'json', 'm']),
    ];
    expect(byRef.json().changes.map(({ name, origin }) => [name, origin])).toEqual(
      byDirectory.json().changes.map(({ name, origin }) => [name, origin]),
    );
    expect(byRef.json().changes.some(({ name, action }) => name === 'closed' && action === 'delete')).toBe(true);
  });

  it('says in its headline what this commit does, and what is drift', async () => {
    await world.cli(['m']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('m/a.yaml', web + closed + rule('new', 'action: drop, destination: 192.0.2.0/24'));
    const run = await world.cli(['--plan', '--base', 'HEAD', 'm']);
    expect(run.out).toMatch(/^This revision: 1 change\. Drift on the server: 1\.$/m);
  });

  it('counts a block that a commit ends by a time which has passed as its change, and warns of what that opens', async () => {
    await world.cli(['m']);
    world.write('m/a.yaml', web + closed.replace('action: drop', 'action: drop, expires: 2020-01-01'));
    const run = await world.cli(['--plan', '--base', 'HEAD', '--max-deletes', '5', 'm']);
    expect(run.out + run.err).toMatch(/^a\.yaml\S+ warning \[expiry-opens\] `closed` is live, and ends at once/m);
    expect(run.out).toMatch(/^This revision: 1 change\. Drift on the server: 0\.$/m);
    const reason = ['expired', 'expiry-opens']
      .map((code) => `# reconcile-ignore: ${code} it is meant to end`)
      .join('\n');
    world.write('m/a.yaml', world.read('m/a.yaml').replace('spec: {action: drop', `${reason}\n$&`));
    const meant = await world.cli(['--plan', '--base', 'HEAD', '--max-deletes', '5', '--strict', 'm']);
    expect([meant.code, meant.out + meant.err]).toEqual([0, expect.not.stringContaining('expiry-opens')]);
  });

  it('says who is cut off by a commit that gives a name another UUID', async () => {
    const policyFor = (id: string): string =>
      `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {alice: ${id}}\n---\n${web}${closed}${rule('own', 'action: accept, destination: 10.5.0.0/16, user: alice')}`;
    world.write('m/a.yaml', policyFor(alice));
    commit('people');
    await world.cli(['m']);
    world.write('m/a.yaml', policyFor(bob));
    const run = await world.cli(['--plan', '--base', 'HEAD', '--output', 'markdown', 'm']);
    expect(run.out).toContain(`closes** \`10.5.0.0/16 for ${alice} (alice in the base)\``);
    expect(run.out).toMatch(/^- \*\*warning\*\* `m\/a\.yaml:4:8` .*\(moved-name\)/m);
  });

  it('does not call a commit that opens everything next year in sync', async () => {
    await world.cli(['m']);
    world.write(
      'm/a.yaml',
      web + closed + rule('all', 'action: accept, destination: 0.0.0.0/0, notBefore: 2099-12-24'),
    );
    const run = await world.cli(['--plan', '--base', 'HEAD', '--output', 'markdown', 'm']);
    const [, title] = run.out.split('\n');
    expect(title).toBe(
      '### reconcile: Opens for everyone from 2099-12-24T00:00:00Z on. Now in sync: 2 objects unchanged.',
    );
    expect(run.out).toMatch(/^This revision: 0 changes now, others later\. Drift on the server: 0\./m);
  });

  it.each([
    ['OpenSSL', provider('{file: key}'), (text: string) => `U2FsdGVkX1${text}`, (text: string) => text],
    [
      'Git LFS',
      configuration(
        'saml_identity_providers:\n  - {id: g, label: G, base_url: "https://g.example/", metadata: {file: key}, auto_create_users: false}',
      ),
      (text: string) => `version https://git-lfs.github.com/spec/v1\noid sha256:${text}\nsize 1\n`,
      (text: string) => `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${text}"/>`,
    ],
  ])('tells whose change a secret is that lies in Git by %s', async (_, written, lock, unlock) => {
    const bound = ['--bind-secret', 'key=g@idp.example', '--bind-secret', 'moved=g@idp.example', 'm'];
    /** Commits what Git holds, and leaves the checkout as a filter makes it. */
    const commitLocked = (file: string, text: string): void => {
      world.write('m/c.yaml', written.replace('key', file));
      world.write(`m/${file}`, lock(text));
      commit(text);
      world.write(`m/${file}`, unlock(text));
    };
    commitLocked('key', 'one');
    expect((await world.cli(bound)).code).toBe(0);
    commitLocked('key', 'two');
    const renewed = await world.cli(['plan', '--base', 'HEAD~1', '--fail-on', 'drift', ...bound]);
    const mine = 'This revision: 1 change. Drift on the server: 0.';
    expect([renewed.code, renewed.out]).toEqual([0, expect.stringContaining(mine)]);
    expect((await world.cli(['diff', 'HEAD~1..HEAD', '--detailed-exitcode', 'm'])).code).toBe(2);
    expect((await world.cli(['diff', 'HEAD..HEAD', '--detailed-exitcode', 'm'])).code).toBe(0);
    commitLocked('moved', 'two');
    const moved = await world.cli(['plan', '--base', 'HEAD~1', '--fail-on', 'drift', ...bound]);
    const theirs = 'This revision: 0 changes. Drift on the server: 1.';
    expect([moved.code, moved.out]).toEqual([3, expect.stringContaining(theirs)]);
  });

  it('an apply of a CI job names the commit in its first line, in Markdown, in JSON and in the history', async () => {
    const commit = '4df71eb0c2b1a4f53d2c8a1f6f0b3e8a5b7c9d10 (main)';
    const env = { RECONCILE_REVISION: commit, RECONCILE_STATE_DIR: join(world.folder, 'state') };
    const outputs = ['--output', 'text', '--output', 'markdown=a.md', '--output', 'json=a.json'];
    const { out } = await world.cli(['apply', '--yes', ...outputs, 'm'], { env });
    expect(out).toMatch(/^Plan for \S+ {4}m at 4df71eb \(main\)\n[\s\S]*\nApplied: 2 done/);
    expect(world.read('a.md').split('\n').slice(0, 4).join(' ')).toMatch(/Applied: 2 done.* m at 4df71eb \\\(main/);
    expect(JSON.parse(world.read('a.json'))).toMatchObject({ revision: commit, end: 'converged' });
    expect((await world.cli(['history'], { env })).out).toContain(', from 4df71eb0c2b1 (main): converged');
    const undone = await world.cli(['undo', '--yes', '--allow-empty'], { env });
    expect([undone.code, undone.out]).toEqual([0, expect.stringMatching(/^Plan for \S+ {4}undo of apply 1/m)]);
  });

  it('--fail-on drift refuses where the server was changed by somebody else', async () => {
    await world.cli(['m']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    expect((await world.cli(['--plan', '--base', 'HEAD', '--fail-on', 'drift', 'm'])).code).toBe(3);
  });

  it('--fail-on drift does not pass where nothing can tell what drifted', async () => {
    const without = await world.cli(['--plan', '--fail-on', 'drift', 'm']);
    expect([without.code, without.err]).toEqual([1, expect.stringContaining('--fail-on drift needs --base')]);
    world.write('broken/a.yaml', 'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a}\nspec: {}\n');
    const broken = await world.cli(['--plan', '--base', 'broken', '--fail-on', 'drift', 'm']);
    expect([broken.code, broken.err]).toEqual([1, expect.stringContaining('base-invalid')]);
    expect((await world.cli(['--plan', '--base', 'broken', 'm'])).code).toBe(0);
  });

  it('`failOn: [drift]` in the settings is asked of plans, and of an apply that has a base; any other corrects drift', async () => {
    await world.cli(['m']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('s.yaml', 'failOn: [drift]\n');
    const settings = ['--config', 's.yaml', '--max-deletes', '5', 'm'];
    const flag = ['--fail-on', 'drift'];
    for (const argv of [['plan'], ['apply', '--dry-run'], ['apply', '--yes', ...flag]])
      expect(await world.cli([...argv, ...settings])).toMatchObject({
        code: 1,
        err: expect.stringContaining('--base'),
      });
    for (const verb of ['plan', 'apply'])
      expect((await world.cli([verb, '--yes', '--base', 'HEAD', ...settings])).code).toBe(3);
    expect(world.simulator.rules()).toHaveLength(3);
    expect((await world.cli(['apply', '--yes', ...settings])).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(2);
  });

  it('a ref that a shallow clone lacks is an error that names fetch-depth: 0', async () => {
    world.write('m/a.yaml', web);
    commit('second');
    execFileSync('git', ['clone', '-q', '--depth', '1', `file://${world.folder}`, `${world.folder}/shallow`], {
      stdio: 'ignore',
    });
    const run = await world.cli(['--plan', '--base', 'HEAD~1', 'shallow/m']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('fetch-depth: 0')]);
  });

  it('a ref that is not there, and a PATH outside any repository, are said', async () => {
    expect((await world.cli(['--plan', '--base', 'no-such-branch', 'm'])).err).toContain('is not in the repository');
  });

  it('threat 1: a ref that git could take for an option is refused, and nothing runs', async () => {
    for (const ref of ['--output=/tmp/canary-file', '-c', '--upload-pack=touch', 'HEAD;id', 'a..b', 'x\ny']) {
      const run = await world.cli(['--plan', `--base=${ref}`, 'm']);
      expect([ref, run.code, run.err]).toEqual([ref, 1, expect.stringContaining('is not the name of a commit')]);
    }
  });

  it('threat 4: hooks, filters and fsmonitor of the repository do not run', async () => {
    const canary = `${world.folder}/canary`;
    world.write('evil.sh', `#!/bin/sh\ntouch ${canary}\ncat\n`);
    execFileSync('chmod', ['+x', `${world.folder}/evil.sh`]);
    git('config', 'core.fsmonitor', `${world.folder}/evil.sh`);
    git('config', 'filter.evil.smudge', `${world.folder}/evil.sh`);
    git('config', 'diff.evil.textconv', `${world.folder}/evil.sh`);
    world.write('.gitattributes', '*.yaml filter=evil diff=evil\n');
    expect((await world.cli(['--plan', '--base', 'HEAD', 'm'])).code).toBe(0);
    expect(() => world.read('canary')).toThrow();
  });

  it('a directory that the base does not have yet: everything is this revision', async () => {
    world.write('fresh/a.yaml', closed);
    const plan = (await world.cli(['--plan', '--base', 'HEAD', '--output', 'json', 'fresh'])).json();
    expect(plan.changes.map(({ origin }) => origin)).toEqual(['this-revision']);
  });

  it.each(['fix/#12', 'häß', "it's(odd),=%&!"])('a branch named %s is a base like any other', async (name) => {
    execFileSync('git', ['branch', name], { cwd: world.folder });
    world.write('m/a.yaml', closed);
    const plan = (await world.cli(['--plan', '--base', name, '--output', 'json', 'm'])).json();
    expect(plan.changes.map(({ origin }) => origin)).not.toContain(undefined);
  });

  it('is built with the values of its own, by plans and by drift', async () => {
    const values = ['--values', 'values.yaml'];
    world.write('m/a.yaml', rule('closed', ['action: drop, destination: "$', '{net}"'].join('')));
    world.write('values.yaml', 'net: 203.0.113.0/24\n');
    commit('applied');
    await world.cli(['m', ...values]);
    world.write('values.yaml', 'net: 192.0.2.0/24\n');
    const plan = (await world.cli(['--plan', '--base', 'HEAD', '--output', 'json', ...values, 'm'])).json();
    expect(plan.changes.filter(({ action }) => action !== 'keep').map(({ origin }) => origin)).toEqual([
      'this-revision',
    ]);
    expect((await world.cli(['drift', '--base', 'HEAD', ...values, 'm'])).code).toBe(0);
    expect((await world.cli(['drift', ...values, 'm'])).code).toBe(2);
  });

  it('reads no values file behind a link out of the repository, on no side, and shows no name in it', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'runner-'));
    writeFileSync(join(outside, 'secrets.yaml'), 'canary: 203.0.113.0/24\n');
    world.write('m/a.yaml', rule('closed', 'action: drop, destination: 203.0.113.0/24'));
    world.write('shared/values.yaml', 'net: 203.0.113.0/24\n');
    const point = (link: string, target: string) => {
      rmSync(join(world.folder, link), { recursive: true, force: true });
      symlinkSync(target, join(world.folder, link));
    };
    point('values.yaml', 'shared/values.yaml');
    commit('a link that stays');
    expect((await world.cli(['validate', 'm', '--values', 'values.yaml'])).code).toBe(0);
    world.write('m/a.yaml', rule('closed', ['action: drop, destination: "$', '{other}"'].join('')));
    for (const [file, link, target] of [
      ['values.yaml', 'values.yaml', join(outside, 'secrets.yaml')],
      ['values.yaml', 'values.yaml', '.git/config'],
      ['ops/secrets.yaml', 'ops', outside],
    ] as const) {
      point(link, target);
      for (const command of [['validate'], ['diff', 'HEAD'], ['--plan', '--base', 'HEAD']]) {
        const { code, out, err } = await world.cli([...command, 'm', '--values', file]);
        expect([code, out + err]).toEqual([expect.any(Number), expect.stringContaining('[bad-values]')]);
        expect([code > 0, `${out}${err}`]).toEqual([true, expect.not.stringMatching(/canary|203\.0|bare/)]);
      }
    }
    point('m/values.yaml', join(outside, 'secrets.yaml'));
    world.write('old/a.yaml', closed);
    point('old/values.yaml', join(outside, 'secrets.yaml'));
    const { out, err } = await world.cli(['diff', 'old', 'm', '--values', 'old/values.yaml']);
    expect(out + err).toContain('[bad-values]');
    expect(out + err).not.toContain('canary');
    rmSync(outside, { recursive: true });
  });

  it('a base with errors is said, and nothing is attributed', async () => {
    world.write('m/a.yaml', 'kind: Nonsense\n');
    commit('broken');
    world.write('m/a.yaml', closed);
    const plan = (await world.cli(['--plan', '--base', 'HEAD', '--output', 'json', 'm'])).json();
    expect(plan.problems.map(({ code }) => code)).toContain('base-invalid');
    expect(plan.changes.every(({ origin }) => origin === undefined)).toBe(true);
  });
});

describe('a reference to a secret that a request replaces', () => {
  it('is its change, where a plan cannot read the secret, and so is a provider that moves to another host', async () => {
    world.write('m/a.yaml', provider('{env: RECONCILE_SECRET_G}') + closed);
    world.write('old/a.yaml', provider('{env: RECONCILE_SECRET_G}') + closed);
    await world.cli(['m'], { env: secretEnv });
    const planOf = async (text: string): Promise<string> => {
      world.write('m/a.yaml', text + closed);
      return (await world.cli(['--plan', '--base', 'old', 'm'])).out;
    };
    expect(await planOf(provider('{env: RECONCILE_SECRET_G}'))).toMatch(/^In sync: .*; nothing to do\.$/m);
    const replaced = await planOf(provider('{env: RECONCILE_SECRET_H}'));
    expect(replaced).toMatch(/^Not known to be in sync, for want of a secret: 1 object unchanged, 1 skipped\.$/m);
    expect(replaced).toContain('This revision: 1 change. Drift on the server: 0.');
    expect(replaced).toContain('{env: RECONCILE_SECRET_G} → {env: RECONCILE_SECRET_H}');
    const moved = await planOf(provider('{env: RECONCILE_SECRET_G}').replace('idp.example', 'evil.example'));
    expect(moved).toMatch(/^Not in sync, for want of a secret: 1 object unchanged, 1 skipped\.$/m);
    expect(moved).toContain('This revision: 1 change. Drift on the server: 0.');
  });

  it('is a change of `diff`, which looks up no secret', async () => {
    world.write('old/a.yaml', provider('{env: RECONCILE_SECRET_G}'));
    const compare = async (text: string) => {
      world.write('new/a.yaml', text);
      const { out, err } = await world.cli(['diff', 'old', 'new'], { env: secretEnv });
      expect(out + err).not.toContain('not available');
      return out;
    };
    expect(await compare(provider('{env: RECONCILE_SECRET_G}'))).toContain('No differences: 1 object unchanged.');
    const replaced = await compare(provider('{env: RECONCILE_SECRET_H}'));
    expect(replaced).toMatch(/client_secret +\(changed\) \{env: RECONCILE_SECRET_G\} → \{env: RECONCILE_SECRET_H\}\n/);
    expect(replaced).toContain('1 to update, 0 unchanged.');
    const moved = await compare(provider('{env: RECONCILE_SECRET_G}').replace('idp.example', 'evil.example'));
    expect(moved).toMatch(/discovery_document_uri +https:\/\/idp\.example\/d → https:\/\/evil/);
    expect(moved).not.toContain('client_secret');
  });
});

describe('a plan without a request', () => {
  it('is not called in sync when what differs waits for a secret, or when it is refused', async () => {
    world.write('m/a.yaml', provider('{env: RECONCILE_SECRET_G}') + closed);
    world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    const waiting = await world.cli(['m']);
    expect(waiting.out).toContain('not sent without a secret that is not available here');
    expect(waiting.out).toMatch(/^Not in sync, for want of a secret: 1 object unchanged, 1 skipped/m);
    const test = `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec: {cases: [{destination: 10.0.0.1, expect: accept}]}\n`;
    world.write('m/a.yaml', `${closed}---\n${test}`);
    const refused = await world.cli(['m']);
    expect([refused.code, refused.out]).toEqual([3, expect.stringContaining('nothing to do. Refused')]);
  });
});

interface Saved {
  readonly digest: Record<string, unknown>;
  readonly plan: {
    readonly steps: unknown[];
    readonly changes: Record<string, unknown>[];
    readonly effect: Record<string, unknown>;
    readonly exposure: unknown[];
  };
}

describe('saved plans', () => {
  beforeEach(() => {
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('m/a.yaml', web + closed);
  });

  it('apply what was saved, and only that', async () => {
    expect((await world.cli(['--plan', '--save', 'plan.json', 'm'])).code).toBe(0);
    const run = await world.cli(['apply', 'plan.json', 'm']);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 2]);
  });

  it.each<[string, (w: World) => void, RegExp]>([
    [
      'the manifests moved',
      (w) => w.write('m/b.yaml', rule('more', 'action: drop, destination: 192.0.2.0/24')),
      /the manifests.*not in it: create more$/m,
    ],
    [
      'the server moved',
      (w) => w.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]),
      /the live state of the server.*not in it: delete [0-9a-f-]{36}$/m,
    ],
    [
      'somebody did a part of it',
      (w) => w.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]),
      /the live state of the server.*in it, and not needed now: create closed$/m,
    ],
    [
      'somebody did all of it',
      (w) => {
        w.write('m/a.yaml', rule('old', 'action: drop, destination: 203.0.113.0/24'));
      },
      /in it, and not needed now: .*[\s\S]*hint: nothing is left to do/,
    ],
  ])('%s: exit 3, saying so, and nothing is written', async (_, move, words) => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    move(world);
    const before = world.simulator.rules().length;
    const run = await world.cli(['apply', 'plan.json', 'm']);
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringMatching(words)]);
    expect(world.simulator.rules()).toHaveLength(before);
  });

  it('manifests that are only written differently do not matter', async () => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    world.write('m/a.yaml', `# a comment\n${closed}${web}`);
    expect((await world.cli(['apply', 'plan.json', 'm'])).code).toBe(0);
  });

  it.each<[string, (saved: Saved) => void]>([
    ['the digest', (saved) => Object.assign(saved.digest, { plan: '0'.repeat(32) })],
    ['a step', (saved) => saved.plan.steps.pop()],
    ['the name of a change', (saved) => Object.assign(saved.plan.changes[0] ?? {}, { name: 'harmless' })],
    ['the traffic', (saved) => Object.assign(saved.plan.effect, { opens: [] })],
    ['the exposure', (saved) => saved.plan.exposure.push({})],
    ['everything a reviewer reads', (saved) => Object.assign(saved, { plan: {} })],
  ])('%s was edited in the file: exit 3, saying so, and nothing is written', async (_, edit) => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const saved = JSON.parse(world.read('plan.json')) as Saved;
    edit(saved);
    world.write('plan.json', JSON.stringify(saved));
    const run = await world.cli(['apply', 'plan.json', 'm']);
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('is not as it was saved')]);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('a saved plan whose key was edited to null is not applied against another server and token', async () => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const {
      seal: _seal,
      server: _server,
      ...saved
    } = JSON.parse(world.read('plan.json')) as Saved & Record<string, unknown>;
    const other = await startSimulator({ token: 'other-token' });
    try {
      other.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
      for (const forged of [
        { ...saved, digest: { ...saved.digest, key: null } },
        { ...JSON.parse(world.read('plan.json')), digest: { ...saved.digest, key: null } },
      ]) {
        world.write('plan.json', JSON.stringify(forged));
        const env = { RECONCILE_BASE_URL: other.url, RECONCILE_TOKEN: 'other-token' };
        const run = await world.cli(['apply', 'plan.json', 'm'], { env });
        expect([run.code, run.out + run.err]).toEqual([3, expect.stringMatching(/has no seal|token is another one/)]);
      }
      expect(other.rules()).toHaveLength(1);
    } finally {
      await other.close();
    }
  });

  it('a saved plan is not applied through another base URL, though it is the same server', async () => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const env = { RECONCILE_BASE_URL: world.simulator.url.replace('127.0.0.1', 'localhost') };
    const run = await world.cli(['apply', 'plan.json', 'm'], { env });
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('the saved plan was made for http')]);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('formatted anew by an editor, and saved with --base, it is what it was', async () => {
    await world.cli(['--plan', '--base', 'm', '--save', 'plan.json', 'm']);
    world.write('plan.json', JSON.stringify(JSON.parse(world.read('plan.json'))));
    expect((await world.cli(['apply', 'plan.json', 'm'])).code).toBe(0);
  });

  it.each([
    ['a rule', web],
    ['a provider', provider('{env: RECONCILE_SECRET_G}')],
  ])('another token makes a plan for %s unusable, and says so', async (_, manifest) => {
    world.simulator.tokens.register(
      'another-token',
      world.simulator.users().find(({ role }) => role === 'admin')?.id ?? '',
    );
    world.write('m/c.yaml', manifest);
    world.write('m/a.yaml', closed);
    await world.cli(['--plan', '--save', 'plan.json', 'm'], { env: secretEnv });
    expect(world.read('plan.json')).not.toContain('CANARY');
    const run = await world.cli(['apply', 'plan.json', 'm'], {
      env: { ...secretEnv, RECONCILE_TOKEN: 'another-token' },
    });
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('the API token is another one')]);
  });

  it('an unknown secret makes the plan unusable, and says so', async () => {
    world.write('m/c.yaml', provider('{env: RECONCILE_SECRET_G}'));
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const run = await world.cli(['apply', 'plan.json', 'm'], { env: secretEnv });
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('a managed secret was not available')]);
  });

  it('another secret than the one reviewed is another plan', async () => {
    world.write('m/c.yaml', provider('{env: RECONCILE_SECRET_G}'));
    await world.cli(['--plan', '--save', 'plan.json', 'm'], { env: secretEnv });
    const run = await world.cli(['apply', 'plan.json', 'm'], {
      env: { ...secretEnv, RECONCILE_SECRET_G: 'CANARY-second' },
    });
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('the manifests')]);
  });

  it.each([
    ['missing', null, /ENOENT/],
    ['no plan', '{}', /is not a saved plan/],
    ['damaged', '{"kind":"saved-plan","format_version":"1.1"}', /damaged/],
  ])('a file that is %s is said, exit 1', async (_, text, words) => {
    if (text !== null) world.write('plan.json', text);
    const run = await world.cli(['apply', 'plan.json', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringMatching(words)]);
  });
});

describe('--approve', () => {
  it('releases the refused plan with that digest, and no other', async () => {
    world.simulator.seed(
      Array.from({ length: 12 }, (_, i) => ({ action: 'drop' as const, destination: `192.0.${i}.0/24` })),
    );
    world.write('m/a.yaml', closed);
    const refused = await world.cli(['--output', 'json', 'm']);
    const { digest } = refused.json();
    expect([refused.code, world.simulator.rules().length]).toEqual([3, 12]);
    expect((await world.cli(['--approve', '0123456789abcdef0123456789abcdef', 'm'])).code).toBe(3);
    const more = world.simulator.seed([{ action: 'drop', destination: '198.51.100.0/24' }]);
    const moved = await world.cli(['--approve', digest ?? '', 'm']);
    expect([moved.code, moved.out]).toEqual([3, expect.stringContaining('--approve is for a different plan')]);
    expect(more).toHaveLength(1);
    const again = (await world.cli(['--plan', '--output', 'json', 'm'])).json();
    const run = await world.cli(['--approve', again.digest ?? '', 'm']);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 1]);
    expect(run.out).toContain('approved by digest');
  });

  it.each(['flag', 'settings'])('takes nothing but a digest: anything else is said, from a %s', async (from) => {
    world.write('m/a.yaml', closed);
    world.write('s.yaml', from === 'settings' ? 'approve: [zz]\n' : '');
    const run = await world.cli(['--config', 's.yaml', ...(from === 'flag' ? ['--approve', 'zz'] : []), 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('32 digits 0-9 and a-f')]);
    expect(world.simulator.rules()).toEqual([]);
  });
});

describe('reconcile drift', () => {
  it.each([[[]], [['--base', 'HEAD']], [['--base', 'm']]])(
    'a PATH that is not there is said as such with %j',
    async (base) => {
      world.write('m/a.yaml', closed);
      const run = await world.cli(['drift', 'nope', ...base]);
      expect([run.code, run.err]).toEqual([4, expect.stringMatching(/no-source.*nope cannot be used/)]);
    },
  );

  it('exits 0 without drift, and 2 with, saying the direction', async () => {
    world.write('m/a.yaml', web + closed);
    await world.cli(['m']);
    const still = await world.cli(['drift', 'm']);
    expect([still.code, still.out]).toEqual([0, 'No difference: the server holds what these manifests say.\n']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('m/b.yaml', rule('gone', 'action: drop, destination: 192.0.2.0/24'));
    const run = await world.cli(['drift', 'm']);
    expect(run.code).toBe(2);
    expect(run.out).toMatch(/only on the server .*203\.0\.113\.0\/24/);
    expect(run.out).toMatch(/not on the server .*192\.0\.2\.0\/24/);
    const json = JSON.parse((await world.cli(['drift', '--output', 'json', 'm'])).out) as {
      in_sync: boolean;
      drift: { drift: string }[];
    };
    expect([json.in_sync, json.drift.map(({ drift }) => drift).sort()]).toEqual([false, ['missing-live', 'only-live']]);
    expect(world.simulator.requests().filter(({ method }) => method === 'DELETE')).toEqual([]);
  });

  it('compares with the revision that --base names', async () => {
    git('init', '-q');
    world.write('m/a.yaml', closed);
    commit('applied');
    await world.cli(['m']);
    world.write('m/a.yaml', web);
    expect((await world.cli(['drift', '--base', 'HEAD', 'm'])).code).toBe(0);
    expect((await world.cli(['drift', 'm'])).code).toBe(2);
  });

  it('does not say that somebody changed the server by hand where a rule began or ended, and no apply has run since', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-11-20T12:00:00Z') });
    try {
      await world.close();
      world = await startWorld({ clock: () => Date.now() });
      git('init', '-q');
      const times = (name: string, n: number, time: string): string =>
        rule(name, `action: accept, destination: 10.${n}.0.0/16, ${time}`);
      world.write(
        'm/a.yaml',
        closed + times('old', 2, 'expires: 2026-11-21') + times('new', 3, 'notBefore: 2026-11-23'),
      );
      commit('applied');
      await world.cli(['m']);
      vi.setSystemTime(Date.parse('2026-11-23T12:00:00Z'));
      const since = 'Began or ended since, and not yet applied: new, old.\n';
      const run = await world.cli(['drift', '--base', 'HEAD', 'm']);
      expect([run.code, run.out]).toEqual([
        0,
        expect.stringContaining(`No drift: the server holds what was applied.\n${since}`),
      ]);
      const without = await world.cli(['drift', 'm']);
      const named = '1 object differs.\nEnded since, and not yet applied: old.\n';
      expect([without.code, without.out]).toEqual([2, expect.stringContaining(named)]);
      // After a day no apply is late: somebody deleted it.
      vi.setSystemTime(Date.parse('2026-11-24T12:00:00Z'));
      expect((await world.cli(['drift', '--base', 'HEAD', 'm'])).out).toMatch(/gone from the server {2}.*new/);
      vi.setSystemTime(Date.parse('2026-11-23T12:00:00Z'));
      world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
      const drifted = await world.cli(['drift', '--base', 'HEAD', 'm']);
      expect([drifted.code, drifted.out]).toEqual([2, expect.stringMatching(/203\.0\.113[\s\S]*1 object drifted\.\n/)]);
      expect(drifted.out).toContain(since);
      // Once something was written after it began, somebody has deleted it.
      world.write('m/b.yaml', web);
      commit('more');
      await world.cli(['m']);
      const begun = world.simulator.rules().find(({ destination }) => destination === '10.3.0.0/16');
      await fetch(`${world.simulator.url}/v0/rules/${begun?.id}`, {
        method: 'DELETE',
        headers: { authorization: 'Bearer test-token-of-the-simulator', accept: 'application/json' },
      });
      const gone = await world.cli(['drift', '--base', 'HEAD', 'm']);
      expect([gone.code, gone.out]).toEqual([2, expect.stringMatching(/gone from the server {2}.*new/)]);
      // What was made after its end was made by hand.
      world.simulator.seed([{ action: 'accept', destination: '10.2.0.0/16' }]);
      expect((await world.cli(['drift', '--base', 'HEAD', 'm'])).out).toMatch(/only on the server {2}.*old/);
    } finally {
      vi.useRealTimers();
    }
  });

  it('sees without any secret that a provider is gone', async () => {
    world.write('m/a.yaml', provider('{env: RECONCILE_SECRET_G}') + closed);
    expect((await world.cli(['m'], { env: secretEnv })).code).toBe(0);
    expect((await world.cli(['drift', 'm'])).code).toBe(0);
    await fetch(`${world.simulator.url}/v0/configuration`, {
      method: 'PATCH',
      headers: {
        authorization: 'Bearer test-token-of-the-simulator',
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ configuration: { openid_connect_providers: [] } }),
    });
    const run = await world.cli(['drift', 'm']);
    expect([run.code, run.out]).toEqual([
      2,
      expect.stringMatching(/different on the server[\s\S]*openid_connect_providers/),
    ]);
    expect((await world.cli(['drift', '--output', 'json', 'm'])).out).toContain('"in_sync": false');
  });
});

describe('reconcile doctor', () => {
  it('tells of a server that is not there once, also where TLS was to be looked at', async () => {
    const run = await world.cli(['doctor', '--base-url', 'https://127.0.0.1:1', '--output', 'json']);
    expect([run.code, run.json().problems.map(({ code }) => code)]).toEqual([1, ['api-refused']]);
  });

  it('finds nothing wrong with a healthy server, and writes nothing', async () => {
    world.simulator.seed([{ action: 'accept', destination: '10.0.0.0/8', port_type: 'tcp', port_range: '443' }]);
    const run = await world.cli(['doctor']);
    expect([run.code, run.out]).toEqual([0, expect.stringContaining('ok port rules: supported')]);
    expect(world.simulator.requests().filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  it('explains a refused token, with its fix', async () => {
    const run = await world.cli(['doctor'], { env: { RECONCILE_TOKEN: 'wrong' } });
    expect([run.code, run.out]).toEqual([1, expect.stringMatching(/not valid here[\s\S]*hint:/)]);
  });

  it('names stored values that no manifest may have, and a sign-in that nobody has', async () => {
    const headers = { authorization: 'Bearer test-token-of-the-simulator', accept: 'application/json' };
    const stored = await (await fetch(`${world.simulator.url}/v0/configuration`, { headers })).json();
    const unfit = { default_client_dns: ['1.1.1.1', '1.1.1.1'], default_client_mtu: 575, local_auth_enabled: null };
    const server = createServer((request, response) => {
      response.setHeader('content-type', 'application/json');
      const data = request.url?.endsWith('/rules') ? [] : { ...(stored as { data: object }).data, ...unfit };
      response.end(JSON.stringify({ data }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const run = await world.cli(['doctor', '--base-url', `http://127.0.0.1:${port}`]);
    server.close();
    expect(run.out).toContain(
      '[stored-value-unfit] default_client_dns is stored with a value that no manifest may have',
    );
    expect(run.out).toContain('`default_client_mtu` is out of bounds. Write a number from 576 to 1500.');
    expect(run.out).toContain('[no-sign-in]');
  });

  it('names fields of rules and Configuration that a newer server has, and so does a plan, once', async () => {
    const headers = { authorization: 'Bearer test-token-of-the-simulator', accept: 'application/json' };
    const [, id] = world.simulator.seed(
      ['10.0.0.0/9', '10.128.0.0/9'].map((destination) => ({ action: 'drop', destination })),
    );
    const read = async (path: string) =>
      ((await (await fetch(`${world.simulator.url}${path}`, { headers })).json()) as { data: object }).data;
    const more = {
      ...Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`x${n}`, n])),
      'a\u001b[2J': 1,
      enabled: false,
    };
    const [rules, configuration] = [await read('/v0/rules'), await read('/v0/configuration')];
    const answers = {
      '/v0/rules': (rules as { id: string }[]).map((one) => (one.id === id ? { ...one, ...more } : one)),
      '/v0/configuration': { ...configuration, new_field: 1 },
    };
    const server = createServer((request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ data: answers[request.url as keyof typeof answers] }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    world.write('m/a.yaml', closed);
    const at = ['--base-url', `http://127.0.0.1:${port}`];
    const [doctor, plan] = [await world.cli(['doctor', ...at]), await world.cli(['plan', 'm', ...at])];
    server.close();
    const told = `[unknown-live-fields] The server has fields that this version does not know: a\\u{1b}[2J, enabled, x0, x1, x2 and`;
    for (const { code, out, err } of [doctor, plan]) {
      expect([code, `${out}${err}`.split(told).length]).toEqual([0, 2]);
    }
    // No manifest manages the Configuration.
    expect([doctor.out, plan.out + plan.err]).toEqual([
      expect.stringContaining(`and 7 more (first in rule ${id}).`),
      expect.stringContaining(`and 6 more (first in rule ${id}).`),
    ]);
  });

  it('names a rule modified in place, and the way to replace it', async () => {
    const [id] = world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    await fetch(`${world.simulator.url}/v0/rules/${id}`, {
      method: 'PATCH',
      headers: {
        authorization: 'Bearer test-token-of-the-simulator',
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ rule: { destination: '10.0.0.0/9' } }),
    });
    const run = await world.cli(['doctor']);
    expect(run.out).toMatch(new RegExp(`${id}.*modified in place[\\s\\S]*--replace-modified`));
  });
});

describe('several outputs at once', () => {
  it('one run writes text, Markdown and JSON of the same plan', async () => {
    world.write('m/a.yaml', closed);
    const run = await world.cli(['--plan', '--output', 'markdown=plan.md', '--output', 'json=plan.json', 'm']);
    expect(run.out).toContain('1 to create');
    expect(world.read('plan.md')).toContain('closed');
    expect((JSON.parse(world.read('plan.json')) as { summary: { create: number } }).summary.create).toBe(1);
  });

  it('a failed run writes them too', async () => {
    world.write('m/a.yaml', closed);
    const run = await world.cli(['--plan', '--output', 'markdown=plan.md', '--output', 'json=plan.json', 'm'], {
      env: { RECONCILE_TOKEN: '' },
    });
    expect(run.code).toBe(1);
    expect(world.read('plan.md')).toContain('no API token');
    expect(JSON.parse(world.read('plan.json'))).toMatchObject({ summary: null, problems: [{ code: 'no-token' }] });
  });

  it('two on stdout, an unknown format and a file that cannot be written are said before anything is sent', async () => {
    world.write('m/a.yaml', closed);
    for (const args of [
      ['--output', 'json', '--output', 'markdown'],
      ['--output', 'yaml'],
      ['--output', 'json='],
      ['--output', 'json=no/such/folder/plan.json'],
      ['--output', 'markdown=m'],
    ]) {
      const run = await world.cli([...args, 'm']);
      expect(run.code).toBe(1);
      expect(run.err.match(/error \[/g)).toHaveLength(1);
    }
    const github = await world.cli(['--output', 'github', 'm'], { env: { GITHUB_STEP_SUMMARY: '/no/such/summary' } });
    expect([github.code, github.err]).toEqual([1, expect.stringContaining('its directory is not there')]);
    expect(world.simulator.requests()).toEqual([]);
  });

  it.each(['export', 'build', 'fmt', 'schema', 'snapshot', 'completion', 'simulate'])(
    '%s prints one thing, and refuses --output instead of ignoring it',
    async (command) => {
      world.write('m/a.yaml', closed);
      const run = await world.cli([command, '--output', 'json']);
      expect([run.code, run.err]).toEqual([1, expect.stringContaining("unknown option '--output'")]);
      expect((await world.cli(['--output', 'json', command])).err).toContain("unknown option '--output'");
    },
  );

  it.each(['explain', 'doctor'])('%s refuses formats of plans, and says its own', async (command) => {
    const run = await world.cli([command, '--output', 'markdown']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('its formats are text, json, html')]);
  });

  it('validate, test and drift say in Markdown and to a runner what they found', async () => {
    world.write('m/a.yaml', closed);
    await world.cli(['m']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    world.write('m/b.yaml', rule('gone', 'action: drop, destination: 192.0.2.1/24'));
    const [validate, test, drift, github] = [
      await world.cli(['validate', '--output', 'markdown', 'm']),
      await world.cli(['test', '--output', 'markdown', 'm']),
      await world.cli(['drift', '--output', 'markdown', 'm']),
      await world.cli(['drift', '--output', 'github', 'm'], {
        env: { GITHUB_STEP_SUMMARY: `${world.folder}/summary` },
      }),
    ];
    expect([validate.code, validate.out]).toEqual([
      0,
      expect.stringMatching(/^### reconcile validate: m: 2 rules; 1 warning\n/),
    ]);
    expect([test.code, test.out]).toEqual([0, expect.stringMatching(/^### reconcile test: No policy test\n/)]);
    expect([drift.code, drift.out]).toEqual([
      2,
      expect.stringMatching(/^### reconcile drift: 2 objects differ from these manifests\n/),
    ]);
    expect(github.out).toMatch(/^::warning file=m\/b\.yaml,line=4,col=\d+,title=drift::not on the server: gone/m);
    expect(world.read('summary')).toBe(drift.out);
  });

  it('github: annotations at file and line, and the summary where the runner wants it', async () => {
    world.write('m/a.yaml', rule('a', 'action: dorp, destination: 10.0.0.0/8'));
    const run = await world.cli(['--plan', '--output', 'github', 'm'], {
      env: { GITHUB_STEP_SUMMARY: `${world.folder}/summary.md` },
    });
    expect(run.code).toBe(4);
    expect(run.out).toMatch(/^::error file=m\/a\.yaml,line=4,col=\d+,title=/m);
    expect(world.read('summary.md')).toContain('no plan');
  });
});

describe('completion', () => {
  it.each(['bash', 'zsh', 'fish'])('%s gets every command', async (shell) => {
    const { code, out } = await world.cli(['completion', shell]);
    expect(code).toBe(0);
    for (const name of [
      'validate',
      'snapshot',
      'doctor',
      'drift',
      'apply',
      'explain',
      '--save',
      '--base-url'.slice(shell === 'fish' ? 2 : 0),
    ])
      expect(out).toContain(shell === 'fish' ? name.replace(/^--/, '') : name);
  });

  /** What a shell offers for the last of these words, from the script that it was given. */
  const inBash = (words: string): string =>
    `source ./completion.txt; COMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _reconcile; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const shells: readonly { readonly shell: string; readonly args: (words: string) => readonly string[] }[] = [
    { shell: 'bash', args: (words) => ['-c', inBash(words)] },
    {
      // As its bashcompinit calls it.
      shell: 'zsh',
      args: (words) => [
        '-f',
        '-c',
        `autoload -U compinit && compinit -u -D; run() { emulate -L sh; setopt kshglob noshglob braceexpand; ${inBash(words)}; }; run`,
      ],
    },
    {
      shell: 'fish',
      args: (words) => ['-c', `source ./completion.txt; complete -C ${JSON.stringify(words.replaceAll("'", ''))}`],
    },
  ];

  for (const { shell, args } of shells) {
    const missing = spawnSync(shell, ['--version']).error !== undefined;
    const why = missing ? ' (skipped: not installed)' : shell === 'bash' ? '' : ' (long)';
    it.skipIf(missing)(`${shell} completes for real${why}`, async () => {
      world.write('completion.txt', (await world.cli(['completion', shell])).out);
      world.write('policy/a.yaml', closed);
      world.write('plan.json', '{}');
      const complete = (words: string): readonly string[] =>
        execFileSync(shell, [...args(words)], {
          cwd: world.folder,
          encoding: 'utf8',
          env: { ...process.env, HOME: world.folder },
        })
          .trim()
          .split('\n')
          .map((line) => line.split('\t')[0]?.replace(/\/$/, '') ?? '')
          // zsh itself leaves out what does not match
          .filter((text) => shell !== 'zsh' || text.startsWith(words.split(' ').at(-1) ?? ''))
          .sort();
      expect(complete('reconcile va')).toEqual(['validate']);
      expect(complete('reconcile --detailed')).toEqual(['--detailed-exitcode']);
      expect(complete('reconcile --profile g')).toEqual(['generic']);
      expect(complete('reconcile validate --str')).toEqual(['--strict']);
      expect(complete('reconcile validate pol')).toEqual(['policy']);
      expect(complete('reconcile apply pl')).toEqual(['plan.json']);
      expect(complete('reconcile help exp')).toEqual(['expiring', 'explain', 'export']);
      expect(complete('reconcile --fail-on dr')).toEqual(['drift']);
      // bash hands the three words over that it makes of this one
      if (shell === 'bash') expect(complete('reconcile --profile = g')).toEqual(['generic']);
    });
  }

  it('another shell is said', async () => {
    const run = await world.cli(['completion', 'tcsh']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('bash, zsh and fish')]);
  });
});

describe('what was meant', () => {
  it.each<[readonly string[], string]>([
    [['aply'], 'Did you mean `reconcile apply`?'],
    [['validte', 'm'], 'Did you mean `reconcile validate`?'],
    [['explian', '--rule', 'x', 'm'], 'Did you mean `reconcile explain`?'],
    [['help', 'doctr'], 'Did you mean `reconcile doctor`?'],
    [['help', 'nonsense'], 'reconcile --help shows the commands'],
    [['--ys', 'm'], 'Did you mean --yes?'],
    [['--pln', 'm'], 'Did you mean --plan?'],
    [['help', 'constructor'], 'reconcile --help shows the commands and their options'],
    [['sync', 'm'], 'there is no command `sync`'],
    [['plan', '--interval', '5m', 'm'], '--interval goes with `reconcile watch`'],
    [['plan', '--yes=maybe', 'm'], '--yes takes no value'],
    [['--plan', 'm', '--watch'], 'give one command; write a directory'],
    [['validate', '--stric', 'm'], 'Did you mean --strict?'],
    [['plan', '--dryrun', 'm'], 'Use reconcile plan PATH, which writes nothing'],
    [['fmt', '--dryrun', 'm'], 'Use --check'],
    [['reach', '--confirm-wth', 'x', 'm'], 'Did you mean --confirm-with? --confirm-with goes with `reconcile apply`'],
  ])('%j: %s', async (args, words) => {
    const run = await world.cli(args);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(words)]);
    expect(world.simulator.requests()).toEqual([]);
  });

  it('a directory is planned, whatever its name looks like', async () => {
    world.write('aply/a.yaml', closed);
    expect((await world.cli(['--plan', 'aply'])).code).toBe(0);
  });

  it('help shows the commands first, and the options of a command under headings', async () => {
    const [all, one] = [await world.cli(['help']), await world.cli(['help', 'apply'])];
    expect(all.out.indexOf('Commands')).toBeLessThan(all.out.indexOf('--base-url'));
    expect(one.out).toMatch(/^Usage: reconcile apply \[options\] \[PLAN\] PATH\n/);
    expect(one.out).toMatch(/\nThe server:\n {2}--base-url/);
  });
});
