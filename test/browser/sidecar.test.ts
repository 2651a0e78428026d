import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderHtml } from '../../src/report/html.ts';
import type { Sidecar, World } from '../controller/support/sidecar.ts';
import { ensureBuilt, makeWorld, rules, startSidecar } from '../controller/support/sidecar.ts';
import { alice, planOf, reportOf } from '../report/support.ts';
import {
  type Gate,
  hasBrowser,
  launchBrowser,
  openGate,
  openPage,
  overflows,
  violationsOf,
  type WatchedPage,
  why,
} from './support.ts';

const token = 'canary-web-token';
let browser: Browser;
beforeAll(async () => {
  if (hasBrowser) browser = await launchBrowser();
});
afterAll(() => browser?.close());

let world: World;
let gate: Gate;
let sidecar: Sidecar;
let view: WatchedPage;

const write = (name: string, text: string): void => writeFileSync(path.join(world.manifests, name), text);
const start = async (listen = '127.0.0.1:0'): Promise<Sidecar> =>
  startSidecar({ ...world, sim: { ...world.sim, url: gate.url } }, [
    ...[world.manifests, '--quiet', '20ms', '--delete-quiet', '50ms', '--rescan', '200ms', '--interval', '1s'],
    ...[
      '--on-drift',
      'report',
      '--concurrency',
      '1',
      '--max-deletes',
      '1',
      '--state-dir',
      world.state,
      '--listen',
      listen,
    ],
    ...['--listen-token-file', path.join(world.folder, 'web-token')],
  ]);
const headline = (text: string): Promise<void> => view.page.getByRole('heading', { level: 1, name: text }).waitFor();
const signIn = async (given: string): Promise<void> => {
  await view.page.getByLabel('Token').fill(given);
  await view.page.getByRole('button', { name: 'Sign in' }).click();
};

describe.skipIf(!hasBrowser)(`the page of a sidecar in a browser${why}`, () => {
  beforeAll(async () => {
    ensureBuilt();
    world = await makeWorld();
    gate = await openGate(world.sim.url);
    writeFileSync(path.join(world.folder, 'web-token'), token);
    write('a.yaml', rules('10.0.0.1'));
    write(
      'soon.yaml',
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: guest}\nspec: {action: accept, destination: 10.9.0.0/16, expires: 2090-01-01}\n',
    );
    sidecar = await start();
    view = await openPage(browser, sidecar.url);
  });
  afterAll(async () => {
    await sidecar?.stop();
    await gate?.close();
    await world?.close();
  });

  it('asks for the token, refuses another one, and keeps the right one in no place that a script reads', async () => {
    expect(await violationsOf(view.page)).toEqual([]);
    await signIn('another');
    await view.page.getByText('This is not the token.').waitFor();
    await signIn(token);
    await headline('In sync');
    const [cookie, ...others] = await view.page.context().cookies();
    expect(others).toEqual([]);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
    expect(cookie?.value).not.toContain(token);
    expect(await view.page.evaluate('document.cookie')).toBe('');
  });

  it('shows server, rules with search, and when a rule ends', async () => {
    const { page } = view;
    await page.getByText(gate.url, { exact: true }).waitFor();
    await page.getByText('2090-01-01 00:00:00 UTC').or(page.getByText('2090-01-02 00:00:00 UTC')).first().waitFor();
    await page.getByText('2 of 2 rules').waitFor();
    await page.getByLabel('Name, network or person').fill('10.9');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByText('1 of 2 rules').waitFor();
    await page.goto(sidecar.url);
  });

  it('explains a packet by keyboard alone', async () => {
    const { page } = view;
    await page.getByLabel('To', { exact: true }).focus();
    await page.keyboard.type('10.9.1.2');
    await page.keyboard.press('Tab');
    await page.keyboard.type('tcp');
    await page.keyboard.press('Tab');
    await page.keyboard.type('443');
    await page.keyboard.press('Enter');
    await page.getByText('decided by guest').waitFor();
    await page.getByLabel('To', { exact: true }).fill('nonsense');
    await page.keyboard.press('Enter');
    await page.getByText('destination nonsense is not an IP address').waitFor();
    await page.goto(sidecar.url);
  });

  it('shows an apply as it goes, with its plan, and the end of it, without being asked', async () => {
    gate.hold(2);
    write('b.yaml', rules('10.0.1.1', '10.0.1.2', '10.0.1.3', '10.0.1.4'));
    await headline('Applying 2 of 4');
    await view.page.getByText('10.0.1.3').first().waitFor();
    gate.release();
    await headline('In sync');
    await view.page.getByText('6 of 6 rules').waitFor();
    expect(await violationsOf(view.page)).toEqual([]);
  });

  it('shows drift with what would undo it (long)', async () => {
    const [id] = world.sim.seed([{ action: 'accept', destination: '10.77.0.0/16' }]);
    await headline('Drift');
    await view.page.getByText('10.77.0.0/16').first().waitFor();
    await view.page.getByText('--on-drift correct').waitFor();
    expect(await violationsOf(view.page)).toEqual([]);
    const headers = { authorization: 'Bearer canary-api-token' };
    await fetch(`${world.sim.url}/v0/rules/${id}`, { method: 'DELETE', headers });
    await headline('In sync');
  });

  it('shows the problems of the newest revision, and which one is in effect', async () => {
    write(
      'c.yaml',
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: c}\nspec: {action: acept, destination: 10.0.0.9}\n',
    );
    await headline('Newest revision invalid');
    await view.page.getByText('c.yaml:4:').first().waitFor();
    await view.page.getByText('reconcile validate PATH').waitFor();
    rmSync(path.join(world.manifests, 'c.yaml'));
    await headline('In sync');
  });

  it('shows a refusal with its traffic and the line that releases it', async () => {
    for (const name of ['a.yaml', 'b.yaml', 'soon.yaml']) rmSync(path.join(world.manifests, name));
    write('z.yaml', rules('10.200.0.1'));
    await headline('Refused');
    await view.page.getByText(/approve: \[[0-9a-f]{32}\]/).waitFor();
    await view.page
      .getByRole('heading', { name: 'Closes' })
      .or(view.page.getByText('No traffic changes.'))
      .first()
      .waitFor();
    expect(await violationsOf(view.page)).toEqual([]);
  });

  it('fits 320 pixels', async () => {
    await view.page.setViewportSize({ width: 320, height: 640 });
    expect(await overflows(view.page)).toBe(false);
    await view.page.setViewportSize({ width: 1280, height: 800 });
  });

  it('is readable without scripts', async () => {
    const plain = await openPage(browser, sidecar.url, {
      javaScriptEnabled: false,
      storageState: await view.page.context().storageState(),
    });
    await plain.page.getByRole('heading', { level: 1, name: 'Refused' }).waitFor();
    await plain.page.getByLabel('To', { exact: true }).fill('10.0.0.1');
    await plain.page.getByLabel('Protocol').fill('udp');
    await plain.page.keyboard.press('Enter');
    await plain.page.getByText('decided by').waitFor();
    plain.expectQuiet();
    await plain.page.context().close();
  });

  it('says that the sidecar is gone, and goes on when it is back (long)', async () => {
    view.expectQuiet();
    const { port, host } = new URL(sidecar.url);
    await sidecar.stop();
    await view.page.getByRole('alert').getByText('The sidecar does not answer.').waitFor();
    sidecar = await start(`127.0.0.1:${port}`);
    expect(sidecar.url).toContain(host);
    // Its sessions went with it.
    await view.page.getByLabel('Token').waitFor();
    await signIn(token);
    await headline('Refused');
    await view.page.getByText('The sidecar does not answer.').waitFor({ state: 'hidden' });
    view.expectQuiet(true);
  });

  it('signs out for good: the old cookie opens nothing', async () => {
    const cookies = await view.page.context().cookies();
    await view.page.getByRole('button', { name: 'Sign out' }).click();
    await view.page.getByLabel('Token').waitFor();
    const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
    expect((await fetch(sidecar.url, { headers: { cookie } })).status).toBe(401);
    expect(sidecar.output()).not.toContain(token);
  });
});

