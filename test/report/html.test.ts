import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { renderHtml } from '../../src/report/html.ts';
import { alice, hostile, planOf, reportOf } from './support.ts';

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
