import { parseNetwork } from '../../src/model/address.ts';
import type { ConfigurationFields } from '../../src/model/configuration.ts';
import { findProfile } from '../../src/model/profile.ts';
import type { DesiredRule, LiveRule, Rule } from '../../src/model/rule.ts';
import { wholeScope } from '../../src/model/state.ts';
import { defaultPlanOptions, type PlanInput, type PlanOptions } from '../../src/plan/input.ts';

const users = new Map<string, string>();

/** The UUID of a user by a short name: the same name gives the same id. */
export function user(name: string): string {
  const known = users.get(name) ?? `00000000-0000-4000-8000-${String(users.size + 1).padStart(12, '0')}`;
  users.set(name, known);
  return known;
}

/** A rule from a short text: `drop 10.0.0.0/8 tcp/80-90 @alice`. */
export function rule(text: string): Rule {
  const [action, destination, ...rest] = text.split(' ');
  const network = parseNetwork(destination ?? '');
  if (!network.ok || (action !== 'accept' && action !== 'drop')) throw new Error(`not a rule: ${text}`);
  const ports = rest.find((part) => part.includes('/'))?.match(/^(tcp|udp)\/(\d+)(?:-(\d+))?$/);
  const owner = rest.find((part) => part.startsWith('@'));
  return {
    action,
    destination: network.value.network,
    ports: ports
      ? { type: ports[1] as 'tcp' | 'udp', low: Number(ports[2]), high: Number(ports[3] ?? ports[2]) }
      : null,
    userId: owner === undefined ? null : user(owner.slice(1)),
  };
}

/** Desired rules named `r1`, `r2`, … at lines 1, 2, …; `name=text` gives another name. */
export function desiredRules(...texts: readonly string[]): readonly DesiredRule[] {
  return texts.map((text, index) => {
    const [name, body] = text.includes('=') ? (text.split('=') as [string, string]) : [`r${index + 1}`, text];
    return { name, rule: rule(body), place: { file: 'rules.yaml', line: index + 1, column: 1 } };
  });
}

/** Live rules with ids `l1`, `l2`, …; a leading `*` marks one that was modified in place. */
export function liveRules(...texts: readonly string[]): readonly LiveRule[] {
  return texts.map((text, index) => {
    const modified = text.startsWith('*');
    const parsed = rule(modified ? text.slice(1) : text);
    const insertedAt = '2024-01-01T00:00:00.000000Z';
    const updatedAt = modified ? '2024-01-02T00:00:00.000000Z' : insertedAt;
    return { id: `l${index + 1}`, rule: parsed, destinationText: parsed.destination.text, insertedAt, updatedAt };
  });
}

/** A live configuration as a fresh server has it. */
export const freshConfiguration: ConfigurationFields = {
  allow_unprivileged_device_configuration: true,
  allow_unprivileged_device_management: true,
  default_client_allowed_ips: ['0.0.0.0/0', '::/0'],
  default_client_dns: ['1.1.1.1', '1.0.0.1'],
  default_client_endpoint: null,
  default_client_mtu: 1280,
  default_client_persistent_keepalive: 25,
  disable_vpn_on_oidc_error: false,
  local_auth_enabled: true,
  logo: null,
  openid_connect_providers: [],
  saml_identity_providers: [],
  vpn_session_duration: 0,
};

export interface InputParts {
  readonly desired?: readonly DesiredRule[];
  readonly live?: readonly LiveRule[];
  readonly fields?: Partial<ConfigurationFields>;
  readonly liveFields?: Partial<ConfigurationFields>;
  readonly base?: readonly DesiredRule[];
  readonly options?: Partial<PlanOptions>;
}

/** A plan's input; what is not given is empty, unrestricted, default. Guards on deletes are off. */
export function planInput(parts: InputParts, more: Partial<PlanInput> = {}): PlanInput {
  const state = { configuration: null, userNames: new Map(), tests: [], digest: 'd' };
  const place = { file: 'configuration.yaml', line: 1, column: 1 };
  const configuration =
    parts.fields === undefined
      ? null
      : { name: 'configuration', place, fields: parts.fields, places: {}, references: [] };
  return {
    desired: { ...state, rules: parts.desired ?? [], configuration },
    live: {
      rules: parts.live ?? [],
      configuration: { id: 'c1', fields: { ...freshConfiguration, ...parts.liveFields } },
    },
    base: parts.base === undefined ? null : { ...state, rules: parts.base },
    profile: findProfile('firezone-0.7'),
    scope: wholeScope,
    options: {
      ...defaultPlanOptions,
      allowEmpty: true,
      maxDeletes: { share: 1 },
      maxChanges: { share: 1 },
      ...parts.options,
    },
    ...more,
  };
}
