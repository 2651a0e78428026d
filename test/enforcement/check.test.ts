import { describe, expect, it } from 'vitest';
import { checkEnforcement } from '../../src/enforcement/check.ts';
import type { EnforcementReport, RuleNames } from '../../src/enforcement/report.ts';
import type { LiveRule } from '../../src/model/rule.ts';
import { recorded, tableOf } from './recorded.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const bob = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';
const noNames: RuleNames = new Map();

function check(live: readonly LiveRule[], items: readonly unknown[], names = noNames): EnforcementReport {
  return checkEnforcement(live, names, tableOf(items));
}

function kinds(report: EnforcementReport): readonly string[] {
  return report.findings.map(({ kind }) => kind);
}

describe('the recorded tables of a real server', () => {
  it.each(['empty', 'every_kind', 'drop_all_both_families'])('are found in agreement with the API: %s', (step) => {
    const { live, items } = recorded(step);
    const report = check(live, items);
    expect(report.findings).toEqual([]);
    expect(report.state).toBe('enforced');
    expect(report.elements).toBe(live.length);
  });

  it('show what two rules that were changed in place left behind, and what it means in traffic', () => {
    const { live, items } = recorded('two_rules_patched_filter_stale');
    const names: RuleNames = new Map([
      ['drop 10.7.0.0/16 *', { name: 'databases', place: { file: 'rules.yaml', line: 7, column: 3 } }],
    ]);
    const report = check(live, items, names);
    expect(report.counts).toEqual({ missing: 2, stale: 2, extra: 0, structure: 0 });
    expect(report.findings.map(({ kind, elements }) => [kind, ...elements])).toEqual([
      ['missing', 'accept 10.2.0.0/16 *'],
      ['missing', 'drop 10.7.0.0/16 *'],
      ['stale', 'drop 10.1.0.0/16 *'],
      ['stale', 'drop 10.2.0.0/16 *'],
    ]);
    expect(report.findings[1]?.summary).toBe(
      'the rule databases (drop 10.7.0.0/16 *, rules.yaml:7) is not in the kernel; it was changed in place, which never reaches the kernel',
    );
    expect(report.findings[3]?.rules[0]?.key).toBe('accept 10.2.0.0/16 *');
    const all = (destination: string): unknown[] =>
      [null]
        .flatMap((user) => [
          { user, protocol: 'tcp', ports: [{ low: 0, high: 65535 }] },
          { user, protocol: 'udp', ports: [{ low: 0, high: 65535 }] },
          { user, protocol: 'other', ports: null },
        ])
        .map((part) => ({ ...part, destinations: [destination] }));
    const sorted = (traffic: readonly unknown[]): unknown[] =>
      [...traffic].map((item) => JSON.parse(JSON.stringify(item)));
    expect(sorted(report.findings[1]?.effect.opens ?? [])).toEqual(expect.arrayContaining(all('10.7.0.0/16')));
    expect(report.findings[1]?.effect.closes).toEqual([]);
    expect(sorted(report.findings[2]?.effect.closes ?? [])).toEqual(expect.arrayContaining(all('10.1.0.0/16')));
    expect(sorted(report.findings[3]?.effect.closes ?? [])).toEqual(expect.arrayContaining(all('10.2.0.0/16')));
  });
});

