import { execFileSync, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseArguments } from '../../src/cli/arguments.ts';
import { type CommandSpec, listOptions } from '../../src/cli/command.ts';
import { commands } from '../../src/cli/commands.ts';
import { formatFlag, listGroup, type OptionName } from '../../src/cli/options.ts';
import { ended, spawnReconcile } from '../cli/harness.ts';
import { makeUpstream, serveGit } from '../controller/support/git-host.ts';
import { until } from '../controller/support/sidecar.ts';
import { sshd, startSsh } from '../controller/support/ssh-host.ts';
import { baseOf, type Sample, samples } from './flags.ts';
import { root } from './lines.ts';
import {
  type DocsWorld,
  drifted,
  giveEnd,
  has,
  hasOpenssl,
  inWorld,
  liveDestinations,
  serveTls,
  sharedTemplate,
  untouched,
  wanted,
} from './world.ts';

const template = sharedTemplate();

/** `COMMAND --flag` of every command and every flag that it takes. */
const all: readonly string[] = commands.flatMap((spec) => ownOptions(spec).map((name) => pairOf(spec.name, name)));

/** `plan` takes the options of an apply so that the same flags may stand on both lines, and `watch` those of every plan. */
function ownOptions(spec: CommandSpec): readonly OptionName[] {
  const names = listOptions(spec);
  if (spec.name === 'plan') return names.filter((name) => !listGroup('apply').includes(name));
  return spec.name === 'watch' ? names.filter((name) => listGroup('watch').includes(name)) : names;
}

function pairOf(command: string, name: OptionName): string {
  return `reconcile ${command} ${formatFlag(name)}`.replace('  ', ' ');
}

function sampleOf(command: string, name: OptionName): Sample | null {
  const sample = samples[name];
  return typeof sample === 'function' ? sample(command) : (sample ?? null);
}

const sampled = commands
  .filter(({ name }) => !['simulate', 'status', 'history', 'undo', 'confirm'].includes(name))
  .flatMap((spec) =>
    ownOptions(spec).flatMap((name) => {
      const sample = sampleOf(spec.name, name);
      return sample === null ? [] : [{ pair: pairOf(spec.name, name), command: spec.name, name, sample }];
    }),
  );

const noTls = hasOpenssl ? '' : ' (skipped: no openssl)';

describe('every flag of every command, executed', () => {
  const possible = sampled.filter(({ name }) => hasOpenssl || name !== 'caFile');
  if (!hasOpenssl) it.skip(`--ca-file${noTls}`, () => undefined);
  const isFirst = ({ name }: (typeof possible)[number], index: number): boolean =>
    typeof samples[name] === 'function' || possible.findIndex((one) => one.name === name) === index;
  const titled = possible.map((one, index) => [`${one.pair}${isFirst(one, index) ? '' : ' (long)'}`, one] as const);
  it.each(titled)('%s', (_, { command, name, sample }) =>
    inWorld(template(), drifted, async (world) => {
      if (command === 'extend') giveEnd(world);
      const env = ((await sample.prepare?.(world, command)) ?? {}) as Readonly<Record<string, string>>;
      const args = sample.args?.(world, command) ?? [formatFlag(name)];
      const base = sample.base?.(command) ?? baseOf(command);
      if (command === 'apply') await savePlan(world, sample.shapesPlan === true ? args : [], env);
      const answer = sample.answer === undefined ? {} : { answer: sample.answer };
      const run = await world.cli([...base, ...args], { env, ...answer });
      const code = typeof sample.code === 'function' ? sample.code(command) : (sample.code ?? 0);
      expect({ code: run.code, said: run.out + run.err }).toEqual({ code, said: expect.not.stringMatching(mistakes) });
      await sample.shows?.(run, world, command);
    }),
  );
});

/** Wrong usage, a mistake of the program, a stack. */
const mistakes = /\[usage\]|internal-error|in a way it should not|^ +at .*:\d+:\d+/m;

/** The plan that `reconcile apply` is given. */
async function savePlan(world: DocsWorld, args: readonly string[], env: Readonly<Record<string, string>>) {
  const run = await world.cli(['--plan', '--save', 'plan.json', ...args, 'policy'], { env });
  expect(existsSync(join(world.folder, 'plan.json')), run.out + run.err).toBe(true);
}

