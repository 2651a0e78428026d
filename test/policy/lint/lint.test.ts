import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { applySuppressions } from '../../../src/manifest/suppressions.ts';
import { Network } from '../../../src/model/address.ts';
import { lintSeverities } from '../../../src/model/problem-code.ts';
import type { DesiredRule } from '../../../src/model/rule.ts';
import { findUnknownUsers } from '../../../src/policy/lint/finding.ts';
import { lint } from '../../../src/policy/lint/lint.ts';
import { build, document } from '../../desired/helpers.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const bob = 'b1520c4b-adc3-4574-932a-94461cf85c07';

/** Manifests with one rule a line, named r1, r2, …; `extra` are whole documents after them. */
function manifests(rules: readonly string[], extra = ''): string {
  const lines = rules.map((rule, i) => `    - {name: r${i + 1}, ${rule}}`).join('\n');
  return `${document('RuleSet', 's', `\n  rules:\n${lines}`)}${extra === '' ? '' : `---\n${extra}`}`;
}

function lintText(text: string) {
  const built = build({ 'policy.yaml': text });
  expect(built.problems.filter(({ severity }) => severity === 'error')).toEqual([]);
  if (built.state === null) throw new Error('no desired state');
  return lint(built.state);
}

/** `line code severity` of what the lint says of the rules. */
function found(rules: readonly string[], extra = ''): readonly string[] {
  return lintText(manifests(rules, extra)).map(({ place, code, severity }) => `${place?.line} ${code} ${severity}`);
}

const dropAll = ['action: drop, destination: 0.0.0.0/0', 'action: drop, destination: "::/0"'];
const closed = (...rules: readonly string[]): readonly string[] => [...dropAll, ...rules];
const configuration = (spec: string): string => document('Configuration', 'main', spec);