describe('a damaged copy of the recorded table', () => {
  const { live, items } = recorded('every_kind');
  const without = (test: (item: Record<string, Record<string, unknown>>) => boolean): unknown[] =>
    items.filter((item) => !test(item as Record<string, Record<string, unknown>>));
  const setElements = (name: string, change: (elements: readonly unknown[]) => readonly unknown[]): unknown[] =>
    items.map((item) =>
      item['set']?.['name'] === name
        ? { set: { ...item['set'], elem: change((item['set']['elem'] as readonly unknown[]) ?? []) } }
        : item,
    );

  it('names a rule whose element is gone', () => {
    const report = check(
      live,
      setElements('ip_drop', (elements) => elements.slice(1)),
    );
    expect(kinds(report)).toEqual(['missing']);
    expect(report.findings[0]?.elements).toEqual(['drop 10.0.0.1 *']);
    expect(report.findings[0]?.effect.opens.every(({ destinations }) => destinations.join() === '10.0.0.1')).toBe(true);
    expect(report.findings[0]?.effect.opens.map(({ user }) => user)).toContain(null);
  });

  it('names the part of a rule that is gone', () => {
    const half = { prefix: { addr: '192.168.0.0', len: 24 } };
    const report = check(
      live,
      setElements('ip_drop', (elements) => [
        ...elements.filter((element) => !JSON.stringify(element).includes('192.168.0.0')),
        half,
      ]),
    );
    expect(report.findings.map(({ kind, elements }) => [kind, ...elements])).toEqual([
      ['missing', 'drop 192.168.1.0/24 *'],
    ]);
  });

  it('takes one range for the two rules that it covers exactly', () => {
    const range = { range: ['192.168.0.0', '192.168.2.255'] };
    const report = check(
      live,
      setElements('ip_drop', (elements) => [
        ...elements.filter((element) => !JSON.stringify(element).includes('192.168.')),
        range,
      ]),
    );
    expect(report.state).toBe('enforced');
  });

  it('compares ports of one address as sets', () => {
    const elements = [{ concat: [{ prefix: { addr: '10.4.0.0', len: 16 } }, 'udp', { range: [50, 58] }] }];
    const report = check(
      live,
      setElements('ip_accept_layer4', () => elements),
    );
    expect(report.findings.map(({ kind, elements: keys }) => [kind, ...keys])).toEqual([
      ['missing', 'accept 10.4.0.0/16 udp 59-60 *'],
      ['extra', 'accept 10.4.0.0/16 udp 50-52 *'],
    ]);
  });

  it('calls an element that no rule explains extra, and says what it cuts off', () => {
    const report = check(
      live,
      setElements('ip6_drop', (elements) => [...elements, '2001:db8:77::1']),
    );
    expect(kinds(report)).toEqual(['extra']);
    expect(report.findings[0]?.effect.closes.length).toBeGreaterThan(0);
    expect(report.findings[0]?.effect.opens).toEqual([]);
  });

  it('says that a user without a chain is not filtered, once for all rules of the user', () => {
    const report = check(
      live,
      without(
        (item) =>
          item['chain']?.['name'] === `user${bob}` ||
          item['rule']?.['chain'] === `user${bob}` ||
          (item['set']?.['name'] as string | undefined)?.startsWith(`user${bob}`) === true,
      ),
    );
    expect(kinds(report).filter((kind) => kind !== 'unknown')).toEqual(['user-chain-missing']);
    const finding = report.findings[0];
    expect(finding?.rules).toHaveLength(3);
    expect(finding?.effect.opens.every(({ user }) => user === bob)).toBe(true);
    expect(finding?.effect.opens.length).toBeGreaterThan(0);
  });

  it('notices when nothing jumps to a chain for one family, though every element is there', () => {
    const jump = `@user${bob}_ip6_devices`;
    const report = check(
      live,
      without((item) => JSON.stringify(item).includes(jump) && item['rule'] !== undefined),
    );
    expect(kinds(report)).toEqual(['jump-missing']);
    expect(report.findings[0]?.summary).toContain('IPv6');
    expect(report.findings[0]?.rules.map(({ key }) => key)).toEqual([`drop ::/0 ${bob}`]);
    expect(
      report.findings[0]?.effect.opens.every(({ destinations }) => destinations.every((text) => text.includes(':'))),
    ).toBe(true);
  });

  it('notices when a chain has no rule for a set', () => {
    const report = check(
      live,
      without(
        (item) => item['rule']?.['chain'] === `user${alice}` && JSON.stringify(item).includes('_ip_accept_layer4"'),
      ),
    );
    expect(kinds(report)).toEqual(['verdict-missing']);
    expect(report.findings[0]?.rules.map(({ key }) => key)).toEqual([`accept 10.5.0.0/16 tcp 80-81 ${alice}`]);
    expect(report.findings[0]?.effect.closes.map(({ ports }) => ports)).toEqual([[{ low: 80, high: 81 }]]);
  });

  it('notices rules of a chain in another order', () => {
    const forward = items.filter((item) => item['rule']?.['chain'] === 'forward');
    const others = items.filter((item) => item['rule']?.['chain'] !== 'forward');
    expect(kinds(check(live, [...others, ...forward.toReversed()]))).toEqual(['unknown']);
  });

  it('shows unknown chains, sets, elements and rules without giving up', () => {
    const report = check(live, [
      ...setElements('ip_drop', (elements) => [...elements, { weird: 1 }]),
      { chain: { family: 'inet', table: 'firezone', name: 'input', hook: 'input', policy: 'drop' } },
      { set: { family: 'inet', table: 'firezone', name: 'blocklist', type: 'ipv4_addr' } },
      { rule: { family: 'inet', table: 'firezone', chain: 'forward', expr: [{ drop: null }] } },
      { counter: { name: 'hits' } },
    ]);
    expect(kinds(report)).toEqual(['unknown', 'unknown', 'unknown', 'unknown', 'unknown']);
    expect(report.counts.structure).toBe(5);
    expect(report.state).toBe('differs');
  });

  it('says that nothing is filtered when the forward chain is gone', () => {
    const report = check(
      live,
      without((item) => item['chain'] !== undefined || item['rule'] !== undefined),
    );
    expect(kinds(report)).toEqual(['table-missing']);
    expect(report.findings[0]?.rules).toHaveLength(live.length);
    expect(report.findings[0]?.effect).toEqual(report.effect);
  });

  it('says that nothing is filtered by a table that is dormant', () => {
    const dormant = items.map((item) =>
      item['table'] === undefined ? item : { table: { ...item['table'], flags: ['dormant'] } },
    );
    expect(kinds(check(live, dormant))).toEqual(['table-missing']);
  });

  it('notices a rule that looks at another interface than all others', () => {
    const elsewhere = items.map((item) =>
      JSON.stringify(item).includes('"@ip_drop"')
        ? (JSON.parse(JSON.stringify(item).replace('"wg-firezone"', '"eth9"')) as typeof item)
        : item,
    );
    expect(kinds(check(live, elsewhere)).toSorted()).toEqual(['unknown', 'verdict-missing']);
  });

  it.each([
    ['a set', '{"set":["wg-firezone","eth9"]}'],
    ['null', 'null'],
  ])('never agrees with rules that all look at %s instead of one interface', (_, right) => {
    const elsewhere = items.map(
      (item) => JSON.parse(JSON.stringify(item).replaceAll('"wg-firezone"', right)) as typeof item,
    );
    expect(kinds(check(live, elsewhere))).toContain('verdict-missing');
  });

  it('gives the same report whatever the order of rules and items', () => {
    const changed = setElements('ip_drop', (elements) => elements.slice(2));
    expect(check(live.toReversed(), changed)).toEqual(check(live, changed));
  });
});
