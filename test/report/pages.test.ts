import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/model/secret.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { renderMarkdown } from '../../src/report/markdown.ts';
import type { RunReport } from '../../src/report/run-report.ts';
import { renderPlan } from '../../src/report/text.ts';
import { planInput } from '../plan/support.ts';
import { planOf, reportOf } from './support.ts';

const revision = '4df71eb0c2b1a4f53d2c8a1f6f0b3e8a5b7c9d10 (main)';
const people = Array.from({ length: 8 }, (_, i) => `${i}1520c4b-adc3-4574-932a-94461cf85c07`);
const names = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi'];
const server = 'https://vpn.example.com';
const given: Partial<RunReport> = {
  server,
  revision,
  userNames: new Map(people.map((id, index) => [id, `${names[index]}@example.com`])),
  groups: new Map([['database', new Set(people.slice(0, 3))]]),
};

const google = {
  id: 'google',
  label: 'Google',
  scope: 'openid email profile',
  response_type: 'code',
  client_id: 'reconcile-test',
  client_secret: Secret.of('CANARY-client-secret'),
  discovery_document_uri: 'https://accounts.google.com/.well-known/openid-configuration',
  redirect_uri: null,
  auto_create_users: true,
};

const office = ['drop 10.0.0.0/8', 'accept 10.1.0.0/16 tcp 443', 'drop 169.254.169.254'];
const sixty = Array.from({ length: 60 }, (_, i) => `accept 10.2.${i}.0/24 tcp 5432 for ${people[i % 8]}`);

/** Three rules; 60 rules of 8 users; 1,000 changes; a Configuration; nothing to do. */
const pages: Readonly<Record<string, RunReport>> = {
  three: reportOf(
    planOf(office, {
      'office/closed': 'drop 10.0.0.0/8',
      'office/web': 'accept 10.1.0.0/16 tcp 443',
      'office/metadata': 'drop 169.254.0.0/16',
    }),
    given,
  ),
  sixty: reportOf(
    planOf([...office, ...sixty], {
      'office/closed': 'drop 10.0.0.0/8',
      ...Object.fromEntries(
        sixty.slice(0, 57).map((text, i) => [`databases/replica-${i}`, text.replace('5432', i < 3 ? '5433' : '5432')]),
      ),
    }),
    given,
  ),
  thousand: reportOf(
    planOf(
      Array.from({ length: 500 }, (_, i) => `drop 172.16.${i >> 1}.${(i & 1) << 7}/25`),
      Object.fromEntries(
        Array.from({ length: 500 }, (_, i) => [
          `set-${i % 4}/rule-${i}`,
          `drop 10.${i >> 8}.${i & 255}.0/24 tcp ${(i % 9) + 1}`,
        ]),
      ),
    ),
    given,
  ),
  configuration: reportOf(
    makePlan(
      planInput({
        liveFields: {
          openid_connect_providers: [google],
          default_client_dns: ['1.1.1.1', '1.0.0.1'],
          vpn_session_duration: 0,
        },
        fields: {
          openid_connect_providers: [
            { ...google, label: 'Google Workspace', auto_create_users: false },
            { ...google, id: 'okta', label: 'Okta', discovery_document_uri: 'https://acme.okta.com/d' },
          ],
          local_auth_enabled: false,
          default_client_dns: ['10.0.0.53'],
          vpn_session_duration: 28_800,
          logo: { url: 'https://www.example.com/logo.svg', data: null, type: null },
        },
      }),
    ),
    given,
  ),
  empty: reportOf(planOf(office, { a: office[0] ?? '', b: office[1] ?? '', c: office[2] ?? '' }), given),
};

describe.each(Object.entries(pages))('the page of a plan: %s', (name, report) => {
  it('reads as it did, in text of 80 columns and in Markdown', async () => {
    await expect(renderPlan(report, { color: false, width: 80 })).toMatchFileSnapshot(`golden/${name}.golden.txt`);
    await expect(renderMarkdown(report)).toMatchFileSnapshot(`golden/${name}.golden.md`);
  });

  it('names the server and the revision in its first line', () => {
    expect(renderPlan(report, { color: false }).split('\n')[0]).toBe(`Plan for ${server}    policy at 4df71eb (main)`);
  });

  it('has no line longer than the terminal, and loses no word to the wrapping', () => {
    const whole = renderPlan(report, { color: false });
    for (const width of [80, 200]) {
      const wrapped = renderPlan(report, { color: false, width });
      expect(wrapped.split('\n').filter((line) => line.length > width)).toEqual([]);
      expect(wrapped.split(/\s+/)).toEqual(whole.split(/\s+/));
    }
  });
});

it('what opens is louder than what closes', () => {
  const text = renderPlan(
    reportOf(planOf(['drop 10.0.0.0/8'], { a: 'drop 10.0.0.0/9', b: 'drop 192.0.2.0/24' }, { allowEmpty: true })),
    {
      color: true,
    },
  );
  expect(text).toContain('\u001b[1m\u001b[31m10.128.0.0/9 for everyone');
  expect(text).toContain('  closes   192.0.2.0/24 for everyone');
});

it('on 80 columns a long content has its place below it, in one piece, and the others keep theirs beside them', () => {
  const user = people[1] ?? '';
  const report = reportOf(
    planOf([], {
      'office/closed': 'drop 10.0.0.0/8',
      'office/replica/bob@example.com': `accept 10.2.0.5 tcp 5432 for ${user}`,
    }),
    given,
  );
  const lines = renderPlan(report, { color: false, width: 80 }).split('\n');
  expect(lines.find((line) => line.includes('drop 10.0.0.0/8'))).toMatch(/\.yaml:\d+$/);
  const long = lines.findIndex((line) => line.endsWith('for bob@example.com'));
  expect(lines[long + 1]).toMatch(/^ +\S+\.yaml:\d+$/);
});

