import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { printState } from '../../src/desired/print.ts';
import { formatFile } from '../../src/manifest/format.ts';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { build, document } from './helpers.ts';

function print(files: Readonly<Record<string, string>>): string {
  const { state, problems, manifests } = build(files);
  if (state === null) throw new Error(JSON.stringify(problems));
  return [...printState(state, manifests.find((one) => one.kind === 'Configuration') ?? null)].join('');
}

const folder = new URL('../../examples/company/', import.meta.url);
const company = Object.fromEntries(
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => [file, readFileSync(new URL(file, folder), 'utf8')]),
);

describe('printed manifests', () => {
  it('mean the same as what they are printed from, and print the same again', () => {
    const printed = print(company);
    const before = build(company).state;
    const after = build({ 'printed.yaml': printed });
    expect(after.problems).toEqual([]);
    expect(after.state?.rules.map(({ rule, name }) => [name, formatRuleKey(rule)])).toEqual(
      before?.rules.map(({ rule, name }) => [name, formatRuleKey(rule)]),
    );
    expect(after.state?.configuration?.fields).toEqual(before?.configuration?.fields);
    expect(after.state?.tests.map(({ place, ...rest }) => rest)).toEqual(
      before?.tests.map(({ place, ...rest }) => rest),
    );
    const withoutOrigins = (text: string): string => text.replace(/^# .*\n/gm, '');
    expect(withoutOrigins(print({ 'printed.yaml': printed }))).toBe(withoutOrigins(printed));
    expect(formatFile('printed.yaml', Buffer.from(printed), findProfile('firezone-0.7')).text).toBe(printed);
  });

  it('say where each rule comes from and whom it is for', () => {
    expect(print(company)).toContain(`---
# rules/contractors.yaml:11 (alice)
apiVersion: firezone/v0
kind: Rule
metadata: {name: contractors/web/alice/10.20.0.0-16/tcp-443}
spec:
  action: accept
  destination: 10.20.0.0/16
  port_type: tcp
  port_range: 443
  user_id: a1520c4b-adc3-4574-932a-94461cf85c07
`);
  });

  it('name the files of secrets from the root, where what is printed may lie', () => {
    const provider = (file: string): string =>
      `{id: a${file.length}, label: a, base_url: null, metadata: {file: ${file}}, auto_create_users: false}`;
    const files = ['okta.xml', '../saml/other.xml', '/etc/saml/third.xml'];
    const printed = print({
      'base/a.yaml': document('Configuration', 'c', `{saml_identity_providers: [${files.map(provider).join(', ')}]}`),
    });
    const named = [...printed.matchAll(/\{file: "?([^"}]*)"?\}/g)].map(([, file]) => file);
    expect(named).toEqual(['base/okta.xml', 'saml/other.xml', '/etc/saml/third.xml']);
  });

  it('never show a secret, and name users who were not looked up by their address', () => {
    const provider =
      '{id: google, label: Google, client_id: cid, client_secret: CANARY, discovery_document_uri: "https://idp.example/x", auto_create_users: false}';
    const printed = print({
      'a.yaml': `${document('Configuration', 'c', `{openid_connect_providers: [${provider}], logo: null}`)}---\n${document('Rule', 'r', '{action: drop, destination: 10.0.0.1, user: alice@example.com}')}`,
    });
    expect(printed).not.toContain('CANARY');
    expect(printed).toContain('client_secret: {env: RECONCILE_SECRET_NOT_SHOWN}');
    expect(printed).toContain('user: alice@example.com');
    expect(printed).toContain('logo: null');
  });
});
