import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Sidecar, World } from '../support/sidecar.ts';
import { apiToken, ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../support/sidecar.ts';

let world: World;
let sidecar: Sidecar;

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
});

afterEach(async () => {
  await sidecar.stop();
  expect(sidecar.output()).not.toContain(apiToken);
  await world.close();
});

const write = (name: string, text: string): void => writeFileSync(path.join(world.manifests, name), text);
const quick = ['--quiet', '50ms', '--delete-quiet', '200ms', '--rescan', '300ms', '--interval', '60s'];
const start = async (...args: string[]): Promise<void> => {
  sidecar = await startSidecar(world, [world.manifests, ...quick, ...args]);
};

describe('reconcile --watch DIRECTORY', () => {
  it('applies at start, at every change, and says what is in effect', async () => {
    write('a.yaml', rules('10.0.0.1'));
    await start();
    const reasons = new Set<string>();
    const first = await sidecar.until((status) => {
      for (const condition of Object.values(status.conditions)) reasons.add(condition.reason);
      return inEffect()(status);
    });
    expect([...reasons]).not.toContain('BadSettings');
    expect(world.live()).toEqual(['10.0.0.1']);
    write('b.yaml', rules('10.0.0.2', '10.0.0.3'));
    await until(() => world.live().length === 3);
    write('b.yaml', rules('10.0.0.3'));
    await until(() => world.live().length === 2);
    const last = await sidecar.until(
      (status) => inEffect()(status) && status.revisions.applied !== first.revisions.applied,
    );
    expect(last.liveRules).toBeGreaterThan(0);
    expect(last.conditions.Stalled.status).toBe('False');
    const log = sidecar.log().filter((line) => line['msg'] === 'The pass ended' && line['reason'] === 'Applied');
    expect(log.at(-1)).toMatchObject({ level: 'info', result: 'good' });
    expect(Object.keys(log.at(-1) ?? {})).toEqual(
      expect.arrayContaining(['revision', 'durationMs', 'steps', 'done', 'triggers']),
    );
  });

  it('corrects what others change, and calls it drift', async () => {
    write('a.yaml', rules('10.0.0.1', '10.0.0.2'));
    await start('--interval', '1s');
    await sidecar.until(inEffect());
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    await until(() => world.live().length === 2);
    await until(() => sidecar.log().some((line) => line['msg'] === 'Drift is corrected'));
  });

  it('corrects drift inside its scope only, and speaks of no other rule (long)', async () => {
    const config = path.join(world.folder, 'scope.yaml');
    writeFileSync(config, 'scope: {networks: [10.0.0.0/16], configuration: false}\n');
    world.sim.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    write('a.yaml', rules('10.0.0.1', '10.0.0.2'));
    await start('--interval', '1s', '--config', config);
    await sidecar.until(inEffect());
    const strays = ['10.0.9.9', '10.1.0.0/16', '2001:db8::1'];
    const [inside] = world.sim.seed(strays.map((destination) => ({ action: 'drop' as const, destination })));
    await until(() => !world.live().includes('10.0.9.9'));
    await until(() => sidecar.log().some((line) => line['msg'] === 'Drift is corrected'));
    const corrected = sidecar.log().filter((line) => line['msg'] === 'Drift is corrected');
    expect(corrected.map((line) => [line['object'], line['action']])).toEqual([[inside, 'delete']]);
    expect([...world.live()].sort()).toEqual(
      ['10.0.0.1', '10.0.0.2', '10.1.0.0/16', '192.0.2.0/24', '2001:db8::1'].sort(),
    );
  });

  it('keeps the last good revision while the newest has errors, and goes on when it is mended (long)', async () => {
    write('a.yaml', rules('10.0.0.1'));
    await start('--interval', '1s');
    await sidecar.until(inEffect());
    write('a.yaml', 'kind: [broken');
    const broken = await sidecar.until((status) => status.conditions.Ready.reason === 'ManifestsInvalid');
    expect(broken.conditions.Stalled.status).toBe('True');
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    await until(() => world.live().join() === '10.0.0.1');
    write('a.yaml', rules('10.0.0.1', '10.0.0.5'));
    await until(() => world.live().length === 2);
    await sidecar.until(inEffect());
  });

  it('fault 28: a ConfigMap swap is seen once, with each file once', async () => {
    const data = (name: string, text: string): void => {
      mkdirSync(path.join(world.manifests, name));
      writeFileSync(path.join(world.manifests, name, 'a.yaml'), text);
    };
    data('..2026_1', rules('10.0.0.1'));
    symlinkSync('..2026_1', path.join(world.manifests, '..data'));
    symlinkSync('..data/a.yaml', path.join(world.manifests, 'a.yaml'));
    await start('--rescan', '60s', '--quiet', '500ms');
    await sidecar.until(inEffect());
    const passes = (await sidecar.status()).passes.length;
    data('..2026_2', rules('10.0.0.1', '10.0.0.2'));
    symlinkSync('..2026_2', path.join(world.manifests, '..data_tmp'));
    renameSync(path.join(world.manifests, '..data_tmp'), path.join(world.manifests, '..data'));
    rmSync(path.join(world.manifests, '..2026_1'), { recursive: true });
    await until(() => world.live().length === 2);
    const status = await sidecar.until(inEffect());
    expect(status.passes.length).toBe(passes + 1);
    expect(world.sim.requests().filter((call) => call.method === 'POST').length).toBe(2);
  });

  it('fault 29: a directory that is deleted, empty, or renamed over prunes nothing, and is watched again (long)', async () => {
    write('a.yaml', rules('10.0.0.1', '10.0.0.2'));
    await start();
    await sidecar.until(inEffect());
    rmSync(world.manifests, { recursive: true });
    await sidecar.until((status) => status.conditions.Ready.reason === 'SourceFailed');
    mkdirSync(world.manifests);
    await sidecar.until(
      (status) => status.conditions.Ready.reason === 'SourceFailed' && /no /i.test(status.conditions.Ready.message),
    );
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
    write('a.yaml', rules('10.0.0.1', '10.0.0.2', '10.0.0.3'));
    await until(() => world.live().length === 3);
    const other = path.join(world.folder, 'other');
    cpSync(world.manifests, other, { recursive: true });
    writeFileSync(path.join(other, 'b.yaml'), rules('10.0.0.4'));
    renameSync(world.manifests, `${world.manifests}.old`);
    renameSync(other, world.manifests);
    await until(() => world.live().length === 4);
    write('c.yaml', rules('10.0.0.5'));
    await until(() => world.live().length === 5);
    expect(world.sim.requests().filter((call) => call.method === 'DELETE')).toEqual([]);
  });

  it('fault 35: a hang-up reads the settings again: suspended it observes and writes nothing', async () => {
    write('a.yaml', rules('10.0.0.1'));
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(config, 'suspend: true\n');
    await start('--config', config);
    await sidecar.until((status) => status.conditions.Ready.reason === 'Suspended');
    expect(world.live()).toEqual([]);
    writeFileSync(config, 'suspend: maybe\n');
    sidecar.child.kill('SIGHUP');
    await sidecar.until((status) => status.conditions.Stalled.reason === 'BadSettings');
    expect(world.live()).toEqual([]);
    writeFileSync(config, 'suspend: false\n');
    sidecar.child.kill('SIGHUP');
    await sidecar.until(inEffect());
    expect(world.live()).toEqual(['10.0.0.1']);
  });

  it('applies other values also where drift is only reported, after a hang-up and after a restart (long)', async () => {
    const one = `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: v}\nspec: {action: drop, destination: "\${net}"}\n`;
    write('a.yaml', one);
    const values = path.join(world.folder, 'values.yaml');
    const args = ['--values', values, '--on-drift', 'report', '--state-dir', world.state, '--interval', '300ms'];
    writeFileSync(values, 'net: 10.3.0.1\n');
    await start(...args);
    await until(() => world.live().join() === '10.3.0.1');
    await sidecar.until(inEffect());
    writeFileSync(values, 'net: 10.3.0.2\n');
    sidecar.child.kill('SIGHUP');
    await until(() => world.live().join() === '10.3.0.2');
    await sidecar.until(inEffect());
    await sidecar.stop();
    writeFileSync(values, 'net: 10.3.0.3\n');
    await start(...args);
    await until(() => world.live().join() === '10.3.0.3');
    await sidecar.until(inEffect());
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    await sidecar.until((status) => status.conditions.Ready.reason === 'DriftReported');
    expect(world.live().length).toBe(2);
  });

  it('fault 8: one rule that the server refuses holds up no other, is named in its words, and is not sent again and again (long)', async () => {
    const nobody = '00000000-0000-4000-8000-000000000000';
    const refused = `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: refused}\nspec: {action: drop, destination: 10.2.0.0/16, user_id: ${nobody}}\n`;
    write('a.yaml', `${rules('10.0.0.1')}---\n${refused}`);
    await start('--interval', '200ms');
    const status = await sidecar.until(({ passes }) => passes.length >= 5);
    expect(status.conditions.Ready).toMatchObject({ status: 'False', reason: 'ApplyFailed' });
    expect(status.conditions.Ready.message).toMatch(/^POST \/v0\/rules: 422, .*user/);
    expect(status.conditions.Stalled.status).toBe('True');
    expect(world.live()).toEqual(['10.0.0.1']);
    const posts = world.sim.requests().filter((call) => call.method === 'POST');
    expect(posts.filter((call) => call.body.includes(nobody)).length).toBe(1);
    expect(sidecar.log().filter((line) => line['msg'] === 'A step failed').length).toBe(1);
    write('a.yaml', rules('10.0.0.1', '10.0.0.2'));
    await sidecar.until(inEffect());
  });

  it('a hang-up names what needs a restart, and releases the refused plan whose digest is approved, and no other (long)', async () => {
    world.sim.seed([{ action: 'accept', destination: '10.9.9.9' }]);
    const configuration =
      'apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: c}\nspec: {default_client_mtu: 1300}\n';
    const empty = (name: string): string =>
      `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec: {rules: []}\n---\n${configuration}`;
    write('a.yaml', empty('a'));
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(config, 'timeout: 15s\n');
    await start('--config', config);
    const refused = await sidecar.until((status) => status.conditions.Ready.reason === 'Refused');
    expect(refused.conditions.Ready.message).not.toContain('.;');
    expect([refused.blockedDeletes, refused.liveRules]).toEqual([1, 1]);
    expect(world.sim.configuration()).toMatchObject({ default_client_mtu: 1300 });
    const page = await (await fetch(sidecar.url)).text();
    expect(page).toContain(refused.plan?.digest ?? 'no digest');
    world.sim.seed([{ action: 'accept', destination: '10.9.9.8' }]);
    writeFileSync(config, `timeout: 14s\napprove: [${refused.plan?.digest}]\n`);
    sidecar.child.kill('SIGHUP');
    const other = await sidecar.until((status) => status.blockedDeletes === 2);
    expect(world.live()).toEqual(['10.9.9.8', '10.9.9.9']);
    const warned = sidecar.log().find((line) => line['msg'] === 'Some settings take effect after a restart only');
    expect(warned?.['settings']).toEqual(['timeout']);
    writeFileSync(config, `approve: [${other.plan?.digest}]\n`);
    sidecar.child.kill('SIGHUP');
    await sidecar.until(inEffect());
    expect(world.live()).toEqual([]);
  });

  it('writes nothing, and says so, when it is told to plan as well', async () => {
    write('a.yaml', rules('10.0.0.1'));
    for (const flags of [['--plan'], ['--save', 'plan.json'], ['--live', 'snapshot.json']]) {
      await start('--once', ...flags);
      expect(await sidecar.ended()).toBe(1);
      expect(sidecar.output()).toContain(`unknown option '${flags[0]}'`);
      expect(world.sim.requests()).toEqual([]);
    }
  });

  it('with --once ends with 2 when it may not write what is to be written (long)', async () => {
    write('a.yaml', rules('10.0.0.1'));
    await start('--once', '--suspend');
    expect(await sidecar.ended()).toBe(2);
    expect(world.live()).toEqual([]);
  });

  it('threat 10: settings that cannot be used stall the loop, not the process, and are read again (long)', async () => {
    write('a.yaml', rules('10.0.0.1'));
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(config, 'interval: 1d x\n');
    sidecar = await startSidecar(world, [world.manifests, '--config', config]);
    const stalled = await sidecar.until((status) => status.conditions.Stalled.status === 'True');
    expect(stalled.conditions.Ready).toMatchObject({ status: 'False', reason: 'BadSettings' });
    expect(stalled.conditions.Stalled.message).toContain('interval');
    expect((await fetch(`${sidecar.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${sidecar.url}/readyz`)).status).toBe(503);
    writeFileSync(config, 'interval: 1h\n');
    sidecar.child.kill('SIGHUP');
    await sidecar.until(inEffect());
  });

  it('threat 10: settings that are wrong in a hang-up are named for what they are, and the old ones stay in force (long)', async () => {
    write('a.yaml', rules('10.0.0.1'));
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(config, 'interval: 1h\n');
    sidecar = await startSidecar(world, [world.manifests, '--config', config]);
    await sidecar.until(inEffect());
    for (const [bad, named] of [
      ['maxDeletes: "-1"\n', 'maxDeletes'],
      ['interval: 0s\n', 'interval'],
      ['rescan: 0s\n', 'rescan'],
      ['scope: {rules: 3}\n', 'settings.yaml:1:9: `scope.rules` must be true or false'],
    ] as const) {
      writeFileSync(config, bad);
      sidecar.child.kill('SIGHUP');
      const { conditions } = await sidecar.until((status) => status.conditions.Stalled.message.includes(named));
      expect([bad, conditions.Ready.status, conditions.Stalled.reason]).toEqual([bad, 'True', 'BadSettings']);
    }
    writeFileSync(config, 'interval: 1h\n');
    sidecar.child.kill('SIGHUP');
    await sidecar.until((status) => status.conditions.Stalled.status === 'False');
  });

  it('a renewed token file ends the failure of an expired one at once (long)', async () => {
    write('a.yaml', rules('10.0.0.1'));
    writeFileSync(world.tokenFile, 'wrong-token\n');
    await start();
    await sidecar.until((status) => status.conditions.Ready.reason === 'Unauthorized');
    writeFileSync(world.tokenFile, `${apiToken}\n`);
    await sidecar.until(inEffect());
  });

  it('with --once applies once and ends', async () => {
    write('a.yaml', rules('10.0.0.1'));
    await start('--once');
    expect(await sidecar.ended()).toBe(0);
    expect(world.live()).toEqual(['10.0.0.1']);
  });
});
