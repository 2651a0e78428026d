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

it('keeps no mode of a file of the state that somebody planted', async () => {
  const file = path.join(folder, 'record.json');
  writeFileSync(file, 'planted', { mode: 0o644 });
  await replaceFile(file, 'ours', 0o600, 'replaced');
  expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['ours', 0o600]);
});

it('writes through a link', async () => {
  writeFileSync(path.join(folder, 'real.yaml'), 'one');
  symlinkSync('real.yaml', path.join(folder, 'link.yaml'));
  await replaceFile(path.join(folder, 'link.yaml'), 'two');
  expect(readlinkSync(path.join(folder, 'link.yaml'))).toBe('real.yaml');
  expect(readFileSync(path.join(folder, 'real.yaml'), 'utf8')).toBe('two');
});

it('is not refused by what a kill left of a process with the same number', async () => {
  const file = path.join(folder, 'a.yaml');
  writeFileSync(path.join(folder, `.a.yaml.${process.pid}.new`), '{');
  await Promise.all(['one', 'two', 'three'].map((text) => replaceFile(file, text)));
  expect(readFileSync(file, 'utf8')).toMatch(/^(one|two|three)$/);
});

it('leaves nothing behind when it fails', async () => {
  await expect(replaceFile(folder, 'text')).rejects.toThrow();
  expect(readdirSync(path.dirname(folder)).filter((name) => name.includes(path.basename(folder)))).toEqual([
    path.basename(folder),
  ]);
});