/** Command lines that run as processes. `$URL` and the like are made by the test; the others are files of the world. */
const lines = {
  directory:
    '--watch --once --state-dir state --interval 1h --rescan 1s --quiet 50ms --delete-quiet 50ms --on-drift correct policy',
  suspended: '--watch --suspend --log-format json --listen 127.0.0.1:0 policy',
  pages:
    '--watch --interval 1h --listen 127.0.0.1:0 --listen-host vpn.test --listen-token-file listen-token --webhook-listen 127.0.0.1:0 --webhook-secret-file hook-secret --lease file:lease --lease-duration 1m policy',
  https:
    '--watch --once --git-url $GIT/repo.git --git-ref main --git-path prod --git-token-file git-token --git-username robot --git-ca-file ca.pem --git-timeout 20s --allow-rewind',
  ssh: '--watch --once --git-url $SSH --git-ssh-key $KEY --git-known-hosts $HOSTS --git-path prod',
  file: '--watch --once --git-url $FILE --git-allow file --git-path prod',
  sshSigned: '--watch --once --git-url $FILE --git-allow file --git-path prod --git-verify-ssh signers',
  openpgpSigned: '--watch --once --git-url $FILE --git-allow file --git-path prod --git-verify-openpgp keys.asc',
  simulate:
    'simulate --port 0 --listen 0 --latency 1ms --token-file operator --data data --user carol=a1520c4b-adc3-4574-932a-94461cf85c09 --discovery fetch --filter-rate 100 --admin --log-format text --verbose --no-color --config settings.yaml',
};

function words(line: string, values: Readonly<Record<string, string>>): readonly string[] {
  return line.replace(/\$([A-Z]+)/g, (_, name: string) => values[name] ?? '').split(' ');
}

/** Starts a command as a process. `stop` ends it and gives what it said; `serving`: the address in its line with `word`. */
function start(world: DocsWorld, args: readonly string[]) {
  const child = spawnReconcile(args, { cwd: world.folder, env: world.env });
  const end = ended(child);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (text) => {
      said += String(text);
    });
  }
  const addressIn = (word: string) =>
    /http:\/\/127\.0\.0\.1:\d+/.exec(said.split(/\n/).find((line) => line.includes(word)) ?? '')?.[0];
  const serving = async (word: string): Promise<string> => {
    await until(() => child.exitCode !== null || addressIn(word) !== undefined);
    return addressIn(word) ?? '';
  };
  world.onClose(() => child.kill('SIGKILL'));
  const stop = async () => {
    child.kill('SIGTERM');
    return end;
  };
  return { child, end, serving, stop };
}

