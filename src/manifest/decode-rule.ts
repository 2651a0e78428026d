import type { PortRange, PortType } from '../model/port-range.ts';
import { type Action, pickNotes, type RuleNotes } from '../model/rule.ts';
import { decodeNotes, narrowTimes, readNotes, readTimes, readTimezone } from './decode-notes.ts';
import { type Decoding, getPlace, readName, readNetwork, readPorts, readUser, reportAt } from './decoding.ts';
import type {
  DestinationReference,
  RuleManifest,
  RuleTemplate,
  TemplatePorts,
  UserReference,
  Written,
  WrittenRule,
} from './manifest.ts';
import { findChild, findScalar, type Node } from './node.ts';

export function decodeRule(decoding: Decoding, root: Node): RuleManifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const template =
    spec === undefined
      ? null
      : decodeTemplate(decoding, { name: named.name, spec, defaults: undefined, notes: decodeNotes(decoding, root) });
  return { kind: 'Rule', ...named, rules: template === null ? [] : [template] };
}

export function decodeRuleSet(decoding: Decoding, root: Node): RuleManifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const defaults = findChild(spec, 'defaults');
  const notes = decodeNotes(decoding, root);
  const timezone = readTimezone(decoding, root);
  const items = findChild(spec, 'rules');
  const isClear =
    defaults === undefined ||
    (oneOf(decoding, defaults, userFields) && oneOf(decoding, defaults, ['destination', 'destinations']));
  if (!isClear) return { kind: 'RuleSet', ...named, rules: [] };
  const rules: WrittenRule[] = [];
  const names = new Map<string, Node>();
  for (const item of items?.type === 'seq' ? items.items : []) {
    const nameNode = findScalar(item, 'name');
    if (nameNode === undefined) continue;
    const first = names.get(nameNode.text);
    if (first !== undefined) {
      reportAt(decoding, nameNode, {
        code: 'duplicate-name',
        summary: `This set has two rules named \`${nameNode.text}\`.`,
        hint: 'Give each rule of a set a name of its own.',
        related: [{ place: getPlace(decoding, first), note: 'the first one' }],
      });
      continue;
    }
    names.set(nameNode.text, nameNode);
    const template = decodeTemplate(decoding, {
      name: `${named.name}/${nameNode.text}`,
      spec: item,
      defaults,
      notes: narrowTimes(decoding, notes, { ...readNotes(item), ...readTimes(decoding, item, timezone) }, item),
    });
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

function decodeTemplate(decoding: Decoding, source: TemplateSource): WrittenRule | null {
  const { spec, defaults, name } = source;
  const action = findScalar(spec, 'action') ?? findScalar(defaults, 'action');
  const destinations = decodeDestinations(decoding, source);
  const ports = decodePorts(decoding, source);
  const users = decodeRuleUsers(decoding, source);
  if (action === undefined) {
    reportAt(decoding, spec, {
      code: 'missing-field',
      summary: 'The field `action` is missing, here and in the defaults.',
      hint: 'Write `action: accept` or `action: drop`.',
    });
  }
  if (action === undefined || destinations === null || ports === 'invalid' || users === 'invalid') return null;
  return inLastForm({
    ...source.notes,
    name,
    place: destinations.references[0]?.place ?? getPlace(decoding, spec),
    action: action.value as Action,
    destinations: destinations.references,
    ports: ports.ports,
    users: users.references,
    listed: { destinations: destinations.listed, ports: ports.listed, users: users.listed },
  });
}

/** The one rule that a template stands for, where it lists nothing and names no network; else the template. */
function inLastForm(template: RuleTemplate): WrittenRule {
  const { name, place, action, ports, users, listed } = template;
  const [destination] = template.destinations;
  if (listed.destinations || listed.ports || listed.users) return template;
  if (destination === undefined || !('network' in destination)) return template;
  const [range] = ports?.ranges ?? [];
  const [user] = users ?? [];
  const rule = {
    action,
    destination: destination.network,
    ports: ports === null || range === undefined ? null : { type: ports.type, ...range.value },
    userId: user?.by === 'id' ? user.id : null,
  };
  const plain = { ...pickNotes(template), name, place, rule };
  return user === undefined || user.by === 'id' ? plain : { ...plain, user };
}

interface Destinations {
  readonly references: readonly DestinationReference[];
  readonly listed: boolean;
}

function decodeDestinations(decoding: Decoding, { spec, defaults }: TemplateSource): Destinations | null {
  if (!oneOf(decoding, spec, ['destination', 'destinations'])) return null;
  const inherits = findChild(spec, 'destination') === undefined && findChild(spec, 'destinations') === undefined;
  const holder = inherits ? defaults : spec;
  const list = findChild(holder, 'destinations');
  const single = findChild(holder, 'destination');
  const nodes = list?.type === 'seq' ? list.items : single === undefined ? null : [single];
  if (nodes === null) {
    reportAt(decoding, spec, {
      code: 'missing-field',
      summary: 'The field `destination` is missing.',
      hint: 'Write an IP address or a network in CIDR notation, such as `10.0.0.0/8`.',
    });
    return null;
  }
  // Mapped, not pushed: an array that grows by `push` has room for 17, and there may be 100,000 of them.
  const references = nodes.map((node) => destinationOf(decoding, node));
  if (references.includes(null)) return null;
  return {
    references: references as readonly DestinationReference[],
    listed: list !== undefined || single?.type === 'map',
  };
}

function destinationOf(decoding: Decoding, node: Node): DestinationReference | null {
  const networkName = findScalar(node, 'network');
  if (networkName !== undefined) return { networkName: networkName.text, place: getPlace(decoding, node) };
  const network = readNetwork(decoding, node);
  return network === null ? null : { network, place: getPlace(decoding, node) };
}

function decodePorts(
  decoding: Decoding,
  { spec, defaults }: TemplateSource,
): { readonly ports: TemplatePorts | null; readonly listed: boolean } | 'invalid' {
  const node = findChild(spec, 'port_range') ?? findChild(defaults, 'port_range');
  const own = findScalar(spec, 'port_type');
  const type = own ?? findScalar(defaults, 'port_type');
  if (node === undefined || (node.type === 'scalar' && node.value === null)) {
    if (own === undefined || own.value === null) return { ports: null, listed: false };
    reportAt(decoding, own, {
      code: 'port-range-missing',
      summary: 'There is a `port_type` and no `port_range`; the server refuses that.',
      hint: 'Write `port_range: 1-65534` for all ports of this protocol, or remove `port_type` for all traffic.',
    });
    return 'invalid';
  }
  const nodes = node.type === 'seq' ? node.items : [node];
  const ranges = nodes.map((item) => rangeOf(decoding, item));
  if (type === undefined || type.value === null) {
    reportAt(decoding, node, {
      code: 'port-type-missing',
      summary: 'There is a `port_range` and no `port_type`.',
      hint: 'Write `port_type: tcp` or `port_type: udp`.',
    });
    return 'invalid';
  }
  if (ranges.includes(null)) return 'invalid';
  if (ranges.length === 0) {
    reportAt(decoding, node, {
      code: 'empty-ports',
      summary: 'The list of ports is empty.',
      hint: 'Write `port_range: null` for all traffic, or list the ports.',
    });
    return 'invalid';
  }
  const ports = { type: type.value as PortType, ranges: ranges as readonly Written<PortRange>[] };
  return { ports, listed: node.type === 'seq' };
}

function rangeOf(decoding: Decoding, node: Node): Written<PortRange> | null {
  const value = readPorts(decoding, node);
  return value === null ? null : { value, place: getPlace(decoding, node) };
}

const userFields = ['user_id', 'user', 'group', 'users'];

function decodeRuleUsers(
  decoding: Decoding,
  { spec, defaults }: TemplateSource,
): { readonly references: readonly UserReference[] | null; readonly listed: boolean } | 'invalid' {
  if (!oneOf(decoding, spec, userFields)) return 'invalid';
  const holder = userFields.some((field) => findChild(spec, field) !== undefined) ? spec : defaults;
  const list = findChild(holder, 'users');
  if (list?.type === 'seq') {
    const references = list.items.flatMap((item): UserReference[] => {
      const group = findScalar(item, 'group');
      if (group !== undefined) return [{ by: 'group', name: group.text, place: getPlace(decoding, item) }];
      return item.type === 'scalar' ? [readUser(decoding, item)] : [];
    });
    return { references, listed: true };
  }
  const group = findScalar(holder, 'group');
  if (group !== undefined) {
    return { references: [{ by: 'group', name: group.text, place: getPlace(decoding, group) }], listed: true };
  }
  const user = findScalar(holder, 'user') ?? findScalar(holder, 'user_id');
  if (user === undefined || user.value === null) return { references: null, listed: false };
  return { references: [readUser(decoding, user)], listed: false };
}

/** Reports when more than one of the fields is written. */
function oneOf(decoding: Decoding, node: Node, fields: readonly string[]): boolean {
  const written = fields.filter((field) => findChild(node, field) !== undefined);
  const second = findChild(node, written[1] ?? '');
  if (second === undefined) return true;
  reportAt(decoding, second, {
    code: 'conflicting-fields',
    summary: `\`${written[0]}\` and \`${written[1]}\` cannot stand side by side.`,
    hint: 'Keep one of them.',
  });
  return false;
}
