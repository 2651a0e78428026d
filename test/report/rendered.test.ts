import { marked, type Token, type Tokens } from 'marked';
import { describe, expect, it } from 'vitest';
import type { ApplyReport } from '../../src/apply/outcome.ts';
import type { Problem } from '../../src/model/problem.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { renderGithub } from '../../src/report/github.ts';
import { renderJson } from '../../src/report/json.ts';
import { renderMarkdown } from '../../src/report/markdown.ts';
import { renderProblems } from '../../src/report/problems.ts';
import type { RunReport } from '../../src/report/run-report.ts';
import { renderPlan } from '../../src/report/text.ts';
import { alice, planOf, reportOf } from './support.ts';

/** The Markdown as a reader's program takes it: every token, the innermost too. */
function tokensOf(text: string): readonly Token[] {
  const all: Token[] = [];
  void marked.walkTokens(marked.lexer(text, { gfm: true }), (token) => void all.push(token));
  return all;
}

/** What a reader sees outside code: mentions, references and links would count here. */
function proseOf(tokens: readonly Token[]): string {
  return tokens
    .filter((token): token is Tokens.Text | Tokens.Escape => token.type === 'text' || token.type === 'escape')
    .filter((token) => !('tokens' in token) || token.tokens === undefined)
    .map(({ text }) => text)
    .join('');
}

/** Names, paths and messages that want to be more than text. */
const nasty: readonly string[] = [
  'a | b | c',
  '`code` and ``more``',
  '</details></summary><script>alert(1)</script><img src=x onerror=alert(1)>',
  '<!-- reconcile-plan -->',
  '@octocat @team/everyone someone@example.com',
  'fixes #123, owner/repo#45, GH-7, !12, ~label, $x$',
  '::error file=a,line=1::injected',
  '##[set-output name=exitcode]0',
  '\n\n# heading\n\n- [x] done\n\n```js\nx\n```',
  '[link](javascript:alert(1)) ![image](https://evil.example/x.png) <https://evil.example> www.evil.example',
  '**bold** __bold__ ~~gone~~ \\',
  '&lt;b&gt; &#64;octocat',
  'x'.repeat(10_000),
  '😀'.repeat(5_000),
  '`'.repeat(500),
  '- item',
  '1. item',
  '+ item',
  '\u202eright to left\u2066 \u0000\u001b[31m',
];

function nastyPlan(name: string, index: number): Plan {
  return planOf([`drop 192.0.2.${index}`, 'drop 10.0.0.0/8'], {
    [name]: `accept 198.51.100.${index} tcp 443 for ${alice}`,
    [`${name}2`]: 'drop 10.0.0.0/9',
  });
}

function nastyReport(text: string, index: number): RunReport {
  const plan = nastyPlan(text, index);
  const refused: Plan = { ...plan, refusals: [{ code: 'locks-out', summary: text, hint: text }] };
  const problem: Problem = {
    code: 'internal-error',
    severity: 'error',
    summary: text,
    hint: text,
    place: { file: text, line: 1, column: 1 },
    excerpt: text,
    related: [{ place: { file: text, line: 2, column: 1 }, note: text }],
  };
  const apply: ApplyReport = {
    end: 'failed',
    outcomes: plan.steps.map((step) => ({ step, outcome: 'failed', status: 422, message: text })),
    problems: [],
    leftOpen: [],
    notConverged: [text],
    wrote: true,
    durationMs: 1,
    enforcedInMs: null,
  };
  const snapshot = { takenAt: '2026-01-01T00:00:00Z', ageMs: 1000 };
  return reportOf(refused, { problems: [problem], userNames: new Map([[alice, text]]), root: text, snapshot, apply });
}

const cases = nasty.map((text, index) => [JSON.stringify(text.slice(0, 40)), nastyReport(text, index)] as const);