describe('flags of commands that stay, executed', () => {
  it('reconcile --watch: of the directory and the loop', () =>
    inWorld(template(), drifted, async (world) => {
      const run = await start(world, words(lines.directory, {})).end;
      expect([run.code, run.out + run.err]).toEqual([0, expect.not.stringMatching(mistakes)]);
      expect(liveDestinations(world)).toEqual(wanted);
      expect(existsSync(join(world.folder, 'state/reconcile/record.json'))).toBe(true);
    }));

  it('reconcile --watch --suspend writes nothing, and says so', () =>
    inWorld(template(), untouched, async (world) => {
      const { child, serving, stop } = start(world, words(lines.suspended, {}));
      const url = await serving('the status');
      const reason = async (): Promise<unknown> => {
        const answer = await fetch(`${url}/status`).catch(() => null);
        const status = (await answer?.json()) as { conditions: { Ready: { reason: string } } } | undefined;
        return status?.conditions.Ready.reason;
      };
      await until(async () => child.exitCode !== null || (await reason()) === 'Suspended');
      expect((await stop()).code).toBe(0);
      expect(liveDestinations(world)).toEqual(['10.0.0.0/8']);
    }));

  it('reconcile --watch: of its pages, the webhook and the lease', () =>
    inWorld(template(), untouched, async (world) => {
      world.write('listen-token', 'token-of-the-pages\n');
      world.write('hook-secret', 'secret-of-the-hook\n');
      const { child, serving, stop } = start(world, words(lines.pages, {}));
      const [status, hooks] = [await serving('the status'), await serving('webhooks')];
      const page = (path: string, headers = {}) =>
        fetch(`${status}${path}`, { headers }).then((answer) => answer.status);
      await until(async () => child.exitCode !== null || (await page('/readyz').catch(() => 0)) === 200);
      expect([await page('/status'), await page('/metrics')]).toEqual([401, 401]);
      expect(await page('/metrics', { authorization: 'Bearer token-of-the-pages' })).toBe(200);
      const signature = createHmac('sha256', 'secret-of-the-hook').update('{}').digest('hex');
      const headers = { 'x-reconcile-signature': `sha256=${signature}` };
      const hook = await fetch(`${hooks}/webhook`, { method: 'POST', body: '{}', headers });
      expect(hook.status).toBe(202);
      expect(readdirSync(world.folder).some((name) => name.startsWith('lease'))).toBe(true);
      // Ready means judged, not applied.
      await until(() => liveDestinations(world).length === wanted.length);
      const { code, out, err } = await stop();
      expect([code, out + err]).toEqual([0, expect.not.stringMatching(/token-of-the-pages|secret-of-the-hook/)]);
      expect(liveDestinations(world)).toEqual(wanted);
    }));

  const withUpstream = async (world: DocsWorld) => {
    const upstream = makeUpstream();
    world.onClose(() => upstream.remove());
    upstream.commit({ 'prod/office.yaml': world.read('manifests/office.yaml'), 'other/broken.yaml': 'kind: [' });
    return upstream;
  };

  it.skipIf(!hasOpenssl)(`reconcile --watch --git-url over https${noTls}`, () =>
    inWorld(template(), untouched, async (world) => {
      const host = await serveGit(await withUpstream(world));
      host.password = 'token-of-the-git-host';
      world.onClose(() => host.close());
      world.write('git-token', 'token-of-the-git-host\n');
      const GIT = await serveTls(template(), host.url, world.onClose);
      const run = await start(world, words(lines.https, { GIT })).end;
      expect([run.code, run.out + run.err]).toEqual([0, expect.not.stringMatching(/token-of-the-git-host/)]);
      expect(Buffer.from(host.credentials[0]?.split(' ')[1] ?? '', 'base64').toString()).toMatch(/^robot:/);
      expect(liveDestinations(world)).toEqual(wanted.slice(0, 2));
    }),
  );

  it.skipIf(sshd === null)(
    `reconcile --watch --git-url over ssh${sshd === null ? ' (skipped: no sshd)' : ' (long)'}`,
    () =>
      inWorld(template(), untouched, async (world) => {
        const upstream = await withUpstream(world);
        const host = await startSsh(join(world.folder, 'ssh'));
        world.onClose(() => host.close());
        const SSH = `ssh://${host.user}@127.0.0.1:${host.port}${upstream.bare}`;
        const run = await start(world, words(lines.ssh, { SSH, KEY: host.keyFile, HOSTS: host.knownHosts })).end;
        expect([run.code, run.err]).toEqual([0, expect.not.stringMatching(mistakes)]);
        expect(liveDestinations(world)).toEqual(wanted.slice(0, 2));
      }),
  );

  it('reconcile --watch --git-url of a file, where that is allowed (long)', () =>
    inWorld(template(), untouched, async (world) => {
      const { bare } = await withUpstream(world);
      execFileSync('git', ['-C', bare, 'config', 'uploadpack.allowFilter', 'true']);
      const run = await start(world, words(lines.file, { FILE: `file://${bare}` })).end;
      expect([run.code, run.err]).toEqual([0, expect.not.stringMatching(mistakes)]);
      expect(liveDestinations(world)).toEqual(wanted.slice(0, 2));
    }));

  /** Only a signed commit counts: an unsigned one fails the run and writes nothing. */
  const onlySigned = async (
    world: DocsWorld,
    line: string,
    sign: (folder: string) => Readonly<Record<string, string>>,
  ) => {
    const upstream = await withUpstream(world);
    const once = () => start(world, words(line, { FILE: `file://${upstream.bare}` })).end;
    const settings = sign(world.folder);
    const refused = await once();
    expect([refused.code === 0, liveDestinations(world)]).toEqual([false, ['10.0.0.0/8']]);
    for (const [name, value] of Object.entries(settings)) upstream.git('config', name, value);
    upstream.commit({});
    const run = await once();
    expect([run.code, run.err]).toEqual([0, expect.not.stringMatching(mistakes)]);
    expect(liveDestinations(world)).toEqual(wanted.slice(0, 2));
  };

  const noKeys = has('ssh-keygen', '-?') ? '' : ' (skipped: no ssh-keygen)';
  it.skipIf(noKeys !== '')(`reconcile --watch --git-url with commits signed by SSH keys${noKeys}`, () =>
    inWorld(template(), untouched, (world) =>
      onlySigned(world, lines.sshSigned, (folder) => {
        execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'signer')]);
        world.write('signers', `a@example.org ${world.read('signer.pub')}`);
        return { 'gpg.format': 'ssh', 'user.signingkey': join(folder, 'signer.pub'), 'commit.gpgsign': 'true' };
      }),
    ),
  );

  const gpgMissing = !has('gpg');
  it.skipIf(gpgMissing)(
    `reconcile --watch --git-url with commits signed by OpenPGP keys${gpgMissing ? ' (skipped: no gpg)' : ' (long)'}`,
    () =>
      inWorld(template(), untouched, (world) =>
        onlySigned(world, lines.openpgpSigned, (folder) => {
          const home = join(folder, 'gnupg');
          mkdirSync(home, { mode: 0o700 });
          const gpg = (...args: readonly string[]) =>
            execFileSync('gpg', ['--homedir', home, '--batch', '--quiet', '--passphrase', '', ...args], {
              encoding: 'utf8',
              stdio: ['ignore', 'pipe', 'ignore'],
            });
          gpg('--pinentry-mode', 'loopback', '--quick-gen-key', 'own <own@example.org>', 'ed25519', 'sign', 'never');
          world.write('keys.asc', gpg('--armor', '--export', 'own@example.org'));
          const program = world.write('sign.sh', `#!/bin/sh\nexec gpg --homedir '${home}' --batch "$@"\n`);
          chmodSync(program, 0o755);
          world.onClose(() => spawnSync('gpgconf', ['--homedir', home, '--kill', 'gpg-agent']));
          return { 'gpg.program': program, 'user.signingkey': 'own@example.org', 'commit.gpgsign': 'true' };
        }),
      ),
  );

  it('reconcile simulate', () =>
    inWorld(template(), untouched, async (world) => {
      world.write('settings.yaml', 'verbose: false\n');
      const { child, serving, stop } = start(world, words(lines.simulate, {}));
      const url = await serving('listening');
      const get = (path: string) => fetch(`${url}${path}`).catch(() => null);
      await until(async () => child.exitCode !== null || (await get('/admin/filter'))?.status === 200);
      const asked = await get('/admin/verdict?destination=10.0.0.1&protocol=tcp&port=443&user=carol');
      expect(await asked?.json()).toMatchObject({ verdict: 'accept' });
      const { code, out } = await stop();
      expect([code, out]).toEqual([
        0,
        expect.stringMatching(`^listening ${url}\nexport RECONCILE_BASE_URL=${url}\nexport `),
      ]);
      expect(world.read('data')).toContain('carol');
      expect(world.read('operator').split('.')).toHaveLength(3);
    }));
});

