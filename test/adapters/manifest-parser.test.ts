import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build as bundle } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createManifestParser } from '../../src/adapters/manifest-parser.ts';
import { defaultLimits, type Limits } from '../../src/desired/context.ts';
import { assemble } from '../../src/desired/desired.ts';
import type { ParsedFiles, ParseFiles } from '../../src/desired/parse-files.ts';
import { findProfile } from '../../src/model/profile.ts';
import { reveal } from '../../src/model/secret.ts';
import { buildFiles, document, sourceFile, testContext } from '../desired/helpers.ts';

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

const profile = findProfile('firezone-0.7');

function parser(
  changes: {
    readonly limits?: Limits;
    readonly values?: ReadonlyMap<string, string>;
    readonly measure?: 'alone';
  } = {},
  url: URL | null = workerUrl,
): ParseFiles {
  const options = { profile, values: changes.values ?? null, limits: changes.limits ?? defaultLimits };
  return createManifestParser(options, { workerUrl: url, measure: changes.measure ?? 'together' });
}

/** Whether both hold the very same results of parsing. */
function isSame(a: ParsedFiles, b: ParsedFiles): boolean {
  return a.manifests.length === b.manifests.length && a.manifests.every((file, index) => file === b.manifests[index]);
}

function rules(name: string, count: number, from: number): string {
  const items = Array.from(
    { length: count },
    (_, i) => `    - {name: r${i}, action: drop, destination: 10.${from}.${i >> 8}.${i & 255}}`,
  );
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec:\n  rules:\n${items.join('\n')}\n`;
}

describe('parsing', () => {
  it('in threads gives exactly what parsing in place gives, literal secrets and problems included', async () => {
    const provider =
      '{id: google, label: G, client_id: c, client_secret: s3cret, discovery_document_uri: "https://idp.example/x", auto_create_users: false}';
    const files = [
      ...Array.from({ length: 8 }, (_, i) => sourceFile(`${i}.yaml`, rules(`s${i}`, 600, i))),
      sourceFile('c.yaml', document('Configuration', 'c', `{openid_connect_providers: [${provider}]}`)),
    ];
    const parse = parser();
    const parsed = await parse(files);
    expect(parsed.manifests).toHaveLength(9);
    const desired = assemble(parsed, null, testContext());
    expect(desired).toEqual(buildFiles(files));
    expect(isSame(parsed, await parse(files))).toBe(true);
    const secret = desired.state?.configuration?.fields.openid_connect_providers?.[0]?.client_secret;
    expect(secret === undefined ? null : reveal(secret)).toBe('s3cret');
  });

  it('uses a thread for large files only in one-shot commands, and for none of little size', async () => {
    const files = [
      sourceFile('large.yaml', `${rules('large', 10, 1)}#${'x'.repeat(1_000_000)}\n`),
      sourceFile('small.yaml', rules('small', 6000, 2)),
    ];
    const nowhere = pathToFileURL(path.join(folder, 'no-such-worker.mjs'));
    const codesWithout = async (parse: ParseFiles, sources = files): Promise<readonly string[]> =>
      (await parse(sources)).manifests.flatMap((file) => file.problems.map(({ code }) => `${file.path} ${code}`));
    await expect(codesWithout(parser({ measure: 'alone' }, nowhere))).rejects.toThrow(
      'the thread that reads manifests died',
    );
    expect(await codesWithout(parser({}, nowhere), [sourceFile('a.yaml', rules('a', 10, 1))])).toEqual([]);
  });

  it('keeps files as they are, and parses what changed', async () => {
    const parse = parser();
    const drop = (name: string, host: number) =>
      sourceFile(`${name}.yaml`, document('Rule', name, `{action: drop, destination: 10.0.0.${host}}`));
    const first = await parse([drop('a', 1), drop('b', 2)]);
    expect(isSame(first, await parse([drop('b', 2), drop('a', 1)]))).toBe(true);
    const changed = await parse([drop('a', 1), drop('b', 3)]);
    expect(changed.manifests[0]).toBe(first.manifests[0]);
    const { state } = assemble(changed, null, testContext());
    expect(state?.rules.map(({ rule }) => rule.destination.text)).toEqual(['10.0.0.1', '10.0.0.3']);
  });

  it('parses once what is asked for again meanwhile', async () => {
    const parse = parser();
    const files = Array.from({ length: 8 }, (_, i) => sourceFile(`${i}.yaml`, rules(`s${i}`, 600, i)));
    const both = await Promise.all([parse(files), parse(files)]);
    expect(both[0]).toBe(both[1]);
    await expect(parser({}, pathToFileURL(path.join(folder, 'no-such-worker.mjs')))(files)).rejects.toThrow('died');
  });

  it('parses nothing again while two revisions take turns, one of them invalid, and forgets older ones', async () => {
    const parse = parser();
    const text = (action: string) => [
      sourceFile('a.yaml', document('Rule', 'a', `{action: ${action}, destination: 10.0.0.1}`)),
    ];
    const [bad, good] = [text('" "'), text('drop')];
    const turn = async () => [await parse(bad), await parse(bad), await parse(good)];
    const first = await turn();
    const second = await turn();
    expect(second.every((parsed, index) => isSame(parsed, first[index] ?? parsed))).toBe(true);
    await parse(text('accept'));
    await parse(text('accept # again'));
    expect(isSame(await parse(good), first[2] ?? { files: [], manifests: [] })).toBe(false);
  });

  it('row 8: 5 MB of `- a: 1` end at the limit of work (long)', async () => {
    const parsed = await parser()([sourceFile('bomb.yaml', `spec:\n${'- a: 1\n'.repeat(750_000)}`)]);
    const { problems } = assemble(parsed, null, testContext());
    expect(problems.map(({ code }) => code)).toEqual(['too-expensive']);
  });

  it('row 8: 5 MB of addresses are bounded in memory, the event loop stays free, and other files are still read (long)', async () => {
    const bomb = sourceFile('bomb.yaml', document('Network', 'n', `{cidrs: [${'10.0.0.1,'.repeat(550_000)}]}`));
    const parse = parser({ limits: { ...defaultLimits, parseMb: 64 } });
    let longest = 0;
    const began = performance.now();
    let last = began;
    const pulse = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    const parsed = await parse([bomb, sourceFile('good.yaml', rules('good', 10, 1))]);
    clearInterval(pulse);
    // Parsed in place it would stand still for all of the time.
    expect(longest).toBeLessThan((performance.now() - began) / 2);
    const desired = assemble(parsed, null, testContext());
    expect(desired.problems).toMatchObject([{ code: 'too-expensive', place: { file: 'bomb.yaml' } }]);
    expect(desired.state).toBeNull();
    expect(parsed.manifests.map(({ manifests }) => manifests.length)).toEqual([0, 1]);
  });

  it('row 8: what a file may cost is counted, so that every machine says the same (long)', async () => {
    const file = sourceFile('a.yaml', rules('a', 6000, 1));
    const cost = (await parser()([file])).manifests[0]?.work ?? 0;
    // In a thread, in place, and cached: the same number.
    const inPlace = parser({}, null);
    expect((await inPlace([file])).manifests[0]?.work).toBe(cost);
    expect(cost).toBeGreaterThan(6000 * 20);
    const problemsOf = async (limits: Partial<Limits>, url: URL | null = workerUrl) =>
      (await parser({ limits: { ...defaultLimits, ...limits } }, url)([file])).manifests[0]?.problems.map(
        ({ code, place }) => `${code} ${place?.file}:${place?.line}`,
      );
    expect(await problemsOf({ fileWork: cost })).toEqual([]);
    const spent = await problemsOf({ fileWork: cost - 1 });
    expect(spent).toEqual([expect.stringMatching(/^too-expensive a\.yaml:/)]);
    expect(await problemsOf({ fileWork: cost - 1 }, null)).toEqual(spent);
  });

  it('row 8: all files together may not cost more than their limit, read in any order, remembered or not (long)', async () => {
    const files = Array.from({ length: 5 }, (_, i) => sourceFile(`${i}.yaml`, rules(`s${i}`, 2000 + i, i)));
    const total = (await parser()(files)).manifests.reduce((sum, { work }) => sum + work, 0);
    for (const url of [workerUrl, null]) {
      expect((await parser({ limits: { ...defaultLimits, work: total } }, url)(files)).manifests).toHaveLength(5);
      const parse = parser({ limits: { ...defaultLimits, work: total - 1 } }, url);
      for (const order of [files, [...files].reverse(), files]) {
        const { problems, state } = assemble(await parse(order), null, testContext());
        expect(problems).toMatchObject([{ code: 'too-expensive', place: { file: '4.yaml' } }]);
        expect(state).toBeNull();
      }
      expect(assemble(await parse(files.slice(1)), null, testContext()).problems).toEqual([]);
    }
  });

  it('row 8: files full of what no manifest has end at the limit of work', async () => {
    const limits = { ...defaultLimits, fileWork: 50_000 };
    const set = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:';
    const many = 100_000;
    const texts = [
      ...['#\n', '\n', '--- #\n', '[\n', '- a: 1\n', '!x ', ': ', '%A\n', '&x '].map((text) => text.repeat(many)),
      ...['[],', '{},', '"",', 'x,', '!x a,', '!x '].map((text) => `${set} {rules: [${text.repeat(many)}]}\n`),
      `${set}\n  rules:\n${'    - []\n'.repeat(many)}`,
      `${set.replace('RuleSet', 'Users')} {${'a: b, '.repeat(many)}}\n`,
      `${set} {rules: [{name: a, b${': '.repeat(many)}}]}\n`,
    ];
    for (const text of texts) {
      const [read] = (await parser({ limits }, null)([sourceFile('a.yaml', text)])).manifests;
      expect(read?.problems.at(-1)?.code, text.slice(0, 90)).toMatch(
        /too-(expensive|deep|many-documents)|not-a-manifest/,
      );
      expect(read?.problems.length).toBeLessThan(1_002);
      expect(read?.work).toBeLessThan(50_010);
    }
  });
});