describe.skipIf(!hasBrowser)(`the page of a plan in a browser${why}`, () => {
  it('filters by words, person, set and kind; is without findings and fits 320 pixels', async () => {
    const plan = planOf(['drop 192.0.2.2', 'drop 10.0.0.0/8'], {
      'office/closed': 'drop 10.0.0.0/8',
      'office/metadata': 'drop 192.0.2.0/24',
      'lab/web': `accept 10.1.0.0/16 tcp 443 for ${alice}`,
    });
    const folder = mkdtempSync(path.join(tmpdir(), 'plan-'));
    const file = path.join(folder, 'plan.html');
    writeFileSync(file, renderHtml(reportOf(plan, { server: 'https://vpn.example.com' })));
    const one = await openPage(browser, `file://${file}`);
    const { page } = one;
    const shown = (): Promise<number> => page.locator('tr[data-kind]:visible').count();
    expect(await shown()).toBe(2);
    await page.getByLabel('Person').selectOption('alice');
    await page.getByText('1 of 2 changes').waitFor();
    await page.getByLabel('Person').selectOption('');
    await page.getByLabel('Set').selectOption('office');
    await page.getByText('1 of 2 changes').waitFor();
    await page.getByLabel('Kind').selectOption('+');
    await page.getByText('0 of 2 changes').waitFor();
    await page.getByLabel('Set').selectOption('');
    await page.getByLabel('Network or rule').fill('10.1.');
    await page.getByText('1 of 2 changes').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 320, height: 640 });
    expect(await overflows(page)).toBe(false);
    one.expectQuiet();
    await page.context().close();
    rmSync(folder, { recursive: true });
  });

  it('of 10,000 changes begins folded, and finds one of them (long)', async () => {
    const names = Array.from({ length: 10_000 }, (_, i) => [
      `set-${i % 20}/rule-${i}`,
      `accept 10.${i >> 8}.${i & 255}.0/24`,
    ]);
    const folder = mkdtempSync(path.join(tmpdir(), 'plan-'));
    const file = path.join(folder, 'plan.html');
    writeFileSync(
      file,
      renderHtml(reportOf(planOf([], Object.fromEntries(names)), { server: 'https://vpn.example.com' })),
    );
    const one = await openPage(browser, `file://${file}`);
    const shown = (): Promise<number> => one.page.locator('tr[data-kind]:visible').count();
    expect(await shown()).toBe(0);
    await one.page.getByLabel('Network or rule').fill('10.3.77.0/24');
    await one.page.getByText('1 of 10000 changes').waitFor();
    expect(await shown()).toBe(1);
    await one.page.getByRole('rowheader', { name: 'rule-845', exact: true }).waitFor();
    one.expectQuiet();
    await one.page.context().close();
    rmSync(folder, { recursive: true });
  });
});