/** Flags that need what only another test sets up; the file executes them, and holds their name. */
const elsewhere: readonly { readonly pairs: readonly string[]; readonly test: string }[] = [
  {
    // a sidecar to ask
    pairs: all.filter((pair) => /^reconcile status --(?!fleet|target|label)/.test(pair)),
    test: 'test/cli/status.test.ts',
  },
  {
    // a certificate
    pairs: ['reconcile watch --listen-tls-cert', 'reconcile watch --listen-tls-key'],
    test: 'test/cli/watch/page.test.ts',
  },
  {
    // a packet filter in a network namespace
    pairs: [
      ...['--enforcement', '--netns', '--wait-enforced', '--repair'].flatMap((flag) => [
        `reconcile plan ${flag}`,
        `reconcile apply ${flag}`,
      ]),
      'reconcile doctor --enforcement',
      'reconcile doctor --netns',
      'reconcile simulate --nft-netns',
    ],
    test: 'test/docs/programs.test.ts',
  },
  {
    // several servers
    pairs: all.filter((pair) => / --(fleet|target|label)$/.test(pair)),
    test: 'test/cli/fleet.test.ts',
  },
  {
    // an apply that was made before
    pairs: commands
      .filter(({ name }) => ['history', 'undo'].includes(name))
      .flatMap((spec) => listOptions(spec).map((name) => pairOf(spec.name, name))),
    test: 'test/cli/history.test.ts',
  },
  {
    // an apply that waits
    pairs: all.filter((pair) => pair.startsWith('reconcile confirm ')),
    test: 'test/cli/confirm.test.ts',
  },
];

describe('coverage', () => {
  const processes = Object.values(lines).flatMap((line) => {
    const parsed = parseArguments(line.split(' '));
    if (parsed.kind === 'text') return [];
    return (Object.keys(parsed.flags) as OptionName[]).map((name) => pairOf(parsed.command.name, name));
  });
  const executed = new Set([...sampled.map(({ pair }) => pair), ...processes]);

  it('no flag of any command is never executed', () => {
    const other = new Set(elsewhere.flatMap(({ pairs }) => pairs));
    expect(all.filter((pair) => !executed.has(pair) && !other.has(pair))).toEqual([]);
    expect(all.length).toBeGreaterThan(200);
  });

  it('what another test executes is not executed here, exists, and is named there', () => {
    for (const { pairs, test } of elsewhere) {
      const text = readFileSync(join(root, test), 'utf8').replace('RECONCILE_NETNS', '--netns');
      for (const pair of pairs) {
        expect([pair, executed.has(pair), all.includes(pair)]).toEqual([pair, false, true]);
        expect(text).toContain(pair.split(' ').at(-1));
      }
    }
  });

  it('every sample belongs to a flag of some command', () => {
    const used = new Set<OptionName>([...sampled.map(({ name }) => name), 'forget']);
    expect(Object.keys(samples).filter((name) => !used.has(name as OptionName))).toEqual([]);
  });
});
