import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build as bundle } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createParseAhead } from '../../src/adapters/parse-ahead.ts';
import type { DesiredContext } from '../../src/desired/context.ts';
import { defaultLimits } from '../../src/desired/context.ts';
import { buildDesired, createManifestCache } from '../../src/desired/desired.ts';
import { reveal } from '../../src/model/secret.ts';
import { document, sourceFile, testContext } from '../desired/helpers.ts';

let folder: string;
let workerUrl: URL;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'worker-'));
  const outfile = path.join(folder, 'manifest-worker.mjs');
  const entry = new URL('../../src/adapters/manifest-worker.ts', import.meta.url).pathname;
  const banner = { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" };
  await bundle({ entryPoints: [entry], outfile, bundle: true, format: 'esm', platform: 'node', banner });
  workerUrl = pathToFileURL(outfile);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function context(
  changes: Partial<DesiredContext> = {},
): DesiredContext & { readonly cache: ReturnType<typeof createManifestCache> } {
  const cache = createManifestCache();
  return { ...testContext({ parseAhead: createParseAhead(workerUrl, 'together'), ...changes }), cache };
}

function rules(name: string, count: number, from: number): string {
  const items = Array.from(
    { length: count },
    (_, i) => `    - {name: r${i}, action: drop, destination: 10.${from}.${i >> 8}.${i & 255}}`,
  );
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec:\n  rules:\n${items.join('\n')}\n`;
}

describe('parsing ahead', () => {
  it('gives exactly what parsing in place gives, literal secrets and problems included', async () => {
    const provider =
      '{id: google, label: G, client_id: c, client_secret: s3cret, discovery_document_uri: "https://idp.example/x", auto_create_users: false}';
    const files = [
      ...Array.from({ length: 8 }, (_, i) => sourceFile(`${i}.yaml`, rules(`s${i}`, 600, i))),
      sourceFile('c.yaml', document('Configuration', 'c', `{openid_connect_providers: [${provider}]}`)),
    ];
    const apart = context();
    await apart.parseAhead?.(files, apart);
    expect(apart.cache.files.size).toBe(9);
    const kept = [...apart.cache.files.values()];
    const desired = buildDesired(files, apart);
    expect(desired).toEqual(buildDesired(files, testContext()));
    expect(kept.every((one) => [...apart.cache.files.values()].includes(one))).toBe(true);
    const secret = desired.state?.configuration?.fields.openid_connect_providers?.[0]?.client_secret;
    expect(secret === undefined ? null : reveal(secret)).toBe('s3cret');
  });

  it('of one-shot commands is for large files only', async () => {
    const apart = context({ parseAhead: createParseAhead(workerUrl, 'alone') });
    const files = [
      sourceFile('large.yaml', `${rules('large', 10, 1)}#${'x'.repeat(1_000_000)}\n`),
      sourceFile('small.yaml', rules('small', 6000, 2)),
    ];
    await apart.parseAhead?.(files, apart);
    expect([...apart.cache.files.values()].map(({ path: file }) => file)).toEqual(['large.yaml']);
  });

  it('does not start a thread for little, nor for what it knows', async () => {
    const little = context();
    await little.parseAhead?.([sourceFile('a.yaml', rules('a', 10, 1))], little);
    expect(little.cache.files.size).toBe(0);
  });

  it('row 8: 5 MB of `- a: 1` end at the first thousand', async () => {
    const bounded = context();
    const files = [sourceFile('bomb.yaml', `spec:\n${'- a: 1\n'.repeat(750_000)}`)];
    await bounded.parseAhead?.(files, bounded);
    expect(buildDesired(files, bounded).problems.map(({ code }) => code)).toEqual([
      'not-a-manifest',
      'too-many-problems',
    ]);
  });

  it('row 8: 5 MB of addresses are bounded in memory, the event loop stays free, and other files are still read', async () => {
    const bomb = sourceFile('bomb.yaml', document('Network', 'n', `{cidrs: [${'10.0.0.1,'.repeat(550_000)}]}`));
    const bounded = context({ limits: { ...defaultLimits, parseMb: 64 } });
    const files = [bomb, sourceFile('good.yaml', rules('good', 10, 1))];
    let longest = 0;
    const began = performance.now();
    let last = began;
    const pulse = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    await bounded.parseAhead?.(files, bounded);
    clearInterval(pulse);
    // Parsed in place it would stand still for all of the time.
    expect(longest).toBeLessThan((performance.now() - began) / 2);
    const desired = buildDesired(files, bounded);
    expect(desired.problems).toMatchObject([{ code: 'too-expensive', place: { file: 'bomb.yaml' } }]);
    expect(desired.state).toBeNull();
    expect([...bounded.cache.files.values()].map(({ manifests }) => manifests.length).sort()).toEqual([0, 1]);
  });

  it('row 8: a file that takes too long is given up, and the next file gets a new thread', async () => {
    const slow = sourceFile('slow.yaml', document('Network', 'n', `{cidrs: [${'10.0.0.1,'.repeat(300_000)}]}`));
    const bounded = context({ limits: { ...defaultLimits, parseMs: 300 } });
    const files = [slow, sourceFile('slow2.yaml', new TextDecoder().decode(slow.bytes))];
    await bounded.parseAhead?.(files, bounded);
    const { problems } = buildDesired(files, bounded);
    expect(problems.map(({ code, place }) => [code, place?.file])).toEqual([
      ['too-expensive', 'slow.yaml'],
      ['too-expensive', 'slow2.yaml'],
    ]);
  });
});
