import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runIn } from './harness.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reconcile-diff-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const diff = (args: readonly string[], more: { cwd?: string; env?: Readonly<Record<string, string>> } = {}) =>
  runIn(more.cwd ?? folder, ['diff', ...args], { env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...more.env } });

function rulesText(...rules: readonly string[]): string {
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: lab}\nspec:\n  rules:\n${rules.map((rule) => `    - {${rule}}\n`).join('')}`;
}

const planSchema = JSON.parse(readFileSync(join(import.meta.dirname, '../../schemas/plan.schema.json'), 'utf8'));

const wall = 'name: wall, action: drop, destination: 10.0.0.0/8';
const web = 'name: web, action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443';
const wide = web.replace('10.1.0.0/16', '10.1.0.0/15').replace('10.1.0.0/15', '10.0.0.0/15');

function put(name: string, text: string): void {
  mkdirSync(join(folder, name, '..'), { recursive: true });
  writeFileSync(join(folder, name), text);
}

function git(...args: readonly string[]): string {
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.test', '-c', 'init.defaultBranch=main'];
  return execFileSync('git', [...identity, ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
}

/** Two commits on main; a branch from the first one, with a commit of its own. */
function history(): void {
  put('net/rules.yaml', rulesText(wall));
  git('init', '-q');
  git('add', '.');
  git('commit', '-qm', 'first');
  git('checkout', '-qb', 'feature');
  put('net/rules.yaml', rulesText(wall, web));
  git('commit', '-qam', 'open the web');
  git('checkout', '-q', 'main');
  put(
    'net/more.yaml',
    rulesText('name: dns, action: accept, destination: 10.0.0.53').replace('name: lab', 'name: dns'),
  );
  git('add', '.');
  git('commit', '-qm', 'second');
}

it('names the folder of the manifests, where PATH is left out and settings lie above it', async () => {
  history();
  put('settings.yaml', 'maxDeletes: 10%\n');
  const inTree = await diff(['HEAD']);
  git('add', '.');
  git('commit', '-qm', 'settings');
  for (const run of [inTree, await diff(['HEAD'])]) {
    expect(run.code).toBe(4);
    expect(run.err).toMatch(/settings\.yaml is no manifest\n +hint: .*`reconcile diff HEAD net`\n$/);
  }
  expect((await diff(['HEAD', 'net'])).code).toBe(0);
});

describe('names that stand for others than before', () => {
  const [al, mal] = ['5a1d4e9c-0000-4000-8000-000000000b0b', '5a1d4e9c-0000-4000-8000-000000000bad'];
  const people = (users: string, more = ''): string =>
    `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {${users}}\n${more}---\n${rulesText(wall, 'name: ceo, action: accept, destination: 10.5.0.0/16, user: alice')}`;
  const compareUsers = async (before: string, after: string) => {
    put('old/rules.yaml', before);
    put('new/rules.yaml', after);
    return await diff(['old', 'new', '--output', 'text', '--output', 'markdown=d.md']);
  };
  const before = people(`alice: ${al}, mallory: ${mal}`);

  it('are told by their former name too, with a warning that has both UUIDs, when two users swap them', async () => {
    const { out, err } = await compareUsers(before, people(`alice: ${mal}, mallory: ${al}`));
    expect(out + err).toContain(`\`alice\` has the UUID ${mal} here, ${al} in the base.`);
    expect(out).toMatch(/opens +10\.5\.0\.0\/16 for alice \(mallory in the base\)\n/);
    expect(out).toMatch(/closes +10\.5\.0\.0\/16 for mallory \(alice in the base\)\n/);
    expect(readFileSync(join(folder, 'd.md'), 'utf8')).toMatch(/<details open><summary>Problems .*\n\n- \*\*warning/);
  });

  it('are none where a user is renamed or new, and a comment switches the warning off', async () => {
    const renamed = before
      .replaceAll('alice', 'alicia')
      .replace('mallory: ', `bob: ${al.replace('b0b', 'b0c')}, mallory: `);
    const { out, err } = await compareUsers(before, renamed);
    expect(out + err).not.toMatch(/moved-name|in the base/);
    const quiet = await compareUsers(
      before,
      `# reconcile-ignore-file: moved-name a new account\n${people(`alice: ${mal}`)}`,
    );
    expect(quiet.out + quiet.err).not.toContain('moved-name');
  });

  it('a group is told by its name alone where it has the members that it had, with a warning where it lost all of them', async () => {
    const group = (name: string, members: string): string =>
      `---\napiVersion: firezone/v0\nkind: Group\nmetadata: {name: ${name}}\nspec: {members: [${members}]}\n`;
    const users = ['alice', 'bob', 'carol', 'dan'].map((name, n) => `${name}: ${al.slice(0, -1)}${n}`).join(', ');
    const policy = (first: string, second: string): string =>
      people(users, group('team3', first) + group('team4', second)).replace('user: alice', 'group: team3');
    const { out, err } = await compareUsers(policy('alice, bob', 'carol, dan'), policy('carol, dan', 'alice, bob'));
    expect(out + err).toContain('The group `team3` has none of the members that it has in the base.');
    expect(out).toMatch(/closes +10\.5\.0\.0\/16 for group team4 \(its new members\)\n/);
    const one = await compareUsers(policy('alice, bob', 'carol, dan'), policy('alice, bob, dan', 'carol, dan'));
    expect(one.out + one.err).not.toContain('moved-name');
  });
});