it('the first and the last provider of sign-in are lines by id too', () => {
  const textOf = (before: readonly object[], after: readonly object[]): string =>
    renderPlan(
      reportOf(
        makePlan(
          planInput({
            liveFields: { openid_connect_providers: before },
            fields: { openid_connect_providers: after, local_auth_enabled: true },
          } as Parameters<typeof planInput>[0]),
        ),
      ),
      { color: false },
    );
  expect(textOf([], [google])).toMatch(/openid_connect_providers\[google\] +added\n.*\[google\]\.label +Google\n/);
  expect(textOf([google], [])).toMatch(/openid_connect_providers\[google\] +removed\n/);
});

describe('values that are too long for a line', () => {
  const markdownOf = (liveFields: object, fields: object): string =>
    renderMarkdown(reportOf(makePlan(planInput({ liveFields, fields } as Parameters<typeof planInput>[0]))));
  const networks = Array.from({ length: 200 }, (_, n) => `10.${n}.0.0/16`);

  it('a network added to a long list is told, the widest before others', () => {
    const before = { default_client_allowed_ips: networks.slice(0, 100) };
    const one = markdownOf(before, { default_client_allowed_ips: [...networks.slice(1, 100), '0.0.0.0/0'] });
    expect(one.match(/^ {2}- .*$/gm)).toEqual([
      '  - `default_client_allowed_ips[0.0.0.0/0]: added`',
      '  - `default_client_allowed_ips[10.0.0.0/16]: removed`',
    ]);
    const added = { default_client_allowed_ips: [...networks, '0.0.0.0/0'], local_auth_enabled: false };
    const lines = markdownOf(before, added).match(/^ {2}- .*$/gm) ?? [];
    expect(lines.slice(0, 2).map((line) => line.replace(/: .* → /, ': '))).toEqual([
      '  - `local_auth_enabled: false`',
      '  - `default_client_allowed_ips[0.0.0.0/0]: added`',
    ]);
    expect(lines.at(-1)).toBe('  - and 41 more of default_client_allowed_ips: 41 added (`--output json=FILE` has all)');
  });

  it('a provider of sign-in is told, however many networks of a list change, and so is each address of another list', () => {
    const before = { default_client_allowed_ips: networks.slice(0, 70), openid_connect_providers: [google] };
    const others = Array.from({ length: 20 }, (_, n) => `192.0.2.${n}`);
    const after = {
      default_client_allowed_ips: networks.slice(70, 150),
      default_client_dns: others,
      openid_connect_providers: [
        { ...google, auto_create_users: !google.auto_create_users },
        { ...google, id: 'evil' },
      ],
    };
    const lines = markdownOf({ ...before, default_client_dns: [] }, after).match(/^ {2}- .*$/gm) ?? [];
    expect(lines[0]).toMatch(/`openid_connect_providers\[google\]\.auto_create_users: /);
    expect(lines[1]).toBe('  - `openid_connect_providers[evil]: added`');
    expect(lines.filter((line) => line.includes('openid_connect_providers[evil].'))).not.toEqual([]);
    expect(lines.filter((line) => line.includes('default_client_dns['))).toHaveLength(20);
    expect(lines.filter((line) => line.includes(' more '))).toEqual([
      '  - and 90 more of default_client_allowed_ips: 20 added, 70 removed (`--output json=FILE` has all)',
    ]);
  });

  it('the order of what stays is told beside what comes and goes, but not of addresses, which are a set', () => {
    const servers = Array.from({ length: 12 }, (_, n) => `10.100.100.${n + 1}`);
    const [first = '', ...others] = servers;
    const linesOf = (before: object, after: object) => markdownOf(before, after).match(/^ {2}- .*$/gm) ?? [];
    const dns = linesOf({ default_client_dns: servers }, { default_client_dns: [...others, first, '10.9.9.9'] });
    expect(dns).toEqual([
      expect.stringMatching(/`default_client_dns: order: 10\.100\.100\.1, .* → 10\.100\.100\.2, /),
      '  - `default_client_dns[10.9.9.9]: added`',
    ]);
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ ...google, id }));
    expect(linesOf({ openid_connect_providers: [a, b] }, { openid_connect_providers: [b, a, c] }).slice(0, 2)).toEqual([
      '  - `openid_connect_providers: order: a, b → b, a`',
      '  - `openid_connect_providers[c]: added`',
    ]);
    const back = networks.slice(0, 20);
    const routed = { default_client_allowed_ips: [...back.slice(1), '0.0.0.0/0', ...back.slice(0, 1)] };
    expect(linesOf({ default_client_allowed_ips: back }, routed)).toEqual([
      '  - `default_client_allowed_ips[0.0.0.0/0]: added`',
    ]);
  });

  it('two texts are cut around what differs', () => {
    const uri = (host: string): string => `https://${'a'.repeat(150)}.${host}.example.com/${'b'.repeat(150)}`;
    const text = markdownOf({ default_client_endpoint: uri('good') }, { default_client_endpoint: uri('evil') });
    expect(text).toMatch(
      /default_client_endpoint: …a{39}\.good\.example.*… \(\d+ characters\) → …a{39}\.evil\.example/,
    );
    const provider = { ...google, redirect_uri: uri('good') };
    const providers = [{ ...google, redirect_uri: uri('evil') }];
    expect(markdownOf({ openid_connect_providers: [provider] }, { openid_connect_providers: providers })).toMatch(
      /\[google\]\.redirect_uri: …a+\.good\..* → …a+\.evil\./,
    );
  });
});
