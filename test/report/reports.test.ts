import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { escapeControls } from '../../src/model/printable.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { renderGithub } from '../../src/report/github.ts';
import { renderHtml } from '../../src/report/html.ts';
import { renderJson } from '../../src/report/json.ts';
import { escapeProse, marker, quoteCode, renderMarkdown } from '../../src/report/markdown.ts';
import { renderProblems } from '../../src/report/problems.ts';
import { renderTableMarkdown, renderTableText } from '../../src/report/table.ts';
import { renderApply, renderPlan } from '../../src/report/text.ts';
import { planInput } from '../plan/support.ts';
import { alice, hostile, planOf, reportOf } from './support.ts';

const plain = { color: false };
const noTraffic = { opens: [], closes: [] };

const review = reportOf(
  planOf(['drop 192.0.2.2', 'accept 203.0.113.0/24', 'drop 10.0.0.0/8'], {
    closed: 'drop 10.0.0.0/8',
    metadata: 'drop 192.0.2.0/24',
    web: `accept 10.1.0.0/16 tcp 443 for ${alice}`,
  }),
);

describe('golden files: a plan with one change of each kind', () => {
  it.each<[string, () => string]>([
    ['review.golden.txt', () => renderPlan(review, plain)],
    ['review.golden.md', () => renderMarkdown(review)],
    ['review.golden.json', () => renderJson(review)],
    ['review.golden.github', () => renderGithub(review)],
  ])('%s', async (name, render) => {
    await expect(render()).toMatchFileSnapshot(`golden/${name}`);
  });

  it('the same plan gives the same bytes, whatever the order of its inputs', () => {
    const [a, b] = [
      planOf(['drop 192.0.2.2', 'accept 203.0.113.0/24'], { x: 'drop 10.0.0.0/8', y: 'drop 192.0.2.0/24' }),
      planOf(['drop 192.0.2.2', 'accept 203.0.113.0/24'], { x: 'drop 10.0.0.0/8', y: 'drop 192.0.2.0/24' }),
    ];
    expect(renderJson(reportOf(a))).toBe(renderJson(reportOf(b)));
  });
});

