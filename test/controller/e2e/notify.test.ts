import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startReceiver } from '../../adapters/notify/receiver.ts';
import type { GitHost, Upstream } from '../support/git-host.ts';
import { makeUpstream, serveGit } from '../support/git-host.ts';
import type { Sidecar, World } from '../support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../support/sidecar.ts';

interface Told {
  readonly path: string;
  readonly authorization: string;
  readonly signature: string;
  readonly body: string;
}

let world: World;
let upstream: Upstream;
let host: GitHost;
let sidecar: Sidecar;
let told: Told[];
let url: string;
let close: () => Promise<void>;

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
  upstream = makeUpstream();
  host = await serveGit(upstream);
  told = [];
  ({ url, close } = await startReceiver(({ headers, url: path = '' }, body, response) => {
    const header = (name: string): string => String(headers[name] ?? '');
    told.push({ path, authorization: header('authorization'), signature: header('x-reconcile-signature'), body });
    response.writeHead(201).end();
  }));
});

afterEach(async () => {
  await sidecar.stop();
  await close();
  await host.close();
  upstream.remove();
  await world.close();
});

describe('reconcile --watch with notify', () => {
  it('tells each target once of what breaks, recovers and is in effect, beside its commit, and shows no address or key (long)', async () => {
    writeFileSync(path.join(world.folder, 'slack-url'), `${url}/canary-slack\n`);
    writeFileSync(path.join(world.folder, 'hook-key'), 'canary-hook-key\n');
    writeFileSync(path.join(world.folder, 'github-token'), 'canary-github\n');
    writeFileSync(
      path.join(world.folder, 'settings.yaml'),
      `notify:
  - {type: slack, urlFile: slack-url}
  - {type: generic, url: "${url}/generic", secretFile: hook-key}
  - {type: github-status, repository: example/policy, tokenFile: github-token, api: "${url}"}
`,
    );
    const first = upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    sidecar = await startSidecar(world, [
      ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http', '--interval', '300ms'],
      ...['--state-dir', world.state, '--config', path.join(world.folder, 'settings.yaml')],
    ]);
    await sidecar.until(inEffect(first));
    const bad = upstream.commit({ 'rules.yaml': 'kind: [' });
    await sidecar.until(({ conditions }) => conditions.Ready.reason === 'ManifestsInvalid');
    await sidecar.until(({ passes }) => passes.filter(({ reason }) => reason === 'ManifestsInvalid').length >= 3);
    const mended = upstream.commit({ 'rules.yaml': `# mended\n${rules('10.0.0.1')}` });
    await sidecar.until(inEffect(mended));
    await until(() => told.filter(({ path }) => path === '/generic').length === 4);
    await sidecar.stop();

    const generic = told.filter((one) => one.path === '/generic');
    expect(generic.map(({ body }) => (JSON.parse(body) as { event: string }).event)).toEqual([
      'applied',
      'broken',
      'recovered',
      'applied',
    ]);
    for (const { body, signature } of generic) {
      expect(signature).toBe(`sha256=${createHmac('sha256', 'canary-hook-key').update(body).digest('hex')}`);
    }
    const github = told.filter((one) => one.path.startsWith('/repos/'));
    expect(
      github.map((one) => [one.path.split('/').at(-1), (JSON.parse(one.body) as { state: string }).state]),
    ).toEqual([
      [first, 'success'],
      [bad, 'failure'],
      [mended, 'success'],
      [mended, 'success'],
    ]);
    expect(new Set(github.map((one) => one.authorization))).toEqual(new Set(['Bearer canary-github']));
    expect(told.filter((one) => one.path === '/canary-slack').length).toBe(4);
    expect(told.length).toBe(12);
    expect(sidecar.output()).not.toMatch(/canary-(slack|hook|github)/);
  });

  it('wakes for a rule that ends, long before its interval is over, and tells it before and afterwards (long)', async () => {
    const settings = path.join(world.folder, 'settings.yaml');
    writeFileSync(settings, `notify:\n  - {type: generic, url: "${url}/generic"}\nnotifyBefore: 12h\n`);
    const end = `${new Date(Date.now() + 12_000).toISOString().slice(0, 19)}Z`;
    const guest = `---\napiVersion: firezone/v0\nkind: Rule\nmetadata: {name: guest}\nspec: {action: accept, destination: 10.7.0.0/16, expires: "${end}"}\n`;
    const first = upstream.commit({ 'rules.yaml': rules('10.0.0.1') + guest });
    sidecar = await startSidecar(world, [
      ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http', '--interval', '1h'],
      ...['--state-dir', world.state, '--config', settings],
    ]);
    await sidecar.until(inEffect(first));
    await until(() => told.length >= 3);
    const events = told.map(({ body }) => JSON.parse(body) as { event: string; rules?: unknown });
    expect(events.flatMap(({ event, rules: which }) => (which === undefined ? [] : [[event, which]]))).toEqual([
      ['boundary-soon', [{ name: 'guest', what: 'ends', at: end }]],
      ['boundary-passed', [{ name: 'guest', what: 'ends', at: end }]],
    ]);
  });
});
