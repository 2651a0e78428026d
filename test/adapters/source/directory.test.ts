import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDirectorySource } from '../../../src/adapters/source/directory.ts';
import { defaultLimits, type Limits } from '../../../src/desired/context.ts';
import type { SourceReading } from '../../../src/ports.ts';

let folder: string;
let root: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reconcile-directory-'));
  root = join(folder, 'manifests');
  mkdirSync(root);
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (path: string, text: string | Uint8Array = 'a: 1\n'): void => {
  mkdirSync(join(root, path, '..'), { recursive: true });
  writeFileSync(join(root, path), text);
};
const read = (limits: Partial<Limits> = {}): Promise<SourceReading> =>
  createDirectorySource(root, { ...defaultLimits, ...limits }).read(new AbortController().signal);
const paths = ({ content }: SourceReading): readonly string[] | null => content?.files.map(({ path }) => path) ?? null;
const summaries = ({ problems }: SourceReading): string => problems.map(({ summary }) => summary).join('\n');

describe('what is read', () => {
  it('every .yaml and .yml below the root, sorted, with the bytes as they are', async () => {
    write('b.yml');
    write('a/z.yaml', '\uFEFFx: 1\r\n');
    write('a/readme.md');
    write('c.yaml.bak');
    const reading = await read();
    expect(paths(reading)).toEqual(['a/z.yaml', 'b.yml']);
    expect(Buffer.from(reading.content?.files[0]?.bytes ?? []).toString('utf8')).toBe('\uFEFFx: 1\r\n');
  });

  it('a JSON file that holds rules is named as not read, any other is nothing to mention', async () => {
    write('rules.json', '{"data": [{"action": "accept", "destination": "10.0.0.0/8"}]}');
    write('package.json', '{"name": "policy"}');
    expect(summaries(await read())).toContain('JSON is not read (package.json, rules.json)');
    write('a.yaml');
    const reading = await read();
    expect(paths(reading)).toEqual(['a.yaml']);
    expect(reading.problems).toMatchObject([
      {
        code: 'json-not-read',
        severity: 'note',
        place: { file: 'rules.json' },
        summary: expect.stringContaining('*.yaml'),
      },
    ]);
  });

  it('the revision follows content and names, and nothing else', async () => {
    write('a.yaml', 'x: 1\n');
    const first = await read();
    write('a.yaml', 'x: 1\n');
    expect((await read()).content?.revision).toBe(first.content?.revision);
    write('a.yaml', 'x: 2\n');
    const second = await read();
    expect(second.content?.revision).not.toBe(first.content?.revision);
    renameSync(join(root, 'a.yaml'), join(root, 'b.yaml'));
    expect((await read()).content?.revision).not.toBe(second.content?.revision);
  });

  it('threat 6 and fault 33: hidden names, editor locks and backups are left out', async () => {
    write('a.yaml');
    write('.git/config.yaml');
    write('.hidden.yaml');
    write('a.yaml~');
    write('#a.yaml#');
    symlinkSync('nobody@nowhere.1234', join(root, '.#a.yaml'));
    expect(paths(await read())).toEqual(['a.yaml']);
  });
});

describe('threat 6: links', () => {
  it('the chain of a mounted ConfigMap is followed, each file once, as hidden names are left out', async () => {
    write('..2024_01/rules.yaml', 'x: 1\n');
    symlinkSync('..2024_01', join(root, '..data'));
    symlinkSync('..data/rules.yaml', join(root, 'rules.yaml'));
    expect(paths(await read())).toEqual(['rules.yaml']);
  });

  it('a root that is itself a link is followed (git-sync)', async () => {
    write('a.yaml');
    symlinkSync(root, join(folder, 'current'));
    const reading = await createDirectorySource(join(folder, 'current'), defaultLimits).read(
      new AbortController().signal,
    );
    expect(paths(reading)).toEqual(['a.yaml']);
  });

  it.each([
    ['a file outside', '/etc/hostname'],
    ['this process’s environment', '/proc/self/environ'],
    ['a parent', '../outside.yaml'],
  ])('%s: a problem, and nothing is read', async (_, target) => {
    writeFileSync(join(folder, 'outside.yaml'), 'secret: 1\n');
    write('a.yaml');
    symlinkSync(target, join(root, 'b.yaml'));
    const reading = await read();
    expect([reading.content, summaries(reading)]).toEqual([null, expect.stringContaining('b.yaml')]);
    expect(summaries(reading)).toMatch(/leads out of the directory|not a regular file|cannot be read/);
  });

  it.each([
    ['a file', 'x.yaml', '.git/config'],
    ['a folder', 'x', '.git'],
    ['what a folder of another name leads to', 'x', 'y/.git/modules'],
  ])('threat 39: no link to %s of the repository is read', async (_, link, target) => {
    write('a.yaml');
    write('.git/config', 'extraheader: canary\n');
    write('y/.git/modules/b.yaml', 'canary\n');
    symlinkSync(target, join(root, link));
    const reading = await read();
    expect(reading.content).toBeNull();
    expect(summaries(reading)).toMatch(/^x(\.yaml)? is a link that leads out of the directory, or into \.git/);
  });

  it('a directory outside, linked into the root: a problem', async () => {
    write('a.yaml');
    mkdirSync(join(folder, 'other'));
    writeFileSync(join(folder, 'other', 'b.yaml'), 'x: 1\n');
    symlinkSync(join(folder, 'other'), join(root, 'linked'));
    expect((await read()).content).toBeNull();
  });

  it('fault 33: a loop of links and a link to a directory above are problems, not endless', async () => {
    write('a.yaml');
    symlinkSync('loop.yaml', join(root, 'loop.yaml'));
    expect(summaries(await read())).toMatch(/loop\.yaml/);
    rmSync(join(root, 'loop.yaml'));
    symlinkSync('.', join(root, 'again'));
    expect(summaries(await read())).toMatch(/leads back/);
  });

  it('a file and a folder count under each name that leads to them: what environments share is lost to none', async () => {
    write('shared/deep/a.yaml');
    for (const name of ['demo', 'production']) {
      mkdirSync(join(root, name));
      symlinkSync('../shared/deep/a.yaml', join(root, name, 'a.yaml'));
      symlinkSync('../shared', join(root, name, 'all'));
    }
    const each = ['demo', 'production'].flatMap((name) => [`${name}/a.yaml`, `${name}/all/deep/a.yaml`]);
    expect(paths(await read())).toEqual([...each, 'shared/deep/a.yaml']);
  });

  it('a folder without manifests is walked by one of its names, however many entries it has', async () => {
    write('p/a.yaml');
    for (let at = 0; at < 40; at++) write(`store/deep/f${at}.js`);
    for (const name of ['vendor', 'again', 'z']) symlinkSync('store', join(root, name));
    expect(paths(await read({ files: 30 }))).toEqual(['p/a.yaml']);
  });

  it('a few links to folders that stand for billions of paths are a problem', async () => {
    for (let at = 0; at < 30; at++) {
      write(`f${at}/note.txt`);
      for (const name of ['a', 'b', 'c']) symlinkSync(`../f${at + 1}`, join(root, `f${at}`, name));
    }
    write('f30/a.yaml');
    for (const limits of [{}, { files: 3 }])
      expect((await read(limits)).problems.map(({ code }) => code)).toContain('source-too-large');
  });
});

