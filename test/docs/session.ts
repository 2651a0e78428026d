import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './lines.ts';

/** What a page shows of a session: a command, and what it prints. */
export interface Shown {
  readonly command: string;
  /** Empty: the page shows nothing of it. */
  readonly output: string;
}

/** The commands of a page's `console` blocks with the output that the page shows, in order; also of blocks inside a list. */
export function readSession(page: string): readonly Shown[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/^( *)```console\n([\s\S]*?)^ *```$/gm)].flatMap(([, indent = '', block = '']) =>
    block
      .split('\n')
      .map((line) => line.slice(indent.length))
      .join('\n')
      .split(/^\$ /m)
      .slice(1)
      .map((entry) => {
        const [command = '', ...output] = entry.split('\n');
        return { command, output: output.join('\n').trim() };
      }),
  );
}

/** The text without what differs from run to run: the server's address, folders, digests, commits, and how long it took. */
export function makeSteady(text: string, given: readonly (readonly [string, string])[]): string {
  return given
    .reduce((all, [real, shown]) => all.replaceAll(real, shown), text)
    .replace(/\b[0-9a-f]{12}\b/g, 'DIGEST')
    .replace(/\b[0-9a-f]{8}\b/g, 'ID')
    .replace(/\[main \(root-commit\) [0-9a-f]{7,}\]/g, '[main (root-commit) COMMIT]')
    .replace(/in \d+\.\d s/g, 'in 0.0 s')
    .replace(/takes \d+ ms/g, 'takes 2 ms')
    .trim();
}

/** What a command printed, cut as the page cuts it: a line `…` stands for everything before what follows, or after what stands before. */
export function cutLike(shown: string, real: string): string {
  const [head = '', tail] = shown.split(/^…$/m).map((part) => part.trim());
  if (tail === undefined) return real;
  return [real.slice(0, head.length), '…', tail === '' ? '' : real.slice(-tail.length)].join('\n').trim();
}
