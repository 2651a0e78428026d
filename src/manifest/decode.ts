import { type Network, parseNetwork } from '../model/address.ts';
import { type PortRange, parsePortRange } from '../model/port-range.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { addressFinding, hostBitsFinding, portFinding } from './address-faults.ts';
import type { Finding } from './check.ts';
import type { UserReference } from './manifest.ts';
import { type Node, type ScalarNode, scalarOf } from './node.ts';
import type { Reporter } from './reporter.ts';
import { isUuid } from './schema.ts';

/** What decoding one document works with. The document's shape was checked before. */
export interface Decoding {
  readonly reporter: Reporter;
  readonly profile: Profile;
}

/** The place of a node. */
export function placeOf(decoding: Decoding, node: Node): Place {
  return decoding.reporter.locator.place(node.start);
}

/** Reports a finding. */
export function report(decoding: Decoding, finding: Finding): void {
  decoding.reporter.add(finding.problem, finding.offset);
}

/** Reports an error at a node. */
export function reportAt(
  decoding: Decoding,
  node: Node,
  problem: Omit<Problem, 'place' | 'excerpt' | 'severity'>,
): void {
  decoding.reporter.add({ severity: 'error', ...problem }, node.start);
}

/** The network that a scalar names; null (and a problem) when it names none. */
export function networkOf(decoding: Decoding, node: Node): Network | null {
  if (node.type !== 'scalar') return null;
  const parsed = parseNetwork(node.text);
  if (!parsed.ok) {
    report(decoding, addressFinding(parsed.error, node.start));
    return null;
  }
  if (parsed.value.hostBits) report(decoding, hostBitsFinding(parsed.value, node.start));
  const { network } = parsed.value;
  // Most people write the canonical text; then the file's own text is kept instead of a second one put together.
  return network.text === node.text ? { ...network, text: node.text } : network;
}

/** The ports that a scalar names, within the server's bounds; null (and a problem) when it names none. */
export function portsOf(decoding: Decoding, node: Node): PortRange | null {
  if (node.type !== 'scalar') return null;
  const parsed = parsePortRange(node.text, decoding.profile.ports);
  if (parsed.ok) return parsed.value;
  report(decoding, portFinding(parsed.error, decoding.profile.ports, node.start));
  return null;
}

/** The user that a scalar names: a UUID, an e-mail address, or a name. */
export function userOf(decoding: Decoding, node: ScalarNode): UserReference {
  const text = node.text.trim();
  const place = placeOf(decoding, node);
  if (isUuid(text)) return { by: 'id', id: text.toLowerCase(), place };
  return text.includes('@') ? { by: 'email', name: text.toLowerCase(), place } : { by: 'name', name: text, place };
}

/** The name of a manifest and where it stands. */
export function nameOf(decoding: Decoding, root: Node): { readonly name: string; readonly place: Place } {
  const metadata = root.type === 'map' ? root.entries.find((entry) => entry.key === 'metadata')?.value : undefined;
  const node = scalarOf(metadata, 'name');
  return { name: node?.text ?? '', place: placeOf(decoding, node ?? root) };
}
