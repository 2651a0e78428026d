import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import { holdLockFile } from '../../src/adapters/lease/lock-file.ts';
import { StateFiles } from '../../src/adapters/state-files.ts';
import { PendingFiles } from '../../src/cli/pending.ts';
import type { Lease } from '../../src/controller/lease.ts';
import { until } from '../controller/support/sidecar.ts';
import { documentedLines } from '../docs/lines.ts';
import { alice, type CliRun, ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';
import { hasPty, runOnTerminal } from './pty.ts';

let world: World;
let env: Readonly<Record<string, string>>;

beforeEach(async () => {
  world = await startWorld();
  env = { RECONCILE_STATE_DIR: join(world.folder, 'state'), USER: 'carol' };
});

afterEach(() => {
  vi.useRealTimers();
  return world.close();
});

const run = (...args: readonly string[]): Promise<CliRun> => world.cli(args, { env });
const live = (): readonly string[] =>
  world.simulator
    .rules()
    .map(({ action, destination }) => `${action} ${destination}`)
    .sort();
const waits = (): boolean => existsSync(join(world.folder, 'state/reconcile/oneshot/pending.json'));
const isGoingBack = (): boolean => existsSync(join(world.folder, 'state/reconcile/oneshot/going-back.json'));

function manifests(rules: readonly string[], spec?: string): void {
  const items = rules.map((line, index) => {
    const [action, destination] = line.split(' ');
    return `    - {name: r${index}, action: ${action}, destination: "${destination}"}\n`;
  });
  const configuration =
    spec === undefined
      ? ''
      : `---\napiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec: ${spec}\n`;
  const head = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: web}\nspec:\n  rules:\n';
  world.write('m/rules.yaml', `${head}${items.join('')}${configuration}`);
}

/** An apply on a terminal, where a person answers the question whether to keep it. */
function onTrial(answer: string | (() => string | Promise<string>), ...args: readonly string[]): Promise<CliRun> {
  const reply = (question: string) =>
    question.startsWith('Still there?') ? (typeof answer === 'string' ? answer : answer()) : 'y';
  return world.cli(['apply', '--confirm-within', '5m', ...args, 'm'], { env, answer: reply });
}

async function call(method: string, path: string, body?: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  expect((await fetch(`${world.simulator.url}${path}`, { method, headers, ...sent })).ok).toBe(true);
}

/** Runs with a proxy before the server: something happens right after each rule that is created, or each request by that method. */
async function whileItWrites(act: () => Promise<void>, when = 'POST'): Promise<Server> {
  const forward = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url } = request;
    const { authorization = '' } = request.headers;
    const body = Buffer.concat(await request.toArray()).toString();
    const headers = { authorization, accept: 'application/json', 'content-type': 'application/json' };
    const sent = body === '' ? {} : { body };
    const answer = await fetch(`${world.simulator.url}${url}`, { method, headers, ...sent });
    const text = await answer.text();
    if (method === when) await act();
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text);
  };
  const proxy = createServer((request, response) => void forward(request, response));
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  env = { ...env, RECONCILE_BASE_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  return proxy;
}

const before = ['accept 10.2.0.0/16', 'drop 10.1.0.0/16'];
const after = ['accept 10.3.0.0/16', 'drop 10.0.0.0/8'];

/** What is live was applied, and the manifests ask for something else. */
async function prepared(): Promise<void> {
  manifests(before, '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
  expect((await run('m')).code).toBe(0);
  manifests(after, '{default_client_mtu: 1400, default_client_dns: [9.9.9.9]}');
}

describe('an apply that is to be confirmed', () => {
  beforeEach(prepared);

  it('y keeps it', async () => {
    const kept = await onTrial('y');
    expect([kept.code, live(), waits()]).toEqual([0, after, false]);
    expect(kept.err).toMatch(/Still there\? Keep it\? \[y\/N\], going back in 5:00 Kept\.\n/);
    expect(kept.out.match(/Applied:/g)).toHaveLength(1);
  });

  it.each(['n', '', 'maybe'])(
    '%j goes back, by a plan that is shown, verified and recorded: exit 3',
    async (answer) => {
      const back = await onTrial(answer, '--output', 'json=report.json', '--output', 'text');
      expect([back.code, live(), waits(), isGoingBack()]).toEqual([3, before, false, false]);
      expect(world.simulator.configuration()).toMatchObject({
        default_client_mtu: 1300,
        default_client_dns: ['1.1.1.1'],
      });
      expect(back.err).toContain('You did not say yes: going back to the state before.');
      expect(back.out).toMatch(/the state before the apply[\s\S]*to create[\s\S]*Applied: /);
      expect(back.out).not.toContain('that no manifest names');
      expect(back.out).toMatch(/- .*r0/);
      expect(back.err).toContain('[went-back]');
      expect(JSON.parse(world.read('report.json')).problems).toContainEqual(
        expect.objectContaining({ code: 'went-back' }),
      );
      expect((await run('history')).out.match(/converged/g)).toHaveLength(3);
      // What the manifests ask for is still to be done, by its name.
      expect((await run('plan', '--detailed-exitcode', 'm')).code).toBe(2);
    },
  );

  it('going back × a change that others made meanwhile: that stays, and is named', async () => {
    const back = await onTrial(async () => {
      world.simulator.seed([{ action: 'accept', destination: '172.16.0.0/12' }]);
      await call('PATCH', '/v0/configuration', { configuration: { default_client_dns: ['8.8.8.8'] } });
      return 'n';
    });
    expect([back.code, live()]).toEqual([3, ['accept 10.2.0.0/16', 'accept 172.16.0.0/12', 'drop 10.1.0.0/16']]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1300,
      default_client_dns: ['8.8.8.8'],
    });
    expect(back.out).toContain('`default_client_dns` was changed again');
    expect(back.out).toContain('the rule accept 172.16.0.0/12 was made by others since');
    expect(back.err).toContain('Went back: all else that the apply changed is as it was before.');
  });

  it('--yes answers for the plan, and not for keeping it; a time that is over goes back', async () => {
    const args = ['apply', '--yes', '--confirm-within', '1s', 'm'];
    const back = await world.cli(args, { env, answer: () => new Promise(() => undefined) });
    expect([back.code, live()]).toEqual([3, before]);
    expect(back.err).toContain('Nobody answered: going back');
  });

  it('an apply to be confirmed × a step that fails: nobody is asked, and it goes back at once, exit 3', async () => {
    const answer = vi.fn(() => 'y');
    for (const status of [422, 403]) {
      const match = { method: 'POST', path: '/v0/rules', nth: 2, times: 1 };
      world.simulator.faults.inject({ match, fault: { kind: 'status', status } });
      const back = await onTrial(answer, '--concurrency', '1');
      world.simulator.faults.clear();
      expect([back.code, live()]).toEqual([3, before]);
      expect(back.err).toContain('Not all of it could be applied: going back');
      expect([world.simulator.configuration()['default_client_mtu'], waits(), isGoingBack()]).toEqual([
        1300,
        false,
        false,
      ]);
    }
    expect(answer).not.toHaveBeenCalled();
  });

  it('nothing to write is not asked about', async () => {
    manifests(before, '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
    const same = await onTrial('n');
    expect([same.code, same.err.includes('Still there')]).toEqual([0, false]);
  });

  it.each([
    ['--confirm-within', '5m'],
    ['--confirm-with', 'no-such-program x'],
    ['--confirm-with', ' '],
    ['--confirm-with', '/tmp'],
    ['--confirm-with', './m/rules.yaml'],
  ])('nobody and nothing that could confirm: %s %s is wrong usage, and nothing is written', async (...flags) => {
    const refused = await world.cli(['apply', '--yes', ...flags, 'm'], { env });
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('[usage]')]);
    expect(live()).toEqual(before);
  });

  it.each(["sh -c 'exit 1", 'sh -c "exit 1', `true "it's`])(
    'a command with a quote that is not closed is wrong usage: %s',
    async (command) => {
      const given = { ...env, PATH: process.env['PATH'] ?? '' };
      const refused = await world.cli(['apply', '--yes', '--confirm-with', command, 'm'], { env: given });
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('a quote in it is not closed')]);
      expect(live()).toEqual(before);
    },
  );

  it('is refused where nothing can be kept for the case that it is killed', async () => {
    const path = process.env['PATH'] ?? '';
    const given = { ...env, RECONCILE_STATE_DIR: '', CI: 'true', PATH: path };
    const refused = await world.cli(['apply', '--confirm-with', 'true', 'm'], { env: given });
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('give --state-dir')]);
    world.write('file', '');
    const unwritable = await world.cli(['apply', '--confirm-with', 'true', 'm'], {
      env: { ...env, RECONCILE_STATE_DIR: join(world.folder, 'file'), PATH: path },
    });
    expect([unwritable.code, live()]).toEqual([1, before]);
    expect(unwritable.err).toMatch(/what must be put back if nobody confirms cannot be written in .*\(EEXIST\)/);
  });
});

describe('a command that confirms', () => {
  beforeEach(prepared);

  it('keeps the apply once it ends with 0, and gets no token and no secret', async () => {
    const given = { ...env, PATH: process.env['PATH'] ?? '', RECONCILE_SECRET_X: 'canary' };
    world.write('probe.sh', 'env > seen; [ -e twice ] || { touch twice; echo not yet >&2; exit 7; }\n');
    const kept = await world.cli(['apply', '--confirm-with', "sh 'probe.sh'", 'm'], { env: given });
    expect([kept.code, live()]).toEqual([0, after]);
    expect(kept.err).toMatch(/Not confirmed yet, going back in 5:00: the command ended with 7: not yet\nKept\./);
    expect(world.read('seen')).not.toMatch(/RECONCILE|canary|test-token/);
  });

  it('goes back when it never does, and says what it last said', async () => {
    const given = { ...env, PATH: process.env['PATH'] ?? '' };
    const args = ['apply', '--confirm-with', 'false', '--confirm-within', '300ms', 'm'];
    const back = await world.cli(args, { env: given });
    expect([back.code, live()]).toEqual([3, before]);
    expect(back.err).toContain('Not confirmed: the command ended with 1: going back');
  });

  it('is not waited for when it hangs, and its output is bounded (long)', async () => {
    const given = { ...env, PATH: process.env['PATH'] ?? '' };
    const hanging = ['apply', '--confirm-with', 'sleep 60', '--confirm-within', '300ms', 'm'];
    expect((await world.cli(hanging, { env: given })).code).toBe(3);
    const loud = ['apply', '--confirm-with', 'cat /dev/zero', '--confirm-within', '2s', 'm'];
    const back = await world.cli(loud, { env: given });
    expect([back.code, back.err]).toEqual([3, expect.stringContaining('the command printed more than 65536 bytes')]);
  });

  it('is not waited for when a daemon of it holds its output open (long)', async () => {
    const given = { ...env, PATH: process.env['PATH'] ?? '' };
    world.write(
      'probe.sh',
      "setsid sh -c 'echo $$ > daemon; exec sleep 600' & until [ -s daemon ]; do :; done; exit 1\n",
    );
    const args = ['apply', '--confirm-with', 'sh probe.sh', '--confirm-within', '2s', 'm'];
    const back = await world.cli(args, { env: given });
    process.kill(Number(world.read('daemon')));
    expect([back.code, live()]).toEqual([3, before]);
  });

  it.each([
    ['is gone', 'rm -rf state'],
    ['became a file', 'rm -rf state; touch state'],
    ['cannot be read', 'mv state elsewhere; ln -s state state'],
  ])('goes back when the state folder %s meanwhile: nobody confirmed', async (_, harm) => {
    const given = { ...env, PATH: process.env['PATH'] ?? '' };
    world.write('probe.sh', `${harm}; exit 1\n`);
    const args = ['apply', '--confirm-with', 'sh probe.sh', '--confirm-within', '300ms', 'm'];
    const back = await world.cli(args, { env: given });
    expect([back.code, live(), back.err]).toEqual([3, before, expect.stringContaining('Went back')]);
  });
});