describe('threat 7: special and huge files', () => {
  it('a FIFO is a problem at once, never a wait', async () => {
    write('a.yaml');
    for (const name of ['f.yaml', 'g.yaml', 'h.yaml', 'i.yaml']) execFileSync('mkfifo', [join(root, name)]);
    const reading = await read();
    expect([reading.content, reading.problems.length]).toEqual([null, 4]);
    expect(summaries(reading)).toContain('f.yaml is a FIFO, not a regular file');
  });

  it('a socket and a device are problems', async () => {
    write('a.yaml');
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(root, 's.yaml'), resolve));
    expect(summaries(await read())).toContain('s.yaml is a socket');
    await new Promise((resolve) => server.close(resolve));
    symlinkSync('/dev/zero', join(root, 'z.yaml'));
    expect((await read()).content).toBeNull();
  });

  it('a 100 MB file is refused unread', async () => {
    write('a.yaml', '');
    truncateSync(join(root, 'a.yaml'), 100_000_000);
    expect(summaries(await read())).toMatch(/a\.yaml.*100000000 bytes, more than the 10000000 allowed/);
  });

  it('caps on the sum, the number of files and the depth', async () => {
    for (let i = 0; i < 30; i++) write(`f${i}.yaml`, 'x'.repeat(100));
    expect(summaries(await read({ totalBytes: 1000 }))).toMatch(/larger than 1000 bytes/);
    expect(summaries(await read({ files: 20 }))).toMatch(/more than 20 manifests/);
    write(`${'d/'.repeat(40)}deep.yaml`);
    expect(summaries(await read())).toMatch(/more than 32 directories deep/);
  });
});

describe('all or nothing', () => {
  it('fault 32: one file that cannot be read fails the whole load', async () => {
    write('a.yaml');
    symlinkSync('gone.yaml', join(root, 'b.yaml'));
    const reading = await read();
    expect([reading.content, summaries(reading)]).toEqual([null, 'b.yaml cannot be read: it does not exist']);
  });

  it('a name that is not UTF-8 is said to be one, also that of a folder, which may hold manifests', async () => {
    write('a.yaml');
    const named = (name: string) => Buffer.concat([Buffer.from(`${root}/`), Buffer.from(name, 'latin1')]);
    writeFileSync(named('notes-\xe9.txt'), '');
    expect((await read()).problems).toEqual([]);
    writeFileSync(named('caf\xe9.yaml'), '');
    mkdirSync(named('d\xe9'));
    expect(summaries(await read())).toMatch(
      /^caf.\.yaml has a name that is not UTF-8.*d. has a name that is not UTF-8/s,
    );
  });

  it('nothing there, no manifest there, a file: problems of their own, never an empty state', async () => {
    expect((await read()).problems.map(({ code }) => code)).toEqual(['no-manifests']);
    const at = (path: string): Promise<SourceReading> =>
      createDirectorySource(path, defaultLimits).read(new AbortController().signal);
    expect((await at(join(folder, 'nowhere'))).problems.map(({ code }) => code)).toEqual(['no-source']);
    write('a.yaml');
    expect((await at(join(root, 'a.yaml'))).problems.map(({ code }) => code)).toEqual(['no-source']);
  });

  it('a directory that never holds still is not read half', async () => {
    write('a.yaml');
    let count = 0;
    let writing = true;
    const writer = (async () => {
      while (writing) {
        write('a.yaml', `x: ${count++}\n`);
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const readings = await Promise.all(Array.from({ length: 10 }, () => read()));
    writing = false;
    await writer;
    for (const reading of readings) {
      if (reading.content !== null)
        expect(Buffer.from(reading.content.files[0]?.bytes ?? []).toString()).toMatch(/^x: \d+\n$/);
      else expect(reading.problems.map(({ code }) => code)).toEqual(['source-unstable']);
    }
  });
});