describe('two folders', () => {
  beforeEach(() => {
    put('old/rules.yaml', rulesText(wall, web));
    put('new/rules.yaml', rulesText(wall, wide));
  });

  it('are compared as a plan would say it, without order and requests', async () => {
    const { code, out } = await diff(['old', 'new']);
    expect(code).toBe(0);
    expect(out).toContain('Changes from old to new');
    expect(out).toContain('~ web');
    expect(out).toMatch(/opens {4}10\.0\.0\.0\/16 tcp 443/);
    expect(out).toContain('1 to update, 1 unchanged.');
    expect(out).not.toMatch(/request|Digest|replaced|Drift/);
  });

  it('are the same when nothing but names changed', async () => {
    put('new/rules.yaml', rulesText(wall, web).replace('name: lab', 'name: other'));
    expect(await diff(['old', 'new', '--detailed-exitcode'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('No differences: 2 objects unchanged.'),
    });
  });

  it.each([
    [['--fail-on', 'opens'], 3],
    [['--fail-on', 'closes'], 0],
    [['--fail-on', 'any'], 3],
    [['--detailed-exitcode'], 2],
    [['--fail-on', 'drift'], 1],
    [['--merge-base'], 1],
  ])('%j ends with %i', async (args, code) => {
    expect((await diff(['old', 'new', ...args])).code).toBe(code);
  });

  it('where a name passes to another user never call both of them by it: who loses access is another person', async () => {
    const users = (id: string) =>
      `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {alice: ${id}}\n`;
    for (const [side, id] of Object.entries({ old: 'a1520c4b', new: 'b0b00c4b' })) {
      put(`${side}/users.yaml`, users(`${id}-adc3-4574-932a-94461cf85c07`));
      put(`${side}/rules.yaml`, rulesText('name: own, action: drop, destination: 10.1.0.0/16, user: alice'));
    }
    const { out } = await diff(['old', 'new']);
    const former = 'a1520c4b-adc3-4574-932a-94461cf85c07 (alice in the base)';
    expect(out).toContain(`drop 10.1.0.0/16 for ${former} → 10.1.0.0/16 for alice (another user in the base)`);
    expect(out).toContain(`opens for ${former}; closes for alice (another user in the base)`);
  });

  it('say in how many days a rule begins', async () => {
    const begins = new Date(Date.now() + 67.2 * 86_400_000).toISOString();
    const later = `name: later, action: accept, destination: 10.3.0.0/16, notBefore: "${begins}"`;
    put('new/rules.yaml', rulesText(wall, web, later));
    expect((await diff(['old', 'new'])).out).toMatch(/10\.3\.0\.0\/16 +\(begins in 67 days \(\d{4}-/);
    put('old/rules.yaml', rulesText(wall, web, later.replace(begins, '2099-01-01')));
    expect((await diff(['old', 'new'])).out).toContain('(begins 2099-01-01T00:00:00Z → ');
  });

  it('are compared by the settings of plans too, of which those that need a server wait for one', async () => {
    const env = { RECONCILE_FAIL_ON: 'drift,not-enforced' };
    expect(await diff(['old', 'new'], { env })).toMatchObject({ code: 0, err: '' });
    const both = { RECONCILE_FAIL_ON: 'drift,opens' };
    expect(await diff(['old', 'new'], { env: both })).toMatchObject({ code: 3 });
  });

  it('give JSON of the schema of plans, and Markdown that is no comment of a plan', async () => {
    const { out } = await diff(['old', 'new', '--output', 'json']);
    const document = JSON.parse(out);
    expect(new Ajv2020({ strict: false }).validate(planSchema, document)).toBe(true);
    expect(document).toMatchObject({ steps: [], exposure: [], summary: { update: 1, keep: 1, steps: 0 } });
    expect(document.changes).toMatchObject([{ action: 'update' }]);
    const markdown = (await diff(['old', 'new', '--output', 'markdown'])).out;
    expect(markdown).toContain('### reconcile diff: 1 to update, 1 unchanged.');
    expect(markdown).not.toContain('<!-- reconcile-plan -->');
  });

  it.each([
    ['does not end any more', `${web}, expires: 2999-01-01`, web, 'expires 2999-01-02T00:00:00Z → never', 'opens'],
    ['ends earlier', web, `${web}, expires: 2999-01-01`, 'expires never → 2999-01-02T00:00:00Z', 'closes'],
    ['begins later', '', `${web}, notBefore: 2999-01-01`, '(2999-01-01T00:00:00Z)', 'opens'],
  ])('tell that a rule %s, and what that opens or closes then', async (_, before, after, told, verb) => {
    put('old/rules.yaml', rulesText(...[wall, before].filter((rule) => rule !== '')));
    put('new/rules.yaml', rulesText(wall, after));
    const { code, out } = await diff(['old', 'new', '--fail-on', verb]);
    expect(code).toBe(3);
    expect(out).toContain(told);
    expect(out).toContain('Now: no traffic changes.');
    expect(out).toMatch(
      /From 2999-01-0[12]T00:00:00Z: (opens for everyone; closes nothing|opens nothing; closes for everyone)/,
    );
    expect(out).toContain(`The plan ${verb} traffic.`);
    const document = JSON.parse((await diff(['old', 'new', '--output', 'json'])).out);
    expect(new Ajv2020({ strict: false }).validate(planSchema, document)).toBe(true);
    expect(document.later).toMatchObject([{ [verb]: [{ destinations: ['10.1.0.0/16'], ports: ['443'] }] }]);
    for (const output of ['markdown', 'html']) {
      expect((await diff(['old', 'new', '--output', output])).out).toMatch(/From 2999-01-0/);
    }
  });

  it('run the policy tests of the later one', async () => {
    const cases =
      'spec:\n  cases:\n    - {name: closed, destination: 10.0.0.1, protocol: tcp, port: 443, expect: drop}\n';
    put('new/test.yaml', `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: tests}\n${cases}`);
    const { code, out } = await diff(['old', 'new']);
    expect([code, out]).toEqual([3, expect.stringContaining('[policy-test-failed]')]);
  });

  it('show what changes of the Configuration, and never that a secret is not known', async () => {
    const configuration = (dns: string): string =>
      `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n  default_client_dns: [${dns}]\n  openid_connect_providers:\n    - {id: a, label: A, client_id: c, client_secret: {env: RECONCILE_SECRET_A}, discovery_document_uri: "https://idp.example.com/x", auto_create_users: false}\n`;
    put('old/main.yaml', configuration('10.0.0.53'));
    put('new/main.yaml', configuration('10.0.0.54'));
    put('new/rules.yaml', rulesText(wall, web));
    const { out, code } = await diff(['old', 'new']);
    expect([code, out]).toEqual([0, expect.stringContaining('10.0.0.54')]);
    put('new/main.yaml', configuration('10.0.0.53'));
    expect((await diff(['old', 'new'])).out).toContain('No differences');
    // Another host for the sign-in is a change like any other, with no word on what would be sent.
    put('new/main.yaml', configuration('10.0.0.53').replace('idp.example.com', 'evil.example.com'));
    const moved = await diff(['old', 'new', '--detailed-exitcode']);
    expect([moved.code, moved.out]).toEqual([2, expect.stringMatching(/^ {2}~ openid_connect_providers\[a\].* → /m)]);
    expect(moved.out).toMatch(/^1 to update, 2 unchanged\.$/m);
    expect(moved.out).not.toMatch(/client_secret|sent/);
    const document = JSON.parse((await diff(['old', 'new', '--output', 'json'])).out);
    expect(document.summary).toMatchObject({ update: 1, skip: 0 });
  });

  it('show no secret as changed because another provider comes before its own', async () => {
    const provider = (id: string): string =>
      `    - {id: ${id}, label: A, client_id: c, client_secret: {env: RECONCILE_SECRET_${id}}, discovery_document_uri: "https://idp.example.com/x", auto_create_users: false}\n`;
    const configuration = (...ids: readonly string[]): string =>
      `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n  openid_connect_providers:\n${ids.map(provider).join('')}`;
    put('old/main.yaml', configuration('B', 'C'));
    put('new/main.yaml', configuration('A', 'C', 'B'));
    const { out } = await diff(['old', 'new']);
    expect(out).toMatch(/openid_connect_providers +order: B, C → C, B$/m);
    expect(out).toMatch(/\[A\] +added$/m);
    expect(out).not.toMatch(/\[[BC]\]/);
  });

  it.each([
    ['is missing', null, /^No difference known, for want of a secret: 2 objects unchanged, 1 skipped\.$/m],
    ['is locked', '\0GITCRYPT\0ab', /main\.yaml:6:\d+.*This file is encrypted/],
  ])('tell where a file named as a secret %s on a side, so that it cannot be compared', async (_, text, told) => {
    const document = `<EntityDescriptor entityID="a" xmlns="urn:oasis:names:tc:SAML:2.0:metadata"/>`;
    const [one, other] = ['{file: idp.xml}', 'auto_create_users: false'];
    const main = `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n  saml_identity_providers:\n    - {id: s, label: S, metadata: ${one}, ${other}}\n`;
    for (const side of ['old', 'new']) {
      put(`${side}/rules.yaml`, rulesText(wall, web));
      put(`${side}/main.yaml`, main);
      put(`${side}/idp.xml`, document);
    }
    expect((await diff(['old', 'new'])).out).toMatch(/^No differences: 3 objects unchanged\.$/m);
    rmSync(join(folder, 'new/idp.xml'));
    if (text !== null) put('new/idp.xml', text);
    for (const sides of [
      ['old', 'new'],
      ['new', 'old'],
    ]) {
      const { code, out, err } = await diff([...sides, '--detailed-exitcode']);
      expect([code, out + err]).toEqual([0, expect.stringMatching(told)]);
      expect(out).toMatch(/saml_identity_providers\[s\]\.metadata +\(secret \{file: idp\.xml\} .*not compared/);
    }
    if (text === null) return;
    put('old/idp.xml', '\0GITCRYPT\0cd');
    expect((await diff(['old', 'new'])).out).toMatch(told);
  });

  it('with errors end with 4, whichever has them, and say where', async () => {
    put('old/rules.yaml', rulesText('name: x, action: open, destination: 10.0.0.1'));
    const before = await diff(['old', 'new']);
    expect([before.code, before.err]).toEqual([
      4,
      expect.stringMatching(
        /the manifests of old hold errors \(rules\.yaml:6.*\n +hint: .*`reconcile validate old`.*`reconcile plan new`$/m,
      ),
    ]);
    const after = await diff(['new', 'old']);
    expect([after.code, after.err]).toEqual([4, expect.stringContaining('rules.yaml:6')]);
    const overlay = await diff(['new', 'old', '--overlay', 'gone']);
    expect([overlay.code, overlay.err]).toEqual([
      4,
      expect.stringMatching(/the manifests of new hold errors \(.*gone/),
    ]);
  });
});

describe('revisions', () => {
  it('are compared below a path, in a commit and in the work tree', async () => {
    history();
    const back = await diff(['main..feature', 'net']);
    expect(back.out).toContain('1 to create, 1 to delete, 1 unchanged.');
    const parted = await diff(['main..feature', 'net', '--merge-base']);
    expect(parted.out).toContain('Changes from main where feature left it to feature');
    expect(parted.out).toContain('1 to create, 1 unchanged.');
    rmSync(join(folder, 'net/rules.yaml'));
    expect((await diff(['main', 'net'])).out).toContain('Changes from main to the work tree');
    expect((await diff(['main'], { cwd: join(folder, 'net') })).out).toContain('1 to delete, 1 unchanged.');
    expect((await diff(['main..', 'net'])).out).toContain('No differences');
    expect((await diff(['..feature', 'net'])).out).toContain('Changes from HEAD to feature');
  });

  it('have the secrets of files that lie beside the manifests, as the work tree and two folders have', async () => {
    const metadata = (host: string): string =>
      `<EntityDescriptor entityID="https://${host}" xmlns="urn:oasis:names:tc:SAML:2.0:metadata"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>`;
    history();
    put(
      'net/sign-in.yaml',
      'apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n  saml_identity_providers:\n    - {id: s, label: S, metadata: {file: idp.xml}, auto_create_users: false}\n',
    );
    put('net/idp.xml', metadata('idp.example.com'));
    git('add', '.');
    git('commit', '-qm', 'sign-in');
    expect((await diff(['HEAD', 'net'])).out).toMatch(/^No differences: 3 objects unchanged\.$/m);
    put('old/main.yaml', readFileSync(join(folder, 'net/sign-in.yaml'), 'utf8'));
    put('old/idp.xml', metadata('idp.example.com'));
    put('net/idp.xml', metadata('evil.example.com'));
    git('commit', '-qam', 'another provider');
    for (const sides of [
      ['HEAD~..HEAD', 'net'],
      ['HEAD~', 'net'],
      ['old', 'net'],
    ])
      expect((await diff(sides)).out).toMatch(/saml_identity_providers\[s\]\.metadata +\(changed\)$/m);
  });

  it('of a link are not those of the folder that it leads to now; one above the work tree is no part of it', async () => {
    history();
    symlinkSync('net', join(folder, 'policy'));
    for (const argv of [
      ['main', 'policy'],
      ['main..feature', 'policy'],
      ['main..feature', 'policy', '--merge-base'],
    ])
      expect(await diff(argv)).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringContaining('name the folder: net'),
      });
    put('feature/rules.yaml', rulesText(wall));
    expect((await diff(['feature', 'policy'])).err).toContain('feature is a folder and a revision');
    const above = mkdtempSync(join(tmpdir(), 'diff-above-'));
    symlinkSync(folder, join(above, 'work'));
    expect((await diff(['main', join(above, 'work/net')])).out).toContain('Changes from main to the work tree');
    symlinkSync(join(folder, 'net'), join(above, 'net'));
    expect((await diff(['main', join(above, 'net')])).out).toContain('Changes from main to the work tree');
    rmSync(above, { recursive: true });
  });

  it('from before the manifests had none', async () => {
    history();
    put('later/rules.yaml', rulesText(wall));
    expect((await diff(['main', 'later'])).out).toContain('1 to create, 0 unchanged.');
  });

  it('that have the name of a folder must be told apart from it', async () => {
    history();
    put('feature/rules.yaml', rulesText(wall));
    const { code, err } = await diff(['feature', 'net']);
    expect([code, err]).toEqual([1, expect.stringContaining('write ./feature for the folder, or refs/heads/feature')]);
    expect((await diff(['./feature', 'net'])).code).toBe(0);
    expect((await diff(['refs/heads/feature', 'net'])).out).toContain(
      'Changes from refs/heads/feature to the work tree',
    );
  });

  it('that a tag names like a remote, or like the first digits of a commit, are not taken for it', async () => {
    history();
    const head = git('rev-parse', 'main').trim();
    git('update-ref', 'refs/remotes/origin/HEAD', 'main');
    expect((await diff(['origin..feature', 'net'])).out).toContain('Changes from origin to feature');
    git('tag', 'origin', 'feature');
    const err = (await diff(['origin', 'net'])).err;
    expect(err).toContain('write refs/tags/origin or refs/remotes/origin/HEAD');
    expect((await diff([head.slice(0, 8), 'net'])).code).toBe(0);
    git('tag', head.slice(0, 8), 'feature');
    const short = (await diff([head.slice(0, 8), 'net'])).err;
    expect(short).toContain(`write refs/tags/${head.slice(0, 8)}, or the full id of the commit`);
    expect((await diff([head, 'net'])).code).toBe(0);
  });

  it('that are not there, or no names, are said to be so', async () => {
    history();
    expect((await diff(['gone..main', 'net'])).err).toContain('gone is not in the repository');
    expect((await diff(['--merge-base', 'gone..main', 'net'])).err).toContain('gone is not in the repository');
    expect((await diff(['main:x..main', 'net'])).err).toContain('is not the name of a commit');
    expect((await diff(['main...feature', 'net'])).err).toContain('with --merge-base it means what A...B does to git');
    expect((await diff([])).err).toContain('diff needs what to compare');
    expect((await diff(['main', 'nowhere'])).err).toContain('nowhere is not a folder that is there');
    expect((await diff(['main', 'feature'])).err).toContain('two revisions are written A..B');
    expect((await diff(['old', 'new'])).err).toContain('new is not a folder that is there');
    expect((await diff(['net', 'net/rules.yaml'])).err).toContain('net/rules.yaml is not a folder');
    expect((await diff(['main..feature', 'nowhere'])).err).toContain('nowhere is not a folder that is there');
  });

  it('that go back further than the history are not fetched', async () => {
    history();
    const before = (await diff(['main~7..main', 'net'])).err;
    expect(before).toContain('the history of main does not go back so far');
    expect(before).not.toContain('fetch');
    expect((await diff(['gone~1..main', 'net'])).err).toContain('git fetch origin');
  });

  it('of a folder that neither holds are not taken for equal', async () => {
    history();
    put('later/rules.yaml', rulesText(wall));
    const { code, out, err } = await diff(['HEAD..HEAD', 'later', '--fail-on', 'any']);
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('neither HEAD nor HEAD holds manifests in later');
  });

  it('name a file whose name no checkout should write', async () => {
    history();
    put('net/odd\tname.yaml', rulesText(web).replace('name: lab', 'name: odd'));
    git('add', '.');
    git('commit', '-qm', 'odd');
    expect((await diff(['HEAD~1..HEAD', 'net'])).err).toContain(
      'the file name odd\\tname.yaml holds control characters',
    );
  });

  it('with a link that has the name of a manifest are refused, and those with another name of a file are not', async () => {
    history();
    put('net/.shared/b.yaml', rulesText(web).replace('name: lab', 'name: b'));
    put(
      'net/sub/c.yaml',
      rulesText('name: c, action: drop, destination: 172.17.0.0/16').replace('name: lab', 'name: c'),
    );
    put(
      'outside/d.yaml',
      rulesText('name: d, action: drop, destination: 172.18.0.0/16').replace('name: lab', 'name: d'),
    );
    for (const target of ['sub/c.yaml', './sub/c.yaml']) {
      symlinkSync(target, join(folder, 'net/link.txt'));
      git('add', '.');
      git('commit', '-qm', `link to ${target}`);
      expect(await diff(['HEAD', 'net'])).toMatchObject({ err: '', out: expect.stringContaining('No differences') });
      rmSync(join(folder, 'net/link.txt'));
    }
    for (const target of ['sub/c.yaml', '.shared/b.yaml', '../outside/d.yaml', 'sub/../rules.yaml']) {
      symlinkSync(target, join(folder, 'net/link.yaml'));
      git('add', '.');
      git('commit', '-qm', `link to ${target}`);
      for (const sides of ['HEAD', 'HEAD~1..HEAD']) {
        const { code, out, err } = await diff([sides, 'net', '--fail-on', 'opens']);
        expect([target, code, out]).toEqual([target, 1, '']);
        expect(err).toContain('link.yaml is a symbolic link, which is not followed');
      }
      git('rm', '-q', 'net/link.yaml');
      git('commit', '-qm', 'no link');
    }
  });

  it('an empty folder is one from before the manifests', async () => {
    mkdirSync(join(folder, 'none'));
    put('net/rules.yaml', rulesText('name: wall, action: drop, destination: 10.0.0.0/8'));
    expect(await diff(['none', 'net', '--fail-on', 'closes'])).toMatchObject({ code: 3 });
    expect((await diff(['net', 'none'])).code).toBe(4);
  });

  it('quote who answers for a rule where that is more than one word, so that nobody forges an end', async () => {
    const rule = (name: string, owner: string) =>
      `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}, ${owner}}\nspec: {action: accept, destination: 10.${name.length}.0.0/16}\n`;
    mkdirSync(join(folder, 'none'));
    put('net/a.yaml', rule('a', 'owner: network-team, ticket: "https://tickets.example/NET-1"'));
    put('net/c.yaml', rule('ccc', 'owner: "us\\u3164expires\\u3164in\\u31645\\u3164days", ticket: équipe'));
    put('net/b.yaml', rule('bb', 'owner: "us, expires in 5 days (2026-12-02)", ticket: "\\", \\u202Eowner"'));
    const { out } = await diff(['none', 'net']);
    expect(out).toMatch(/\(owner "us[^"]*days", ticket "équipe"\)/);
    expect(out).toContain('(owner network-team, ticket https://tickets.example/NET-1)');
    expect(out).toContain('(owner "us, expires in 5 days (2026-12-02)", ticket "\\", \\u{202e}owner")');
  });

  describe('and their values files', () => {
    const drop = ['name: wall, action: drop, destination: "$', '{net}"'].join('');
    const failing = ['--fail-on', 'any'] as const;
    beforeEach(() => {
      put('net/rules.yaml', rulesText(drop));
      git('init', '-q');
      git('add', '.');
      git('commit', '-qm', 'nothing');
      put('values.yaml', 'net: 10.0.0.0/8\n');
      git('add', '.');
      git('commit', '-qm', 'first');
      put('values.yaml', 'net: 10.0.0.0/9\n');
      git('commit', '-qam', 'second');
    });

    it('are read as each revision has them', async () => {
      const values = ['--values', 'values.yaml', ...failing];
      expect(await diff(['HEAD~1..HEAD', 'net', ...values])).toMatchObject({
        code: 3,
        out: expect.stringMatching(/opens +10\.128\.0\.0\/9 for everyone/),
      });
      expect(await diff(['HEAD', 'net', ...values])).toMatchObject({ code: 0, err: '' });
      put('values.yaml', 'net: 10.0.0.0/10\n');
      expect((await diff(['HEAD', 'net', ...values])).out).toMatch(/opens +10\.64\.0\.0\/10 for everyone/);
      // A revision needs no file of today.
      rmSync(join(folder, 'values.yaml'));
      expect((await diff(['HEAD~1..HEAD', 'net', ...values])).code).toBe(3);
    });

    it('are said to be missing where a revision has none that can be read, also behind a link', async () => {
      put('net/rules.yaml', rulesText(wall));
      git('commit', '-qam', 'no names');
      const values = ['--values', 'values.yaml', ...failing];
      const { code, err } = await diff(['HEAD~3', 'net', ...values]);
      expect([code, err]).toEqual([4, expect.stringContaining('the manifests of HEAD~3 hold errors')]);
      expect(err).toMatch(/HEAD~3 has no values file .*values\.yaml that can be read/);
      rmSync(join(folder, 'values.yaml'));
      put('other.yaml', 'net: 10.0.0.0/8\n');
      symlinkSync('other.yaml', join(folder, 'values.yaml'));
      git('add', '.');
      git('commit', '-qm', 'link');
      expect(await diff(['HEAD', 'net', ...values])).toMatchObject({
        code: 0,
        out: expect.stringContaining('warning [bad-values] HEAD has no values file'),
      });
    });

    it('that no commit has, since they are made anew each time, are the same for both, which is said', async () => {
      put('.gitignore', 'made.yaml\n');
      put('made.yaml', 'net: 10.0.0.0/8\n');
      const { code, out } = await diff(['HEAD~1..HEAD', 'net', '--values', 'made.yaml', ...failing]);
      expect([code, out.match(/same-values/g)]).toEqual([0, ['same-values']]);
    });

    it('out of the repository are the same for both, which is said', async () => {
      const outside = mkdtempSync(join(tmpdir(), 'reconcile-values-'));
      try {
        writeFileSync(join(outside, 'values.yaml'), 'net: 10.0.0.0/8\n');
        const { code, out } = await diff(['HEAD~1..HEAD', 'net', '--values', join(outside, 'values.yaml'), ...failing]);
        expect([code, out.match(/same-values/g)]).toEqual([0, ['same-values']]);
      } finally {
        rmSync(outside, { recursive: true });
      }
    });

    it('are read from each of two folders, or of two checkouts; otherwise they are said to be the same', async () => {
      git('worktree', 'add', '-q', 'base', 'HEAD~1');
      put('net/values.txt', 'net: 10.0.0.0/9\n');
      put('old/values.txt', 'net: 10.0.0.0/8\n');
      put('old/rules.yaml', rulesText(drop));
      for (const args of [
        ['old', 'net', '--values', 'net/values.txt'],
        ['base/net', 'net', '--values', 'values.yaml'],
      ])
        expect(await diff([...args, ...failing])).toMatchObject({
          code: 3,
          err: expect.not.stringContaining('values'),
        });
      const same = await diff(['old', 'net', '--values', 'values.yaml', '--strict', ...failing]);
      expect([same.code, same.out]).toEqual([
        0,
        expect.stringMatching(
          /warning \[same-values\] All that is compared is built with the values file .*values\.yaml as it is now/,
        ),
      ]);
      rmSync(join(folder, 'old/values.txt'));
      const missing = await diff(['old', 'net', '--values', 'net/values.txt']);
      expect([missing.code, missing.err]).toEqual([4, expect.stringContaining('old has no values file')]);
    });
  });

  it('of a repository without commits are none', async () => {
    put('net/rules.yaml', rulesText(wall));
    git('init', '-q');
    expect((await diff(['HEAD', 'net'])).err).toContain('the repository has no commit');
  });

  it('of a shallow clone that lacks them say what to fetch', async () => {
    history();
    execFileSync('git', ['clone', '-q', '--depth', '1', `file://${folder}`, join(folder, 'shallow')], {
      stdio: 'pipe',
    });
    const { code, err } = await diff(['main~1..main', 'net'], { cwd: join(folder, 'shallow') });
    expect([code, err]).toEqual([1, expect.stringContaining('fetch-depth: 0')]);
  });

  it('are never read from a bare repository, which a commit can bring along', async () => {
    history();
    const outside = mkdtempSync(join(tmpdir(), 'reconcile-bare-'));
    try {
      execFileSync('git', ['clone', '-q', '--bare', folder, join(outside, 'repo')], { stdio: 'pipe' });
      writeFileSync(
        join(outside, 'repo', 'config'),
        `${readFileSync(join(outside, 'repo', 'config'), 'utf8')}[core]\n\tfsmonitor = touch ${outside}/harm\n`,
      );
      const { code, err } = await diff(['main..feature', '.'], { cwd: join(outside, 'repo') });
      expect([code, err]).toEqual([1, expect.stringContaining('is not in a Git work tree')]);
      expect(err).toContain('name a work tree');
      const packet = ['--destination', '10.1.2.3', '--protocol', 'tcp', '--port', '443'];
      for (const question of [
        ['log', '.'],
        ['blame', '.', ...packet],
      ]) {
        const asked = await runIn(join(outside, 'repo'), question, { env: { PATH: process.env['PATH'] ?? '' } });
        expect([asked.code, asked.err]).toEqual([
          1,
          expect.stringMatching(/is not in a Git work tree[\s\S]*name a work tree/),
        ]);
      }
      expect(existsSync(join(outside, 'harm'))).toBe(false);
    } finally {
      rmSync(outside, { recursive: true, force: true });
    }
  });

  it('are not looked up where no git may run', async () => {
    history();
    const { code, err } = await diff(['main..feature', 'net'], { env: { RECONCILE_REVISION: 'abc' } });
    expect([code, err]).toEqual([1, expect.stringContaining('write the revisions into folders first')]);
  });
});