describe('going back', () => {
  it('is not stopped by guards, windows, --fail-on, --max-exposure, protected traffic or a read-only setting', async () => {
    manifests(['drop 10.9.0.0/16']);
    await run('m');
    manifests(Array.from({ length: 12 }, (_, index) => `drop 10.${index}.0.0/16`));
    world.write(
      'closed.yaml',
      'windows:\n  - {kind: deny, schedule: "* * * * *", duration: 1h}\nprotect:\n  - {destination: 10.3.0.0/16}\n',
    );
    // Each of these would refuse a plan that opens all this.
    const guards = ['--max-deletes', '1', '--max-changes', '1', '--max-exposure', 'none', '--fail-on', 'opens'];
    expect((await onTrial('n', ...guards, '--strict')).code).toBe(3);
    expect(live()).toEqual(['drop 10.9.0.0/16']);
    manifests(['drop 10.9.0.0/16', 'drop 10.8.0.0/16']);
    const back = await onTrial('n', '--config', join(world.folder, 'closed.yaml'));
    expect([back.code, live()]).toEqual([3, ['drop 10.9.0.0/16']]);
    // This one needs a base, and going back has none.
    const demanding = await onTrial('n', '--fail-on', 'drift', '--base', 'm', '--total-timeout', '1s');
    expect([demanding.code, live()]).toEqual([3, ['drop 10.9.0.0/16']]);
    // No manifest is read, so that what they are read with may be gone.
    world.write('values.yaml', 'web: 10.20.0.0/24\n');
    const gone = (): string => {
      rmSync(join(world.folder, 'values.yaml'));
      return 'n';
    };
    const unread = await onTrial(gone, '--values', 'values.yaml', '--total-timeout', '1s');
    expect([unread.code, live()], unread.err).toEqual([3, ['drop 10.9.0.0/16']]);
  });

  it('going back × a change by hand that leaves what the apply made as the only way to sign in: that stays, exit 5', async () => {
    manifests(before, '{default_client_mtu: 1300}');
    expect((await run('m')).code).toBe(0);
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    manifests(after, `{default_client_mtu: 1400, ${provider('Okta').slice(1)}`);
    const back = await onTrial(
      async () => {
        await call('PATCH', '/v0/configuration', { configuration: { local_auth_enabled: false } });
        return 'n';
      },
      ...bound,
    );
    expect([back.code, live(), isGoingBack()], back.err).toEqual([5, before, false]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1300,
      local_auth_enabled: false,
      openid_connect_providers: [{ id: 'okta' }],
    });
    expect(back.err).toMatch(/error.*\[locks-out\].*`openid_connect_providers` is not taken back/s);
    expect(back.err).toContain('Went back: all else that the apply changed');
    expect((await run('confirm')).err).toContain('no apply waits to be confirmed');
    await call('PATCH', '/v0/configuration', { configuration: { local_auth_enabled: true } });
    expect((await run('undo', '--yes', '2')).code).toBe(0);
    expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [] });
  });

  it('leaves the last way to sign in too where somebody turned off the other one while it wrote rules', async () => {
    let isOff = true;
    const patch = (enabled: boolean) =>
      call('PATCH', '/v0/configuration', { configuration: { local_auth_enabled: enabled } });
    const proxy = await whileItWrites(async () => (isOff ? undefined : await patch(false)));
    manifests(before);
    expect((await run('m')).code).toBe(0);
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    manifests(after, `{default_client_mtu: 1400, ${provider('Okta').slice(1)}`);
    const answer = () => {
      isOff = false;
      return 'n';
    };
    const back = await onTrial(answer, '--concurrency', '1', ...bound);
    proxy.close();
    expect([back.code, live(), isGoingBack()], back.err).toEqual([5, before, false]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1280,
      local_auth_enabled: false,
      openid_connect_providers: [{ id: 'okta' }],
    });
    expect(back.err).toMatch(/error.*\[locks-out\].*openid_connect_providers/);
    expect(back.err).toContain('Went back: all else that the apply changed');
  });

  it.each(['going back', 'undo'])(
    '%s leaves a field that others changed while it wrote rules, and names it',
    async (what) => {
      manifests([...before, 'accept 10.4.0.0/16'], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
      expect((await run('m')).code).toBe(0);
      manifests(before, '{default_client_mtu: 1400, default_client_dns: [9.9.9.9]}');
      let isOff = true;
      const proxy = await whileItWrites(async () => {
        if (!isOff) await call('PATCH', '/v0/configuration', { configuration: { default_client_mtu: 1420 } });
      });
      const answer = () => {
        isOff = what === 'undo';
        return what === 'undo' ? 'y' : 'n';
      };
      const back = await onTrial(answer, '--concurrency', '1');
      isOff = false;
      const undone = what === 'undo' ? await run('undo', '--yes', '--concurrency', '1') : back;
      proxy.close();
      expect([undone.code, live().length, isGoingBack()], undone.err).toEqual([what === 'undo' ? 0 : 3, 3, false]);
      expect(world.simulator.configuration()).toMatchObject({
        default_client_mtu: 1420,
        default_client_dns: ['1.1.1.1'],
      });
      expect(undone.out).toContain('Not undone: default_client_mtu was changed again meanwhile.');
    },
  );

  it('is over once the server has what was before, though the kernel cannot be seen: exit 5, and the next apply begins', async () => {
    await prepared();
    const unseen = ['--enforcement', 'nft', '--netns', join(world.folder, 'gone')];
    const back = await onTrial('n', ...unseen);
    expect([back.code, live(), waits(), isGoingBack()], back.err).toEqual([5, before, false, false]);
    expect(back.err).toContain('that it is in force there could not be seen');
    expect([(await run('m', ...unseen, '--wait-enforced', '1s')).code, live()]).toEqual([5, after]);
  });

  it('is not stopped by a journal that cannot be opened any more', async () => {
    await prepared();
    const away = (): string => {
      renameSync(join(world.folder, 'j.jsonl'), join(world.folder, 'old.jsonl'));
      mkdirSync(join(world.folder, 'j.jsonl'));
      return 'n';
    };
    const back = await onTrial(away, '--journal', 'j.jsonl', '--total-timeout', '2s');
    expect([back.code, live(), back.err]).toEqual([3, before, expect.stringContaining('goes on without it')]);
  });

  it('holds to the scope', async () => {
    world.write('scope.yaml', 'scope: {networks: [10.0.0.0/8]}\n');
    manifests(['drop 10.1.0.0/16']);
    const back = await onTrial(
      () => {
        world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
        return 'n';
      },
      '--config',
      join(world.folder, 'scope.yaml'),
    );
    expect([back.code, live()]).toEqual([3, ['drop 192.0.2.0/24']]);
  });

  it.each([
    ['PATCH', 408],
    ['PATCH', 404],
    ['POST', 499],
    ['POST', 403],
  ])('takes back a %s that a proxy answered with %i after the server had carried it out', async (method, status) => {
    await prepared();
    manifests([...before, 'accept 10.30.0.0/16'], '{default_client_mtu: 1400, default_client_dns: [9.9.9.9]}');
    world.simulator.faults.inject({ match: { method }, fault: { kind: 'status', status, commit: true } });
    const back = await onTrial(() => {
      world.simulator.faults.clear();
      return 'n';
    });
    expect([back.code, live()], back.out).toEqual([3, before]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1300,
      default_client_dns: ['1.1.1.1'],
    });
    expect(back.out).not.toContain('Not undone');
    expect((await run('history')).out).toMatch(/^ +2 .*1 created, 2 fields/m);
  });

  it('takes back a PATCH that a proxy answered with 403 also where the server refused something else', async () => {
    await prepared();
    manifests([...before, 'accept 10.30.0.0/16'], '{default_client_mtu: 1400, default_client_dns: [9.9.9.9]}');
    world.simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'status', status: 422 } });
    const refused = { kind: 'status', status: 403, commit: true } as const;
    world.simulator.faults.inject({ match: { method: 'PATCH', times: 1 }, fault: refused });
    const back = await onTrial(() => 'n');
    expect([back.code, live()], back.out + back.err).toEqual([3, before]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
  });

  it.each(['going back', 'undo'])(
    '%s × what others did that the apply was about to do: a rule deleted by hand, and a field set by hand, stay so',
    async (what) => {
      const access = 'accept 10.4.0.0/16';
      manifests([...before, access], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
      expect((await run('m')).code).toBe(0);
      manifests([...before, 'drop 10.5.0.0/16'], '{default_client_mtu: 1400, default_client_dns: [1.1.1.1]}');
      let isFirst = true;
      const proxy = await whileItWrites(async () => {
        if (!isFirst) return;
        isFirst = false;
        const revoked = world.simulator.rules().find(({ destination }) => destination === '10.4.0.0/16');
        await call('DELETE', `/v0/rules/${revoked?.id}`);
        await call('PATCH', '/v0/configuration', { configuration: { default_client_mtu: 1400 } });
      });
      const done = await (what === 'undo' ? run('--concurrency', '1', 'm') : onTrial('n', '--concurrency', '1'));
      expect([done.code, done.out], done.err).toEqual([
        what === 'undo' ? 0 : 3,
        expect.stringMatching(/Applied: 2 done, 1 dropped in .* agrees/),
      ]);
      if (what === 'undo') expect((await run('undo', '--yes')).code).toBe(0);
      proxy.close();
      expect([live(), world.simulator.configuration()['default_client_mtu']]).toEqual([before, 1400]);
    },
  );

  it.each([
    ['going back', 'default_client_mtu', 1350],
    ['going back', 'vpn_session_duration', 600],
    ['undo', 'default_client_mtu', 1350],
    ['undo', 'vpn_session_duration', 600],
  ])(
    '%s × a field that others set and the apply overwrote by a later plan: %s is %i again',
    async (what, field, value) => {
      const spec = (mtu: number) => `{default_client_mtu: ${mtu}, vpn_session_duration: 3600}`;
      manifests(before, spec(1300));
      expect((await run('m')).code).toBe(0);
      manifests(before, spec(1400));
      let isFirst = true;
      const set = async () => {
        if (isFirst) await call('PATCH', '/v0/configuration', { configuration: { [field]: value } });
        isFirst = false;
      };
      const proxy = await whileItWrites(set, 'PATCH');
      const done = await (what === 'undo' ? run('m') : onTrial('n'));
      expect(done.code, done.out + done.err).toBe(what === 'undo' ? 0 : 3);
      if (what === 'undo') expect((await run('undo', '--yes')).code).toBe(0);
      proxy.close();
      expect(world.simulator.configuration()).toMatchObject({
        default_client_mtu: 1300,
        vpn_session_duration: 3600,
        [field]: value,
      });
      expect(done.out.includes('undone each time')).toBe(field === 'default_client_mtu');
    },
  );

  it('does not replace a rule that others modified in place, though the settings ask for that; undo does not either', async () => {
    await prepared();
    world.write('replace.yaml', 'replaceModified: true\n');
    const settings = ['--config', join(world.folder, 'replace.yaml')];
    const theirs = () => world.simulator.rules().find(({ destination }) => destination === '172.17.0.0/16')?.id;
    const back = await onTrial(
      async () => {
        const [id] = world.simulator.seed([{ action: 'accept', destination: '172.16.0.0/16' }]);
        await call('PATCH', `/v0/rules/${id}`, { rule: { destination: '172.17.0.0/16' } });
        return 'n';
      },
      ...settings,
    );
    const id = theirs();
    expect([back.code, id], back.err).toEqual([3, expect.any(String)]);
    expect(back.out.slice(back.out.indexOf('the state before the apply'))).not.toContain('modified in place');
    const undone = await run('undo', ...settings);
    expect([undone.code, theirs()], undone.out).toEqual([0, id]);
  });

  it('puts back what it can though a rule outside the scope stands in the way of one that was deleted, and names that', async () => {
    await prepared();
    world.write('scope.yaml', 'scope: {networks: [10.0.0.0/8]}\n');
    manifests(['drop 10.1.0.0/16', 'drop 10.4.0.0/16'], '{default_client_mtu: 1400}');
    const back = await onTrial(
      () => {
        world.simulator.seed([{ action: 'accept', destination: '8.0.0.0/6' }]);
        return 'n';
      },
      '--config',
      join(world.folder, 'scope.yaml'),
    );
    expect([back.code, live()], back.err).toEqual([3, ['accept 8.0.0.0/6', 'drop 10.1.0.0/16']]);
    expect(world.simulator.configuration()['default_client_mtu']).toBe(1300);
    expect(back.out).toContain('(accept 10.2.0.0/16) cannot come back beside accept 8.0.0.0/6, made since.');
    expect(back.out).not.toContain('was made by others since');
    expect(back.err).toContain('Went back: all else that the apply changed is as it was before.');
  });

  it('going back × history --prune meanwhile: an end that the apply removed is known again', async () => {
    const expires = 1000 * Math.floor(Date.now() / 1000 + 3600);
    const spec = 'action: accept, destination: 10.7.0.1';
    world.write('m/soon.yaml', rule('soon', `${spec}, expires: "${new Date(expires).toISOString()}"`));
    expect((await run('m')).code).toBe(0);
    world.write('m/soon.yaml', rule('soon', spec));
    world.write('m/more.yaml', rule('more', 'action: drop, destination: 10.8.0.0/16'));
    const pruned = async (): Promise<string> => {
      expect((await run('history', '--prune')).code).toBe(0);
      return 'n';
    };
    expect((await onTrial(pruned)).code).toBe(3);
    const folder = join(world.folder, 'state/reconcile/history');
    const newest = Math.max(...readdirSync(folder).map((name) => Number.parseInt(name, 10)));
    const ends = { 'accept 10.7.0.1 *': expires };
    expect(JSON.parse(readFileSync(join(folder, `${newest}.json`), 'utf8'))).toMatchObject({ expires: ends });
  });

  it('going back × expires: a rule that expired meanwhile is not made again, and is named', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const spec = (destination: string, hours: number): string =>
      `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: to-${destination}}\nspec: {action: accept, destination: ${destination}, expires: "${new Date(Date.now() + hours * 3_600_000).toISOString().replace(/\.\d+Z/, 'Z')}"}\n`;
    world.write('m/soon.yaml', `${spec('10.1.0.1', 1)}---\n${spec('10.1.0.2', 9)}`);
    manifests(['drop 10.9.0.0/16']);
    await run('m');
    world.write('m/soon.yaml', '');
    world.write('short.yaml', 'maxExpiry: 1h\n');
    const answer = (): string => {
      vi.setSystemTime(Date.now() + 2 * 3_600_000);
      return 'n';
    };
    const back = await onTrial(answer, '--config', join(world.folder, 'short.yaml'));
    // The longer end of before comes back, though nobody may give one now.
    expect([back.code, live()]).toEqual([3, ['accept 10.1.0.2', 'drop 10.9.0.0/16']]);
    expect(back.out).toMatch(/Not undone: the rule to-10\.1\.0\.1 .* expired at [^.]*Z\./);
  });

  it.each([
    ['a plain apply', 'others are created', 200],
    ['going back', 'others are created', 200],
    ['a plain apply', 'the server limits the rate of its POST', 429],
    ['going back', 'the server limits the rate of its POST', 429],
  ])('%s × expires: a rule that ends while %s is not created, and is named', async (what, _, status) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const end = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z/, 'Z');
    const rules = [1, 2].map((n) =>
      rule(`to-${n}`, `action: accept, destination: 10.1.0.${n}${n === 2 ? `, expires: "${end}"` : ''}`),
    );
    if (status === 429) rules.shift();
    const ban = rule('ban', 'action: drop, destination: 10.9.0.0/16');
    let waits = true;
    const proxy = await whileItWrites(async () => void (waits || vi.setSystemTime(Date.now() + 7_200_000)));
    world.write('m/rules.yaml', what === 'going back' ? ban + rules.join('') : ban);
    expect((await run('m')).code).toBe(0);
    const limit = (): void => {
      if (status === 429)
        world.simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'status', status } });
    };
    const answer = () => {
      waits = false;
      limit();
      return 'n';
    };
    world.write('m/rules.yaml', what === 'going back' ? ban : ban + rules.join(''));
    waits = what === 'going back';
    if (!waits) limit();
    const args = ['--concurrency', '1'] as const;
    const done =
      what === 'going back'
        ? await onTrial(answer, ...args, '--max-deletes', '100%')
        : await run('apply', ...args, 'm');
    proxy.close();
    expect([done.code, live()], done.err).toEqual([
      what === 'going back' ? 3 : 0,
      [...(status === 429 ? [] : ['accept 10.1.0.1']), 'drop 10.9.0.0/16'],
    ]);
    expect(done.out).toMatch(/`.*to-2` ended before it could be written, and is not written\./);
  });

  it('a rule that ends while the server limits the rate of its PATCH is deleted, and what it would have become is not written', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const end = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z/, 'Z');
    const guest = (ports: string) =>
      rule('guest', `action: accept, destination: 10.1.0.1, port_type: tcp, port_range: "${ports}", expires: "${end}"`);
    const ban = rule('ban', 'action: drop, destination: 10.9.0.0/16');
    world.write('m/rules.yaml', ban + guest('80'));
    expect((await run('m')).code).toBe(0);
    world.write('m/rules.yaml', ban + guest('1-60000'));
    const match = { method: 'PATCH', times: 1 };
    world.simulator.faults.inject({ match, fault: { kind: 'status', status: 429 } });
    world.simulator.onCall(({ method }) => void (method === 'PATCH' && vi.setSystemTime(Date.now() + 7_200_000)));
    const done = await run('apply', '--rule-updates', 'patch', 'm');
    expect([done.code, live()], done.err).toEqual([0, ['drop 10.9.0.0/16']]);
    expect(done.out).toContain('`guest` ended before it could be written, and is not written.');
    expect(world.simulator.requests().filter(({ method }) => method === 'PATCH')).toHaveLength(1);
  });

  it.each([
    ['it brought', '', ', expires: "2099-01-01T00:00:00Z"', {}],
    ['it removed', ', expires: "2099-01-01T00:00:00Z"', '', { 'accept 10.1.0.1 *': Date.UTC(2099, 0) }],
  ])(
    'going back leaves in the history no end that %s, and calls a rule by its name',
    async (_, first, then, expires) => {
      const spec = 'action: accept, destination: 10.1.0.1';
      manifests(['drop 10.9.0.0/16']);
      world.write('m/guest.yaml', rule('guest', spec + first));
      await run('m');
      manifests(['drop 10.9.0.0/16', 'drop 10.8.0.0/16']);
      world.write('m/guest.yaml', rule('guest', spec + then));
      expect((await onTrial('n')).code).toBe(3);
      const record = JSON.parse(world.read('state/reconcile/history/3.json'));
      expect(record).toMatchObject({ by: 'carol', revision: 'the state before the apply' });
      expect([record.expires, record.names]).toEqual([
        expires,
        expect.not.objectContaining({ 'accept 10.1.0.1 *': expect.stringContaining('kept') }),
      ]);
    },
  );

  it('exit 5, and the report names what is left, when it fails; the next apply goes back by itself', async () => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 404 } });
      return 'n';
    });
    expect(back.code).toBe(5);
    expect(back.err).toMatch(
      /\[not-gone-back\] .*Not as before: drop 10\.1\.0\.0\/16 \*, accept 10\.2\.0\.0\/16 \*\.\n/,
    );
    expect(back.out).toContain('create drop 10.1.0.0/16: ');
    expect(isGoingBack()).toBe(true);
    world.simulator.faults.clear();
    const next = await run('m');
    expect([next.code, live(), isGoingBack()]).toEqual([3, before, false]);
    expect(next.err).toContain('An earlier run did not get to the end of going back');
  });

  it('is given up by confirm, once an earlier run failed and it fails there too', async () => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 404 } });
      return 'n';
    });
    expect([back.code, isGoingBack()]).toEqual([5, true]);
    expect(back.err).toContain('`reconcile confirm` does too, and gives up what it cannot take back');
    expect([(await run('m')).code, isGoingBack()]).toEqual([5, true]);
    const last = await run('confirm');
    expect([last.code, isGoingBack()]).toEqual([5, false]);
    expect(last.err).toContain('That is given up. `reconcile undo N` tries again, N being 20');
    world.simulator.faults.clear();
    expect([(await run('m')).code, live()]).toEqual([0, after]);
  });

  it('closes what a rule for one user was widened to, though that user is gone, and names the rule', async () => {
    const wide = 'action: accept, destination: 10.2.0.0/16';
    world.write(
      'm/rules.yaml',
      rule('web', `${wide}, user: alice@example.com`) + rule('ban', 'action: drop, destination: 10.1.0.0/16'),
    );
    expect((await run('m')).code).toBe(0);
    world.write('m/rules.yaml', rule('web', wide) + rule('ban', 'action: drop, destination: 10.1.0.0/16'));
    const back = await onTrial(async () => {
      await call('DELETE', `/v0/users/${alice}`);
      return 'n';
    });
    expect([back.code, live(), isGoingBack()]).toEqual([3, ['drop 10.1.0.0/16'], false]);
    expect(back.out).toContain(
      'the rule web (accept 10.2.0.0/16 for user a1520c4b) is not made again, for its user is gone',
    );
  });

  it('names fields of the Configuration that it could not put back, and not the manifest', async () => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'PATCH' }, fault: { kind: 'status', status: 403 } });
      return 'n';
    });
    expect([back.code, back.err]).toEqual([
      5,
      expect.stringMatching(/\[not-gone-back\] .*Not as before: default_client_dns, default_client_mtu\.\n/),
    ]);
  });

  it('does not name the providers that came back after the other fields were refused', async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    manifests(before, `{default_client_mtu: 1300, ${provider('Okta').slice(1)}`);
    expect((await run('m', ...bound)).code).toBe(0);
    manifests(before, `{default_client_mtu: 1400, ${provider('Renamed').slice(1)}`);
    const body = '{"errors":{"default_client_mtu":["is invalid"]}}';
    const answer = () => {
      const match = { method: 'PATCH', nth: 1, times: 1 };
      world.simulator.faults.inject({ match, fault: { kind: 'status', status: 422, body } });
      return 'n';
    };
    const back = await onTrial(answer, ...bound);
    expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [{ label: 'Okta' }] });
    expect([back.code, back.err]).toEqual([5, expect.stringMatching(/Not as before: default_client_mtu\.\n/)]);
  });

  it('is the headline of Markdown and HTML: nobody reads there that the change was applied', async () => {
    await prepared();
    const back = await onTrial('n', '--output', 'markdown=back.md', '--output', 'html=back.html');
    expect(back.code).toBe(3);
    expect(world.read('back.md')).toMatch(/^<!-- .*\n### Went back: what the apply changed is as it was before\.\n/);
    expect(world.read('back.md')).not.toContain('### reconcile: ');
    expect(world.read('back.html')).toContain('<p class="summary">Went back: what the apply changed');
  });

  it('names the rule that the server keeps though it answers to each delete that it is gone', async () => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'DELETE' }, fault: { kind: 'status', status: 204 } });
      return 'n';
    });
    expect([back.code, isGoingBack()]).toEqual([5, false]);
    expect(back.err).toMatch(/\[not-gone-back\] .*Not as before: .*, accept 10\.3\.0\.0\/16 \* \(/);
  });

  it('says that nobody knows the result where the server cannot be read after the last step', async () => {
    await prepared();
    const unseen = () => {
      let writes = 0;
      world.simulator.onCall(({ method }) => {
        if (method !== 'GET' && ++writes === 5)
          world.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'reset-before' } });
      });
      return 'n';
    };
    const back = await onTrial(unseen, '--total-timeout', '2s', '--concurrency', '1');
    expect([back.code, live(), isGoingBack()]).toEqual([5, before, true]);
    expect(back.err).toMatch(/\[not-gone-back\] .*the result could not be verified\.\n/);
    expect(back.err).not.toContain('Not as before');
  });

  it('says whose a record may be that it cannot use, and what its removal does', async () => {
    await prepared();
    world.write('state/reconcile/oneshot/pending.json', '{');
    const next = await run('m');
    expect([next.code, live()]).toEqual([1, before]);
    const refused = /is another user's, or damaged[\s\S]*keeps what was applied once you remove it/;
    expect(next.err).toMatch(refused);
    const plan = await run('plan', 'm');
    expect([plan.code, plan.err]).toEqual([0, expect.stringMatching(refused)]);
    const { RECONCILE_STATE_DIR: stateDir = '' } = env;
    await run('snapshot', '--out', join(world.folder, 's.json'));
    const aside = { env: { RECONCILE_STATE_DIR: stateDir, RECONCILE_BASE_URL: '', RECONCILE_TOKEN: '' } };
    expect((await world.cli(['plan', '--snapshot', 's.json', 'm'], aside)).err).toBe('');
  });

  it('does not keep later applies from beginning where the server refuses a step of it for good', async () => {
    await prepared();
    const named = ['--state-dir', join(world.folder, 'state')] as const;
    const back = await onTrial(
      () => {
        const match = { method: 'POST', path: '/v0/rules' };
        world.simulator.faults.inject({
          match,
          fault: { kind: 'status', status: 422, body: '{"errors":{"user":["does not exist"]}}' },
        });
        return 'n';
      },
      ...named,
    );
    expect([back.code, isGoingBack()]).toEqual([5, false]);
    expect(back.err).toMatch(
      /\[not-gone-back\] .*Not as before: drop 10\.1\.0\.0\/16 \*, accept 10\.2\.0\.0\/16 \*\.\n/,
    );
    expect(back.out).toContain('create drop 10.1.0.0/16: ');
    expect(back.err).toContain(`\`reconcile undo N ${named.join(' ')}\` tries again, N being 20`);
    expect(back.err).toContain(`Z in \`reconcile history ${named.join(' ')}\``);
    world.simulator.faults.clear();
    expect([(await run('undo', '2', '--yes')).code, live()]).toEqual([0, before]);
    expect((await run('m')).code).toBe(0);
  });

  it.each([422, 403])('nor where what had to go first was put back for that (%i)', async (status) => {
    const ports = (range: string) =>
      world.write(
        'm/rules.yaml',
        rule('web', `action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: "${range}"`),
      );
    ports('443');
    expect((await run('m')).code).toBe(0);
    ports('400-500');
    const back = await onTrial(() => {
      const match = { method: 'POST', path: '/v0/rules', times: 1 };
      world.simulator.faults.inject({ match, fault: { kind: 'status', status, body: '{"errors":{"user":["no"]}}' } });
      return 'n';
    });
    expect(back.out).toContain('created again because its gap could not be closed');
    expect([back.code, isGoingBack()], back.err).toEqual([5, false]);
    expect([(await run('m')).code, live()]).toEqual([0, ['accept 10.1.0.0/16']]);
  });

  it.each([
    ['one 404 on one read', { path: '/v0/rules', times: 1 }, 404],
    ['a proxy that forbids one read (long)', { path: '/v0/configuration', times: 1 }, 403],
    ['a token that is renewed (long)', { times: 2 }, 401],
  ])('does not give up on %s', async (_, match, status) => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'GET', ...match }, fault: { kind: 'status', status } });
      return 'n';
    });
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(back.err).toMatch(/Going back is tried again and again, until [-0-9]+T[:0-9]+Z\./);
  });

  it('does not give up on a token that is renewed while it writes (long)', async () => {
    await prepared();
    const back = await onTrial(() => {
      world.simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'status', status: 401 } });
      return 'n';
    });
    expect([back.code, live()], back.err).toEqual([3, before]);
  });

  it('does not give up on a proxy that answers a write with a success of its own (long)', async () => {
    await prepared();
    const back = await onTrial(() => {
      const fault = { kind: 'status', status: 200, body: '{}' } as const;
      world.simulator.faults.inject({ match: { method: 'PATCH', times: 5 }, fault });
      return 'n';
    });
    expect([back.code, isGoingBack()], back.err).toEqual([3, false]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
  });

  it('takes back what the server carries out once all else is back, after it gave no answer', async () => {
    await prepared();
    manifests([...before, 'accept 10.30.0.0/16'], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
    const { faults } = world.simulator;
    faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'reset-before' } });
    // The look for it is refused, so that nobody knows; the server works it off after the first look of going back.
    let [isSent, late] = [false, 0];
    world.simulator.onCall(({ method, path }) => {
      if (method === 'POST' && !isSent)
        faults.inject({ match: { method: 'GET', times: 1 }, fault: { kind: 'status', status: 401 } });
      isSent ||= method === 'POST';
      if (method !== 'GET' || path !== '/v0/rules' || !isGoingBack() || ++late !== 3) return;
      world.simulator.seed([{ action: 'accept', destination: '10.30.0.0/16' }]);
    });
    const back = await onTrial('y', '--timeout', '1s');
    expect(late).toBeGreaterThanOrEqual(3);
    expect([back.code, live(), isGoingBack()], back.err).toEqual([3, before, false]);
    expect(back.err).toMatch(/may be carried out yet: one more look at [-0-9]+T[:0-9]+Z\.[\s\S]*\[went-back\]/);
  });

  /** The second of two rules had no answer; `act` is called while going back waits for it to have its time. */
  async function lookedAgain(act: () => void): ReturnType<typeof ended> {
    await prepared();
    manifests([...before, 'accept 10.30.0.0/16', 'accept 10.31.0.0/16'], '{default_client_mtu: 1300}');
    const { faults } = world.simulator;
    faults.inject({ match: { method: 'POST', nth: 2, times: 1 }, fault: { kind: 'reset-before' } });
    const look = {
      match: { method: 'GET', path: '/v0/rules', times: 1 },
      fault: { kind: 'status', status: 401 },
    } as const;
    let posts = 0;
    // The look for it is refused, so that nobody knows.
    world.simulator.onCall(({ method }) => void (method === 'POST' && ++posts === 2 && faults.inject(look)));
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const terms = '--yes --confirm-with true --confirm-within 5m --timeout 3s --total-timeout 4s --concurrency 1';
    const child = spawnReconcile(['apply', ...terms.split(' '), 'm'], { cwd: world.folder, env: given });
    child.stderr?.on('data', (text) => void (String(text).includes('one more look at') && act()));
    return await ended(child);
  }

  it('says what it did where a look at what had no answer finds nothing', async () => {
    const { code, out, err } = await lookedAgain(() => undefined);
    expect([code, live(), isGoingBack(), err], err).toEqual([3, before, false, expect.stringContaining('[went-back]')]);
    expect(out).toContain('Applied: 1 done');
  });

  it('is not over where nobody can look at what had no answer (long)', async () => {
    const fault = { kind: 'status', status: 400 } as const;
    const { code, err } = await lookedAgain(() => world.simulator.faults.inject({ match: { method: 'GET' }, fault }));
    expect([code, live(), isGoingBack()], err).toEqual([5, before, true]);
    expect(err).toContain('The server had what was before; whether the request without an answer was carried out');
    world.simulator.faults.clear();
    world.simulator.seed([{ action: 'accept', destination: '10.30.0.0/16' }]);
    expect([(await run('confirm')).code, live(), isGoingBack()]).toEqual([3, before, false]);
  });

  it('looks at what had no answer also where the server refuses something else for good', async () => {
    world.simulator.faults.inject({ match: { method: 'DELETE' }, fault: { kind: 'status', status: 403 } });
    const { code, err } = await lookedAgain(() => {
      world.simulator.faults.clear();
      world.simulator.seed([{ action: 'accept', destination: '10.30.0.0/16' }]);
    });
    expect([code, live(), isGoingBack()], err).toEqual([3, before, false]);
  });

  it('looks at providers that had no answer once the server has had the time to read their documents', async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret' };
    manifests(before);
    expect((await run('m')).code).toBe(0);
    manifests(before, provider('Okta'));
    world.simulator.faults.inject({ match: { method: 'PATCH' }, fault: { kind: 'status', status: 504 } });
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const terms = '--yes --confirm-with true --confirm-within 5m --timeout 1s';
    const began = Date.now();
    const child = spawnReconcile(['apply', ...terms.split(' '), ...bound, 'm'], { cwd: world.folder, env: given });
    let said = '';
    child.stderr?.on('data', (text) => {
      said += String(text);
    });
    const end = ended(child);
    await until(() => /one more look at .*Z\./.test(said));
    child.kill('SIGKILL');
    await end;
    const at = /one more look at (.*Z)\./.exec(said)?.[1] ?? '';
    expect(Date.parse(at) - began).toBeGreaterThanOrEqual(40_000);
  });

  /** An apply on trial that fails or is not kept; `land` is called while going back waits for what had no answer. */
  async function landsLate(
    land: () => unknown,
    ...args: readonly string[]
  ): Promise<CliRun & { readonly looks: number }> {
    let looks = 0;
    const given = ['apply', '--confirm-within', '5m', '--timeout', '1s', '--concurrency', '1', ...args, 'm'];
    const answer = (question: string): string => (question.startsWith('Still there?') ? 'n' : 'y');
    const onStderr = (text: string): void => void (text.includes('one more look at') && looks++ === 0 && land());
    return { ...(await world.cli(given, { env, answer, onStderr })), looks };
  }

  const unchanged = '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}';

  it.each([
    ['a create, and its repetition was answered', 'POST', null, [...before, 'accept 10.30.0.0/16'], unchanged],
    ['a PATCH, and its repetition was refused', 'PATCH', 422, before, unchanged.replace('1300', '1400')],
    ['a delete, and a proxy forbade its repetition', 'DELETE', 403, before.slice(1), unchanged],
  ])('takes back what lands late of %s', async (_, method, status, rules, spec) => {
    await prepared();
    manifests(rules, spec);
    const { faults } = world.simulator;
    faults.inject({ match: { method, times: 1 }, fault: { kind: 'status', status: 504 } });
    if (status !== null) faults.inject({ match: { method, times: 1 }, fault: { kind: 'status', status } });
    const lost = world.simulator.rules().find(({ destination }) => destination === '10.2.0.0/16');
    const land = (): unknown => {
      if (method === 'POST') return world.simulator.seed([{ action: 'accept', destination: '10.30.0.0/16' }]);
      const configuration = { default_client_mtu: 1400 };
      return method === 'PATCH'
        ? call('PATCH', '/v0/configuration', { configuration })
        : call('DELETE', `/v0/rules/${lost?.id}`);
    };
    const back = await landsLate(land);
    expect([back.code, back.looks, live(), isGoingBack()], back.err).toEqual([3, 1, before, false]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
  });

  it('looks again only for a request that may land: a lost answer of one that was carried out is enough', async () => {
    await prepared();
    manifests([...before, 'accept 10.30.0.0/16'], unchanged);
    world.simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'lost-answer' } });
    const back = await landsLate(() => undefined);
    expect([back.code, back.looks, live()], back.err).toEqual([3, 0, before]);
  });

  it('does not make again what others deleted after it came back, and names it', async () => {
    await prepared();
    manifests([before[1] ?? '', 'accept 10.30.0.0/16'], unchanged);
    world.simulator.faults.inject({
      match: { method: 'POST', times: 5 },
      fault: { kind: 'status', status: 504 },
    });
    const back = await landsLate(async () => {
      const one = world.simulator.rules().find(({ destination }) => destination === '10.2.0.0/16');
      await call('DELETE', `/v0/rules/${one?.id}`);
    });
    expect([back.code, back.looks, live(), isGoingBack()], back.err).toEqual([3, 1, ['drop 10.1.0.0/16'], false]);
    expect(back.err + back.out).toContain('Went back: all else that the apply changed');
    expect(back.err + back.out).toMatch(/10\.2\.0\.0\/16.* was deleted by others since it came back/);
  });

  it('names what a second look leaves for others: the last way to sign in', async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    const signIn = (local: boolean) => `{local_auth_enabled: ${local}, ${provider('Okta').slice(1)}`;
    manifests(before, signIn(false));
    expect((await run('m', '--allow-lockout', ...bound)).code).toBe(0);
    manifests(before, signIn(true));
    world.simulator.faults.inject({ match: { method: 'PATCH', times: 5 }, fault: { kind: 'status', status: 504 } });
    // It lands, and somebody who can sign in with it removes the provider.
    const configuration = { local_auth_enabled: true, openid_connect_providers: [] };
    const back = await landsLate(() => call('PATCH', '/v0/configuration', { configuration }), ...bound);
    expect([back.code, back.looks, isGoingBack()], back.err).toEqual([5, 1, false]);
    expect(world.simulator.configuration()).toMatchObject({ local_auth_enabled: true });
    expect(back.err).toMatch(/error.*\[locks-out\].*`local_auth_enabled` is not taken back/s);
  });

  it('is tried again where the read that proves it fails', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.1.0.0/16', 'accept 10.20.0.0/16']);
    const answer = () => {
      world.simulator.onCall(({ method }) => {
        const fault = { kind: 'status', status: 401 } as const;
        if (method === 'DELETE') world.simulator.faults.inject({ match: { method: 'GET', times: 1 }, fault });
      });
      return 'n';
    };
    const back = await onTrial(answer, '--total-timeout', '1s');
    expect([back.code, live(), isGoingBack()], back.err).toEqual([3, ['drop 10.1.0.0/16'], false]);
    expect(back.err).toContain('Going back is tried again and again');
  });

  it('is tried again where a token was refused in the middle, and what had begun was ended (long)', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.1.1.0/24', 'accept 10.20.0.0/16', 'accept 10.21.0.0/16']);
    const back = await onTrial(
      () => {
        const match = { method: 'DELETE', times: 1 };
        world.simulator.faults.inject({ match, fault: { kind: 'status', status: 401 } });
        return 'n';
      },
      '--concurrency',
      '1',
    );
    expect([back.code, live()], back.err).toEqual([3, ['drop 10.1.0.0/16']]);
  });

  it('is tried again while the document of a provider cannot be read, with local sign-in back at once', async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    manifests(before, `{local_auth_enabled: true, ${provider('Okta').slice(1)}`);
    expect((await run('m', ...bound)).code).toBe(0);
    manifests(before, `{local_auth_enabled: false, ${provider('Renamed').slice(1)}`);
    const wrong = '[{},{"discovery_document_uri":["is invalid. Reason: %Mint.TransportError{reason: :timeout}"]}]';
    const signIns: unknown[] = [];
    const back = await onTrial(
      () => {
        const match = { method: 'PATCH', nth: 2, times: 1 };
        const body = `{"errors":{"openid_connect_providers":${wrong}}}`;
        world.simulator.faults.inject({ match, fault: { kind: 'status', status: 422, body } });
        world.simulator.onCall(({ method }) => {
          if (method === 'PATCH') signIns.push(world.simulator.configuration()['local_auth_enabled']);
        });
        return 'n';
      },
      '--total-timeout',
      '1s',
      ...bound,
    );
    expect([back.code, isGoingBack(), signIns], back.err).toEqual([3, false, [true, true, true]]);
    expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [{ label: 'Okta' }] });
    expect(back.err).toContain('Not gone back yet: PATCH /v0/configuration: 422, openid_connect_providers[0].');
  });

  it('undo too lets people sign in before it sends providers, whose documents may not be read', async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    await prepared();
    await call('PATCH', '/v0/configuration', { configuration: { local_auth_enabled: true } });
    manifests(before, `{local_auth_enabled: false, ${provider('Okta').slice(1)}`);
    expect((await run('m', '--allow-lockout', ...bound)).code).toBe(0);
    world.simulator.faults.inject({ match: { method: 'PATCH', nth: 2 }, fault: { kind: 'status', status: 500 } });
    const undone = await run('undo', '--yes', '--allow-lockout');
    expect(undone.code, undone.err).toBe(5);
    expect(world.simulator.configuration()).toMatchObject({
      local_auth_enabled: true,
      openid_connect_providers: [{ id: 'okta' }],
    });
  });

  it('goes back once more where it was killed while a request without an answer may be carried out', async () => {
    await prepared();
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    manifests([...before, 'accept 10.30.0.0/16'], unchanged);
    world.simulator.faults.inject({ match: { method: 'POST', times: 5 }, fault: { kind: 'status', status: 504 } });
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const terms = 'apply --yes --confirm-with true --confirm-within 5m --timeout 10s m';
    const child = spawnReconcile(terms.split(' '), { cwd: world.folder, env: given });
    const end = ended(child);
    await new Promise<void>((resolve) => {
      child.stderr?.on('data', (text) => void (String(text).includes('one more look at') && resolve()));
    });
    child.kill('SIGKILL');
    await end;
    let looks = 0;
    const onStderr = (text: string): void => {
      if (text.includes('one more look at') && looks++ === 0)
        world.simulator.seed([{ action: 'accept', destination: '10.30.0.0/16' }]);
    };
    const back = await world.cli(['confirm'], { env, onStderr });
    expect([back.code, looks, live(), isGoingBack()], back.err).toEqual([3, 1, before, false]);
  });

  it('is tried again while the server cannot be read, until its own deadline, and names what is left then (long)', async () => {
    await prepared();
    const back = await onTrial(
      () => {
        world.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'reset-before' } });
        return 'n';
      },
      '--total-timeout',
      '2s',
    );
    expect(back.code).toBe(5);
    expect(back.err).toContain('Not as before: ');
    world.simulator.faults.clear();
    expect((await run('confirm')).code).toBe(3);
    expect(live()).toEqual(before);
  });
});

