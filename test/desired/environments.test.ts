// biome-ignore-all lint/suspicious/noTemplateCurlyInString: `${name}` is what these tests are about.
import { describe, expect, it } from 'vitest';
import { readValues } from '../../src/manifest/values-file.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { build, codes, document } from './helpers.ts';

const values = new Map([
  ['net', '10.0.0.0/8'],
  ['port', '443'],
  ['mtu', '1280'],
  ['on', 'true'],
  ['tricky', '${port}'],
]);

describe('values', () => {
  it('are put into scalars, whole or in part, and typed afterwards', () => {
    const text = `${document('Rule', 'web', '{action: accept, destination: "${net}", port_type: tcp, port_range: "${port}-8${port}"}')}---
${document('Configuration', 'c', '\n  default_client_mtu: ${mtu}\n  local_auth_enabled: ${on}\n  default_client_endpoint: "vpn-${port}.example.com"')}`;
    const desired = build({ 'a.yaml': text }, { values });
    expect(codes(desired)).toEqual([]);
    expect(desired.state?.rules.map(({ rule }) => formatRuleKey(rule))).toEqual(['accept 10.0.0.0/8 tcp 443-8443 *']);
    expect(desired.state?.configuration?.fields).toEqual({
      default_client_mtu: 1280,
      local_auth_enabled: true,
      default_client_endpoint: 'vpn-443.example.com',
    });
  });

  it('are never searched for more names, and `$${` writes `${`', () => {
    const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: a, description: "\${tricky} $\${net} $net"}\nspec: {rules: []}\n`;
    expect(codes(build({ 'a.yaml': text }, { values }))).toEqual([]);
    const saved = build({ 'a.yaml': document('Rule', 'web', '{action: drop, destination: "${tricky}"}') }, { values });
    expect(saved.problems).toMatchObject([{ code: 'address-hostname' }]);
  });

  it('that are not defined are a problem at their line', () => {
    const desired = build({ 'a.yaml': document('Rule', 'web', '{action: drop, destination: "${nte}"}') }, { values });
    expect(codes(desired)).toEqual(['4:35 undefined-value']);
    expect(desired.problems[0]?.hint).toBe('Did you mean `net`?');
  });

  it('put a bounded number of characters into a file, however often they are named', () => {
    const long = new Map([['long', 'x'.repeat(1_000_000)]]);
    const labels = Array.from({ length: 2_000 }, (_, i) => `l${i}: "${'${long}'.repeat(10)}"`).join(', ');
    const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s, labels: {${labels}}}\nspec: {rules: []}\n`;
    expect(codes(build({ 'a.yaml': text }, { values: long }))).toEqual(['3:190 too-expensive']);
  });

  it.each(['${a b}', '${', '${net', '${}', 'x ${-a} y'])(
    'are not sent as they stand where no name is meant: %s',
    (text) => {
      const spec = `{destination: 10.0.0.1, action: drop, user: "${text}"}`;
      expect(codes(build({ 'a.yaml': document('Rule', 'web', spec) }, { values }))).toEqual(['4:51 undefined-value']);
      expect(codes(build({ 'a.yaml': document('Rule', 'web', spec.replace('$', '$$$$')) }, { values }))).toEqual([
        '4:51 unknown-user',
      ]);
    },
  );

  it('fold a text over several lines as YAML does', () => {
    const text = document('Configuration', 'c', '\n  default_client_endpoint: vpn.${port}\n    .example.com');
    expect(build({ 'a.yaml': text }, { values }).problems.map(({ code }) => code)).toContain('invalid-endpoint');
    const label = document(
      'PolicyTest',
      't',
      '\n  cases:\n    - name: a ${port}\n        b\n      destination: ::1\n      expect: accept',
    );
    expect(build({ 'a.yaml': label }, { values }).state?.tests[0]?.name).toBe('a 443 b');
  });

  it('without quotes inside braces are one problem that says so', () => {
    const desired = build({ 'a.yaml': document('Rule', 'web', '{action: drop, destination: ${net}}') }, { values });
    expect(codes(desired)).toEqual(['4:35 invalid-yaml']);
    expect(desired.problems[0]?.hint).toContain('quotes');
  });

  it('are left alone without a values file', () => {
    const desired = build({ 'a.yaml': document('Rule', 'web', '{action: drop, destination: "${net}"}') });
    expect(desired.problems).toHaveLength(1);
    expect(desired.problems[0]?.hint).toContain('--values');
    const spec = '{default_client_endpoint: "${endpoint}", default_client_dns: ["${dns}"]}';
    const { problems } = build({ 'c.yaml': document('Configuration', 'main', spec) });
    expect(problems.map(({ hint }) => hint)).toEqual(['Give them: `--values FILE`.', 'Give them: `--values FILE`.']);
  });

  it('never get into a literal secret', () => {
    const spec =
      '{openid_connect_providers: [{id: a, label: a, client_id: a, client_secret: "a${nope}b", discovery_document_uri: "https://a", auto_create_users: true}]}';
    expect(
      build({ 'a.yaml': document('Configuration', 'c', spec) }, { values }).problems.map(({ code }) => code),
    ).not.toContain('undefined-value');
  });

  it('come from one mapping of names to simple values', () => {
    expect(readValues('v.yaml', 'a: 1\nb: "x"\nc: true\n')).toEqual({
      values: new Map([
        ['a', '1'],
        ['b', 'x'],
        ['c', 'true'],
      ]),
      problems: [],
    });
    for (const text of ['- a', 'a: [1]', 'a: null', 'a b: 1', 'a: 1\n---\nb: 2']) {
      expect(readValues('v.yaml', text).problems).toMatchObject([{ code: 'invalid-values' }]);
    }
    expect(readValues('v.yaml', 'a: "').problems).toMatchObject([{ code: 'invalid-yaml' }]);
  });
});