describe('lint', () => {
  it.each<[string, readonly string[], readonly string[], string?]>([
    ['a closed network with an accept in it: nothing', closed('action: accept, destination: 10.0.0.0/8'), []],

    ['accept rules without any drop', ['action: accept, destination: 10.0.0.0/8'], ['6 nothing-dropped warning']],
    [
      'a drop for a host under an accept that ends: nothing',
      ['action: accept, destination: 10.0.0.0/8, expires: 3000-01-01', 'action: drop, destination: 10.1.2.3'],
      [],
    ],
    [
      'a rule for a user that a global one repeats until it ends: nothing',
      closed(
        `action: accept, destination: 10.7.0.1, user_id: ${alice}`,
        'action: accept, destination: 10.7.0.1, expires: 3000-01-01',
      ),
      [],
    ],
    [
      'a drop that repeats a wider one until an accept begins: nothing',
      closed(
        `action: drop, destination: 10.7.0.1, user_id: ${alice}`,
        'action: accept, destination: 10.7.0.0/16, notBefore: 3000-01-01',
      ),
      [],
    ],
    [
      'a drop for a host under an accept for its network',
      ['action: accept, destination: 10.0.0.0/8', 'action: drop, destination: 10.1.2.3'],
      ['7 drop-under-accept warning'],
    ],
    [
      'a drop of ports under an accept of more ports',
      closed(
        'action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 80-90',
        'action: drop, destination: 10.1.2.3, port_type: tcp, port_range: 80',
      ),
      ['9 drop-under-accept warning'],
    ],
    [
      'a drop of ports under an accept without: the drop is above, nothing',
      closed(
        'action: accept, destination: 10.0.0.0/8',
        'action: drop, destination: 10.1.2.3, port_type: tcp, port_range: 80',
      ),
      ['9 icmp-left-open note'],
    ],
    [
      'a rule covered by ports only: it still decides the rest, nothing',
      closed('action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 80'),
      [],
    ],
    [
      'a drop whose ports two accepts share between them',
      closed(
        'action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 80',
        'action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 81',
        'action: drop, destination: 10.1.2.3, port_type: tcp, port_range: 80-81',
      ),
      ['10 never-decides warning'],
    ],
    [
      "a user's accept where nothing is dropped",
      ['action: drop, destination: 10.0.0.0/8', `action: accept, destination: 192.0.2.0/24, user_id: ${alice}`],
      ['7 changes-nothing warning'],
    ],
    [
      "a user's drop where the global rules drop too",
      ['action: drop, destination: 10.0.0.0/8', `action: drop, destination: 10.1.0.0/16, user_id: ${alice}`],
      ['7 changes-nothing warning'],
    ],
    ['IPv4 closed and IPv6 open', ['action: drop, destination: 0.0.0.0/0'], ['6 ipv6-left-open warning']],
    [
      'IPv4 closed in two halves and IPv6 open',
      ['action: drop, destination: 0.0.0.0/1', 'action: drop, destination: 128.0.0.0/1'],
      ['6 ipv6-left-open warning'],
    ],
    [
      'IPv4 accepted as a whole beside a drop that drops nothing: not closed',
      ['action: accept, destination: 0.0.0.0/0', 'action: drop, destination: 10.0.0.0/8'],
      ['7 drop-under-accept warning'],
    ],
    [
      'IPv4 named as a whole, but dropped in half: not closed',
      ['action: drop, destination: 0.0.0.0/1', 'action: accept, destination: 128.0.0.0/1'],
      ['7 changes-nothing warning'],
    ],
    [
      'IPv4 dropped as a whole, and accepted in half: closed but for that',
      ['action: drop, destination: 0.0.0.0/0', 'action: accept, destination: 128.0.0.0/1'],
      ['6 ipv6-left-open warning'],
    ],
    [
      'all drops of IPv4 under accepts, which share it between them: not closed',
      [
        'action: drop, destination: 0.0.0.0/0',
        'action: accept, destination: 0.0.0.0/1',
        'action: accept, destination: 128.0.0.0/1',
      ],
      ['6 never-decides warning'],
    ],
    ['IPv6 closed and IPv4 open', ['action: drop, destination: "::/0"'], ['6 ipv4-left-open warning']],
    [
      'one family closed for a user, the other by a global rule: nothing',
      ['action: drop, destination: "::/0"', `action: drop, destination: 0.0.0.0/0, user_id: ${alice}`],
      ['6 ipv4-left-open warning'],
    ],
    ['an IPv4-mapped address', ['action: drop, destination: "::ffff:192.0.2.1"'], ['6 ipv4-mapped warning']],
    [
      'closed ports of an open host',
      ['action: drop, destination: 10.0.0.0/8, port_type: tcp, port_range: 22'],
      ['6 icmp-left-open note'],
    ],
    [
      'closed ports of a closed host: nothing about ICMP',
      closed(
        'action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 1-1024',
        `action: drop, destination: 10.0.0.0/8, port_type: tcp, port_range: 22, user_id: ${alice}`,
      ),
      [],
    ],
    [
      'tcp port 443 closed and udp open',
      ['action: drop, destination: 10.0.0.0/8, port_type: tcp, port_range: 443'],
      ['6 icmp-left-open note', '6 transport-left-open note'],
    ],
    [
      'tcp port 443 closed in name only: nothing more',
      [
        'action: accept, destination: 10.1.0.0/24, port_type: tcp, port_range: 443',
        'action: drop, destination: 10.1.0.7, port_type: tcp, port_range: 443',
      ],
      ['7 drop-under-accept warning'],
    ],
    [
      'udp ports 53 and 443 closed and tcp open',
      ['action: drop, destination: 10.0.0.0/8, port_type: udp, port_range: 1-1000'],
      ['6 icmp-left-open note', '6 transport-left-open note'],
    ],
    [
      'tcp port 443 closed, and its lowest address by another rule, which closes udp there too',
      [
        'action: drop, destination: 172.16.0.0/32, port_type: udp, port_range: 443',
        'action: drop, destination: 172.16.0.0/24, port_type: tcp, port_range: 443',
        'action: accept, destination: 172.16.0.0/32, port_type: tcp, port_range: 443',
      ],
      ['6 icmp-left-open note', '7 icmp-left-open note', '7 transport-left-open note'],
    ],
    [
      'udp port 53 closed and tcp open',
      ['action: drop, destination: 10.0.0.0/8, port_type: udp, port_range: 53'],
      ['6 icmp-left-open note', '6 transport-left-open note'],
    ],
    [
      'an accept of everything for a user',
      closed(`action: accept, destination: 0.0.0.0/0, user_id: ${alice}`),
      ['8 user-exempt note'],
    ],
    [
      'a user without a name beside users with one',
      closed(
        `action: accept, destination: 10.0.0.0/8, user_id: ${alice}`,
        `action: accept, destination: 10.0.0.0/8, user: bob`,
      ),
      ['8 unlisted-user note'],
      document('Users', 'people', `{bob: ${bob}}`),
    ],
    [
      'no way to sign in',
      closed(),
      ['13 no-sign-in warning'],
      configuration('\n  local_auth_enabled: false\n  openid_connect_providers: []\n  saml_identity_providers: []'),
    ],
    [
      'local sign-in off and providers left to others',
      closed(),
      ['13 no-sign-in note'],
      configuration('\n  local_auth_enabled: false'),
    ],
    ['local sign-in on: nothing', closed(), [], configuration('\n  local_auth_enabled: true')],
    [
      'an accepted destination that clients do not route',
      closed('action: accept, destination: 10.0.0.0/8', 'action: accept, destination: 192.0.2.0/24'),
      ['8 unrouted-destination warning'],
      configuration('\n  default_client_allowed_ips: [192.0.0.0/16, "2001:db8::/32"]'),
    ],
    [
      'an accepted destination that clients route in part',
      closed('action: accept, destination: 10.0.0.0/8'),
      ['8 unrouted-destination note'],
      configuration('\n  default_client_allowed_ips: [10.0.0.0/9]'),
    ],
    [
      'an accepted destination that clients route in two halves: nothing',
      closed('action: accept, destination: 10.0.0.0/8'),
      [],
      configuration('\n  default_client_allowed_ips: [10.0.0.0/9, 10.128.0.0/9]'),
    ],
    [
      'a name server out of reach',
      closed('action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 53'),
      ['14 dns-server-closed warning'],
      configuration('\n  default_client_dns: [10.1.2.3]'),
    ],
    [
      'a private name server that clients do not route',
      closed('action: accept, destination: 192.0.2.0/24', 'action: accept, destination: 10.1.2.3'),
      ['15 dns-server-unrouted warning', '9 unrouted-destination warning'],
      configuration('\n  default_client_dns: [10.1.2.3, 192.0.2.9]\n  default_client_allowed_ips: [192.0.2.0/24]'),
    ],
  ])('finds, in %s', (_, rules, expected, extra) => {
    expect([...found(rules, extra)].sort()).toEqual([...expected].sort());
  });

  it('finds users whom the server does not know, when it was asked', () => {
    const text = manifests(closed(`action: accept, destination: 10.0.0.0/8, user_id: ${alice}`));
    const rules = build({ 'policy.yaml': text }).state?.rules ?? [];
    expect(findUnknownUsers(rules, new Set([alice]))).toEqual([]);
    expect(findUnknownUsers(rules, new Set([bob]))).toMatchObject([
      { code: 'unknown-user-id', severity: 'error', place: { line: 8 } },
    ]);
  });

  it('says once what holds for many rules of a line', () => {
    const rules = 'action: accept, destinations: [10.0.0.0/8, 192.0.2.1, 192.0.2.2], user_id: null';
    const [problem] = lintText(manifests(['action: drop, destination: 198.51.100.0/24', rules]));
    expect(problem?.code).toBe('changes-nothing');
    expect(problem?.summary).toContain('2 more rules of this line');
  });

  it.each([
    [
      'transport-left-open',
      ['action: drop, destination: 10.0.0.0/8, port_type: tcp, port_range: 443'],
      'port_type: udp, port_range: 443',
    ],
    ['ipv6-left-open', ['action: drop, destination: 0.0.0.0/0'], null],
  ])('of %s what the hint says can be typed beside a narrower drop', (code, rules, ports) => {
    const more = ports === null ? '' : `, ${ports}`;
    const [wide, narrow] = ports === null ? ['::/0', '2001:db8::/32'] : ['10.0.0.0/8', '10.1.0.0/16'];
    const dropOf = (network: string) => `action: drop, destination: "${network}"${more}`;
    const [problem] = lintText(manifests([...rules, dropOf(narrow)])).filter((one) => one.code === code);
    expect(problem?.hint).toMatch(/in place of any for parts of it|take it out of drop rules for parts of that/);
    const codesOf = (...added: readonly string[]) =>
      build({ 'policy.yaml': manifests([...rules, ...added]) }).problems.map((one) => one.code);
    expect([codesOf(dropOf(narrow), dropOf(wide)), codesOf(dropOf(wide))]).toEqual([['collision'], []]);
  });

  it('tells to open a name server for the user whose own rule closes it, where that does it', () => {
    const spec = configuration('\n  default_client_dns: [10.1.2.3]');
    const hintOf = (...rules: readonly string[]) =>
      lintText(manifests(rules, spec)).find(({ code }) => code === 'dns-server-closed')?.hint;
    const [drop, rest] = ['action: drop, destination: 10.0.0.0/8', 'that accepts 10.1.2.3 on udp port 53'];
    expect(hintOf(drop)).toContain(`Add a rule ${rest}`);
    expect(hintOf(`${drop}, user_id: ${alice}`)).toContain(`Add a rule for this user ${rest}`);
  });

  it('names some of several that come first, as such', () => {
    const said = (...rules: readonly string[]) => lintText(manifests(rules))[0]?.summary;
    const hosts = [0, 1, 2, 3].map((n) => `action: accept, destination: 10.0.0.${n}`);
    expect(said('action: drop, destination: 10.0.0.0/30', ...hosts)).toBe(
      '`s/r1` never decides anything: other rules, `s/r2` and `s/r5` among them, always come first.',
    );
  });

  it('names one of those that decide without a rule, and does not say that it is the only one', () => {
    const own = `action: accept, destination: 10.0.0.0/30, user_id: ${alice}`;
    const web = 'action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 443';
    const found = lintText(manifests([own, web, 'action: drop, destination: 10.9.0.0/16']));
    expect(found.find(({ code }) => code === 'changes-nothing')?.summary).toBe(
      '`s/r1` changes nothing: without it, the same traffic is accepted, by the default for example.',
    );
  });

  it('names what shadows a rule, with its place', () => {
    const [problem] = lintText(
      manifests(['action: accept, destination: 10.0.0.0/8', 'action: drop, destination: 10.1.2.3']),
    );
    expect(problem?.summary).toContain('`s/r1`');
    expect(problem?.related).toMatchObject([{ place: { file: 'policy.yaml', line: 6 } }]);
  });

  it.each([
    ['', 'accepting rule, or drop it by ports, or drop it for a user.'],
    [', port_type: tcp, port_range: 80', 'accepting rule, or drop it for a user.'],
    [`, user_id: ${alice}`, 'accepting rule, or drop it by ports.'],
    [`, user_id: ${alice}, port_type: tcp, port_range: 80`, 'accepting rule.'],
  ])('of a drop under an accept (%s) it advises only what comes before the accept', (lane, advice) => {
    const [problem] = lintText(
      manifests([`action: accept, destination: 10.0.0.0/8${lane}`, `action: drop, destination: 10.1.2.3${lane}`]),
    );
    expect(problem?.hint).toBe(`Take the address out of the ${advice}`);
  });

  it('is switched off by a comment with a reason', () => {
    const text = manifests(['action: accept, destination: 10.0.0.0/8', 'action: drop, destination: 10.1.2.3']);
    const marked = text.replace(
      '    - {name: r2',
      '    # reconcile-ignore: drop-under-accept kept until the host moves\n    - {name: r2',
    );
    const { state, suppressions } = build({ 'policy.yaml': marked });
    if (state === null) throw new Error('no desired state');
    const problems = lint(state);
    expect(problems.map(({ code }) => code)).toEqual(['drop-under-accept']);
    expect(applySuppressions(problems, suppressions)).toEqual([]);
  });

  it('judges 10,000 rules without trying all pairs', () => {
    const place = { file: 'a.yaml', line: 1, column: 1 };
    const rules = Array.from({ length: 10_000 }, (_, i): DesiredRule => {
      const destination = new Network(4, BigInt(i % 5000) << 8n, i % 10 === 0 ? 16 : 28);
      const ports = i % 2 === 0 ? null : ({ type: 'tcp', low: 1 + i, high: 1 + i } as const);
      return {
        name: `r${i}`,
        place,
        rule: { action: i % 3 === 0 ? 'accept' : 'drop', destination, ports, userId: null },
      };
    });
    const desired = { rules, configuration: null, userNames: new Map(), tests: [], digest: '' };
    expect(lint(desired).length).toBeGreaterThan(0);
  });
});