describe('markdown, rendered as a comment', () => {
  it('has a heading, lists, folds and code, and nothing else', () => {
    const plan = planOf(['drop 192.0.2.2', 'accept 203.0.113.0/24'], {
      a: 'drop 192.0.2.0/24',
      b: 'accept 10.1.0.0/16',
    });
    const kinds = new Set(tokensOf(renderMarkdown(reportOf(plan))).map(({ type }) => type));
    expect([...kinds].sort()).toEqual(
      ['codespan', 'escape', 'heading', 'html', 'list', 'list_item', 'paragraph', 'space', 'strong', 'text'].filter(
        (kind) => kinds.has(kind),
      ),
    );
    for (const kind of ['heading', 'list', 'codespan', 'html', 'strong']) expect(kinds).toContain(kind);
  });

  const ours =
    /^(?:<!-- reconcile-plan -->|<details(?: open)?><summary>[\w ()]+<\/summary>|<\/details>|<sub>|<\/sub>)$/;
  const bold =
    /^(?:opens|closes|open|cut off|No traffic changes\.|error|warning|note|failed|Traffic|Refused: nothing will be written\.)$/;

  it.each(cases)('%s brings no markup of its own', (_, report) => {
    const tokens = tokensOf(renderMarkdown(report));
    const html = tokens.filter(({ type }) => type === 'html').map(({ raw }) => raw.trim());
    expect(html.flatMap((raw) => raw.split('\n')).filter((raw) => !ours.test(raw))).toEqual([]);
    const strange = tokens.filter(
      ({ type }) =>
        ['link', 'image', 'table', 'code', 'blockquote', 'hr', 'del', 'em', 'br', 'def'].includes(type) &&
        type !== 'br',
    );
    expect(strange).toEqual([]);
    expect(tokens.filter(({ type }) => type === 'heading')).toHaveLength(1);
    const strong = tokens.filter((token): token is Tokens.Strong => token.type === 'strong').map(({ text }) => text);
    expect(strong.filter((text) => !bold.test(text))).toEqual([]);
  });

  it.each(cases)('%s calls nobody and refers to nothing', (_, report) => {
    const prose = proseOf(tokensOf(renderMarkdown(report)));
    expect(prose).not.toMatch(/@\w/);
    expect(prose).not.toMatch(/#\d|\bGH-\d/);
    expect(prose).not.toMatch(/https?:\/\/|www\.\w/);
  });

  it.each(cases)('%s stays inside a comment, and what is cut shows', (_, report) => {
    const text = renderMarkdown(report);
    expect(text.length).toBeLessThanOrEqual(65_536);
    expect(text).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
    if ([...report.userNames.values()].some((name) => name.length >= 1000)) expect(text).toContain('…');
  });

  it.each(cases)('%s leaves every fold closed', (_, report) => {
    const html = tokensOf(renderMarkdown(report))
      .filter(({ type }) => type === 'html')
      .map(({ raw }) => raw);
    const count = (words: RegExp): number => html.join('\n').match(words)?.length ?? 0;
    expect(count(/<details/g)).toBe(count(/<\/details>/g));
    expect(count(/<summary>/g)).toBe(count(/<\/summary>/g));
  });
});

describe('what the runner of GitHub reads, line by line', () => {
  // It takes `::name …::` at the beginning of a line (blanks aside) and `##[name]` anywhere in it for a command.
  const injected = (line: string): boolean => /^\s*::/.test(line) || line.includes('##[');

  it.each(cases)('%s is no command in text, problems or JSON', (_, report) => {
    const texts = [renderPlan(report, { color: false }), renderProblems(report.problems, false), renderJson(report)];
    expect(texts.flatMap((text) => text.split('\n')).filter(injected)).toEqual([]);
  });

  it.each(cases)('%s adds no command, no property and no file to those meant', (_, report) => {
    const lines = renderGithub(report).trimEnd().split('\n');
    const commands =
      report.problems.length + 1 + (report.plan?.changes ?? []).filter(({ source }) => source !== null).length;
    expect(lines.length).toBeLessThanOrEqual(commands);
    for (const line of lines) {
      const [, properties = ''] = /^::(?:error|warning|notice) ?([^:]*)::/.exec(line) ?? [];
      expect(line).toMatch(/^::(?:error|warning|notice)(?: [^:]*)?::/);
      const names = properties.split(',').map((property) => property.split('=')[0]);
      expect(names.filter((name) => !['file', 'line', 'col', 'title'].includes(name ?? ''))).toEqual([]);
    }
  });
});

describe('5,000 changes', () => {
  const rule = (index: number): string => `10.${index >> 8}.${index & 255}.0/24`;
  const plan = planOf(
    Array.from({ length: 1000 }, (_, i) => `accept 172.${16 + (i >> 8)}.${i & 255}.0/24`),
    Object.fromEntries(Array.from({ length: 4000 }, (_, i) => [`rule-${i}`, `drop ${rule(i)} tcp ${(i % 900) + 1}`])),
  );
  const problems = Array.from(
    { length: 5000 },
    (_, i): Problem => ({
      code: 'host-bits',
      severity: 'warning',
      summary: `rule-${i} means the whole network`,
      place: { file: `rules/${i}.yaml`, line: i, column: 1 },
    }),
  );
  const report = reportOf(plan, { problems });
  const text = renderMarkdown(report);

  it('fit into a comment, and into a job summary with room for others', () => {
    expect(text.length).toBeLessThanOrEqual(65_536);
    expect(Buffer.byteLength(text)).toBeLessThan(1024 * 1024);
  });

  it('are all listed or counted: changes and problems add up', () => {
    for (const [heading, all] of [
      ['Changes', 5000],
      ['Problems', 5000],
    ] as const) {
      const section = new RegExp(`<summary>${heading} \\((\\d+)\\)</summary>\\n\\n([\\s\\S]*?)\\n\\n</details>`).exec(
        text,
      );
      expect(Number(section?.[1])).toBe(all);
      const lines = (section?.[2] ?? '').split('\n').filter((line) => line.startsWith('- '));
      const more = Number(/^- and (\d+) more/.exec(lines.at(-1) ?? '')?.[1]);
      expect([lines.length - 1 + more, lines.length > 10]).toEqual([all, true]);
    }
  });

  it('are ten annotations of each level, and the last is a count', () => {
    const lines = renderGithub(report).trimEnd().split('\n');
    expect(lines).toHaveLength(20);
    expect(lines.filter((line) => line.includes('::and '))).toEqual([
      '::warning::and 4991 more: see the job summary',
      '::notice::and 3991 more: see the job summary',
    ]);
  });
});
