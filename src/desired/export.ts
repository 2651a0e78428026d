import { Flow, writeManifest, type Yaml } from '../manifest/write.ts';
import { compareNetworks } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { formatPortRange } from '../model/port-range.ts';
import { compareText, makeWarning, type Problem } from '../model/problem.ts';
import { collides, compareRules, formatRuleKey, type LiveRule, type Rule } from '../model/rule.ts';

/** A file to be written; `path` is relative to the output directory, with `/`. */
export type ExportedFile = Readonly<Record<'path' | 'text', string>>;

/** Where the schema of manifests lies; a name that no source takes for a manifest. */
const schemaPath = '.firezone-manifest.schema.json';

/** The files with the JSON Schema of manifests beside them, and in each manifest the line that tells editors where it is. */
export function addEditorSchema(files: readonly ExportedFile[], schema: string): readonly ExportedFile[] {
  const manifests = files.map(({ path, text }): ExportedFile => {
    if (!path.endsWith('.yaml')) return { path, text };
    const up = '../'.repeat(path.split('/').length - 1);
    return { path, text: `# yaml-language-server: $schema=${up}${schemaPath}\n${text}` };
  });
  return [...manifests, { path: schemaPath, text: schema }];
}

/** How the users of rules are written. */
export interface ExportUsers {
  /** E-mail address by id, where manifests can name users by e-mail; otherwise empty. */
  readonly emails: ReadonlyMap<string, string>;
  /** Whether rules that the server could not hold side by side may occur (another server than Firezone). */
  readonly mayCollide: boolean;
}

/** The rules without second copies, which no manifest can ask for. */
export function removeCopies(live: readonly LiveRule[]): readonly LiveRule[] {
  return [...groupBy(live, ({ rule }) => formatRuleKey(rule)).values()].flatMap((copies) => copies.slice(0, 1));
}

/** The warning about as many second copies; none without any. */
export function describeCopies(copies: number): readonly Problem[] {
  if (copies === 0) return [];
  const summary = `The server holds second copies of rules (${copies} in all): each rule was written once.`;
  const hint = 'A plan of the files deletes the copies; no traffic changes by that.';
  return [makeWarning('live-duplicates', summary, hint)];
}

/** Live rules as a person would have written them: a file a user, a RuleSet an action. The order of rules does not matter. */
export function exportRules(live: readonly LiveRule[], users: ExportUsers): readonly ExportedFile[] {
  const rules = live.map((one) => one.rule).sort(compareRules);
  if (rules.length === 0) return [{ path: 'rules/everyone.yaml', text: ruleSet('everyone', null, 'accept', []) }];
  const files: ExportedFile[] = [];
  const names = new Set<string>();
  for (const [userId, own] of groupBy(rules, (rule) => rule.userId)) {
    const email = userId === null ? undefined : users.emails.get(userId);
    const name = makeUnique(slugify(userId === null ? 'everyone' : (email ?? userId)), names);
    const user: UserField = userId === null ? null : email === undefined ? { user_id: userId } : { user: email };
    const documents = [...groupBy(own, (rule) => rule.action)].map(([action, ofAction]) =>
      ruleSet(`${name}-${action}`, user, action, entriesOf(ofAction, users.mayCollide)),
    );
    files.push({ path: `rules/${name}.yaml`, text: documents.join('---\n') });
  }
  return files.sort((a, b) => compareText(a.path, b.path));
}

/** E-mail addresses by user id that a manifest can name: with an `@`, no space around it, and one user only. */
export function findNameableEmails(users: readonly { readonly id: string; readonly email: string }[]) {
  const byEmail = groupBy(users, ({ email }) => email.toLowerCase());
  const single = [...byEmail.values()].flatMap((same) => (same.length === 1 ? same : []));
  const named = single.filter(({ email }) => email.includes('@') && email === email.trim());
  return new Map(named.map(({ id, email }) => [id, email]));
}

type UserField = { readonly user: string } | { readonly user_id: string } | null;

function ruleSet(name: string, user: UserField, action: string, rules: readonly Yaml[]): string {
  return writeManifest('RuleSet', { name }, { defaults: new Flow({ action, ...user }), rules });
}

function destinationsField(rules: readonly Rule[]): { readonly [key: string]: Yaml } {
  const destinations = rules.map((rule) => rule.destination).sort(compareNetworks);
  const [only = '', ...more] = destinations.map((network) => network.text);
  return more.length === 0 ? { destination: only } : { destinations: [only, ...more] };
}

/** Ports as people write them: `443`, `8000-8010`. */
export function writePorts(text: string): string | number {
  return /^[0-9]+$/.test(text) ? Number(text) : text.replaceAll(' ', '');
}

/** Entries of one user and action, each for destinations that share their ports; rules that collide get entries of their own, lest they collapse. */
function entriesOf(rules: readonly Rule[], mayCollide: boolean): readonly Yaml[] {
  const names = new Set<string>();
  return layersOf(rules, mayCollide).flatMap((layer) =>
    [...groupBy(layer, (rule) => rule.ports?.type ?? null)].flatMap(([type, ofType]) => {
      if (type === null) return [{ name: makeUnique('any', names), ...destinationsField(ofType) }];
      return portEntries(type, ofType, names);
    }),
  );
}

function portEntries(type: string, rules: readonly Rule[], names: Set<string>): readonly Yaml[] {
  const byDestination = groupBy(rules, (rule) => rule.destination.text);
  const byRanges = groupBy([...byDestination.values()], (ofOne) => ofOne.map(rangeOf).join(','));
  return [...byRanges].map(([, groups]) => {
    const ranges = (groups[0] ?? []).map(rangeOf);
    const shown = ranges.slice(0, 3).map((range) => range.replaceAll(' ', ''));
    const more = ranges.length > 3 ? [`and-${ranges.length - 3}-more`] : [];
    const name = makeUnique([type, ...shown, ...more].join('-'), names);
    const destinations = destinationsField(groups.flatMap((group) => group.slice(0, 1)));
    const [only = null, ...others] = ranges.map(writePorts);
    const port_range = others.length === 0 ? only : new Flow([only, ...others]);
    return { name, ...destinations, port_type: type, port_range };
  });
}

function rangeOf(rule: Rule): string {
  return rule.ports === null ? '' : formatPortRange(rule.ports);
}

function layersOf(rules: readonly Rule[], mayCollide: boolean): readonly (readonly Rule[])[] {
  if (!mayCollide) return [rules];
  const layers: Rule[][] = [];
  for (const rule of rules) {
    const layer = layers.find((other) => !other.some((one) => collides(one, rule)));
    if (layer === undefined) layers.push([rule]);
    else layer.push(rule);
  }
  return layers;
}

/** Lower case, with `-` for whatever names and file names cannot have. */
export function slugify(text: string): string {
  const cleaned = text
    .toLowerCase()
    .replace(/[^a-z0-9._@+-]+/g, '-')
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '');
  return cleaned === '' ? 'unnamed' : cleaned.slice(0, 100);
}

/** The name, or with a number before its ending when it is taken; then it is taken. */
export function makeUnique(name: string, taken: Set<string>, ending = '', dash = '-'): string {
  let candidate = `${name}${ending}`;
  for (let count = 2; taken.has(candidate); count++) candidate = `${name}${dash}${count}${ending}`;
  taken.add(candidate);
  return candidate;
}
