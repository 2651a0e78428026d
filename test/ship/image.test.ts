import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSimulator } from '../../src/simulator/server.ts';
import { binary, ensureBuilt, rules, until } from '../controller/support/sidecar.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable, pathOf } from '../enforcement/support/namespace.ts';
import { settingsOf } from './command-line.ts';

const root = path.resolve(import.meta.dirname, '../..');
const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8');

interface Stage {
  readonly name: string;
  readonly from: string;
  readonly text: string;
}

const stages: readonly Stage[] = dockerfile
  .split(/^FROM /m)
  .slice(1)
  .map((text) => {
    const [, from = '', name = ''] = /^(\S+) AS (\S+)/.exec(text) ?? [];
    return { name, from, text };
  });

describe('the Dockerfile', () => {
  it('threat 40: names its base images by digest, and a file that keeps them new', () => {
    const bases = [...dockerfile.matchAll(/^ARG (?:NODE|BASE)=(.*)$/gm)].map(([, image]) => image ?? '');
    expect(bases).toHaveLength(2);
    for (const image of bases) expect(image).toMatch(/^[a-z]+:[a-z0-9-]+@sha256:[0-9a-f]{64}$/);
    const updates = readFileSync(path.join(root, '.github/dependabot.yml'), 'utf8');
    for (const ecosystem of ['docker', 'github-actions', 'npm'])
      expect(updates).toContain(`package-ecosystem: ${ecosystem}`);
  });

  it('threat 40: workflows name every action by a commit, and the lockfile every package by its checksum', () => {
    const folder = path.join(root, '.github/workflows');
    const uses = readdirSync(folder).flatMap((name) =>
      [...readFileSync(path.join(folder, name), 'utf8').matchAll(/uses: (?!\.\/)(.*)/g)].map(([, action]) => action),
    );
    expect(uses.length).toBeGreaterThan(10);
    for (const action of uses) expect(action).toMatch(/^[\w./-]+@[0-9a-f]{40} # v\d/);
    const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
      readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
    };
    const unchecked = Object.entries(lock.packages).filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
    expect(unchecked.map(([name]) => name)).toEqual(['']); // the project itself
  });

  it('ends in a stage for an ordinary user, beside one that looks at the kernel, both on one common stage', () => {
    expect(stages.map(({ name, from }) => [name, from])).toEqual([
      ['build', `\${NODE}`],
      ['common', `\${BASE}`],
      ['enforcement', 'common'],
      ['runtime', 'common'],
    ]);
    expect(stages.at(-1)?.text).toMatch(/^USER 65532:65532$/m);
  });

  it('installs what Git sources need and nothing that compiles', () => {
    const installed = [...dockerfile.matchAll(/apt-get install -y --no-install-recommends ([a-z -]+)/g)].map((match) =>
      match[1]?.trim(),
    );
    expect(installed).toEqual(['ca-certificates git openssh-client tini', 'nftables']);
  });

  it('starts a command line that exists, with a health check at a page that exists', () => {
    const argv = JSON.parse(/^CMD (\[.*\])$/m.exec(dockerfile)?.[1] ?? '[]') as string[];
    expect(settingsOf(argv)).toMatchObject({ command: 'watch', stateDir: '/var/lib/reconcile' });
    // `status --probe` asks 127.0.0.1:8080 unless it is told another address (test/cli/status.test.ts).
    const check = JSON.parse(/^HEALTHCHECK [^\n]*\n *CMD (\[.*\])$/m.exec(dockerfile)?.[1] ?? '[]') as string[];
    expect(check).toEqual(['/usr/local/bin/reconcile', 'status', '--probe']);
    expect(settingsOf(argv).listen).toBe('127.0.0.1:8080');
    expect(dockerfile).toContain('ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/reconcile"]');
  });

  it('copies only files that the build context holds', () => {
    const kept = readFileSync(path.join(root, '.dockerignore'), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(
      (match) => match[1]?.split(' ') ?? [],
    );
    expect(copied.sort()).toEqual(kept.sort());
  });
});

const tools = ['buildah', 'debootstrap', 'unshare', 'setpriv'];
const missing = tools.filter((tool) => spawnSync(tool, ['--version']).error !== undefined);
const why =
  process.env['RECONCILE_TEST_IMAGE'] !== '1'
    ? 'takes minutes; RECONCILE_TEST_IMAGE=1 runs it'
    : missing.length > 0
      ? `not installed: ${missing.join(', ')}`
      : kernelUnavailable;

describe.skipIf(why !== null)(`the image, built and run${why === null ? '' : ` (skipped: ${why})`}`, () => {
  const script = path.join(root, 'scripts/image.sh');
  const folder = mkdtempSync(path.join(tmpdir(), 'image-'));
  const env = { ...process.env, RECONCILE_IMAGE_MOUNTS: `${folder}:/mounts` };

  beforeAll(() => {
    ensureBuilt();
    writeFileSync(path.join(folder, 'rules.yaml'), rules('10.1.0.0/16'));
    writeFileSync(path.join(folder, 'token'), 'image-token\n', { mode: 0o444 });
    execFileSync('chmod', ['755', folder]);
    for (const target of ['runtime', 'enforcement']) execFileSync(script, ['build', target], { stdio: 'ignore' });
  }, 900_000);

  afterAll(() => rmSync(folder, { recursive: true }));

  it('runs the controller as process 1 of an ordinary user, on a read-only root, and ends it in order', async () => {
    const simulator = await startSimulator({ token: 'image-token' });
    const argv = ['--watch', '/mounts', '--base-url', simulator.url, '--token-file', '/mounts/token'];
    const state = ['--state-dir', '/var/lib/reconcile', '--listen', '127.0.0.1:0'];
    const child = spawn(script, ['run', 'runtime', ...argv, ...state], { env, stdio: ['ignore', 'inherit', 'pipe'] });
    const ended = once(child, 'close');
    let said = '';
    child.stderr.on('data', (text) => {
      said += String(text);
    });
    try {
      await until(() => simulator.rules().length === 1, 60_000);
      const [address = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(said.slice(said.indexOf('Serving the status'))) ?? [];
      await until(async () => (await fetch(`${address}/readyz`)).ok);
      const inside = processesOf(simulator.url);
      expect(inside.map(({ inner }) => inner)).toContain(1);
      for (const { uid, capabilities, mounts } of inside) {
        expect([uid, capabilities]).toEqual([65_532, '0000000000000000']);
        expect(mounts.split('\n').find((line) => line.split(' ')[4] === '/')).toMatch(/ \/ ro[, ]/);
      }
      process.kill(inside.find(({ inner }) => inner === 1)?.pid ?? 0, 'SIGTERM');
      expect(await ended).toEqual([0, null]);
    } finally {
      stop(child, simulator.url);
      await simulator.close();
    }
  }, 120_000);

  it('reads the kernel with NET_ADMIN alone when it shares the network namespace', async () => {
    const netns = addNamespace();
    const port = 8080; // in a namespace of its own, where nothing else listens
    const inNamespace = [`--net=${pathOf(netns)}`, '--'];
    const simulate = ['simulate', '--port', String(port), '--token-file', path.join(folder, 'token')];
    const simulator = spawn('nsenter', [
      ...inNamespace,
      process.execPath,
      binary,
      ...simulate,
      '--nft-netns',
      pathOf(netns),
    ]);
    try {
      await once(simulator.stdout, 'data');
      const look = ['--enforcement', 'nft', '--wait-enforced', '20s'];
      const argv = [
        '--base-url',
        `http://127.0.0.1:${port}`,
        '--token-file',
        '/mounts/token',
        '--yes',
        ...look,
        '/mounts',
      ];
      const ran = spawnSync('nsenter', [...inNamespace, script, 'run', 'enforcement', ...argv], {
        env,
        encoding: 'utf8',
      });
      expect(ran.stdout + ran.stderr).toContain('Enforced: the kernel holds 1 live rule and nothing else');
      expect(ran.status).toBe(0);
    } finally {
      simulator.kill();
      deleteNamespaces(netns);
    }
  }, 120_000);
});

/** The processes of the container, found by the address in their command line; `inner` is the id inside. */
function processesOf(
  needle: string,
): readonly { pid: number; inner: number; uid: number; capabilities: string; mounts: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
        const status = readFileSync(`/proc/${name}/status`, 'utf8');
        const inner = Number(/^NSpid:.*\s(\d+)$/m.exec(status)?.[1]);
        if (!command.includes(needle) || !/^NSpid:\s+\d+\s+\d+/m.test(status)) return [];
        const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
        const capabilities = /^CapEff:\s+(\w+)/m.exec(status)?.[1] ?? '';
        return [
          { pid: Number(name), inner, uid, capabilities, mounts: readFileSync(`/proc/${name}/mountinfo`, 'utf8') },
        ];
      } catch {
        return []; // ended meanwhile
      }
    });
}

function stop(child: ChildProcess, needle: string): void {
  for (const { pid, inner } of processesOf(needle)) if (inner === 1) process.kill(pid, 'SIGKILL');
  child.kill();
}
