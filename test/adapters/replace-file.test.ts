import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { replaceFile } from '../../src/adapters/replace-file.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'replace-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('replaces a file and keeps its mode, leaving nothing beside it', async () => {
  const file = path.join(folder, 'a.yaml');
  await replaceFile(file, 'one', 0o600);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  chmodSync(file, 0o640);
  await replaceFile(file, 'two');
  expect(readFileSync(file, 'utf8')).toBe('two');
  expect(statSync(file).mode & 0o777).toBe(0o640);
  expect(readdirSync(folder)).toEqual(['a.yaml']);
});

it('writes through a link', async () => {
  writeFileSync(path.join(folder, 'real.yaml'), 'one');
  symlinkSync('real.yaml', path.join(folder, 'link.yaml'));
  await replaceFile(path.join(folder, 'link.yaml'), 'two');
  expect(readlinkSync(path.join(folder, 'link.yaml'))).toBe('real.yaml');
  expect(readFileSync(path.join(folder, 'real.yaml'), 'utf8')).toBe('two');
});

it('is not refused by what a kill left of a process with the same number, and follows no link in its place', async () => {
  const [file, outside] = [path.join(folder, 'a.yaml'), path.join(folder, 'outside')];
  const temporary = path.join(folder, `.a.yaml.${process.pid}.new`);
  writeFileSync(temporary, '{');
  await replaceFile(file, 'one');
  expect(readFileSync(file, 'utf8')).toBe('one');
  writeFileSync(outside, 'of another program');
  symlinkSync(outside, temporary);
  await replaceFile(file, 'two');
  expect(readFileSync(file, 'utf8')).toBe('two');
  expect(readFileSync(outside, 'utf8')).toBe('of another program');
  expect(readdirSync(folder).sort()).toEqual(['a.yaml', 'outside']);
});

it('leaves nothing behind when it fails', async () => {
  await expect(replaceFile(folder, 'text')).rejects.toThrow();
  expect(readdirSync(path.dirname(folder)).filter((name) => name.includes(path.basename(folder)))).toEqual([
    path.basename(folder),
  ]);
});