const provider = (label: string): string =>
  `{openid_connect_providers: [{id: okta, label: ${label}, client_id: c, client_secret: {env: RECONCILE_SECRET_X}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}]}`;
const bound = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example'];

describe('secrets of the Configuration before', () => {
  beforeEach(async () => {
    env = { ...env, RECONCILE_SECRET_X: 'canary-secret', PATH: process.env['PATH'] ?? '' };
    manifests(before, provider('Okta'));
    expect((await run('m', ...bound)).code).toBe(0);
    manifests(after, provider('Renamed'));
    env = { ...env, RECONCILE_SECRET_X: 'another-secret' };
  });

  it('are held in memory alone, and put back from there', async () => {
    let seen = '';
    const back = await onTrial(
      () => {
        seen = world.read('state/reconcile/oneshot/pending.json');
        expect(statSync(join(world.folder, 'state/reconcile/oneshot/pending.json')).mode & 0o777).toBe(0o600);
        return 'n';
      },
      ...bound,
    );
    expect([back.code, live()]).toEqual([3, before]);
    expect(world.simulator.configuration()).toMatchObject({
      openid_connect_providers: [{ label: 'Okta', client_secret: 'canary-secret' }],
    });
    expect(seen + back.out + back.err).not.toMatch(/canary-secret|another-secret/);
  });

  it('names Git, not undo, for SAML metadata that was in the memory of a killed process', async () => {
    const saml = (label: string): string =>
      `{saml_identity_providers: [{id: idp, label: ${label}, metadata: {file: idp.xml}, auto_create_users: true}]}`;
    world.write(
      'm/idp.xml',
      '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://x/y"/>',
    );
    manifests(before, saml('Okta'));
    expect((await run('m')).code).toBe(0);
    manifests(after, saml('Renamed'));
    await killedWaiting('20s');
    expireNow();
    const resumed = await run('m');
    expect([resumed.code, live()]).toEqual([5, before]);
    expect(resumed.err).toMatch(
      /\[waits-for-secret\].*`saml_identity_providers` stays[\s\S]*An apply of the commit before puts it back/,
    );
  });

  it('do not matter for a field that others changed since: it waits for nothing, and is named', async () => {
    await killedWaiting('20s', ...bound);
    expireNow();
    await call('PATCH', '/v0/configuration', { configuration: { openid_connect_providers: [] } });
    const resumed = await run('m', ...bound);
    expect([resumed.code, live(), resumed.err]).toEqual([3, before, expect.not.stringContaining('waits-for-secret')]);
    expect(resumed.out).toContain('Not undone: `openid_connect_providers` was changed again.');
    expect((await run('confirm')).err).toContain('no apply waits to be confirmed');
  });

  it('going back × kill -9, and a secret that was in memory: that field stays, is named, and waits for undo or confirm', async () => {
    await killedWaiting('20s', ...bound);
    expireNow();
    const resumed = await run('m', ...bound);
    expect([resumed.code, live()]).toEqual([5, before]);
    expect(resumed.err).toMatch(/\[waits-for-secret\].*`openid_connect_providers` stays/s);
    expect(resumed.err).toContain('Went back: all else that the apply changed is as it was before.');
    expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [{ label: 'Renamed' }] });
    const rest = join(world.folder, 'state/reconcile/oneshot/wants-secret.json');
    const text = readFileSync(rest, 'utf8');
    expect((await run('confirm')).out).toContain('Kept: openid_connect_providers');
    writeFileSync(rest, text, { mode: 0o600 });
    expect((await run('plan', 'm')).code).toBe(0);
    const { applies } = (await run('history', '--output', 'json')).json() as unknown as {
      applies: readonly { readonly number: number; readonly fields: readonly string[] }[];
    };
    const { number } = applies.find(({ fields }) => fields.length > 0) as { number: number };
    const secret = { ...env, RECONCILE_SECRET_OIDC_OKTA: 'canary-secret' };
    const undo = ['undo', String(number), '--bind-secret', 'RECONCILE_SECRET_OIDC_OKTA=okta@idp.example'];
    // As long as it is not put right, each apply says that it waits, also after one that was taken back.
    manifests(before);
    const other = await run('m');
    expect([other.code, other.err]).toEqual([0, expect.stringContaining('still as an apply left it')]);
    manifests([...before, 'accept 10.9.0.0/16']);
    const trial = await run('apply', '--yes', '--confirm-with', 'false', '--confirm-within', '100ms', 'm');
    expect([trial.code, live(), existsSync(rest)]).toEqual([3, before, true]);
    const undone = await world.cli(undo, { env: secret });
    expect([undone.code, undone.err]).toEqual([0, expect.not.stringContaining('still as an apply left it')]);
    expect(world.simulator.configuration()).toMatchObject({
      openid_connect_providers: [{ label: 'Okta', client_secret: 'canary-secret' }],
    });
    expect((await run('confirm')).err).toContain('no apply waits to be confirmed');
    // An apply of manifests that have the field puts it right too.
    writeFileSync(rest, text, { mode: 0o600 });
    manifests(before, provider('Okta'));
    const applied = await world.cli(['m', ...bound], { env: { ...env, RECONCILE_SECRET_X: 'canary-secret' } });
    expect([applied.code, applied.err]).toEqual([0, expect.not.stringContaining('still as an apply left it')]);
    expect((await run('confirm')).err).toContain('no apply waits to be confirmed');
  });
});

