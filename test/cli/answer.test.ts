import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeAnswer } from '../../src/cli/answer.ts';
import type { Terminal } from '../../src/cli/command.ts';

it('an output that is too long to be made: the others say what was done, and the run does not end with 0', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-answer-'));
  const said = { stdout: '', stderr: '' };
  const print =
    (name: keyof typeof said) =>
    (text: string): void => {
      said[name] += text;
    };
  const terminal = { stdout: print('stdout'), stderr: print('stderr'), env: {} } as unknown as Terminal;
  const document = (): string => 'x'.repeat(2 ** 30);
  const file = join(folder, 'done.txt');
  const outputs = [
    { format: 'json', file: join(folder, 'done.json') },
    { format: 'text', file },
    { format: 'text', file: null },
  ] as const;
  const code = await writeAnswer({ text: () => 'all was applied\n', document }, outputs, null, terminal);
  expect([code, said.stdout, readFileSync(file, 'utf8')]).toEqual([1, 'all was applied\n', 'all was applied\n']);
  expect(said.stderr).toContain('the output as json is too long to be made');
  rmSync(folder, { recursive: true });
});
