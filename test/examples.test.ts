import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readValues } from '../src/manifest/values-file.ts';
import { startSimulator } from '../src/simulator/server.ts';
import { build } from './desired/helpers.ts';
import { workspace } from './manifest/cli.ts';

const root = new URL('../examples/', import.meta.url);

/** The manifests of an example by path. */
function example(name: string): Readonly<Record<string, string>> {
  const folder = new URL(`${name}/`, root);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'));
  return Object.fromEntries(files.map((file) => [file, readFileSync(new URL(file, folder), 'utf8')]));
}

function values(file: string): ReadonlyMap<string, string> | null {
  return readValues(file, readFileSync(new URL(file, root), 'utf8')).values;
}

describe('the examples', () => {
  it.each([
    ['minimal', {}],
    ['company', {}],
    ['environments', { overlay: 'staging', values: values('environments/values-staging.yaml') }],
    ['environments', { overlay: 'production', values: values('environments/values-production.yaml') }],
  ])('%s %o have no problem', (name, changes) => {
    const desired = build(example(name), changes);
    expect(desired.problems).toEqual([]);
    expect(desired.state?.rules.length).toBeGreaterThan(0);
    expect(desired.state?.configuration).not.toBeNull();
  });

  it('begin with the line by which editors find the schema', () => {
    for (const name of readdirSync(root)) {
      for (const [file, text] of Object.entries(example(name))) {
        if (file.startsWith('values-')) continue;
        const schema = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1] ?? 'none';
        const resolved = new URL(schema, new URL(`${name}/${file}`, root));
        const named = name === 'operator' ? 'settings.schema.json' : 'manifest.json';
        expect(resolved.pathname, file).toBe(new URL(`../schemas/${named}`, root).pathname);
      }
    }
  });
});

describe('the examples on a server', () => {
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['minimal', []],
    ['company', []],
    ['environments', ['--overlay', 'staging', '--values', `${root.pathname}environments/values-staging.yaml`]],
    ['environments', ['--overlay', 'production', '--values', `${root.pathname}environments/values-production.yaml`]],
  ];

  it.each(cases)('%s %j are applied, exported, rebuilt and in sync each time', async (name, flags) => {
    const simulator = await startSimulator({ token: 'test-token', users: people });
    const place = workspace({
      RECONCILE_TOKEN: 'test-token',
      RECONCILE_BASE_URL: simulator.url,
      RECONCILE_YES: 'true',
    });
    try {
      const example = `${root.pathname}${name}`;
      const inSync = async (...argv: readonly string[]): Promise<void> => {
        const plan = await place.run('--plan', ...argv, '--detailed-exitcode');
        expect(plan.code, plan.stdout + plan.stderr).toBe(0);
      };
      const applied = await place.run(example, ...flags);
      expect(applied.code, applied.stdout + applied.stderr).toBe(0);
      expect(simulator.rules().length).toBeGreaterThan(0);
      await inSync(example, ...flags);
      expect(await place.run('export', '--out', 'exported')).toMatchObject({ code: 0 });
      await inSync('exported');
      const built = await place.run('build', example, ...flags);
      mkdirSync(`${place.directory}/built`);
      writeFileSync(`${place.directory}/built/all.yaml`, built.stdout);
      await inSync('built');
    } finally {
      place.remove();
      await simulator.close();
    }
  });
});

const people = Object.entries({
  alice: 'a1520c4b-adc3-4574-932a-94461cf85c07',
  bob: 'b9692cfa-f429-4ea6-947f-ad22d40fd18b',
  carol: 'c7d8a3de-57c2-4b3b-9d0a-6c8d4b7f1e21',
  dave: '61144798-3070-4781-b8cc-48a3ca03472e',
  guest: '0b6f2a52-8e1d-4f5c-9a34-2d7c1e5b9f60',
}).map(([name, id]) => ({ name, id, email: `${name}@example.com` }));
