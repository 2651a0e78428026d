import { contains, Network, readNetworks } from '../../model/address.ts';
import type { ConfigurationField, DesiredConfiguration } from '../../model/configuration.ts';
import { type Intervals, intersectIntervals, toIntervals } from '../../model/intervals.ts';
import type { Place } from '../../model/problem.ts';
import { type Finding, type Linted, quoteName } from './finding.ts';

/** What the Configuration and the rules do to each other. */
export function lintConfiguration(linted: Linted): readonly Finding[] {
  const { configuration } = linted.desired;
  if (configuration === null) return [];
  return [
    ...noSignIn(configuration),
    ...unroutedDestinations(linted, configuration),
    ...resolverFindings(linted, configuration),
  ];
}

function placeOf({ place, places }: DesiredConfiguration, field: ConfigurationField): Place {
  return places[field] ?? place;
}

function noSignIn(configuration: DesiredConfiguration): readonly Finding[] {
  const { local_auth_enabled, openid_connect_providers: oidc, saml_identity_providers: saml } = configuration.fields;
  if (local_auth_enabled !== false || (oidc ?? []).length > 0 || (saml ?? []).length > 0) return [];
  const place = placeOf(configuration, 'local_auth_enabled');
  const hint = 'Keep `local_auth_enabled: true`, or add a provider.';
  if (oidc !== undefined && saml !== undefined) {
    const summary = 'Nobody can sign in: local sign-in is off, and there is no identity provider.';
    return [{ code: 'no-sign-in', place, summary, hint }];
  }
  const summary = 'Local sign-in is off, and there is no identity provider here: somebody else must keep one.';
  return [{ code: 'no-sign-in', place, summary, hint, severity: 'note' }];
}

/** The addresses that clients send into the tunnel; null when these manifests leave them to the server. */
function routesOf({ fields }: DesiredConfiguration): Readonly<Record<4 | 6, Intervals>> | null {
  const written = fields.default_client_allowed_ips;
  if (written === undefined || written === null) return null;
  const networks = readNetworks(written);
  const inFamily = (family: 4 | 6): Intervals => toIntervals(networks.filter((network) => network.family === family));
  return { 4: inFamily(4), 6: inFamily(6) };
}

function unroutedDestinations({ rules }: Linted, configuration: DesiredConfiguration): readonly Finding[] {
  const routes = routesOf(configuration);
  if (routes === null) return [];
  const setting = placeOf(configuration, 'default_client_allowed_ips');
  return rules.flatMap((rule): Finding[] => {
    const { action, destination } = rule.rule;
    if (action !== 'accept' || destination.prefix === 0) return [];
    const [only] = intersectIntervals([destination], routes[destination.family]);
    if (only?.first === destination.first && only.last === destination.last) return [];
    const part = only === undefined ? '' : ', or only in part';
    const summary = `${quoteName(rule)} accepts ${destination.text}, which clients do not send into the tunnel${part}: \`default_client_allowed_ips\` leaves it out.`;
    const hint = `Add ${destination.text} to \`default_client_allowed_ips\`; users may have allowed IPs of their own.`;
    const related = [{ place: setting, note: 'the allowed IPs of clients' }];
    const found = { code: 'unrouted-destination', place: rule.place, summary, hint, related } as const;
    return [only === undefined ? found : { ...found, severity: 'note' }];
  });
}

const privateNetworks = readNetworks(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7']);

function resolverFindings(linted: Linted, configuration: DesiredConfiguration): readonly Finding[] {
  const place = placeOf(configuration, 'default_client_dns');
  const routes = routesOf(configuration);
  const resolvers = readNetworks(configuration.fields.default_client_dns ?? []);
  return resolvers.flatMap(({ family, first, text }) => {
    const address = new Network(family, first);
    const findings: Finding[] = [];
    const isPrivate = privateNetworks.some((network) => contains(network, address));
    if (routes !== null && isPrivate && intersectIntervals([address], routes[family]).length === 0) {
      const summary = `Clients are told to ask the name server ${text} and do not send that into the tunnel: \`default_client_allowed_ips\` leaves it out.`;
      const hint = `Add ${text} to \`default_client_allowed_ips\`.`;
      findings.push({ code: 'dns-server-unrouted', place, summary, hint });
    }
    return [...findings, ...closedResolver(linted, address, place)];
  });
}

function closedResolver({ leaders, desired, index }: Linted, address: Network, place: Place): readonly Finding[] {
  for (const user of [null, ...index.users]) {
    const [rule] = leaders.of({ user, address, protocol: 'udp', port: 53 });
    if (rule?.rule.action !== 'drop') continue;
    const whose = user === null ? 'clients' : `the devices of ${desired.userNames.get(user) ?? user}`;
    const summary = `The name server ${address.text} is out of reach for ${whose}: ${quoteName(rule)} drops udp port 53.`;
    // A user's own rules come before every global one.
    const forWhom = rule.rule.userId === null ? '' : ' for this user';
    const hint = `Add a rule${forWhom} that accepts ${address.text} on udp port 53, and one for tcp.`;
    const related = [{ place: rule.place, note: `${quoteName(rule)} drops it` }];
    return [{ code: 'dns-server-closed', place, summary, hint, related }];
  }
  return [];
}
