import { posix } from 'node:path';
import type { ConfigurationManifest, SecretSource } from '../manifest/manifest.ts';
import { Flow, writeManifest, type Yaml } from '../manifest/write.ts';
import { mapSecrets } from '../model/configuration.ts';
import { formatInstant } from '../model/instant.ts';
import { formatPortRange } from '../model/port-range.ts';
import { escapeControls } from '../model/printable.ts';
import type { Place } from '../model/problem.ts';
import { type DesiredRule, pickNotes, toWire } from '../model/rule.ts';
import { type DesiredState, listAllRules, type PolicyCase } from '../model/state.ts';
import { writePorts } from './export.ts';
import { writeFields } from './export-configuration.ts';

/** Rules printed at once: the text of 100,000 is not needed in one piece. */
const rulesAtOnce = 1_000;

/**
 * Writes the whole desired state as canonical manifests, each with its place, without sets, groups, networks or values, in pieces that
 * are put together as they are. `configuration`: with its references, since a resolved secret has no place in a text.
 */
export function* printState(state: DesiredState, configuration: ConfigurationManifest | null): Generator<string> {
  let separator = '';
  for (const documents of inPieces(state, configuration)) {
    yield separator + documents.join('---\n');
    separator = '---\n';
  }
}

function* inPieces(state: DesiredState, configuration: ConfigurationManifest | null): Generator<readonly string[]> {
  const { tests, userNames } = state;
  const rules = listAllRules(state);
  if (configuration !== null) {
    const { name, place, fields } = configuration;
    const spec = writeFields(mapSecrets(fields, referenceOf));
    yield [origin(place, undefined) + writeManifest('Configuration', { name }, spec)];
  }
  for (let start = 0; start < rules.length; start += rulesAtOnce) {
    yield rules.slice(start, start + rulesAtOnce).map((rule) => printRule(rule, userNames));
  }
  if (tests.length > 0) yield [writeManifest('PolicyTest', { name: 'all' }, { cases: tests.flatMap(caseFields) })];
  if (rules.length === 0) yield [writeManifest('RuleSet', { name: 'none' }, { rules: [] })];
}

function origin({ file, line }: Place, note: string | undefined): string {
  return `# ${escapeControls(file)}:${line}${note === undefined ? '' : ` (${escapeControls(note)})`}\n`;
}

function printRule(desired: DesiredRule, userNames: ReadonlyMap<string, string>): string {
  const { name, rule, place } = desired;
  const { notBefore, expires, ...ownership } = pickNotes(desired);
  const { action, destination, port_type, port_range, user_id } = toWire(rule);
  // An e-mail address that was not looked up stands for its user.
  const isEmail = user_id?.includes('@') === true;
  const document = writeManifest(
    'Rule',
    { name, ...ownership },
    {
      action,
      destination,
      ...(port_type === null || port_range === null ? {} : { port_type, port_range: writePorts(port_range) }),
      ...(user_id === null ? {} : isEmail ? { user: user_id } : { user_id }),
      ...(notBefore === undefined ? {} : { notBefore: formatInstant(notBefore) }),
      ...(expires === undefined ? {} : { expires: formatInstant(expires) }),
    },
  );
  return origin(place, user_id === null || isEmail ? undefined : userNames.get(user_id)) + document;
}

/** A literal secret is not shown; the reference that takes its place says so. */
function referenceOf(source: SecretSource): Flow {
  if (source.from === 'literal') return new Flow({ env: 'RECONCILE_SECRET_NOT_SHOWN' });
  if (source.from === 'env') return new Flow({ env: source.name });
  // As a manifest in the root names it: what is printed may lie there.
  const { name, place } = source;
  return new Flow({ file: posix.isAbsolute(name) ? name : posix.join(posix.dirname(place.file), name) });
}

/** One case, or one for each protocol when it is neither one nor all of them. */
function caseFields({ name, user, destination, protocols, ports, expect, always, at }: PolicyCase): readonly Yaml[] {
  const each = protocols.length === 3 ? [undefined] : protocols;
  const allPorts = ports.low === 0 && ports.high === 65535;
  return each.map((protocol) => ({
    name,
    user: user ?? undefined,
    destination: destination.text,
    protocol,
    port: allPorts ? undefined : writePorts(formatPortRange(ports)),
    expect,
    always: always ? true : undefined,
    at: at === undefined ? undefined : formatInstant(at.time),
  }));
}