it('confirm says of a revision of a sidecar that waits that only the command of `confirmWith` confirms it', async () => {
  const record = join(world.folder, 'state/reconcile/record.json');
  mkdirSync(join(world.folder, 'state/reconcile'), { recursive: true, mode: 0o700 });
  const say = (pendingRevision: string | null): void =>
    writeFileSync(record, JSON.stringify({ format_version: 1, pendingRevision }), { mode: 0o600 });
  say(`sha256:${'a'.repeat(64)}`);
  const { code, err } = await run('confirm');
  expect([code, err]).toEqual([1, expect.stringContaining('only the command of `confirmWith` confirms the revision')]);
  expect(err).toContain('remove `confirmWith` from its settings and send it SIGHUP');
  say(null);
  expect((await run('confirm')).err).toContain('no apply waits to be confirmed');
});

describe('a field that waits for its secret', () => {
  const rest = (): string => join(world.folder, 'state/reconcile/oneshot/wants-secret.json');
  const apply = async (secret: string) => {
    const done = await world.cli(['m', ...bound], { env: { ...env, RECONCILE_SECRET_X: secret } });
    expect(done.code, done.err).toBe(0);
  };
  const goneBack = async (...args: readonly string[]) => {
    await killedWaiting('20s', ...args);
    expireNow();
    const back = await run('confirm');
    expect([back.code, back.err]).toEqual([5, expect.stringContaining('[waits-for-secret]')]);
  };

  beforeEach(() => {
    env = { ...env, PATH: process.env['PATH'] ?? '' };
  });

  it('is not forgotten by an undo or an apply that lacks the secret, where nothing else in it changed', async () => {
    manifests(before, provider('Okta'));
    await apply('canary-one');
    const without = env;
    env = { ...env, RECONCILE_SECRET_X: 'canary-two' };
    await goneBack(...bound);
    env = without;
    const [number = ''] = /\d+/.exec((await run('history')).out) ?? [];
    for (const args of [['m'], ['undo', number, '--yes']]) {
      const lacking = await run(...args);
      expect([args, existsSync(rest())]).toEqual([args, true]);
      expect(lacking.err).toMatch(/openid_connect_providers: still as an apply left it.* reconcile undo N\. Keep it/);
    }
    const again = await world.cli(['m', ...bound], { env: { ...env, RECONCILE_SECRET_X: 'canary-one' } });
    expect([again.code, existsSync(rest())]).toEqual([0, false]);
  });

  it('is not forgotten for another that comes to wait after it', async () => {
    const xml = '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://x/y"/>';
    world.write('m/idp.xml', xml);
    const both = (oidc: string, saml: string): string =>
      `${provider(oidc).slice(0, -1)}, saml_identity_providers: [{id: idp, label: ${saml}, metadata: {file: idp.xml}, auto_create_users: true}]}`;
    manifests(before, both('O1', 'S1'));
    await apply('canary-one');
    env = { ...env, RECONCILE_SECRET_X: 'canary-one' };
    manifests(before, both('O2', 'S1'));
    await goneBack(...bound);
    manifests(before, both('O2', 'S2'));
    await goneBack(...bound);
    const text = readFileSync(rest(), 'utf8');
    expect((await run('confirm')).out).toContain(
      'Kept: openid_connect_providers, saml_identity_providers of the apply',
    );
    expect(existsSync(rest())).toBe(false);
    // What is put back waits no more, and the other does.
    writeFileSync(rest(), text, { mode: 0o600 });
    const secret = { ...env, RECONCILE_SECRET_OIDC_OKTA: 'canary-one' };
    const undo = ['undo', '2', '--bind-secret', 'RECONCILE_SECRET_OIDC_OKTA=okta@idp.example'];
    const undone = await world.cli(undo, { env: secret });
    expect([undone.code, undone.err]).toEqual([0, expect.stringContaining('note: saml_identity_providers: still')]);
    expect((await run('confirm')).out).toContain('Kept: saml_identity_providers of the apply');
  });
});

