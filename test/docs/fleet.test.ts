import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { runIn, token } from '../cli/harness.ts';
import { ensureBuilt, spawnSidecar, until } from '../controller/support/sidecar.ts';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/how-to/many-servers.md'), 'utf8');
const files = [...page.matchAll(/^```yaml\n# (\S+)\n([\s\S]*?)^```$/gm)].map(([, name = '', text = '']) => ({
  name,
  text,
}));
const lines = [...page.matchAll(/^ *(reconcile .+)$/gm)].map(([, line = '']) => line);

const servers = new Map<string, Simulator>();
let folder: string;

beforeAll(async () => {
  ensureBuilt();
  folder = mkdtempSync(join(tmpdir(), 'docs-fleet-'));
  cpSync(join(root, 'examples/minimal'), join(folder, 'policy'), { recursive: true });
  for (const [, made = ''] of page.matchAll(/`mkdir (\S+)`/g)) mkdirSync(join(folder, made));
  for (const { name, text } of files) {
    let own = text.replaceAll(/^soak: .*$/gm, 'soak: 10ms');
    for (const [url] of text.matchAll(/https:[^,]+/g)) {
      const server = await startSimulator({ token });
      servers.set(url, server);
      own = own.replace(url, `"${server.url}"`);
    }
    write(name, own);
    for (const [, tokenFile = ''] of text.matchAll(/tokenFile: ([^,}]+)/g))
      write(join(dirname(name), tokenFile), token);
    for (const [, values = ''] of text.matchAll(/values: \[([^\]]+)/g))
      write(join(dirname(name), values), /`(office: [^`]+)`/.exec(page)?.[1] ?? '');
  }
});
afterAll(async () => {
  await Promise.all([...servers.values()].map((one) => one.close()));
  rmSync(folder, { recursive: true, force: true });
});

function write(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text, { mode: 0o600 });
}

describe('the page on many servers', () => {
  it('has two fleets and lines for each step', () => {
    expect(files.map(({ name }) => name)).toEqual(['ops/fleet.yaml', 'ops/customers.yaml']);
    expect(files[1]?.text.match(/tokenFile: .*values: \[/g)).toHaveLength(3);
    expect(lines.length).toBeGreaterThan(6);
  });

  it('says lines that do what it says (long)', async () => {
    for (const line of lines.filter((one) => !/ watch /.test(one))) {
      const { code, out, err } = await runIn(folder, line.split(' ').slice(1));
      expect([line, code, err + out]).toEqual([line, 0, expect.stringContaining('exit 0')]);
    }
    expect(readdirSync(join(folder, 'snapshots')).sort()).toEqual(['eu.json', 'staging.json', 'us.json']);
    const live = [...servers].map(([url, server]) => [url, server.rules().length > 0]);
    expect(live.filter(([, isWritten]) => isWritten).map(([url]) => url)).toHaveLength(3);

    const [watch = ''] = lines.filter((one) => / watch /.test(one));
    const sidecar = await spawnSidecar(watch.replace('8080', '0').split(' ').slice(1), folder);
    try {
      const fleet = ['--fleet', 'ops/fleet.yaml'];
      await until(async () => (await runIn(folder, ['status', sidecar.url, ...fleet])).code === 0);
      const status = await runIn(folder, ['status', sidecar.url, ...fleet]);
      expect(status.out).toMatch(/^staging +In sync$/m);
      expect((await runIn(folder, ['status', sidecar.url])).err).toContain('of a fleet give --fleet FILE');
      expect((await runIn(folder, ['status', `${sidecar.url}/targets/eu`])).code).toBe(0);
    } finally {
      await sidecar.stop();
    }
  });
});
