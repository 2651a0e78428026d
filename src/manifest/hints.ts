import { countMs } from '../model/instant.ts';
import type { ScalarNode } from './node.ts';

/** What a field wants, for the hint; by field name. */
export const wanted: Readonly<Record<string, string>> = {
  name: 'Write a name of up to 127 of a-z, A-Z, 0-9 and `. _ @ + -`, in quotes where YAML reads it as a number.',
  action: 'Write `accept` or `drop`.',
  destination: 'Write an IP address or a network in CIDR notation, such as `10.0.0.0/8`.',
  destinations: 'Write a list, such as `[10.0.0.0/8, {network: staging}]`.',
  port_range: 'Write a port or a range, such as `443` or `8000-8010`.',
  port_type: 'Write `tcp` or `udp`.',
  user_id: "Write the user's UUID, or `null` for a rule for everybody.",
  user: 'Write one name from a `kind: Users`, an e-mail address or a UUID; several stand in a RuleSet under `users: [alice, bob]`.',
  users: 'Write a list, such as `[alice, {group: contractors}]`; for one user, `user: alice`.',
  group: 'Write the name of a `kind: Group`.',
  rules: 'Begin each rule with `- name: NAME`; `rules: []` says that there are none.',
  members: 'Write a list of names of users; `[]` says that there are none. Groups do not nest.',
  cidrs: 'Write a list of addresses and networks.',
  cases: 'Write a list of cases.',
  expect: 'Write `accept` or `drop`.',
  protocol: 'Write `tcp`, `udp` or `other` (ICMP and all the rest).',
  client_secret: 'Write a reference: `{env: RECONCILE_SECRET_…}` or `{file: path}`.',
  metadata: 'Write a reference to the file: `{file: path}`.',
  spec: 'Write `spec:` with the fields of this kind below it.',
  expires: 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.',
  notBefore: 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.',
  timezone: 'Write an IANA name, such as `Europe/Berlin`.',
  owner: 'Write who answers for it, a team or a person, in up to 200 characters.',
  ticket: 'Write where it was asked for, such as `NET-123`, in quotes where it is a number.',
  bases: 'Write a list of directories, such as `[../base]`.',
  vpn_session_duration: 'Write the seconds as a number, such as `86400` for a day.',
  logo: 'Write `{url: …}`, or `null` for no logo.',
};

/** What an item of a list wants, by the list's field. */
export const wantedItem: Readonly<Record<string, string>> = {
  destinations: 'Write an IP address or a network in CIDR notation, or `{network: NAME}`.',
  port_range: 'Write a port or a range, such as `443` or `8000-8010`.',
  users: 'Write the name of one user, or `{group: NAME}`.',
  rules: 'Begin each rule with `- name: NAME`.',
  members: 'Write the name of one user. Groups do not nest.',
  cidrs: 'Write an IP address or a network in CIDR notation, such as `10.0.0.0/8`.',
};

/** What people write for a field of ours, by what it is elsewhere. */
export const otherNames: Readonly<Record<string, string>> = {
  protocol:
    'Write `port_type: tcp` or `port_type: udp`, with `port_range`. Without both, a rule is for every protocol.',
  ports: 'Write `port_range: 443`, with `port_type`.',
  source: "A rule has no source address. It is for everyone's devices, or with `user: NAME` for those of one user.",
  comment: 'Write a YAML comment (`# …`) above the rule; a manifest also has `metadata: {description: …}`.',
  enabled: 'Every rule of a manifest is in force. To switch one off, remove it or comment it out with `#`.',
  destination: 'Write `destination: 10.0.0.0/8`.',
  action: 'Write `action: accept` or `action: drop`.',
};

/** Other spellings of these. */
const spellings: Readonly<Record<string, readonly string[]>> = {
  protocol: ['proto'],
  ports: ['port', 'dport', 'port_ranges'],
  source: ['sources', 'src', 'from'],
  comment: ['description', 'note'],
  enabled: ['disabled', 'active'],
  destination: ['dest', 'dst', 'to', 'cidr', 'ip', 'address'],
  action: ['verdict', 'policy'],
};

/** The name under which `otherNames` may have a field that is written so. */
export function findOtherName(written: string): string {
  return Object.keys(spellings).find((name) => spellings[name]?.includes(written)) ?? written;
}

/** What people write for a value of ours, and what to type. */
export const otherValues: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  action: {
    allow: 'Write `accept`.',
    permit: 'Write `accept`.',
    pass: 'Write `accept`.',
    deny: 'Write `drop`.',
    reject: 'Write `drop`.',
    block: 'Write `drop`.',
  },
  port_type: {
    icmp: 'ICMP has no ports. Leave out `port_type` and `port_range`: then the rule is for every protocol, ICMP too.',
    both: 'A rule is for one of the two: write one rule with `tcp` and one with `udp`.',
    any: 'Leave out `port_type` and `port_range` for every protocol; else write one rule with `tcp` and one with `udp`.',
  },
};

/** What to type instead of a text that people take for a value. */
export function hintAtText(field: string, node: ScalarNode): string | null {
  if (field === 'name') return hintForName(node);
  if (field === 'vpn_session_duration') return hintForDuration(node);
  const meant = node.plain ? findOwn(switches, node.text.toLowerCase()) : undefined;
  return meant === undefined ? null : `YAML 1.2 reads this as a text: write \`${meant}\`.`;
}

function hintForName({ text, value }: ScalarNode): string | null {
  if (typeof value !== 'string') return 'YAML does not read this as a text: put it in quotes.';
  const name = text
    .trim()
    .replaceAll(/[^A-Za-z0-9._@+-]+/g, '-')
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9_]+$/g, '');
  if (name === '' || name === text || name.length > 60) return null;
  return `A name has no spaces, only a-z, A-Z, 0-9 and \`. _ @ + -\`: write \`${name}\`.`;
}

function hintForDuration({ text, plain }: ScalarNode): string | null {
  if (!plain && /^[0-9]+$/.test(text)) return 'Write the number without quotes.';
  const [, count, unit = ''] = /^([0-9]{1,6}) ?([smhdw])/i.exec(text) ?? [];
  const seconds = countMs(`${count}${unit.toLowerCase()}`) / 1000;
  return Number.isFinite(seconds) ? `Write the seconds as a number: \`${seconds}\`.` : null;
}

/** What YAML 1.1 reads as a switch. */
const switches: Readonly<Record<string, boolean>> = { y: true, yes: true, on: true, n: false, no: false, off: false };

/** What a table holds under a text that somebody wrote: `constructor` is in none, though every object has one. */
export function findOwn<T>(table: Readonly<Record<string, T>>, written: string): T | undefined {
  return Object.hasOwn(table, written) ? table[written] : undefined;
}
