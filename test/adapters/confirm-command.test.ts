import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runConfirmCommand } from '../../src/adapters/confirm-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'confirm-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a command that confirms', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');

  it.each([
    ['a program in a folder that is a file now', [join(file, 'program')]],
    ['a command that the settings no longer name', []],
    ['an argument that no program can be given', ['sh', 'a\0b']],
    ['more arguments than the system takes', ['sh', 'x'.repeat(10_000_000)]],
    ['a program that was removed', [join(folder, 'removed')]],
  ])('does not confirm, and does not end this process: %s', async (_, command) => {
    const signal = new AbortController().signal;
    const said = await runConfirmCommand({ command, environment: process.env, cwd: folder, timeoutMs: 5000, signal });
    expect(said).toMatch(/^the command cannot be started: /);
  });

  it.each([
    ['confirms by its exit code, though a daemon that it started holds its output', 'sleep 60 & exit 0', null],
    ['is ended when it floods stderr', 'while :; do echo no; done >&2', 'the command printed more than 65536 bytes'],
  ])('%s', async (_, script, expected) => {
    const given = { environment: process.env, cwd: folder, timeoutMs: 30_000, signal: new AbortController().signal };
    expect(await runConfirmCommand({ command: ['sh', '-c', script], ...given })).toBe(expected);
  });
});
