import { type Network, parseNetwork } from '../model/address.ts';
import { type PortRange, parsePortRange } from '../model/port-range.ts';
import { makeError, type Place } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { describeAddressFault, describeHostBits, describePortFault } from './address-faults.ts';
import type { UserReference } from './manifest.ts';
import { findChild, findScalar, type Node, type Reporter, type ScalarNode, type Unplaced } from './node.ts';
import { isUuid } from './schema.ts';

/** What decoding one document works with. The document's shape was checked before. */
export interface Decoding {
  readonly reporter: Reporter;
  readonly profile: Profile;
}

export function getPlace(decoding: Decoding, node: Node): Place {
  return decoding.reporter.place(node.start);
}

const namesValue = { summary: 'This names a value, and there are none.', hint: 'Give them: `--values FILE`.' };

/** Adds a problem where the node stands, and gives what stands for a value that cannot be read. */
export function reportAt(decoding: Decoding, node: Node, problem: Unplaced): null {
  const isValue = node.type === 'scalar' && node.text.includes('${');
  decoding.reporter.add(isValue ? { ...problem, ...namesValue } : problem, node.start);
  return null;
}

/** The network that a scalar names; null (and a problem) when it names none. */
export function readNetwork(decoding: Decoding, node: Node): Network | null {
  if (node.type !== 'scalar') return null;
  const parsed = parseNetwork(node.text);
  if (!parsed.ok) return reportAt(decoding, node, describeAddressFault(parsed.error, node.text));
  if (parsed.value.hostBits) reportAt(decoding, node, describeHostBits(parsed.value));
  return parsed.value.network;
}

/** The ports that a scalar names, within bounds; null (and a problem) when it names none. */
export function readPorts(decoding: Decoding, node: Node, bounds: PortRange): PortRange | null {
  if (node.type !== 'scalar') return null;
  const parsed = parsePortRange(node.text, bounds);
  return parsed.ok ? parsed.value : reportAt(decoding, node, describePortFault(parsed.error, bounds));
}

/** The user that a scalar names: a UUID, an e-mail address, or a name. */
export function readUser(decoding: Decoding, node: ScalarNode): UserReference {
  const text = node.text.trim();
  const place = getPlace(decoding, node);
  if (isUuid(text)) return { by: 'id', id: text.toLowerCase(), place };
  return text.includes('@') ? { by: 'email', name: text.toLowerCase(), place } : { by: 'name', name: text, place };
}

export function readName(decoding: Decoding, root: Node): { readonly name: string; readonly place: Place } {
  const node = findScalar(findChild(root, 'metadata'), 'name');
  return { name: node?.text ?? '', place: getPlace(decoding, node ?? root) };
}

/** Reports a field that is no http(s) URL whose host every reader takes for the same: no user, backslash, escape, other letters. */
export function checkUrl(decoding: Decoding, item: Node, field: string): void {
  const node = findChild(item, field);
  const text = node?.type === 'scalar' && node.value !== null ? node.text : '';
  const isUrl = /^https?:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?(?:[/?#]\S*)?$/i.test(text);
  if (node === undefined || (isUrl && URL.canParse(text))) return;
  const summary = `\`${field}\` is not an absolute http or https URL.`;
  const hint = 'Write it whole, such as `https://vpn.example.com/path`, without spaces or user; umlauts as `xn--…`.';
  reportAt(decoding, node, makeError('invalid-url', summary, hint));
}