/** An apply whose process was killed while it waited to be confirmed. */
async function killedWaiting(within: string, ...args: readonly string[]): Promise<void> {
  const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
  const flags = ['apply', '--yes', '--confirm-with', 'false', '--confirm-within', within, ...args, 'm'];
  const child = spawnReconcile(flags, { cwd: world.folder, env: given });
  const end = ended(child);
  await until(() => waits() && JSON.parse(world.read('state/reconcile/oneshot/pending.json')).until !== null);
  child.kill('SIGKILL');
  await end;
}

/** The time of the apply that waits is over. */
function expireNow(): void {
  const file = join(world.folder, 'state/reconcile/oneshot/pending.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), until: Date.now() - 1 }));
}

describe('an apply whose process was killed', () => {
  beforeEach(async () => {
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    await prepared();
  });

  it('confirm keeps it inside its time', async () => {
    await killedWaiting('60s');
    const kept = await run('confirm');
    expect([kept.code, kept.out]).toEqual([0, expect.stringMatching(/^Kept: \d+ changes of the apply of /)]);
    expect([live(), waits()]).toEqual([after, false]);
    const again = await run('confirm');
    expect(again.err).toContain(`waits to be confirmed in ${join(world.folder, 'state')}\n`);
    expect(again.err).toContain('or it was taken back: reconcile history\n');
    const elsewhere = join(world.folder, 'other');
    const lost = await run('confirm', '--state-dir', elsewhere);
    expect(lost.err).toContain(`or it was taken back: reconcile history --state-dir ${elsewhere}\n`);
  });

  it('waiting × kill -9: the next apply goes on with the wait, and then with its own work (long)', async () => {
    await killedWaiting('60s');
    world.write('probe', '');
    const file = join(world.folder, 'state/reconcile/oneshot/pending.json');
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), command: ['true'] }));
    manifests([...after, 'accept 10.4.0.0/16']);
    const next = await run('m');
    expect([next.code, live()]).toEqual([0, ['accept 10.3.0.0/16', 'accept 10.4.0.0/16', 'drop 10.0.0.0/8']]);
    expect(next.err).toMatch(/never confirmed, and its process is gone\. Going back in \d:\d\d[\s\S]*Kept\./);
  });

  it.each([['m'], ['confirm']])('waiting × kill -9: after its time %s goes back, exit 3', async (command) => {
    await killedWaiting('60s');
    expireNow();
    const back = await run(command);
    expect([back.code, live(), waits(), isGoingBack()]).toEqual([3, before, false, false]);
  });

  it('one that was killed while it wrote can be kept too while the next start waits for that', async () => {
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const flags = ['--yes', '--confirm-with', 'false', '--confirm-within', '60s', '--concurrency', '1', 'm'];
    const child = spawnReconcile(['apply', ...flags], { cwd: world.folder, env: given });
    const off = world.simulator.onCall(({ method }) => void (method !== 'GET' && child.kill('SIGKILL')));
    await ended(child);
    off();
    const next = run('m');
    const owner = join(world.folder, 'state/reconcile/oneshot/owner.json');
    await until(() => readFileSync(owner, 'utf8').startsWith(`"${process.pid} `));
    const confirm = await ended(spawnReconcile(['confirm'], { cwd: world.folder, env: given }));
    expect([confirm.code, confirm.err, confirm.out]).toEqual([
      0,
      '',
      expect.stringMatching(/^Kept: .*not all of it may/),
    ]);
    expect([(await next).code, live()]).toEqual([0, after]);
  });

  it('puts back a rule that it was killed in the middle of replacing, and has no word for what is as before', async () => {
    manifests(before);
    const [id] = world.simulator.rules().flatMap((one) => (one.action === 'drop' ? [one.id] : []));
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5000 });
    for (const destination of ['10.1.0.0/17', '10.1.0.0/16'])
      await call('PATCH', `/v0/rules/${id}`, { rule: { destination } });
    vi.useRealTimers();
    manifests(['drop 10.1.0.0/16', 'accept 10.3.0.0/16']);
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const flags = ['--yes', '--replace-modified', '--confirm-with', 'false', '--concurrency', '1', 'm'];
    const child = spawnReconcile(['apply', ...flags], { cwd: world.folder, env: given });
    const off = world.simulator.onCall(({ method, path }) => {
      if (method === 'DELETE' && path.includes(String(id))) child.kill('SIGKILL');
    });
    await ended(child);
    off();
    expect(live()).not.toContain('drop 10.1.0.0/16');
    const file = 'state/reconcile/oneshot/pending.json';
    world.write(file, JSON.stringify({ ...JSON.parse(world.read(file)), until: Date.now() - 1 }));
    const back = await run('confirm');
    expect([back.code, live()], back.out).toEqual([3, before]);
    expect(back.out).not.toContain('Not undone');
    expect(back.err).toContain('Went back: what the apply changed is as it was before.');
  });

  it.each([
    ['going back', 'a block'],
    ['going back', 'a revocation'],
    ['undo', 'a block'],
    ['undo', 'a revocation'],
  ])(
    '%s × %s by others that it overwrote by a later plan before it was killed: that is there again',
    async (what, by) => {
      manifests([...before, 'accept 10.5.0.0/16'], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
      let posts = 0;
      const proxy = await whileItWrites(async () => {
        if (++posts > 1) return;
        if (by === 'a block') world.simulator.seed([{ action: 'drop', destination: '10.9.0.0/16' }]);
        const revoked = world.simulator.rules().find(({ destination }) => destination === '10.2.0.0/16');
        if (by === 'a revocation') await call('DELETE', `/v0/rules/${revoked?.id}`);
      });
      const given = { ...env, RECONCILE_TOKEN: token };
      const trial = what === 'undo' ? [] : ['--confirm-with', 'false', '--confirm-within', '60s'];
      const child = spawnReconcile(['apply', '--yes', ...trial, 'm'], { cwd: world.folder, env: given });
      const off = world.simulator.onCall(({ method, status }) => {
        if (posts > 0 && (method === 'DELETE' ? by === 'a block' : method === 'POST')) child.kill('SIGKILL');
        expect(status).toBeLessThan(300);
      });
      await ended(child);
      off();
      if (what === 'going back') expireNow();
      const back = await run(...(what === 'undo' ? ['undo', '--yes'] : ['confirm']));
      proxy.close();
      expect([back.code, live()], back.out + back.err).toEqual([
        what === 'undo' ? 0 : 3,
        by === 'a block' ? [...before, 'drop 10.9.0.0/16'] : ['drop 10.1.0.0/16'],
      ]);
    },
  );

  it('goes back at once where a later plan cannot be recorded, and writes nothing of that', async () => {
    manifests([...before, 'accept 10.5.0.0/16'], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
    const file = join(world.folder, 'state/reconcile/oneshot/pending.json');
    const proxy = await whileItWrites(async () => {
      world.simulator.seed([{ action: 'drop', destination: '10.9.0.0/16' }]);
      renameSync(file, `${file}.old`);
      mkdirSync(file);
    });
    const back = await run('apply', '--yes', '--confirm-with', 'true', 'm');
    proxy.close();
    expect([back.code, live()], back.out + back.err).toEqual([3, [...before, 'drop 10.9.0.0/16']]);
    expect(back.err + back.out).toContain('what must be put back if nobody confirms cannot be written in');
    expect(world.simulator.requests().filter(({ method }) => method === 'DELETE')).toHaveLength(1);
  });

  it('goes back by a record whose writer and owner are deeply nested, and calls that no mistake of ours', async () => {
    await killedWaiting('60s');
    const nested = '['.repeat(50_000) + ']'.repeat(50_000);
    const text = world.read('state/reconcile/oneshot/pending.json');
    const goingBack = join(world.folder, 'state/reconcile/oneshot/going-back.json');
    renameSync(join(world.folder, 'state/reconcile/oneshot/pending.json'), goingBack);
    writeFileSync(goingBack, text.replace(/"writer":"[^"]*"/, `"writer":${nested}`));
    world.write('state/reconcile/oneshot/owner.json', nested);
    const back = await run('m');
    expect([back.code, live(), waits(), isGoingBack()]).toEqual([3, before, false, false]);
    expect(back.err).not.toContain('internal-error');
  });

  it('threat 36: runs no command and believes no record that a repository holds, and says which file it is', async () => {
    await killedWaiting('60s');
    const pending = join(world.folder, 'state/reconcile/oneshot/pending.json');
    const command = ['/bin/sh', '-c', `touch ${join(world.folder, 'ran')}`];
    writeFileSync(pending, JSON.stringify({ ...JSON.parse(readFileSync(pending, 'utf8')), command }));
    const git = `git init -q && git add -A . && git -c user.name=a -c user.email=a@b.example commit -qm state`;
    const checkOut = `cd state && ${git} && cd .. && umask 022 && git clone -q state checkout`;
    execFileSync('/bin/sh', ['-c', checkOut], { cwd: world.folder });
    const copy = join(world.folder, 'checkout/reconcile');
    env = { ...env, RECONCILE_STATE_DIR: join(world.folder, 'checkout') };
    for (const words of [['m'], ['confirm'], ['undo', '--yes']]) {
      const refused = await run(...words);
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('open to others')]);
    }
    expect((await run('confirm')).err).toContain(`chmod 600 ${join(copy, 'oneshot/pending.json')}`);
    expect((await run('history')).out).toMatch(/cannot be read or undone/);
    expect([existsSync(join(world.folder, 'ran')), live()]).toEqual([false, after]);
    // What a cache changed is ours again.
    chmodSync(join(copy, 'oneshot/pending.json'), 0o600);
    expect((await run('confirm')).out).toContain('Kept: ');
  });

  it('goes back in a state folder that takes no new file, and calls that no mistake of ours', async () => {
    await killedWaiting('60s');
    expireNow();
    const owner = join(world.folder, 'state/reconcile/oneshot/owner.json');
    rmSync(owner);
    mkdirSync(join(owner, 'in-the-way'), { recursive: true });
    const back = await run('m');
    expect([back.code, live(), waits(), isGoingBack()]).toEqual([3, before, false, false]);
  });

  it('says that a record which cannot be removed would take back what was kept', async () => {
    const pending = join(world.folder, 'state/reconcile/oneshot/pending.json');
    const kept = await onTrial(() => {
      rmSync(pending);
      mkdirSync(pending);
      return 'y';
    });
    expect([kept.code, kept.err, live()]).toEqual([1, expect.stringContaining(`${pending} cannot be removed`), after]);
  });

  it('of another scope is refused and left alone, and goes back under its own', async () => {
    await killedWaiting('60s');
    expireNow();
    world.write('narrow.yaml', 'scope: {networks: [10.3.0.0/16], configuration: false}\n');
    for (const words of [['confirm'], ['apply', 'm'], ['undo']]) {
      const refused = await run(...words, '--config', join(world.folder, 'narrow.yaml'));
      expect([refused.code, live()]).toEqual([1, after]);
      expect(refused.err).toContain('an apply of another `scope` waits here to be confirmed, or to be taken back');
      expect(refused.err).toContain('settle it with the --config, or the fleet, of that apply');
    }
    for (const words of [
      ['plan', 'm'],
      ['undo', '--dry-run'],
    ]) {
      const { err } = await run(...words, '--config', join(world.folder, 'narrow.yaml'));
      expect(err).toContain('To do that now: reconcile confirm, with the --config, or the fleet, of that apply\n');
    }
    expect([(await run('confirm')).code, live()]).toEqual([3, before]);
  });

  it('of another scope, as of a target of a fleet, is kept by confirm inside its time', async () => {
    await killedWaiting('60s');
    world.write('narrow.yaml', 'scope: {networks: [10.3.0.0/16], configuration: false}\n');
    const kept = await run('confirm', '--config', join(world.folder, 'narrow.yaml'));
    expect([kept.code, kept.out, live()]).toEqual([0, expect.stringMatching(/^Kept: 6 changes/), after]);
  });

  it('does not say how to keep what is to be taken back', async () => {
    await killedWaiting('20s');
    expect((await run('plan', 'm')).err).toMatch(
      /is not confirmed, and is taken back without that\. To keep it: reconcile confirm\n/,
    );
    expect((await run('plan', 'm', '--state-dir', 'state', '--full')).err).toContain(
      `To keep it: reconcile confirm --state-dir ${join(world.folder, 'state')}\n`,
    );
    expireNow();
    const late = /was not confirmed, and is to be taken back\. To do that now: reconcile confirm\n/;
    expect((await run('plan', 'm')).err).toMatch(late);
    world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 404 } });
    const begun = await run('confirm');
    expect([begun.code, begun.err, isGoingBack()]).toEqual([5, expect.not.stringContaining('to keep it'), true]);
    expect((await run('plan', 'm')).err).toMatch(late);
  });

  it('shows a name that is not plain text as it is, and moves no terminal', async () => {
    env = { ...env, USER: 'car\u001b[31mol' };
    await killedWaiting('20s');
    expireNow();
    const back = await run('confirm');
    expect([back.code, back.err + back.out]).toEqual([3, expect.not.stringContaining('\u001b[31m')]);
    await killedWaiting('20s');
    const kept = await run('confirm');
    expect([kept.code, kept.out]).toEqual([0, expect.stringMatching(/^Kept: .* by car\S+ol\.\n$/)]);
    expect(kept.out).not.toContain('\u001b');
  });

  it('says in JSON too what confirm kept', async () => {
    await killedWaiting('20s');
    const kept = (await run('confirm', '--output', 'json')).json() as unknown;
    expect(kept).toMatchObject({ kept: expect.stringMatching(/^Kept: 6 changes of the apply of .* by carol\.$/) });
  });

  it('says at once why it cannot go back yet (long)', async () => {
    await killedWaiting('60s');
    expireNow();
    const back = await run('confirm', '--total-timeout', '6s', '--token-file', 'gone');
    expect([back.code, live()]).toEqual([5, after]);
    expect(back.err).toMatch(/\[no-token\][\s\S]*going back is tried again and again/i);
    expect(back.err).not.toContain('The server cannot be read');
  });

  it('waiting × kill -9, and two starts at once: where one goes back, the other does not say that it was kept', async () => {
    await killedWaiting('60s');
    manifests([...after, 'accept 10.4.0.0/16']);
    const one = run('m');
    const files = new PendingFiles(join(world.folder, 'state/reconcile'), 'oneshot');
    await until(() => readFileSync(files.locate('owner.json'), 'utf8').startsWith(`"${process.pid} `));
    expect(await files.claimGoingBack()).toBe(true);
    const { code, err } = await one;
    expect([code, err]).toEqual([1, expect.stringContaining('another process is taking this apply back')]);
    expect([live(), err]).toEqual([after, expect.not.stringContaining('Kept')]);
  });

  it('two starts at once after kill -9: the first leaves the record to the second, which took it over', async () => {
    await killedWaiting('60s');
    const one = run('m', '--state-dir', 'state');
    const files = new StateFiles(join(world.folder, 'state/reconcile'), 'oneshot');
    const owner = files.locate('owner.json');
    await until(() => readFileSync(owner, 'utf8').startsWith(`"${process.pid} `));
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const started = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[19];
    writeFileSync(owner, JSON.stringify(`${process.ppid} ${started} ${boot}`));
    const { code, err } = await one;
    expect([code, err]).toEqual([1, expect.stringContaining(`waits to be confirmed (process ${process.ppid})`)]);
    expect(err).toContain(`to keep it: reconcile confirm --state-dir ${join(world.folder, 'state')}\n`);
    expect([live(), waits()]).toEqual([after, true]);
  });

  it('a clock that was set back since does not make the wait longer (long)', async () => {
    await killedWaiting('60s');
    const file = join(world.folder, 'state/reconcile/oneshot/pending.json');
    const ahead = { withinMs: 300, until: Date.now() + 1e12 };
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...ahead }));
    expect([(await run('m')).code, live()]).toEqual([3, before]);
  });

  it('one that began at the same time keeps its record, and the other is refused before it writes', async () => {
    await killedWaiting('60s');
    const file = join(world.folder, 'state/reconcile/oneshot/pending.json');
    const theirs = readFileSync(file, 'utf8');
    await run('confirm');
    manifests([...after, 'accept 10.4.0.0/16']);
    const off = world.simulator.onCall(() => writeFileSync(file, theirs));
    const refused = await run('apply', '--confirm-with', 'true', 'm');
    off();
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('another apply began at the same time')]);
    expect([live(), readFileSync(file, 'utf8')]).toEqual([after, theirs]);
  });

  it('one of another server is left alone, and said', async () => {
    await killedWaiting('60s');
    const other = await startWorld();
    try {
      const elsewhere = await run('confirm', '--base-url', other.simulator.url);
      expect([elsewhere.code, elsewhere.err]).toEqual([
        1,
        expect.stringContaining(`an apply to ${world.simulator.url}`),
      ]);
      const plan = await run('plan', '--base-url', other.simulator.url, 'm');
      expect([plan.code, plan.err]).toEqual([
        0,
        expect.stringContaining(`note [state] an apply to ${world.simulator.url}`),
      ]);
    } finally {
      await other.close();
    }
  });

  it('going back × kill -9 at any step: the next start gives the state before (long)', async () => {
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const flags = ['apply', '--yes', '--confirm-with', 'false', '--confirm-within', '1ms', '--concurrency', '1', 'm'];
    const wanted = world.read('m/rules.yaml');
    for (let boundary = 1; ; boundary++) {
      let writes = 0;
      const child = spawnReconcile(flags, { cwd: world.folder, env: given });
      const off = world.simulator.onCall(({ method }) => {
        if (method !== 'GET' && ++writes === boundary) child.kill('SIGKILL');
      });
      const { code } = await ended(child);
      off();
      if (code === null) {
        const next = await run('confirm');
        expect([boundary, next.code, next.out + next.err]).toEqual([
          boundary,
          3,
          expect.not.stringContaining('Not undone'),
        ]);
      }
      expect([boundary, live(), waits(), isGoingBack()]).toEqual([boundary, before, false, false]);
      expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
      expect(world.read('m/rules.yaml')).toBe(wanted);
      if (code !== null) {
        expect([code, boundary]).toEqual([3, expect.any(Number)]);
        expect(boundary).toBeGreaterThan(8);
        break;
      }
    }
  }, 60_000);
});