describe('docs/reference/lint.md', () => {
  const page = readFileSync(new URL('../../../docs/reference/lint.md', import.meta.url), 'utf8');

  it.each(Object.entries(lintSeverities))('has a section for %s with its severity', (code, severity) => {
    expect(page).toContain(`\n### \`${code}\` (${severity}`);
  });

  it('has a section for every warning and note about manifests, and none for what does not exist', () => {
    const source = ['manifest', 'desired'].flatMap((name) => {
      const folder = new URL(`../../../src/${name}/`, import.meta.url);
      return readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8'));
    });
    const written =
      /code: '([a-z0-9-]+)',\s+severity: '(warning|note|error)'|make(Warning|Note|Error)\(\s*'([a-z0-9-]+)'/g;
    const found = source.flatMap((text) =>
      [...text.matchAll(written)].map(([, code, severity, maker = '', made]) => {
        return { code: code ?? made ?? '', severity: severity ?? maker.toLowerCase() };
      }),
    );
    const ofExports = ['not-exported', 'live-duplicates'];
    const shown = found.filter(({ code, severity }) => severity !== 'error' && !ofExports.includes(code));
    const missing = shown.filter(({ code, severity }) => !page.includes(`\n### \`${code}\` (${severity}`));
    expect(shown.length).toBeGreaterThan(10);
    expect(missing).toEqual([]);
    const known = new Set<string | undefined>([...Object.keys(lintSeverities), ...found.map(({ code }) => code)]);
    const sections = [...page.matchAll(/^### `([a-z0-9-]+)`/gm)].map(([, code]) => code);
    expect(sections.filter((code) => !known.has(code))).toEqual([]);
  });
});
