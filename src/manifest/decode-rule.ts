import { isTimezone, parseInstant } from '../model/instant.ts';
import type { PortType } from '../model/port-range.ts';
import { makeError, relateTo } from '../model/problem.ts';
import { omitUndefined } from '../model/result.ts';
import type { Action, RuleNotes } from '../model/rule.ts';
import { type Decoding, getPlace, readName, readNetwork, readPorts, readUser, reportAt } from './decoding.ts';
import { isList, type Manifest, type RuleTemplate, type TemplatePorts, type UserReference } from './manifest.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';

/** The notes of these nodes, before those of the set around them, `outer`, and never for a longer time than the set's. */
function decodeNotes(
  decoding: Decoding,
  outer: RuleNotes,
  nodes: readonly (Node | undefined)[],
  timezone: string,
): RuleNotes {
  const find = (field: string): ScalarNode | undefined => findScalar(nodes[0], field) ?? findScalar(nodes[1], field);
  const [owner, ticket] = ['owner', 'ticket'].map((field) => find(field)?.text);
  const [from, until] = [find('notBefore'), find('expires')];
  const notBefore = readTime(decoding, from, { field: 'notBefore', timezone });
  const expires = readTime(decoding, until, { field: 'expires', timezone });
  // One object for the many rules without notes of their own.
  if ((owner ?? ticket ?? notBefore ?? expires) === undefined) return outer;
  const begins = Math.max(notBefore ?? longAgo, outer.notBefore ?? longAgo);
  const ends = Math.min(expires ?? never, outer.expires ?? never);
  const place = until ?? from;
  if (place !== undefined && ends <= begins) {
    const summary = 'The rule expires before it begins: it would never be in force.';
    const hint = 'Write an `expires` after `notBefore`; those of the set count too.';
    reportAt(decoding, place, makeError('expires-first', summary, hint));
  }
  return {
    ...outer,
    ...omitUndefined({ owner, ticket }),
    ...(begins === longAgo ? {} : { notBefore: begins }),
    ...(ends === never ? {} : { expires: ends }),
  };
}

const [longAgo, never] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];

export function readTimezone(decoding: Decoding, root: Node): string {
  const node = findScalar(findChild(root, 'spec'), 'timezone');
  if (node === undefined || isTimezone(node.text)) return node?.text ?? 'UTC';
  const hint = 'Write an IANA name, such as `Europe/Berlin`; without it, dates are in UTC.';
  reportAt(decoding, node, makeError('not-a-time', `\`${node.text}\` is not a time zone.`, hint));
  return 'UTC';
}

/** A time; undefined without one, and with a problem for what is none. */
export function readTime(
  decoding: Decoding,
  written: ScalarNode | undefined,
  { field, timezone }: { readonly field: 'notBefore' | 'expires' | 'at'; readonly timezone: string },
): number | undefined {
  if (written === undefined) return undefined;
  const parsed = parseInstant(written.text, field === 'expires' ? 'until' : 'from', timezone);
  if (parsed.ok) return parsed.value;
  reportAt(decoding, written, makeError('not-a-time', `\`${field}: ${written.text}\` is not a time.`, parsed.error));
  return undefined;
}

export function decodeRule(decoding: Decoding, root: Node): Manifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const timezone = readTimezone(decoding, root);
  const notes = decodeNotes(decoding, {}, [findChild(root, 'metadata'), spec], timezone);
  const template =
    spec === undefined ? null : decodeTemplate(decoding, { name: named.name, spec, defaults: undefined, notes });
  return { kind: 'Rule', ...named, rules: template === null ? [] : [template] };
}

export function decodeRuleSet(decoding: Decoding, root: Node): Manifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const defaults = findChild(spec, 'defaults');
  const timezone = readTimezone(decoding, root);
  const notes = decodeNotes(decoding, {}, [findChild(root, 'metadata'), spec], timezone);
  const items = findChild(spec, 'rules');
  const isClear =
    defaults === undefined ||
    (oneOf(decoding, defaults, userFields) && oneOf(decoding, defaults, ['destination', 'destinations']));
  if (!isClear) return { kind: 'RuleSet', ...named, rules: [] };
  const rules: RuleTemplate[] = [];
  const names = new Map<string, Node>();
  for (const item of items?.type === 'seq' ? items.items : []) {
    const nameNode = findScalar(item, 'name');
    if (nameNode === undefined) continue;
    const first = names.get(nameNode.text);
    if (first !== undefined) {
      const summary = `This set has two rules named \`${nameNode.text}\`.`;
      const hint = 'Give each rule of a set a name of its own.';
      reportAt(decoding, nameNode, relateTo(makeError('duplicate-name', summary, hint), getPlace(decoding, first)));
      continue;
    }
    names.set(nameNode.text, nameNode);
    const name = `${named.name}/${nameNode.text}`;
    const own = decodeNotes(decoding, notes, [item], timezone);
    const template = decodeTemplate(decoding, { name, spec: item, defaults, notes: own });
    if (template !== null) rules.push(template);
  }
  return { kind: 'RuleSet', ...named, rules };
}

interface TemplateSource {
  readonly name: string;
  readonly spec: Node;
  readonly defaults: Node | undefined;
  readonly notes: RuleNotes;
}