describe('command lines', () => {
  const lines = documentedLines().filter(({ text }) => /^reconcile confirm\b|--confirm-with/.test(text));

  it.each(lines.map(({ page, text }) => [page, text]))('%s: %s', async (_, text) => {
    world.write('policy/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    const words = text
      .replace(/'curl .*?'|\bCOMMAND\b/, 'true')
      .replace(/\bPATH\b/, 'policy')
      .replace(/\bTIME\b/, '5m')
      .split(/\s+/)
      .slice(1);
    if (words[0] === 'confirm') {
      manifests(before);
      await killedWaiting('60s');
    }
    const done = await world.cli(words, { env, answer: 'y' });
    expect([done.code, live().length, waits()]).toEqual([0, words[0] === 'confirm' ? 2 : 1, false]);
  });

  it('confirm takes the flags of the server and of every apply', async () => {
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    await prepared();
    world.write('token', `${token}\n`);
    world.write('settings.yaml', 'verbose: false\n');
    const server = `--base-url ${world.simulator.url} --token-file token --allow-http --timeout 5s --profile firezone-0.7`;
    const applies = '--yes --total-timeout 1m --concurrency 2 --pace 1000 --journal journal.jsonl --state-dir state';
    const common = '--config settings.yaml --output text --full --log-format text --verbose --no-color';
    const words = ['confirm', ...`${server} ${applies} ${common}`.split(' ')];
    await killedWaiting('60s');
    expireNow();
    expect((await run(...words, '--ca-file', 'gone.pem', '--proxy', 'env')).err).toContain('gone.pem');
    expect(live()).toEqual(after);
    const looks = ['--enforcement', 'nft', '--netns', 'no-such', '--wait-enforced', '1s', '--repair'];
    // Whoever asks to see the kernel, and cannot, is not told that all is as before; --suspend holds no going back.
    const back = await run(...words, '--suspend', ...looks);
    expect([back.code, live()]).toEqual([5, before]);
    expect((await run(...words)).err).toContain('no apply waits to be confirmed');
  });
});

describe('while an apply waits in another process', () => {
  it('waiting × another apply: that one is refused and names confirm, which ends the wait, exit 0', async () => {
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    await prepared();
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const flags = ['apply', '--yes', '--confirm-with', 'false', 'm'];
    const child = spawnReconcile(flags, { cwd: world.folder, env: given });
    const end = ended(child);
    await until(() => waits() && JSON.parse(world.read('state/reconcile/oneshot/pending.json')).until !== null);
    const refused = await run('m');
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/waits to be confirmed \(process \d+\)/)]);
    expect(refused.err).toContain('reconcile confirm');
    const note = 'is not confirmed, and is taken back without that. To keep it: reconcile confirm';
    const looks = [
      ['plan', 'm'],
      ['undo', '--dry-run'],
    ] as const;
    for (const words of looks) expect((await run(...words)).err).toContain(note);
    const kept = await run('confirm');
    expect([kept.code, kept.out]).toEqual([0, expect.not.stringContaining('Run `reconcile apply`')]);
    expect([(await end).code, live()]).toEqual([0, after]);
    for (const words of looks) expect((await run(...words)).err).not.toContain(note);
  });

  it('confirm comes too late once that process goes back: exit 3, and it goes back all the same (long)', async () => {
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    await prepared();
    const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const child = spawnReconcile(['apply', '--yes', '--confirm-with', 'false', '--confirm-within', '1ms', 'm'], {
      cwd: world.folder,
      env: given,
    });
    const end = ended(child);
    const off = world.simulator.onCall(() => void (isGoingBack() && child.kill('SIGSTOP')));
    await until(isGoingBack);
    child.kill('SIGSTOP');
    off();
    const late = await run('confirm');
    child.kill('SIGCONT');
    expect([late.code, late.err]).toEqual([3, expect.stringContaining('too late')]);
    expect([(await end).code, live()]).toEqual([3, before]);
  });
});

