import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { apiToken, ensureBuilt, makeWorld, rules, startSidecar, until } from '../controller/support/sidecar.ts';
import { rule, startWorld, type World } from './harness.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** The rule `guest`, in force around now. */
function guest(notBefore: number, expires: number): string {
  const times = `notBefore: "${new Date(notBefore).toISOString()}", expires: "${new Date(expires).toISOString()}"`;
  return rule('guest', `action: accept, destination: 10.1.0.0/16, ${times}`);
}

describe('a one-shot run, where our clock and the server’s differ', () => {
  let world: World;
  const wrong = (milliseconds: number): number =>
    world.simulator.faults.inject({ fault: { kind: 'wrong-date', milliseconds } });
  const live = (): readonly string[] =>
    world.simulator
      .rules()
      .map(({ destination }) => destination)
      .sort();
  const flags = ['--state-dir', 'state'];
  const both = ['10.1.0.0/16', '10.9.0.0/16'];

  beforeEach(async () => {
    world = await startWorld();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const now = Date.now();
    world.write('m/guest.yaml', guest(now - day, now + day) + rule('base', 'action: drop, destination: 10.9.0.0/16'));
    await world.cli(['m', ...flags]);
  });

  afterEach(async () => {
    vi.useRealTimers();
    await world.close();
  });

  it.each([
    ['expires', 2 * day, -2 * day],
    ['expires, though both clocks have passed it since the last apply', 3 * day, -6 * minute],
    ['expires, by the server’s clock alone', hour, 2 * day],
  ])('nobody’s access ends: %s', async (_, passed, ahead) => {
    vi.setSystemTime(Date.now() + passed);
    const number = wrong(ahead);
    const run = await world.cli(['m', ...flags]);
    expect([run.code, live()]).toEqual([3, both]);
    expect(run.out + run.err).toContain(
      `differ by ${Math.abs(ahead) < day ? `${Math.abs(ahead) / minute} minutes` : `${Math.abs(ahead) / day} days`}: whether \`guest\` is in force cannot be told`,
    );
    expect((await world.cli(['--plan', 'm', ...flags])).code).toBe(3);
    world.simulator.faults.clear(number);
    const after = await world.cli(['m', ...flags]);
    expect([after.code, live()]).toEqual([0, passed > day ? ['10.9.0.0/16'] : both]);
  });

  it('a wrong clock is no drift', async () => {
    vi.setSystemTime(Date.now() + 2 * day);
    wrong(-2 * day);
    const run = await world.cli(['drift', 'm']);
    expect([run.code, run.out + run.err]).toEqual([3, expect.stringContaining('[clock-differs]')]);
    expect(run.out).not.toContain('guest  ');
    const { drift, in_sync } = JSON.parse((await world.cli(['drift', 'm', '--output', 'json'])).out);
    expect([drift, in_sync]).toEqual([[], null]);
  });

  it('no digest approves an end that no clock can tell, and none is offered', async () => {
    vi.setSystemTime(Date.now() + 2 * day);
    const { digest } = (await world.cli(['--plan', 'm', ...flags, '--output', 'json'])).json();
    wrong(-2 * day);
    const refused = await world.cli(['m', ...flags]);
    expect([refused.code, refused.out]).toEqual([3, expect.not.stringContaining('--approve')]);
    const approved = await world.cli(['m', ...flags, '--approve', digest ?? '']);
    expect([approved.code, live()]).toEqual([3, both]);
    expect(approved.out + approved.err).not.toContain('for a different plan');
  });

  it('nobody’s access begins', async () => {
    const now = Date.now();
    world.write(
      'm/later.yaml',
      guest(now + 2 * hour, now + day)
        .replace('guest', 'later')
        .replace('10.1.', '10.2.'),
    );
    await world.cli(['m', ...flags]);
    vi.setSystemTime(now + 3 * hour);
    wrong(-2 * hour);
    expect([(await world.cli(['m', ...flags])).code, live()]).toEqual([3, both]);
  });

  it('a rule that is in force by both clocks is no obstacle, nor is a difference of five minutes', async () => {
    wrong(-6 * minute);
    world.write('m/other.yaml', rule('other', 'action: accept, destination: 10.3.0.0/16'));
    expect([(await world.cli(['m', ...flags])).code, live()]).toEqual([
      0,
      ['10.1.0.0/16', '10.3.0.0/16', '10.9.0.0/16'],
    ]);
    world.simulator.faults.clear();
    wrong(-5 * minute + 2000);
    vi.setSystemTime(Date.now() + day);
    expect([(await world.cli(['m', ...flags])).code, live()]).toEqual([0, ['10.3.0.0/16', '10.9.0.0/16']]);
  });

  it.each([
    ['stays away, alone, and is named', 6 * minute, ['10.9.0.0/16']],
    ['comes back where both clocks hold it', hour, both],
  ])('going back × clocks that differ: what was opened is closed, and a rule that ends %s', async (_, ends, after) => {
    const now = Date.now();
    const base = rule('base', 'action: drop, destination: 10.9.0.0/16');
    world.write('m/guest.yaml', guest(now - day, now + ends) + base);
    expect((await world.cli(['m', ...flags])).code).toBe(0);
    world.write('m/guest.yaml', rule('opened', 'action: accept, destination: 10.66.0.0/16') + base);
    const answer = (question: string): string => {
      if (!question.startsWith('Still there?')) return 'y';
      wrong(7 * minute);
      return 'n';
    };
    const back = await world.cli(['apply', 'm', '--confirm-within', '5m', ...flags], { answer });
    expect([back.code, live()], back.out + back.err).toEqual([3, after]);
    const named = /Not undone: the rule guest \(accept 10\.1\.0\.0\/16.*the clocks differ/;
    expect(named.test(back.out)).toBe(after !== both);
    expect(back.err).toContain(`Went back: ${after === both ? 'what' : 'all else that'} the apply changed`);
  });

  it('undo, which obeys all guards, is refused', async () => {
    const now = Date.now();
    const base = rule('base', 'action: drop, destination: 10.9.0.0/16');
    world.write('m/guest.yaml', guest(now - day, now + 6 * minute) + base);
    await world.cli(['m', ...flags]);
    world.write('m/guest.yaml', base);
    expect((await world.cli(['m', ...flags])).code).toBe(0);
    wrong(7 * minute);
    const undone = await world.cli(['undo', ...flags]);
    expect([undone.code, live()], undone.err).toEqual([3, ['10.9.0.0/16']]);
    expect(undone.out + undone.err).toContain('[clock-differs]');
  });

  it('doctor says it, as an error', async () => {
    wrong(-6 * minute);
    const run = await world.cli(['doctor']);
    expect(run.code).toBe(1);
    expect(run.out).toContain('while they differ by more than 5 minutes, no rule begins or ends');
  });

  it('doctor says that they agree, of a server that says its time below /v0 alone, and that a clock is unknown', async () => {
    expect((await world.cli(['doctor'])).out).toContain('ok clock: agrees with the server');
    const mute = createServer((_, response) => {
      response.sendDate = false;
      response.end('{"data":[]}');
    });
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const env = { RECONCILE_BASE_URL: `http://127.0.0.1:${(mute.address() as AddressInfo).port}/` };
    expect((await world.cli(['doctor'], { env })).out).toContain('clock: unknown');
    mute.close();
  });
});

describe('the sidecar, where its clock and the server’s differ', () => {
  beforeAll(ensureBuilt);

  it('keeps each rule as it was when they last agreed, writes the rest, and says ClockDiffers', async () => {
    const world = await makeWorld();
    const now = Date.now();
    mkdirSync(world.state, { recursive: true });
    const record = {
      format_version: 1,
      appliedRevision: null,
      appliedAt: null,
      knownRules: null,
      agreedAt: now - 2 * hour,
    };
    writeFileSync(path.join(world.state, 'record.json'), JSON.stringify(record), { mode: 0o600 });
    const later = guest(now - hour, now + day)
      .replace('guest', 'later')
      .replace('10.1.', '10.2.');
    writeFileSync(path.join(world.manifests, 'a.yaml'), guest(now - day, now - hour) + later + rules('10.9.0.1'));
    world.sim.seed([{ action: 'accept', destination: '10.1.0.0/16' }]);
    const number = world.sim.faults.inject({ fault: { kind: 'wrong-date', milliseconds: -10 * minute } });
    // How far ahead access is given counts from now, not from when the clocks agreed.
    const settings = path.join(world.state, 'settings.yaml');
    writeFileSync(settings, 'maxExpiry: 25h\n');
    const flags = ['--state-dir', world.state, '--quiet', '1ms', '--delete-quiet', '1ms', '--interval', '60s'];
    const sidecar = await startSidecar(world, [world.manifests, ...flags, '--config', settings]);
    try {
      const status = await sidecar.until(({ conditions }) => conditions.Ready.reason === 'ClockDiffers');
      expect(status.conditions.Ready.message).toContain('differ by 10 minutes');
      expect(world.live()).toEqual(['10.1.0.0/16', '10.9.0.1']);
      const ahead = /^reconcile_server_clock_ahead_seconds (\S+)$/m.exec(await sidecar.metrics())?.[1];
      expect(Math.abs(Number(ahead) + 600)).toBeLessThan(60);
      world.sim.faults.clear(number);
      sidecar.child.kill('SIGHUP');
      await until(() => world.live().includes('10.2.0.0/16') && !world.live().includes('10.1.0.0/16'));
      await sidecar.until(({ conditions }) => conditions.Ready.status === 'True');
    } finally {
      await sidecar.stop();
      expect(sidecar.output()).not.toContain(apiToken);
      await world.close();
    }
  });
});