it('a JSON document lists exposures until they name 20,000 networks, and tells how many more there are', () => {
  const { plan } = review;
  const destinations = Array.from({ length: 1000 }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
  const traffic = [{ user: null, destinations, protocol: 'tcp' as const, ports: [{ low: 1, high: 1 }] }];
  const one = { direction: 'opened' as const, traffic, fromStep: 's1', toStep: 's2', expectedMs: 1 };
  const documentOf = (length: number): { readonly exposure: readonly unknown[]; readonly exposure_left?: number } =>
    JSON.parse(renderJson({ ...review, plan: plan && { ...plan, exposure: Array(length).fill(one) } }));
  expect([documentOf(20).exposure.length, documentOf(20).exposure_left]).toEqual([20, undefined]);
  expect([documentOf(5000).exposure.length, documentOf(5000).exposure_left]).toEqual([20, 4980]);
});

it('what is open on the way is told before what is cut off, however much that is, and what is not told is counted', () => {
  const { plan } = review;
  const exposureOf = (direction: 'opened' | 'cut_off', count: number) =>
    Array.from({ length: count }, (_, n) => {
      const ports = [{ low: n + 1, high: n + 1 }];
      const traffic = [{ user: null, destinations: ['10.0.0.0/8'], protocol: 'tcp' as const, ports }];
      return { direction, traffic, fromStep: 's1', toStep: 's2', expectedMs: 1 };
    });
  const reportOn = (cutOff: number) => {
    const exposure = [...exposureOf('cut_off', cutOff), ...exposureOf('opened', 1)];
    return { ...review, plan: plan && { ...plan, exposure } };
  };
  expect(renderPlan(reportOn(40), plain)).toMatch(
    /\nOn the way .*\n {2}open .*\n {2}cut off .*\n[\s\S]*\n {2}and 29 more: /,
  );
  expect(renderMarkdown(reportOn(2000))).toMatch(/told of 2000 of 2001\n\n- \*\*open\*\* /);
  expect(renderHtml(reportOn(1500))).toContain('<p>and 501 more: the JSON output has all of it.</p>');
});

it('a JSON document lists the traffic of each direction until 20,000 networks, and tells how much more there is', () => {
  const { plan } = review;
  const destinations = Array.from({ length: 10 }, (_, n) => `10.0.0.${n}`);
  const one = { user: null, destinations, protocol: 'other' as const, ports: null };
  const effect = { opens: Array(2000).fill(one), closes: Array(1_000_000).fill(one) };
  const later = [{ from: 0, effect, users: new Set<string>() }];
  const document = JSON.parse(renderJson({ ...review, plan: plan && { ...plan, effect, later } }));
  for (const { opens, closes, opens_left, closes_left } of [document.effect, ...document.later]) {
    expect([opens.length, opens_left, closes.length, closes_left]).toEqual([2000, undefined, 2000, 998_000]);
  }
});

describe('text', () => {
  it('colours only when told to, and says the same without', () => {
    const colored = renderPlan(review, { color: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours are what is removed
    expect(colored.replace(/\u001b\[[0-9;]*m/g, '')).toBe(renderPlan(review, plain));
    expect(colored).not.toBe(renderPlan(review, plain));
  });

  it('tells of as many later times as of lines, and of all others as one, so that no plan takes minutes to read', () => {
    const { plan } = review;
    const effect = plan?.effect ?? noTraffic;
    const later = Array.from({ length: 40 }, (_, n) => ({ from: n * 86_400_000, effect, users: new Set<string>() }));
    const text = renderPlan({ ...review, plan: plan && { ...plan, later } }, plain);
    expect(text.match(/^ *(Traffic)? *From /gm)).toHaveLength(12);
    expect(text).toContain('At 28 other times, which the JSON output has: opens for alice; closes for everyone\n');
  });

  it('what opens later is in the summary of a plan that has nothing to do, and is not cut behind harmless times', () => {
    const traffic = (destination: string) => ({
      user: null,
      destinations: [destination],
      protocol: 'other',
      ports: null,
    });
    const make = (count: number, opens: (n: number) => readonly string[]) =>
      Array.from({ length: count }, (_, n) => ({
        from: Date.UTC(2027, 0, n + 1),
        effect: { opens: opens(n).map(traffic), closes: [traffic(`203.0.${n}.0/24`)] },
        users: new Set<string>(),
      })) as unknown as Plan['later'] & object;
    const plan = planOf(['drop 10.0.0.0/8'], { a: 'drop 10.0.0.0/8' });
    const textOf = (later: Plan['later'] & object, change = plan): string =>
      renderPlan(reportOf({ ...change, later }), plain);
    const one = make(40, (n) => (n < 39 ? [] : ['0.0.0.0/0']));
    expect(textOf(one)).toContain(
      '\nOpens for everyone from 2027-02-09T00:00:00Z on; closes for everyone from 2027-01-01T00:00:00Z on. Now in sync: 1 object unchanged.\n',
    );
    expect(textOf(one)).toMatch(/From 2027-02-09T00:00:00Z: opens for everyone;.*\n +opens +0\.0\.0\.0\/0 /);
    expect(textOf(one)).toContain('This revision: 0 changes now, others later. Drift on the server: 0.');
    expect(textOf(make(1, () => []))).toContain('\nCloses for everyone from 2027-01-01T00:00:00Z on. Now in sync: 1');
    expect(textOf(one, planOf([], { a: 'drop 10.0.0.0/8' }))).toMatch(
      /1 request\. Opens for everyone from 2027-02-09T00:00:00Z on; closes for everyone now and for everyone from 2027-01-01T00:00:00Z on\. Digest/,
    );
    // Where each time opens something, the widest is told with its time, and the others say the widest first.
    const each = make(40, (n) => [n < 38 ? `10.${n}.0.0/16` : n < 39 ? '10.38.0.0/15' : '0.0.0.0/0']);
    expect(textOf(each)).toMatch(/From 2027-02-08T00:00:00Z: opens for everyone;.*\n +opens +10\.38\.0\.0\/15 /);
    expect(textOf(each)).toMatch(/From 2027-02-09T00:00:00Z: opens for everyone;.*\n +opens +0\.0\.0\.0\/0 /);
    expect(textOf(each)).toMatch(/At 28 other times.*: opens for everyone;.*\n +opens +10\.\d+\.0\.0\/1/);
  });

  it('does not call the end of access an opening, and tells when traffic first closes beside when it opens', () => {
    type Entries = Readonly<Record<string, string>>;
    const trafficOf = (entries: Entries) =>
      Object.entries(entries).map(([destination, who]) => ({
        user: who === 'all' ? null : who,
        destinations: destination.split(' '),
        protocol: 'tcp' as const,
        ports: [{ low: 1, high: 65_535 }],
      }));
    const effectOf = (opens: Entries, closes: Entries = {}) => ({ opens: trafficOf(opens), closes: trafficOf(closes) });
    const plan = planOf([], { a: 'drop 10.0.0.0/8' });
    const textOf = (now: Plan['effect'], ...effects: readonly Plan['effect'][]): string => {
      const later = effects.map((effect, n) => ({ from: Date.UTC(2027 + n, 0), effect, users: new Set([alice]) }));
      return renderPlan(reportOf({ ...plan, effect: now, later }), plain);
    };
    const summaryOf = (...effects: Parameters<typeof textOf>): string | undefined =>
      /1 request\. (.*?) ?Digest/.exec(textOf(...effects))?.[1];
    const [wide, narrow] = [effectOf({ '10.0.0.0/15': 'all' }), effectOf({ '10.1.0.0/16': 'all' })];
    const nothing = effectOf({});
    expect(summaryOf(wide, narrow, nothing)).toBe('');
    expect(summaryOf(wide, narrow, nothing, effectOf({ '0.0.0.0/0': 'all' }))).toBe(
      'Opens for everyone now and for everyone from 2029-01-01T00:00:00Z on.',
    );
    expect(summaryOf(narrow, effectOf({ '10.1.0.0/16': 'all', '10.1.0.0/16 10.9.9.9': alice }))).toBe(
      'Opens for everyone now and for some people from 2027-01-01T00:00:00Z on.',
    );
    const all = effectOf({ '10.1.0.0/16': 'all', '10.9.9.9': alice });
    expect(summaryOf(nothing, effectOf({ '10.9.9.9': alice }), all)).toBe(
      'Opens for some people from 2027-01-01T00:00:00Z on and for everyone from 2028-01-01T00:00:00Z on.',
    );
    // Someone whom no change names now has what everyone has.
    expect(summaryOf(wide, effectOf({ '10.0.0.0/15': 'all', '10.1.0.0/16': alice }))).toBe('');
    const closed = effectOf({}, { '192.168.0.0/16': 'all' });
    expect(summaryOf(nothing, closed, effectOf({ '10.9.9.9': alice }, { '192.168.0.0/16': 'all' }))).toBe(
      'Opens for some people from 2028-01-01T00:00:00Z on; closes for everyone from 2027-01-01T00:00:00Z on.',
    );
    // Times at which access ends one by one do not hide the one at which all opens.
    const networks = Array.from({ length: 40 }, (_, n) => `10.${n}.0.0/16`);
    const ends = networks.map((_, n) => effectOf({ [networks.slice(n).join(' ')]: 'all' }));
    const [first = nothing, ...rest] = ends;
    expect(textOf(first, ...rest, effectOf({ '0.0.0.0/0': 'all' }))).toMatch(
      /From 2066-01-01T00:00:00Z: opens for everyone but alice;.*\n +opens +0\.0\.0\.0\/0 /,
    );
  });

  it('of many lines the widest opening is told, whoever gains it, and how many are left out', () => {
    const small = Array.from({ length: 30 }, (_, n) => `drop 10.60.${2 * n}.0/24 tcp ${2000 + 2 * n}`);
    const plan = planOf([...small, 'drop 10.128.0.0/9', `drop 10.0.0.0/10 for ${alice}`], {});
    const lines = renderPlan(reportOf(plan), plain)
      .split('\n')
      .filter((line) => /^ {2}(opens|and)/.test(line));
    expect(lines[0]).toBe('  opens    10.128.0.0/9 for everyone');
    expect(lines.join('\n')).toContain('10.0.0.0/10 but for');
    expect(lines.at(-1)).toMatch(/^ {2}and (\d+) more, \1 of which open traffic: --full shows all of them$/);
  });

  it('counts what is skipped apart from what changes, in each format', () => {
    const report = reportOf(planOf(['drop 10.0.0.1', 'drop 10.0.0.2'], { web: 'drop 10.9.0.0/16' }, { prune: 'none' }));
    expect(renderPlan(report, plain)).toContain(' 0 of 2 rules change, 2 skipped\n');
    expect(renderPlan(report, plain)).toContain(' 1 of 1 rule changes\n');
    expect(renderMarkdown(report)).toContain('Changes (1, 2 skipped)');
    expect(renderHtml(report)).toContain('<small>0 of 2, 2 skipped</small>');
  });

  it('lists the sets by name, as people count, and what belongs to none after them', () => {
    const names = ['set10/a', 'set9/a', 'set2/a', 'alone', 'base/a'];
    const desired = Object.fromEntries(names.map((name, i) => [name, `drop 10.${i}.0.0/16`]));
    const text = renderPlan(reportOf(planOf(['drop 172.16.0.0/12'], desired)), { color: false });
    const titles = text.split('\n').flatMap((line) => /^(\S.*\S) +1 of 1 rule changes$/.exec(line)?.[1] ?? []);
    expect(titles).toEqual([
      'base',
      'set2',
      'set9',
      'set10',
      'rules outside of sets',
      'live rules that no manifest names',
    ]);
  });

  it('a table stays in its columns beside a cell that is too long for one', () => {
    const long = 'x'.repeat(70);
    const text = renderTableText([
      ['who', 'verdict', 'traffic'],
      [long, 'accept', long],
      ['bob', 'drop', 'all'],
    ]);
    const [head = '', first, second = '', third = ''] = text.split('\n');
    expect(first).toBe(long);
    expect(head.indexOf('verdict')).toBe(62);
    expect([second.indexOf('accept'), third.indexOf('drop')]).toEqual([62, 62]);
    expect([second.indexOf(long), third.indexOf('all')]).toEqual([71, 71]);
  });

  it('says that nothing is to do', () => {
    const text = renderPlan(reportOf(planOf(['drop 10.0.0.0/8'], { a: 'drop 10.0.0.0/8' })), plain);
    expect(text).toContain('In sync: 1 object unchanged; nothing to do.');
  });

  it('a refactoring that keeps the meaning changes no traffic', () => {
    const text = renderPlan(
      reportOf(planOf(['drop 10.0.0.0/8'], { low: 'drop 10.0.0.0/9', high: 'drop 10.128.0.0/9' })),
      plain,
    );
    expect(text).toContain('No traffic changes.');
  });

  it('of hundreds of users those who fare alike share a line, and of what differs for each the first are shown', () => {
    const users = Array.from({ length: 300 }, (_, i) => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`);
    const textOf = (own: (index: number) => string): string => {
      const kept = users.map((user, index) => `accept ${own(index)} for ${user}`);
      const desired = Object.fromEntries(kept.map((text, index) => [`own-${index}`, text]));
      return renderPlan(
        reportOf(planOf(['drop 10.0.0.0/16', ...kept], { ...desired, wide: 'drop 10.0.0.0/15' })),
        plain,
      );
    };
    const alike = textOf(() => '10.0.7.0/24').split('On the way')[1] ?? '';
    expect(alike.split('\n').filter((line) => line.startsWith('  open '))).toHaveLength(2);
    expect(alike).toContain('10.0.0.0/16 but for 10.0.7.0/24, for everyone,');
    expect(alike).toContain('10.0.7.0/24 for everyone without rules of their own,');
    const apart = textOf((index) => `10.0.${index & 255}.${(index >> 8) << 7}/25`).split('On the way')[1] ?? '';
    expect(apart.split('\n').filter((line) => line.startsWith('  open '))).toHaveLength(12);
    expect(apart).toMatch(/and (\d+) more, \1 of which are open: --full shows all of them/);
  });

  it('a refusal holds its numbers and the override', () => {
    const plan = planOf(
      Array.from({ length: 20 }, (_, i) => `drop 10.0.${i}.0/24`),
      { a: 'drop 10.0.0.0/24' },
      { maxDeletes: { share: 0.3 } },
    );
    const text = renderPlan(reportOf(plan), plain);
    expect(text).toMatch(/19[\s\S]*20/);
    expect(text).toContain('--max-deletes');
    expect(text).toContain('Refused: nothing will be written.');
  });

  it('what is left open stands first in every report of an apply', () => {
    const plan = review.plan;
    if (plan === null) throw new Error('no plan');
    const report = reportOf(plan, {
      apply: {
        end: 'failed',
        outcomes: plan.steps.map((step) => ({ step, outcome: 'failed', status: 403, message: 'no' })),
        problems: [],
        leftOpen: [{ user: null, destinations: ['192.0.2.2'], protocol: 'other', ports: null }],
        notConverged: ['metadata'],
        wrote: true,
        durationMs: 12,
        enforcedInMs: null,
      },
    });
    const text = renderApply(report, plain);
    expect(renderGithub(report)).toMatch(/^::error title=left open::LEFT OPEN[^\n]*192\.0\.2\.2/);
    expect(renderMarkdown(report).split('\n\n')[1]).toMatch(/^\*\*LEFT OPEN/);
    expect(renderMarkdown(report).split('\n\n')[2]).toContain('192.0.2.2');
    expect(text.split('\n')[0]).toMatch(/^LEFT OPEN/);
    expect(text).toContain('192.0.2.2');
    expect(text).toContain('not as desired: metadata');
  });

  it('a caret stands under its column, tabs and wide prefixes or not', () => {
    const lines = renderProblems(
      [
        {
          code: 'collision',
          severity: 'error',
          summary: 's',
          place: { file: 'a', line: 7, column: 4 },
          excerpt: '\t\t\tx: 1',
        },
      ],
      false,
    ).split('\n');
    expect(lines[2]?.indexOf('^')).toBe(lines[1]?.indexOf('x: 1'));
  });
});

describe('threat 22: what others wrote cannot command a terminal, a log, a runner or a comment', () => {
  const report = reportOf(review.plan, {
    problems: [hostile],
    userNames: new Map([[alice, 'al\u001b[2Jice`|<b>@team']]),
  });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these must not appear
  const control = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

  it.each<[string, () => string]>([
    ['text', () => renderPlan(report, plain)],
    ['problems', () => renderProblems([hostile], false)],
    ['markdown', () => renderMarkdown(report)],
    ['github', () => renderGithub(report)],
  ])('%s holds no control character and no direction character', (_, render) => {
    expect(render()).not.toMatch(control);
  });

  it('JSON escapes them', () => {
    const text = renderJson(report);
    expect(text).not.toMatch(control);
    expect(JSON.parse(text)).toMatchObject({ problems: [{ code: 'internal-error' }] });
  });

  it('github: a message cannot start a command of its own', () => {
    const lines = renderGithub(report).trim().split('\n');
    for (const line of lines) expect(line).toMatch(/^::(error|warning|notice)( [^:]*)?::/);
    expect(lines.some((line) => line.startsWith('::error::injected'))).toBe(false);
  });

  it('markdown: neither markup, nor HTML, nor a mention, nor a link, nor the end of a fold', () => {
    const text = renderMarkdown(report);
    const rest = text.replace(/(?<![`\\])(`+)(?!`)[\s\S]*?(?<!`)\1(?!`)/g, '');
    expect(rest).not.toMatch(/<script>|@everyone|@team|\]\(javascript:|^# heading/m);
    expect((text.match(/<details/g) ?? []).length).toBe((text.match(/<\/details>/g) ?? []).length);
  });

  it('code spans end where they should, for every text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        const span = quoteCode(text);
        const fence = /^`+/.exec(span)?.[0] ?? '';
        expect(span.endsWith(fence)).toBe(true);
        const inner = span.slice(fence.length, -fence.length);
        expect((inner.match(/`+/g) ?? []).every((run) => run.length < fence.length)).toBe(true);
        expect(span).not.toContain('\n');
      }),
    );
  });

  it('printable text is one line, and stays as it is when it was harmless', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        expect(escapeControls(text)).not.toMatch(control);
        expect(escapeControls(escapeControls(text))).toBe(escapeControls(text));
        expect(escapeProse(text)).not.toMatch(/\n/);
      }),
    );
    for (const text of ['web', 'Grüße', '日本語', 'a/b-c_d.e']) expect(escapeControls(text)).toBe(text);
  });
});

it.each([
  [20_000, ', less than a minute ago,'],
  [3 * 86_400_000, ', 3 days ago,'],
  [-30_000, ', less than a minute ago,'],
  [-86_400_000, ', later than the clock here says it is,'],
])('a snapshot of %d ms says its age, in text and in Markdown', (ageMs, words) => {
  const report = reportOf(planOf([], { a: 'drop 10.0.0.0/8' }), {
    snapshot: { takenAt: '2026-01-01T00:00:00Z', ageMs },
  });
  expect(renderPlan(report, { color: false })).toContain(words);
  expect(renderMarkdown(report)).toContain(words);
});

describe('places in outputs that are read elsewhere', () => {
  const place = { file: 'sub/a.yaml', line: 3, column: 1 };
  const plan = planOf([], { a: 'drop 10.0.0.0/8' });
  it.each([
    ['policy', 'policy/'],
    ['./policy/', 'policy/'],
    ['.//policy//', 'policy/'],
    ['.', ''],
    ['./', ''],
    ['/srv/policy/', '/srv/policy/'],
    ['../policy', '../policy/'],
  ])('below %s begin with "%s", in annotations and in Markdown', (root, prefix) => {
    const report = reportOf(plan, { root, problems: [{ ...hostile, place }] });
    const [change] = plan.changes;
    expect(renderGithub(report)).toContain(`file=${prefix}sub/a.yaml,line=3`);
    expect(renderGithub(report)).toContain(`file=${prefix}${change?.source?.file},line=${change?.source?.line}`);
    expect(renderMarkdown(report)).toContain(`\`${prefix}sub/a.yaml:3:1\``);
    expect(renderMarkdown(report)).toContain(`\`${prefix}${change?.source?.file}:${change?.source?.line}\``);
  });
});

describe('markdown fits into a comment', () => {
  it('a table of many rows says how many are left out, and how to see all of them', () => {
    const rows = Array.from({ length: 4000 }, (_, n) => [`user ${n}`, '10.0.0.0/8 but for 10.1.0.0/16']);
    const text = renderTableMarkdown([['who', 'traffic'], ...rows]);
    expect(text.length).toBeLessThan(60_000);
    expect(text).toMatch(
      /^\| who \| traffic \|\n(?:\|.*\|\n){1001}- and 3000 more \(`--output json=FILE` has all\)\n$/,
    );
  });

  const many = planOf(
    [],
    Object.fromEntries(
      Array.from({ length: 3000 }, (_, i) => [
        `a-rather-long-name-of-a-rule/${i}/${'x'.repeat(60)}`,
        `drop 10.${i >> 8}.${i & 255}.0/24`,
      ]),
    ),
  );

  it('and says honestly how many it leaves out', () => {
    const text = renderMarkdown(reportOf(many));
    expect(text.length).toBeLessThanOrEqual(60_000);
    const listed = text.match(/^- `\+` `/gm)?.length ?? 0;
    const left = Number(/^- and ([0-9]+) more/m.exec(text.slice(text.indexOf('Changes (')))?.[1]);
    expect(listed).toBeGreaterThan(20);
    expect(listed + left).toBe(3000);
    expect(text.startsWith(marker)).toBe(true);
  });

  it('but neither the Configuration nor what can open traffic, behind changes that cannot', () => {
    const drops = many.changes.filter(({ kind }) => kind === 'Rule');
    const [open] = planOf([], { 'zzz/all': 'accept 0.0.0.0/0' }).changes;
    const { changes } = makePlan(planInput({ liveFields: { logo: null }, fields: { local_auth_enabled: false } }));
    const configuration = changes.filter(({ kind }) => kind === 'Configuration');
    const all = [...drops, ...(open ? [open] : []), ...configuration];
    const text = renderMarkdown(reportOf({ ...many, changes: all }));
    const section = text.slice(text.indexOf('Changes (3002)')).split('\n').slice(2);
    expect(section[0]).toMatch(/^- `~` `Configuration/);
    expect(section[1]).toMatch(/^ {2}- `local_auth_enabled: /);
    expect(section[2]).toMatch(/^- `\+` `zzz\/all` `accept 0\.0\.0\.0\/0`/);
    const small = drops.map((_, n) => [`a/${n}`, `accept 10.${n >> 8}.${n & 255}.0/24`]);
    const opening = renderMarkdown(reportOf(planOf([], { ...Object.fromEntries(small), 'zzz/all': 'accept ::/0' })));
    expect(opening).toMatch(/<summary>Changes \(3001\)<\/summary>\n\n- `\+` `zzz\/all` `accept ::\/0`/);
    expect(opening).toMatch(/- and (\d+) more, \1 of which can open traffic \(/);
    // A drop rule that is narrowed opens what it was, and a port of a wide network is less than all of a narrower one: of many, it is cut.
    const wide = {
      'zzz/all': 'drop 192.0.2.1/32',
      'zzz/half': 'accept 11.0.0.0/9',
      'zzz/port': 'accept 12.0.0.0/8 tcp 443',
    };
    const narrowed = renderMarkdown(reportOf(planOf(['drop 192.0.0.0/8'], { ...Object.fromEntries(small), ...wide })));
    const first = narrowed.slice(narrowed.indexOf('<summary>Changes (')).split('\n').slice(2, 4);
    expect(first.map((line) => line.split('`')[3])).toEqual(['zzz/all', 'zzz/half']);
    expect(narrowed).not.toContain('zzz/port');
  });

  it('and an error is listed before warnings, of any number', () => {
    const warnings = Array.from({ length: 1500 }, () => ({ ...hostile, severity: 'warning' as const }));
    const text = renderMarkdown(reportOf(null, { problems: [...warnings, hostile] }));
    expect(text.match(/^- \*\*(\w+)/m)?.[1]).toBe('error');
    const errors = renderMarkdown(reportOf(null, { problems: Array.from({ length: 1500 }, () => hostile) }));
    expect(errors).toMatch(/^- and (\d+) more, \1 of which are errors \(/m);
  });

  it('also when every single problem is long', () => {
    const problems = Array.from({ length: 500 }, (_, i) => ({ ...hostile, summary: `${i} ${'long '.repeat(400)}` }));
    const text = renderMarkdown(reportOf(many, { problems }));
    expect(text.length).toBeLessThanOrEqual(60_000);
  });

  it('github shows ten annotations of a level: the count of the rest is one of them', () => {
    const lines = renderGithub(reportOf(many)).trim().split('\n');
    expect(lines).toHaveLength(10);
    expect(lines[9]).toBe('::notice::and 2991 more: see the job summary');
  });

  it('github shows refusals before problems: they are errors too, of which ten are shown', () => {
    const problems = Array.from({ length: 30 }, (_, i) => ({
      ...hostile,
      severity: 'error' as const,
      summary: `p${i}`,
    }));
    const plan = { ...many, refusals: [{ code: 'all-vanish' as const, summary: 'no', hint: 'h' }] };
    const lines = renderGithub(reportOf(plan, { problems })).trim().split('\n');
    expect(lines[0]).toMatch(/^::error title=refused%3A all-vanish::no/);
    expect(lines.filter((line) => line.startsWith('::error'))).toHaveLength(10);
    expect(lines).toContain('::error::and 22 more: see the job summary');
  });
});