describe('signals', () => {
  const start = (...line: readonly string[]) => {
    const given = { ...env, PATH: process.env['PATH'] ?? '' };
    const [verb = 'apply', ...rest] = line.length > 0 ? line : ['apply', '--confirm-with', 'false', 'm'];
    const child = spawnReconcile([verb, '--yes', '--concurrency', '1', ...rest], {
      cwd: world.folder,
      env: { ...given, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
    });
    return { child, end: ended(child) };
  };
  const waiting = () =>
    until(() => waits() && JSON.parse(world.read('state/reconcile/oneshot/pending.json')).until !== null);
  beforeEach(prepared);

  it.each([
    ['SIGTERM', ''],
    ['SIGINT', ' (long)'],
    ['SIGHUP', ' (long)'],
  ] as const)('going back × SIGTERM, Ctrl-C, SIGHUP: %s while it waits starts it, exit 3%s', async (signal, _long) => {
    const { child, end } = start();
    await waiting();
    child.kill(signal);
    const { code, err } = await end;
    expect([code, live(), err]).toEqual([3, before, expect.stringContaining(`Stopped (${signal}): going back`)]);
  });

  it.each([
    ['SIGTERM', ' (long)'],
    ['SIGHUP', ''],
  ] as const)('%s while it writes ends the apply and goes back%s', async (signal, _long) => {
    const { child, end } = start();
    world.simulator.onCall(({ method }) => {
      if (method === 'POST' && waits()) child.kill(signal);
    });
    expect([(await end).code, live()]).toEqual([3, before]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
  });

  it('SIGHUP while an undo writes ends it in order, not in the middle of a replacement', async () => {
    expect((await run('m')).code).toBe(0);
    const { child, end } = start('undo');
    world.simulator.onCall(({ method }) => {
      if (method === 'DELETE') child.kill('SIGHUP');
    });
    const { code, err } = await end;
    expect([code, err], err).toEqual([5, expect.stringContaining('Stopping after')]);
  });

  it('going back × SIGTERM, Ctrl-C, SIGHUP: a second Ctrl-C is answered too where the server cannot be read', async () => {
    const { child, end } = start();
    await waiting();
    world.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'status', status: 400 } });
    let said = '';
    child.stderr?.on('data', (text) => {
      said += String(text);
    });
    child.kill('SIGINT');
    await until(() => said.includes('Going back is tried again and again, until '));
    child.kill('SIGINT');
    await until(() =>
      said.includes('Still under way (the next try to read the server is waited for), and not stopped.'),
    );
    child.kill('SIGINT');
    expect((await end).code).toBe(5);
  });

  it('going back is tried once more at its deadline, however near that is', async () => {
    const { child, end } = start('apply', '--confirm-with', 'false', '--total-timeout', '1s', 'm');
    await waiting();
    world.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'status', status: 400 } });
    child.stderr?.on('data', (text) => {
      if (String(text).includes('tried again and again')) world.simulator.faults.clear();
    });
    child.kill('SIGINT');
    expect([(await end).code, live()]).toEqual([3, before]);
  });

  it.each([
    ['answers a write with 408', { kind: 'status', status: 408 }],
    ['fails to write (long)', { kind: 'status', status: 503 }],
    ['resets each write (long)', { kind: 'reset-before' }],
  ] as const)('going back is tried again while the server %s', async (_, fault) => {
    const { child, end } = start('apply', '--confirm-with', 'false', 'm');
    await waiting();
    for (const method of ['POST', 'PATCH', 'DELETE']) world.simulator.faults.inject({ match: { method }, fault });
    child.stderr?.on('data', (text) => {
      if (String(text).includes('tried again and again')) world.simulator.faults.clear();
    });
    child.kill('SIGINT');
    expect([(await end).code, live()]).toEqual([3, before]);
  });

  it('going back × SIGTERM, Ctrl-C, SIGHUP: a second Ctrl-C is answered, and the third ends the process (long)', async () => {
    const { child, end } = start();
    await waiting();
    world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 20_000 } });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (text) => {
        said += String(text);
      });
    }
    child.kill('SIGINT');
    await until(() => /the state before the apply[\s\S]*requests\. Digest/.test(said));
    child.kill('SIGINT');
    await until(() => /Still under way \(.*\), and not stopped/.test(said));
    child.kill('SIGINT');
    expect((await end).code).toBe(5);
    expect(said).toContain('A third Ctrl-C ends at once');
    world.simulator.faults.clear();
    expect((await run('confirm')).code).toBe(3);
    await until(() => live().length === 2);
    expect(live()).toEqual(before);
  });
});