function decodeTemplate(decoding: Decoding, source: TemplateSource): RuleTemplate | null {
  const { spec, defaults, name } = source;
  const action = findScalar(spec, 'action') ?? findScalar(defaults, 'action');
  const destinations = decodeDestinations(decoding, source);
  const ports = decodePorts(decoding, source);
  const users = decodeRuleUsers(decoding, source);
  if (action === undefined) {
    const summary = 'The field `action` is missing, here and in the defaults.';
    reportAt(decoding, spec, makeError('missing-field', summary, 'Write `action: accept` or `action: drop`.'));
  }
  if (action === undefined || destinations === null || ports === 'invalid' || users === 'invalid') return null;
  const [first] = isList(destinations) ? destinations : [destinations];
  const place = first?.place ?? getPlace(decoding, spec);
  return { name, place, action: action.value as Action, destinations, ports, users, ...source.notes };
}

function decodeDestinations(decoding: Decoding, { spec, defaults }: TemplateSource) {
  if (!oneOf(decoding, spec, ['destination', 'destinations'])) return null;
  const inherits = findChild(spec, 'destination') === undefined && findChild(spec, 'destinations') === undefined;
  const holder = inherits ? defaults : spec;
  const list = findChild(holder, 'destinations');
  const single = findChild(holder, 'destination');
  if (list?.type === 'seq') {
    const references = list.items.flatMap((node) => destinationOf(decoding, node) ?? []);
    return references.length < list.items.length ? null : references;
  }
  if (single !== undefined) {
    const reference = destinationOf(decoding, single);
    return single.type === 'map' && reference !== null ? [reference] : reference;
  }
  const hint = 'Write an IP address or a network in CIDR notation, such as `10.0.0.0/8`.';
  return reportAt(decoding, spec, makeError('missing-field', 'The field `destination` is missing.', hint));
}

function destinationOf(decoding: Decoding, node: Node) {
  const networkName = findScalar(node, 'network');
  if (networkName !== undefined) return { networkName: networkName.text, place: getPlace(decoding, node) };
  const network = readNetwork(decoding, node);
  return network === null ? null : { network, place: getPlace(decoding, node) };
}

function decodePorts(decoding: Decoding, { spec, defaults }: TemplateSource): TemplatePorts | null | 'invalid' {
  const node = findChild(spec, 'port_range') ?? findChild(defaults, 'port_range');
  const own = findScalar(spec, 'port_type');
  const type = own ?? findScalar(defaults, 'port_type');
  if (node === undefined || (node.type === 'scalar' && node.value === null)) {
    if (own === undefined || own.value === null) return null;
    const summary = 'There is a `port_type` and no `port_range`; the server refuses that.';
    const hint = 'Write `port_range: 1-65534` for all ports of this protocol, or remove `port_type` for all traffic.';
    reportAt(decoding, own, makeError('port-range-missing', summary, hint));
    return 'invalid';
  }
  const nodes = node.type === 'seq' ? node.items : [node];
  const ranges = nodes.flatMap((item) => {
    const value = readPorts(decoding, item, decoding.profile.ports);
    return value === null ? [] : [{ value, place: getPlace(decoding, item) }];
  });
  if (type === undefined || type.value === null) {
    const hint = 'Write `port_type: tcp` or `port_type: udp`.';
    reportAt(decoding, node, makeError('port-type-missing', 'There is a `port_range` and no `port_type`.', hint));
    return 'invalid';
  }
  if (ranges.length < nodes.length) return 'invalid';
  const [first] = ranges;
  if (first === undefined) {
    const hint = 'Write `port_range: null` for all traffic, or list the ports.';
    reportAt(decoding, node, makeError('empty-ports', 'The list of ports is empty.', hint));
    return 'invalid';
  }
  return { type: type.value as PortType, ranges: node.type === 'seq' ? ranges : first };
}

const userFields = ['user_id', 'user', 'group', 'users'];

function decodeRuleUsers(decoding: Decoding, { spec, defaults }: TemplateSource) {
  if (!oneOf(decoding, spec, userFields)) return 'invalid';
  const holder = userFields.some((field) => findChild(spec, field) !== undefined) ? spec : defaults;
  const list = findChild(holder, 'users');
  if (list?.type === 'seq') {
    return list.items.flatMap((item): UserReference[] => {
      const group = findScalar(item, 'group');
      if (group !== undefined) return [groupAt(decoding, group, item)];
      return item.type === 'scalar' ? [readUser(decoding, item)] : [];
    });
  }
  const group = findScalar(holder, 'group');
  if (group !== undefined) return [groupAt(decoding, group, group)];
  const user = findScalar(holder, 'user') ?? findScalar(holder, 'user_id');
  return user === undefined || user.value === null ? null : readUser(decoding, user);
}

function groupAt(decoding: Decoding, { text }: ScalarNode, node: Node): UserReference {
  return { by: 'group', name: text, place: getPlace(decoding, node) };
}

/** Reports when more than one of the fields is written. */
function oneOf(decoding: Decoding, node: Node, fields: readonly string[]): boolean {
  const written = fields.filter((field) => findChild(node, field) !== undefined);
  const second = findChild(node, written[1] ?? '');
  if (second === undefined) return true;
  const summary = `\`${written[0]}\` and \`${written[1]}\` cannot stand side by side.`;
  reportAt(decoding, second, makeError('conflicting-fields', summary, 'Keep one of them.'));
  return false;
}
