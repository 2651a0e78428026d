import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { withFieldTables } from '../../scripts/manifest-reference.ts';
import { kinds } from '../../src/manifest/manifest.ts';
import { build, codes } from '../desired/helpers.ts';

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

describe('docs/reference/manifests.md', () => {
  const text = read('docs/reference/manifests.md');

  it('has the fields of every kind as the schemas have them (run `npm run schemas`)', () => {
    expect(withFieldTables(text)).toBe(text);
    expect([...text.matchAll(/<!-- fields: (\w+) -->/g)].map(([, kind]) => kind).sort()).toEqual([...kinds].sort());
  });

  it('has only examples that are valid together with the users, groups and networks that it shows', () => {
    const blocks = [...text.matchAll(/```yaml\n([\s\S]*?)```/g)]
      .map(([, block]) => block ?? '')
      .filter((block) => block.includes('kind:'));
    expect(blocks.length).toBeGreaterThanOrEqual(5);
    const files = Object.fromEntries(blocks.map((block, index) => [`${index}.yaml`, block]));
    expect(
      codes(build(files))
        .map((code) => code.split(' ')[1])
        .sort(),
    ).toEqual(['unresolved-email', 'user-twice']);
  });
});

describe('docs/reference/problems.md', () => {
  it('explains every code of the manifest stages, and nothing that is no code', () => {
    const folders = ['src/manifest/', 'src/desired/'];
    const sources = folders.flatMap((folder) => readdirSync(new URL(folder, root)).map((file) => read(folder + file)));
    const used = new Set(
      sources.flatMap((source) =>
        [
          ...source.matchAll(/\bcode: (?:[^,\n]*\? '([a-z0-9-]+)' : )?'([a-z0-9-]+)'/g),
          ...source.matchAll(/make(?:Error|Warning|Note)\(\s*'([a-z0-9-]+)'/g),
        ].flatMap(([, a, b]) => [a, b]),
      ),
    );
    const faults = /type AddressFault =([\s\S]*?);/.exec(read('src/model/address.ts'))?.[1] ?? '';
    for (const [, fault] of faults.matchAll(/'([a-z-]+)'/g)) used.add(`address-${fault}`);
    const ports = /type PortFault =([^;]*);/.exec(read('src/model/port-range.ts'))?.[1] ?? '';
    for (const [, fault] of ports.matchAll(/'([a-z-]+)'/g)) used.add(`port-${fault}`);
    used.delete(undefined);
    const explained = [...read('docs/reference/problems.md').matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(
      ([, code]) => code,
    );
    // How the server could not be read is explained beside them, where it needs more than its hint.
    const hints = /const hints[^=]*= \{([\s\S]*?)\n\};/.exec(read('src/cli/read-failure.ts'))?.[1] ?? '';
    const reading = new Set(
      [...hints.matchAll(/^ {2}'?([a-z-]+)'?:/gm)].map(([, code]) => `api-${code}`).concat('unauthorized'),
    );
    expect([...used].filter((code) => !explained.includes(code))).toEqual([]);
    // Codes of commands may be explained here too, when there are such.
    const listed = new Set([...read('src/model/problem-code.ts').matchAll(/'([a-z0-9-]+)'/g)].map(([, code]) => code));
    const isCode = (code = ''): boolean => used.has(code) || listed.has(code) || reading.has(code);
    expect(explained.filter((code) => !isCode(code))).toEqual([]);
    expect(new Set(explained).size).toBe(explained.length);
  });
});

describe('the codes of problems', () => {
  it('are each used somewhere', () => {
    const sources = readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && file !== 'model/problem-code.ts',
    );
    const text = sources.map((file) => read(`src/${file}`)).join('\n');
    const listed = [...read('src/model/problem-code.ts').matchAll(/\| '([a-z0-9-]+)'/g)].map(([, code]) => code ?? '');
    // A code of the kernel is put together from the kind of finding.
    const isUsed = (code: string): boolean =>
      text.includes(`'${code}'`) || text.includes(`'${code.replace('kernel-', '')}'`);
    expect(listed.filter((code) => !isUsed(code))).toEqual([]);
  });
});