describe.skipIf(!hasPty)(`a person at a terminal${hasPty ? '' : ' (skipped: no script of util-linux)'}`, () => {
  beforeEach(prepared);
  const onTerminal = (keys: string, within = '5m') =>
    runOnTerminal(['apply', '--confirm-within', within, 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      type: [
        [/Apply .*\[y\/N\] /, 'y\r'],
        [/going back in \d:\d\d /, keys],
      ],
      columns: 120,
    });

  it.each([
    ['y', 'y\r', 0, after, 'Kept.'],
    ['n', 'n\r', 3, before, 'You did not say yes: '],
    ['Ctrl-C (long)', '\u0003', 3, before, 'Stopped (SIGINT): '],
    ['the end of input (long)', '\u0004', 3, before, 'The terminal is gone, or its input ended: '],
  ])('%s', async (_, keys, code, rules, said) => {
    const seen = await onTerminal(keys);
    expect([seen.code, live(), seen.screen]).toEqual([code, rules, expect.stringContaining(said)]);
    expect(seen.screen).toContain('Still there? Keep it? [y/N]');
  });

  it('no answer: the time is counted down before their eyes, and it goes back (long)', async () => {
    const seen = await onTerminal('', '2s');
    expect([seen.code, live()]).toEqual([3, before]);
    expect(seen.screen).toMatch(/going back in 0:02[\s\S]*going back in 0:01[\s\S]*Nobody answered/);
  });

  it('what was typed before the question does not answer it (long)', async () => {
    const { code, screen } = await runOnTerminal(['apply', '--yes', '--confirm-within', '3s', 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      type: [[/Plan for/, 'y\r']],
      columns: 120,
    });
    expect([code, live()], screen).toEqual([3, before]);
  });

  it('a y typed while the apply runs does not keep it: the question after the plan is not there yet', async () => {
    world.simulator.faults.inject({ fault: { kind: 'delay', milliseconds: 150 } });
    const { code, screen } = await runOnTerminal(['apply', '--confirm-within', '2s', 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      type: [
        [/Apply .*\[y\/N\] /, 'y\r'],
        [/applying: /, 'y\r'],
      ],
      columns: 120,
    });
    expect([code, live(), screen]).toEqual([3, before, expect.stringContaining('Nobody answered')]);
  });

  it('Ctrl-Z at the question does not stop the wait: a process that is stopped goes back for nobody', async () => {
    const { code, screen } = await runOnTerminal(['apply', '--yes', '--confirm-within', '2s', 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      type: [[/going back in \d:\d\d /, '\u001a']],
      columns: 120,
      isJob: true,
    });
    expect([code, live(), screen]).toEqual([3, before, expect.stringContaining('Nobody answered')]);
  });

  it('is refused in the background, where asking would stop the process before it could go back', async () => {
    const { code, screen } = await runOnTerminal(['apply', '--yes', '--confirm-within', '2s', 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      columns: 120,
      isJob: true,
      inBackground: true,
    });
    expect([code, live()]).toEqual([1, before]);
    expect(screen).toContain('--confirm-within asks on a terminal, and there is none');
  });

  it('a terminal that is gone, as when the change cut the ssh session off, goes back (long)', async () => {
    await runOnTerminal(['apply', '--confirm-within', '5m', 'm'], {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
      type: [[/Apply .*\[y\/N\] /, 'y\r']],
      columns: 120,
      hangUp: /going back in 4:5\d/,
    });
    await until(() => live().join() === before.join() && !isGoingBack() && !waits());
    expect(readdirSync(join(world.folder, 'state/reconcile/history'))).toHaveLength(3);
  });
});

describe('while another process holds the lease that the settings name', () => {
  let holder: Lease;
  beforeEach(async () => {
    await prepared();
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const ignore = { logger: silent, onChange: () => {}, onOverlap: () => {} };
    const path = join(world.folder, 'lease');
    holder = holdLockFile({ ...ignore, path, identity: 'sidecar-7', clock: systemClock, durationMs: 60_000 });
    await until(() => holder.mayStart());
    env = { ...env, RECONCILE_LEASE: `file:${path}` };
  });
  afterEach(() => holder.release());
  const record = (text: string) => writeFileSync(join(world.folder, 'lease.record'), text);
  const suspended = (value: boolean) =>
    JSON.stringify({ format_version: 1, appliedRevision: null, appliedAt: null, knownRules: null, suspended: value });

  it.each([
    ['a record that says nothing', suspended(false)],
    ['a record that cannot be read', '{'],
  ])(
    'an apply to be confirmed × a sidecar that holds the lease: %s: refused, exit 3, and nothing is written',
    async (_, text) => {
      record(text);
      const refused = await onTrial('y');
      expect([refused.code, refused.err]).toEqual([3, expect.stringContaining('sidecar-7 holds the lease')]);
      expect([live(), waits()]).toEqual([before, false]);
    },
  );

  it.each(['lease.owner', 'lease.lock'])(
    'an apply to be confirmed × a sidecar that holds the lease: %s cannot be read: exit 1, and nothing is written',
    async (name) => {
      const file = join(world.folder, name);
      rmSync(file, { recursive: true });
      // Whoever runs the tests may read what belongs to others: these answer EISDIR and ELOOP.
      if (name === 'lease.owner') mkdirSync(file);
      else symlinkSync(name, file);
      const refused = await onTrial('y');
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('nobody knows who holds the lease')]);
      expect([live(), waits()]).toEqual([before, false]);
      rmSync(file, { recursive: true });
    },
  );

  it.each([
    [false, 'sidecar-7 holds the lease and is not suspended, so it brings it back at its next pass'],
    [true, 'sidecar-7 holds the lease and is suspended; once it is not, it brings it back'],
  ])('undo × a sidecar that holds the lease: it says who brings it back, suspended %s', async (value, words) => {
    record(suspended(true));
    await onTrial('y');
    record(suspended(value));
    const run = await world.cli(['undo', '--yes'], { env });
    expect([run.code, run.err]).toEqual([0, expect.stringContaining(words)]);
  });

  it('one that is suspended keeps the lease and is no obstacle; --no-suspend lifts the setting that both share', async () => {
    record(suspended(true));
    world.write('shared.yaml', 'suspend: true\n');
    const shared = ['--config', join(world.folder, 'shared.yaml')];
    expect((await onTrial('y', ...shared)).err).toContain('--no-suspend');
    expect(live()).toEqual(before);
    expect((await onTrial('n', ...shared, '--no-suspend')).code).toBe(3);
    expect((await onTrial('y', ...shared, '--no-suspend')).code).toBe(0);
    expect([live(), holder.mayWrite()]).toEqual([after, true]);
  });

  it('waiting, going back × the sidecar is not suspended any more: no further write is sent, exit 5', async () => {
    record(suspended(true));
    let writes = 0;
    world.simulator.onCall(({ method }) => {
      if (method !== 'GET' && ++writes === 2) record(suspended(false));
    });
    const stopped = await onTrial('y', '--concurrency', '1');
    expect([stopped.code, writes]).toEqual([5, 2]);
  });
});

describe('pairs of the table in docs/how-to/put-it-back.md', () => {
  it('waiting × reconcile confirm just as the time is over: exactly one of the two wins', async () => {
    const files = new PendingFiles(join(world.folder, 'race'), 'oneshot');
    for (let round = 0; round < 20; round++) {
      await files.write('pending.json', {});
      const ends = [files.forget('waits'), files.claimGoingBack()];
      const [kept, back] = await Promise.all(round % 2 === 0 ? ends : ends.toReversed());
      expect(Number(kept) + Number(back)).toBe(1);
      await files.forget('goesBack');
    }
  });
});
