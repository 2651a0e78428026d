import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { ApplyReport } from '../../src/apply/outcome.ts';
import { renderHtml } from '../../src/report/html.ts';
import { alice, hostile, planOf, reportOf, ruleOf } from './support.ts';

const plan = planOf(['drop 192.0.2.2', 'accept 203.0.113.0/24', 'drop 10.0.0.0/8'], {
  'office/closed': 'drop 10.0.0.0/8',
  'office/metadata': 'drop 192.0.2.0/24',
  'office/web': `accept 10.1.0.0/16 tcp 443 for ${alice}`,
});
const server = 'https://vpn.example.com';

/** The tags of a page with their attributes, as a browser would read them. */
function tagsOf(page: string): readonly string[] {
  return page.match(/<[a-z!/][^>]*>/gi) ?? [];
}

describe('a plan as a page', () => {
  const page = renderHtml(reportOf(plan, { server, revision: '4df71eb0c2b1a4f53d2c8a1f6f0b3e8a5b7c9d10 (main)' }));

  it('says server, revision, what opens and closes, and what is open on the way', () => {
    expect(page).toContain('<h1>Plan for https://vpn.example.com · policy at 4df71eb (main)</h1>');
    expect(page).toContain('10.1.0.0/16 tcp 443 for alice');
    expect(page).toContain('192.0.2.0/24 but for 192.0.2.2, for everyone');
    expect(page).toContain('192.0.2.2 for everyone, while office/metadata is replaced');
    expect(page.indexOf('>Opens<')).toBeLessThan(page.indexOf('>Closes<'));
    expect(page.match(/<path class="opened"/g)).toHaveLength(1);
    expect(page.match(/<circle class="closed"/g)).toHaveLength(1);
  });

  it('asks nobody for anything: no address in an attribute, and a policy that allows its own style and script alone', () => {
    expect(tagsOf(page).filter((tag) => /\s(?:src|href|action|srcset|data)=|\son\w+=/i.test(tag))).toEqual([
      '<link rel="icon" href="data:,">',
    ]);
    const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
    for (const [element, directive] of [
      ['style', 'style-src'],
      ['script', 'script-src'],
    ] as const) {
      const [, text = ''] = new RegExp(`<${element}>([\\s\\S]*?)</${element}>`).exec(page) ?? [];
      const hash = createHash('sha256').update(text).digest('base64');
      expect(policy.replaceAll('&#39;', "'")).toContain(`${directive} 'sha256-${hash}'`);
    }
    expect(policy).toContain('default-src &#39;none&#39;');
  });

  it('needs no script to be read: nothing is hidden without it', () => {
    expect(tagsOf(page).filter((tag) => /\shidden[\s>]/.test(tag))).toEqual([]);
  });
});

describe('the page of a plan with times, policy tests and an apply', () => {
  const place = { file: 'tests/access.yaml', line: 7, column: 5 };
  const [at, day] = [Date.parse('2026-11-22'), 86_400_000];
  const rule = ruleOf('accept 10.7.0.0/24');
  const desired = {
    rules: [
      { name: 'office/ends', rule, place: { file: 'a.yaml', line: 3, column: 1 }, expires: at + day },
      { name: 'office/ended', rule, place, expires: at - day },
    ],
    upcoming: [{ name: 'office/begins', rule, place, notBefore: at + 2 * day, expires: at + 3 * day }],
    tests: ['holds', 'fails'].map((name, index) => ({
      ...{ name, place: { ...place, line: 7 + index }, user: 'any' as const, destination: rule.destination },
      ...{ protocols: ['tcp' as const], ports: { low: 443, high: 443 }, expect: 'drop' as const, always: false },
    })),
  };
  const related = desired.tests.slice(1).map((one) => ({ place: one.place, note: 'the case' }));
  const refusals = [{ code: 'policy-test-failed', summary: 'no', hint: 'mend', related }];
  const { steps } = plan;
  const apply: ApplyReport = {
    ...{ end: 'failed', problems: [], notConverged: [], wrote: true, durationMs: 1, enforcedInMs: null },
    outcomes: steps.map((step, index) => ({
      step,
      ...(index === 0
        ? { outcome: 'failed', status: 422, message: 'the server said no' }
        : { outcome: 'dropped', status: null }),
    })),
    leftOpen: [{ user: null, destinations: ['198.51.100.7'], protocol: 'other', ports: null }],
  };
  const page = renderHtml(reportOf({ ...plan, at, refusals }, { desired, apply }));

  it('lists what begins and ends next, in order', () => {
    const [, part = ''] = page.split('<h2>Rules that begin or end</h2>');
    expect([...part.matchAll(/<b>([^<]*)<\/b> (begins|ends)/g)].map(([, name, what]) => [name, what])).toEqual([
      ['office/ends', 'ends'],
      ['office/begins', 'begins'],
    ]);
    expect(part).toContain('policy/a.yaml:3');
  });

  it('lists the policy tests, the failing one first', () => {
    const [, part = ''] = page.split('<h2>Policy tests</h2>');
    expect(part).toContain('1 case passed, 1 failed');
    expect([...part.matchAll(/>([✓✗])<\/td>\s*<th scope="row">(\w+)</g)].map(([, mark, name]) => [mark, name])).toEqual(
      [
        ['✗', 'fails'],
        ['✓', 'holds'],
      ],
    );
    expect(part).toContain('drop 10.7.0.0/24 tcp 443 from any user');
  });

  it('says first what an apply left open, and what failed at its place', () => {
    expect(page.indexOf('198.51.100.7')).toBeGreaterThan(page.indexOf('LEFT OPEN'));
    expect(page.indexOf('LEFT OPEN')).toBeLessThan(page.indexOf('<h2>Traffic</h2>'));
    expect(page).toContain('the server said no');
  });
});

it.each([
  '</script><script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '</style><b>',
  '<!-- -->',
  '&lt;b&gt;',
  '\u202eevil\u0000\u001b[31m',
])('what manifests and servers wrote is text: %j', (text) => {
  const refusals = [{ code: 'all-vanish' as const, summary: text, hint: text }];
  const place = { file: text, line: 1, column: 1 };
  const page = renderHtml(
    reportOf(
      { ...plan, refusals, changes: plan.changes.map((change) => ({ ...change, name: text }) as typeof change) },
      {
        server: text,
        revision: text,
        root: text,
        userNames: new Map([[alice, text]]),
        groups: new Map([[text, new Set([alice])]]),
        headline: text,
        problems: [{ ...hostile, summary: text, hint: text, place, excerpt: text }],
      },
    ),
  );
  const plain = renderHtml(reportOf(plan, { server, problems: [hostile] }));
  const kinds = (page: string): readonly string[] =>
    [...new Set(tagsOf(page).map((tag) => tag.split(/[\s>]/)[0] ?? ''))].sort();
  expect(
    kinds(page).filter(
      (kind) => !kinds(plain).includes(kind) && !['<br', '<code', '</code', '<pre', '</pre'].includes(kind),
    ),
  ).toEqual([]);
  expect(page.match(/<script/g)).toHaveLength(1);
  const withoutValues = page.replace(/="[^"]*"/g, '=""');
  expect(tagsOf(withoutValues).filter((tag) => /\s(?:src|on\w+)=/i.test(tag))).toEqual([]);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these must not appear
  expect(page).not.toMatch(/[\u0000-\u0008\u001b\u202e]/);
});
