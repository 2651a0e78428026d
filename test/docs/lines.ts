import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const root = new URL('../../', import.meta.url).pathname;

/** The pages that people read, relative to the repository. */
export const pages: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file))
    .sort(),
];

/** One command line of a page. `span`: named in a sentence, where operands that go without saying are left out. */
export interface DocumentedLine {
  readonly page: string;
  readonly text: string;
  readonly span: boolean;
}

/** Programs that the pages tell people to run. */
const programs =
  /^(?:reconcile|sops|npm|npx|node|git|docker|kubectl|systemctl|install|cat >|cp|mv|ip|nsenter|curl|export|source <|scripts\/[a-z.]+|[a-z]+=\S+$)/;

/** Every command line of all pages: in code spans, in blocks for a shell, and in indented blocks. Each text once. */
export function documentedLines(): readonly DocumentedLine[] {
  const all = pages.flatMap((page) => linesOf(page, readFileSync(join(root, page), 'utf8')));
  return [...new Map(all.map((line) => [line.text, line])).values()];
}

/** Every flag that a page names, anywhere. */
export function documentedFlags(): ReadonlyMap<string, string> {
  const flags = new Map<string, string>();
  for (const page of pages) {
    for (const [flag] of readFileSync(join(root, page), 'utf8').matchAll(
      /(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w-])/g,
    ))
      flags.set(flag, page);
  }
  return flags;
}

function linesOf(page: string, text: string): readonly DocumentedLine[] {
  const fence = /^ *```(\w*)\n([\s\S]*?)^ *```$/gm;
  const fenced = [...text.matchAll(fence)].flatMap(([, language = '', block = '']) => {
    const lines = unfolded(language === 'console' ? commandsIn(block) : block.replace(/^\$ /gm, ''));
    const shell = language === 'sh' || language === 'console';
    const strange = shell ? lines.filter((line) => !programs.test(line)) : [];
    if (strange.length > 0) throw new Error(`${page}: not known as a command line: ${strange.join('; ')}`);
    return lines.filter((line) => (language === '' || shell ? programs.test(line) : false));
  });
  const prose = text.replace(fence, '');
  const indented = unfolded(
    [...prose.matchAll(/^(?: {4}\S.*\n?(?: {6,}.*\n)*)+/gm)].map(([block]) => block.replace(/^ {4}/gm, '')).join('\n'),
  ).filter((line) => programs.test(line) && /\s/.test(line));
  const spans = [...prose.replace(/^ {4}.*$/gm, '').matchAll(/(?<!`)`([^`\n]+)`(?!`)/g)]
    .map(([, span = '']) => span)
    .filter((span) => programs.test(span) && /\s/.test(span) && !span.endsWith(':'));
  return [
    ...[...fenced, ...indented].map((line) => ({ page, text: line, span: false })),
    ...spans.map((line) => ({ page, text: line, span: true })),
  ];
}

/** What a person types in a session; what stands between is what the program answers. */
function commandsIn(block: string): string {
  return [...block.matchAll(/^ *\$ (.*(?:\\\n.*)*)$/gm)].map(([, line = '']) => line).join('\n');
}

/** Lines as a shell sees them: continuations joined, comments gone. */
function unfolded(block: string): readonly string[] {
  return block
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '');
}