describe('overlays', () => {
  const rule = (name: string, destination: string): string =>
    document('Rule', name, `{action: accept, destination: ${destination}}`);
  const files = {
    'base/rules.yaml': `${rule('web', '10.0.0.1')}---\n${rule('db', '10.0.0.2')}`,
    'base/config.yaml': document('Configuration', 'main', '{default_client_mtu: 1280, local_auth_enabled: true}'),
    'production/overlay.yaml': document('Overlay', 'production', '{bases: [../base], remove: [Rule/db]}'),
    'production/rules.yaml': `${rule('web', '10.9.0.1')}---\n${rule('extra', '10.9.0.2')}`,
    'production/config.yaml': document('Configuration', 'production', '{default_client_mtu: 1400}'),
    'staging/overlay.yaml': document('Overlay', 'staging', '{bases: [../base]}'),
  };
  const rulesOf = (overlay: string): readonly string[] | undefined =>
    build(files, { overlay }).state?.rules.map(({ name, rule: { destination } }) => `${name} ${destination.text}`);

  it('lie over their bases: manifests replace, Configuration and Users merge, `remove` takes away', () => {
    expect(rulesOf('production')).toEqual(['web 10.9.0.1', 'extra 10.9.0.2']);
    expect(rulesOf('staging')).toEqual(['web 10.0.0.1', 'db 10.0.0.2']);
    const configuration = build(files, { overlay: 'production' }).state?.configuration;
    expect(configuration?.fields).toEqual({ default_client_mtu: 1400, local_auth_enabled: true });
    expect(configuration?.places.local_auth_enabled?.file).toBe('base/config.yaml');
  });

  it('are named as shells complete a directory, too', () => {
    for (const overlay of ['production/', './production', './/production//']) {
      expect(rulesOf(overlay)).toEqual(rulesOf('production'));
    }
    expect(build(files, { overlay: '/production' }).problems).toMatchObject([{ code: 'unknown-overlay' }]);
  });

  it('take away a Configuration by its name', () => {
    const spec = '{bases: [../base], remove: [Configuration/main]}';
    const without = { ...files, 'staging/overlay.yaml': document('Overlay', 'staging', spec) };
    const { state, problems } = build(without, { overlay: 'staging' });
    expect(problems).toEqual([]);
    expect(state?.configuration).toBeNull();
  });

  it('may have their bases below their own directory', () => {
    for (const [root, overlay] of [
      ['', '.'],
      ['production/', 'production'],
    ] as const) {
      const nested = {
        [`${root}base/rules.yaml`]: `${rule('web', '10.0.0.1')}---\n${rule('db', '10.0.0.2')}`,
        [`${root}overlay.yaml`]: document('Overlay', 'production', '{bases: [base], remove: [Rule/db]}'),
        [`${root}more/rules.yaml`]: rule('web', '10.9.0.1'),
      };
      const { state, problems } = build(nested, { overlay });
      expect(problems).toEqual([]);
      expect(state?.rules.map((one) => `${one.name} ${one.rule.destination.text}`)).toEqual(['web 10.9.0.1']);
    }
  });

  it('can be laid over each other', () => {
    const more = {
      ...files,
      'eu/o.yaml': document('Overlay', 'eu', '{bases: [../production]}'),
      'eu/r.yaml': rule('eu', '10.8.0.1'),
    };
    expect(build(more, { overlay: 'eu' }).state?.rules.map(({ name }) => name)).toEqual(['eu', 'web', 'extra']);
  });

  it('tell what is wrong with a base once, however many overlays lie over it', () => {
    const more = {
      ...files,
      'base/again.yaml': rule('web', '10.0.0.5'),
      'eu/o.yaml': document('Overlay', 'eu', '{bases: [../production, ../staging, ../base]}'),
    };
    expect(build(more, { overlay: 'eu' }).problems.map(({ code }) => code)).toEqual(['duplicate-name']);
  });

  it('must be chosen, and exist', () => {
    // Two Configurations, and values that are missing, may be right once one is chosen.
    const all = { ...files, 'base/value.yaml': document('Rule', 'v', '{action: drop, destination: "${net}"}') };
    expect(build(all).problems.map(({ code }) => code)).toEqual(['overlay-not-chosen']);
    expect(build(files, { overlay: 'prodution' }).problems).toMatchObject([
      { code: 'unknown-overlay', hint: 'Did you mean `production`?' },
    ]);
  });

  it.each([
    ['{bases: [../../elsewhere]}', 'outside-root'],
    ['{bases: [/etc]}', 'outside-root'],
    ['{bases: [../nowhere]}', 'empty-base'],
    ['{bases: [../base, .]}', 'overlay-cycle'],
    ['{bases: [../base], remove: [Rule/dc]}', 'nothing-to-remove'],
  ])('%s: %s', (spec, code) => {
    const broken = { ...files, 'staging/overlay.yaml': document('Overlay', 'staging', spec) };
    expect(build(broken, { overlay: 'staging' }).problems.map((problem) => problem.code)).toEqual([code]);
  });
});
