import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = new URL('../..', import.meta.url).pathname;
const pages = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);

/** The heading's anchor as GitHub makes it. */
function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function anchorsOf(page: string): Set<string> {
  const headings = readFileSync(join(root, page), 'utf8').matchAll(/^#{1,6} (.+)$/gm);
  return new Set([...headings].map(([, heading]) => anchorOf(heading ?? '')));
}

function linksOf(page: string): string[] {
  const prose = readFileSync(join(root, page), 'utf8').replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? '').filter((t) => !/^[a-z]+:/.test(t));
}

describe('the documentation', () => {
  it.each(pages)('%s links only to what is there', (page) => {
    const broken = linksOf(page).filter((target) => {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(root, file))) return true;
      return anchor !== undefined && !anchorsOf(file).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('a long page of the reference begins with its contents', () => {
    const text = (page: string): string => readFileSync(join(root, page), 'utf8');
    const headings = (page: string): readonly string[] =>
      [
        ...text(page)
          .replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
          .matchAll(/^## (.+)$/gm),
      ].map(([, one]) => anchorOf(one ?? ''));
    const isLong = (page: string): boolean => text(page).split(/\s+/).length > 1000 && headings(page).length >= 4;
    const long = pages.filter((page) => page.startsWith('docs/') && !page.includes('upgrade') && isLong(page));
    expect(long.length).toBeGreaterThan(8);
    const listed = (page: string): readonly string[] =>
      [...(/^\*\*On this page:\*\* (.+)$/m.exec(text(page))?.[1] ?? '').matchAll(/\(#([^)]+)\)/g)].map(
        ([, one]) => one ?? '',
      );
    for (const page of long) expect([page, ...listed(page)]).toEqual([page, ...headings(page)]);
  });

  it('is within two clicks of the README', () => {
    const near = new Set(['README.md']);
    for (let click = 0; click < 2; click++) {
      for (const page of [...near].filter((one) => one.endsWith('.md'))) {
        for (const target of linksOf(page))
          near.add(join(dirname(page), target.split('#')[0] ?? '').replace(/\/$/, ''));
      }
    }
    const inFolder = (page: string): boolean => [...near].some((one) => one !== '.' && page.startsWith(`${one}/`));
    expect(pages.filter((page) => page.startsWith('docs/') && !near.has(page) && !inFolder(page))).toEqual([]);
  });
});
