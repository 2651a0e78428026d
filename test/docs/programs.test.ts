import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rule } from '../cli/harness.ts';
import { ensureBuilt } from '../controller/support/sidecar.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable } from '../enforcement/support/namespace.ts';
import { documentedLines, root } from './lines.ts';
import { has } from './world.ts';

const linesOf = (page: string): readonly string[] =>
  documentedLines()
    .filter((line) => line.page === page && !line.span)
    .map(({ text }) => text);

let folder = '';
let server: ChildProcess | null = null;

beforeAll(ensureBuilt);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reconcile-programs-'));
  mkdirSync(join(folder, 'shim'));
  writeFileSync(
    join(folder, 'shim/reconcile'),
    `#!/bin/sh\nexec "${process.execPath}" "${root}dist/reconcile.js" "$@"\n`,
  );
  chmodSync(join(folder, 'shim/reconcile'), 0o755);
});
afterEach(async () => {
  if (server !== null) {
    const end = new Promise((resolve) => server?.once('close', resolve));
    server.kill('SIGTERM');
    await end;
  }
  server = null;
  rmSync(folder, { recursive: true, force: true });
});

const environment = (): Record<string, string> => ({
  PATH: `${folder}/shim:${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
  HOME: folder,
});

/** Runs a line in a shell, while this process goes on serving. */
function shell(line: string, env: Readonly<Record<string, string>> = {}): string {
  const run = spawnSync('sh', ['-euc', line], { cwd: folder, env: { ...environment(), ...env }, encoding: 'utf8' });
  expect([line, run.status, run.stderr]).toEqual([line, 0, expect.not.stringMatching(/error|usage/i)]);
  return run.stdout;
}

/** Starts what a line of the page starts; gives the URL that it prints. */
async function start(line: string): Promise<string> {
  const child = spawn('sh', ['-c', `exec ${line.replace(/--port \d+/, '--port 0').replace(/ &$/, '')}`], {
    cwd: folder,
    env: environment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  server = child;
  return new Promise((resolve, reject) => {
    child.stdout
      ?.setEncoding('utf8')
      .once('data', (text: string) => resolve(/listening (\S+)/.exec(text)?.[1] ?? text));
    child.once('exit', (code) => reject(new Error(`it ended with ${code}`)));
  });
}

describe('the demo', () => {
  it('plays to its end, and shows what the README shows', () => {
    const demo = spawnSync(process.execPath, [join(root, 'scripts/demo.mjs')], { encoding: 'utf8', cwd: folder });
    expect([demo.status, demo.stderr]).toEqual([0, '']);
    for (const words of [
      'Plan for ',
      'In sync',
      'On the way',
      'a fresh read of the server agrees',
      'Did you mean',
      '--bind-secret RECONCILE_SECRET_GOOGLE=google@accounts.google.com',
      'That is all',
    ])
      expect(demo.stdout).toContain(words);
  });

  it('is in pictures that are current (long)', () => {
    expect(spawnSync(process.execPath, [join(root, 'scripts/picture.mjs'), folder]).status).toBe(0);
    // Not current? `node scripts/picture.mjs` makes them anew.
    for (const name of ['plan.svg', 'pages.json'])
      expect(readFileSync(join(root, 'docs/images', name), 'utf8')).toBe(readFileSync(join(folder, name), 'utf8'));
  });
});

describe('installing from a clone', () => {
  it('puts a command on the PATH that runs', () => {
    const install = ['install', '--global', '--prefix', folder, '--offline', '--no-audit', '--no-fund', root];
    expect(spawnSync('npm', install, { cwd: folder, env: { ...process.env, HOME: folder } }).status).toBe(0);
    const run = spawnSync(join(folder, 'bin/reconcile'), ['--version'], { encoding: 'utf8' });
    expect([run.status, run.stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/)]);
  });
});

describe.skipIf(!has('curl'))(`the admin pages of the simulator${has('curl') ? '' : ' (skipped: no curl)'}`, () => {
  it('answer each curl of the page as the page says', async () => {
    const lines = linesOf('docs/how-to/simulator.md');
    const [simulate = '', ...curls] = lines;
    expect(curls.length).toBeGreaterThanOrEqual(6);
    const url = await start(simulate);
    const answers = new Map(curls.map((line) => [line, shell(line.replace('curl ', 'curl -sSf '), { url })]));
    const answer = (words: string): unknown => {
      const [, text = ''] = [...answers].find(([line]) => line.includes(words)) ?? [];
      return JSON.parse(text);
    };
    expect(answer('verdict')).toMatchObject({ verdict: 'accept' });
    expect(answer('/filter')).toMatchObject({ state: { pending: 0, crashes: 0 } });
    expect(JSON.stringify(answer('"$url/admin/faults"'))).toMatch(/\d/);
  });
});

describe('the systemd unit', () => {
  it('is installed by the lines of the page, so that its user can read the settings and only root the token', () => {
    const lines = linesOf('docs/how-to/deploy.md').filter((line) => /^(install|cp) /.test(line));
    expect(lines).toHaveLength(4);
    for (const name of ['etc/systemd/system', 'opt', 'usr/local/bin'])
      mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, 'token'), 'the-token\n');
    for (const line of lines)
      shell(
        line
          .replace(/ (?=\/(?:etc|opt|usr)\/)/g, ` ${folder}`)
          .replace('deploy/systemd', `${root}deploy/systemd`)
          .replace('cp -r dist', `cp -r ${root}dist`),
      );
    const unit = readFileSync(join(folder, 'etc/systemd/system/firezone-reconcile.service'), 'utf8');
    const mode = (name: string): number => statSync(join(folder, name)).mode & 0o777;
    expect(unit).toMatch(/^DynamicUser=yes$/m);
    expect(unit).toContain(' --config /etc/firezone-reconcile/settings.yaml --token-file %d/token ');
    expect(unit).toMatch(/^LoadCredential=token:\/etc\/firezone-reconcile\/token$/m);
    expect([mode('etc/firezone-reconcile'), mode('etc/firezone-reconcile/token')]).toEqual([0o755, 0o600]);
    expect(shell(`${folder}/usr/local/bin/reconcile --version`)).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

/** Changes the first rule in place, and back: equal, and to be distrusted. */
async function patchTwice(url: string): Promise<void> {
  const token = readFileSync(join(folder, 'token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' };
  const { data } = (await (await fetch(`${url}/v0/rules`, { headers })).json()) as { data: readonly { id: string }[] };
  for (const destination of ['10.0.0.0/9', '10.0.0.0/8']) {
    const body = JSON.stringify({ rule: { destination } });
    const answer = await fetch(`${url}/v0/rules/${data[0]?.id}`, { method: 'PATCH', headers, body });
    expect(answer.status).toBe(200);
  }
}

const why = kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`;
describe.skipIf(kernelUnavailable !== null)(`the pages about the kernel’s packet filter${why}`, () => {
  let netns = '';
  beforeEach(() => {
    netns = addNamespace();
    mkdirSync(join(folder, 'manifests'));
    writeFileSync(join(folder, 'manifests/rules.yaml'), rule('closed', 'action: drop, destination: 10.0.0.0/8'));
  });
  afterEach(() => deleteNamespaces(netns));

  it('“Try it” works from its first line to its last', async () => {
    const lines = linesOf('docs/how-to/enforcement.md').map((line) =>
      line.replaceAll('/run/netns/firezone', `/run/netns/${netns}`),
    );
    const [add = '', simulate = '', apply = '', list = ''] = lines;
    expect(add).toBe('ip netns add firezone');
    const other = `${netns}-2`;
    shell(add.replace('firezone', other));
    deleteNamespaces(other);
    const url = await start(simulate);
    expect(shell(apply.replace(/http:\/\/\S+/, url))).toContain(
      'Enforced: the kernel holds 1 live rule and nothing else',
    );
    expect(shell(list)).toContain('10.0.0.0/8');
  });

  it('each command that it names does what it says (long)', async () => {
    const named = documentedLines().filter(({ text, span }) => span && text.includes('--enforcement'));
    expect(named.map(({ text }) => text).sort()).toEqual([
      'reconcile apply PATH --yes --enforcement nft',
      'reconcile doctor --enforcement nft',
      'reconcile plan PATH --enforcement nft',
      'reconcile watch PATH --enforcement nft',
    ]);
    const url = await start(`reconcile simulate --token-file token --nft-netns /run/netns/${netns}`);
    const env = { RECONCILE_BASE_URL: url, RECONCILE_TOKEN_FILE: 'token', RECONCILE_NETNS: `/run/netns/${netns}` };
    const held = 'the kernel holds 1 live rule and nothing else';
    expect(shell('reconcile plan manifests --enforcement nft', env)).toContain('1 to create');
    expect(shell('reconcile apply manifests --yes --enforcement nft --wait-enforced 60s', env)).toContain(held);
    expect(shell('reconcile apply manifests --yes --enforcement nft', env)).toContain(held);
    expect(shell('reconcile doctor --enforcement nft', env)).toContain('kernel: holds 1 live rule and nothing else');
    expect(shell('reconcile --plan --save plan.json --enforcement nft manifests', env)).toContain(held);
    expect(shell('reconcile apply --yes plan.json manifests --enforcement nft --wait-enforced', env)).toContain(held);
    spawnSync('nsenter', [`--net=/run/netns/${netns}`, 'nft', 'flush', 'set', 'inet', 'firezone', 'ip_drop']);
    expect(shell('reconcile apply manifests --yes --enforcement nft --repair', env)).toContain(
      'the kernel does not hold it',
    );
    await patchTwice(url);
    expect(shell('reconcile apply manifests --yes --enforcement nft --replace-modified', env)).toContain(
      'modified in place',
    );
    expect(shell('reconcile watch manifests --once --enforcement nft', env)).not.toMatch(/NotEnforced/);
    expect(existsSync(join(folder, 'token'))).toBe(true);
  }, 60_000);
});
