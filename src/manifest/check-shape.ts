import { makeError } from '../model/problem.ts';
import { findOtherName, findOwn, hintAtText, otherNames, otherValues, wanted, wantedItem } from './hints.ts';
import type { Kind } from './manifest.ts';
import { type Finding, findEntry, findNode, isSecretField, type Node } from './node.ts';
import { findSchema, listFields } from './schema.ts';
import { didYouMean, suggest } from './suggest.ts';
import { findViolations, type Violation } from './violations.ts';
import { findStrangeSpace, strangeSpace } from './yaml-faults.ts';

const mostFindings = 50;

/** Checks the shape of a document against its kind's schema. No finding quotes a value, only names of fields. */
export function checkShape(kind: Kind, root: Node): readonly Finding[] {
  const violations = findViolations(findSchema(kind), root).slice(0, mostFindings);
  const findings = violations.flatMap((violation) => describe(kind, root, violation));
  // A field that is only misspelt, or in the wrong place, is not missing as well.
  const meant = new Set(findings.flatMap((finding) => finding.meant ?? []));
  return findings.filter(({ missing }) => missing === undefined || !meant.has(missing));
}

function describe(kind: Kind, root: Node, violation: Violation): readonly Finding[] {
  const { path, unknown, inside } = violation;
  if (unknown !== undefined) {
    return unknown.slice(0, mostFindings).map((key) => unknownField(kind, root, path, key));
  }
  const { node, depth } = findNode(root, path);
  if (depth < path.length) return [missingField(root, path, node)];
  if (violation.isBadName) {
    const summary = `\`${String(path.at(-1)).slice(0, 80)}\` is not a name.`;
    const problem = makeError('wrong-type', summary, 'Use a-z, A-Z, 0-9 and `. _ @ + -` inside.');
    return [{ problem, offset: keyStart(root, path) }];
  }
  const ofKind = wantedOfKind(kind, path, node);
  if (ofKind !== null) return [{ problem: wrongForm(path, ofKind, node), offset: node.start }];
  if (inside === undefined) return [{ problem: wrongValue(violation, node), offset: node.start }];
  return inside.flatMap((one) => describe(kind, root, { ...one, path: [...path, ...one.path] }));
}

/** Where a kind wants something else than others in a field of that name, or in a field that people name. */
function wantedOfKind(kind: Kind, path: readonly PropertyKey[], node: Node): string | null {
  const field = fieldOf(path);
  if (kind === 'RuleSet' && field === 'destination' && node.type === 'seq')
    return 'Write the list under `destinations`.';
  if (kind === 'Users' && path.length === 2 && path[0] === 'spec') return "Write the user's UUID.";
  if (kind !== 'Rule' || node.type === 'scalar' || (field !== 'destination' && field !== 'port_range')) return null;
  if (node.type === 'map') return 'A Rule has an address here; `{network: NAME}` stands in a `kind: RuleSet`.';
  return field === 'destination'
    ? 'A Rule has one destination. Write a Rule for each, or a `kind: RuleSet` with `destinations: […]`.'
    : 'A Rule has one range of ports. Write a Rule for each, or a `kind: RuleSet`, which takes a list.';
}

function unknownField(kind: Kind, root: Node, path: readonly PropertyKey[], key: string): Finding {
  const parent = findNode(root, path).node;
  const offset = findEntry(parent, key)?.keyStart ?? parent.start;
  if (key === '<<') return { problem: mergeKey, offset };
  const strange = findStrangeSpace(key);
  if (strange !== null) {
    const { at, summary, hint } = strange;
    const meant = key.replaceAll(new RegExp(strangeSpace, 'g'), '').trim();
    return { problem: { code: 'unknown-field', severity: 'error', summary, hint }, offset: offset + at, meant };
  }
  const { hint, meant } = fieldElsewhere(kind, path, key) ?? nearestField(key, listFields(kind, path));
  // Inside a provider a wrong key may be a piece of a secret: only what resembles a field is quoted.
  const quotable = meant !== null || !path.some((step) => String(step).endsWith('_providers'));
  const summary = quotable ? `There is no field \`${key.slice(0, 80)}\` here.` : 'There is no such field here.';
  const problem = { code: 'unknown-field', severity: 'error', summary, hint } as const;
  return { problem, offset, ...(meant === null ? {} : { meant }) };
}

function nearestField(key: string, fields: readonly string[]): Elsewhere {
  const known = fields.length === 0 ? 'Remove it.' : `Known here: ${fields.map((field) => `\`${field}\``).join(', ')}.`;
  return { hint: didYouMean(key, fields, known), meant: suggest(key, fields) };
}

interface Elsewhere {
  readonly hint: string;
  /** The field that was meant; null when none is near. */
  readonly meant: string | null;
}

const holders = [['spec'], ['metadata'], ['spec', 'defaults']] as const;

/** A field of rules and sets, or at the top of any document, that stands in another place of the same document. */
function fieldOutside(kind: Kind, path: readonly PropertyKey[], key: string): Elsewhere | null {
  const holder = holders.find((one) => listFields(kind, one).includes(key));
  const isKnown = key === 'name' || (path[0] === 'spec' && findOtherName(key) !== key);
  if (holder === undefined || isKnown || (path.length > 1 && kind !== 'Rule' && kind !== 'RuleSet')) return null;
  const hint = `It belongs below \`${holder.join('.')}:\`${path.length === 0 ? ': indent it there' : ''}.`;
  return { hint, meant: holder[0] };
}

/** Where such a field belongs, or what another tool's field is here; null when neither is known. */
function fieldElsewhere(kind: Kind, path: readonly PropertyKey[], key: string): Elsewhere | null {
  if (path.length < 2 && path[0] !== 'metadata' && key === 'name')
    return { hint: 'Write `metadata: {name: NAME}`.', meant: 'metadata' };
  const outside = fieldOutside(kind, path, key);
  if (outside !== null) return outside;
  if (path[0] !== 'spec' || !listFields(kind, path).includes('action')) return null;
  if (kind === 'Rule' && listFields('RuleSet', ['spec', 'rules', 0]).includes(key)) {
    const single = key.replace(/s$/, '');
    return { hint: `Only a \`kind: RuleSet\` has it; a Rule has one \`${single}\`.`, meant: single };
  }
  const meant = findOtherName(key);
  const hint = findOwn(otherNames, meant);
  return hint === undefined ? null : { hint, meant };
}

const mergeKey = makeError(
  'unknown-field',
  'Merge keys (`<<`) are YAML 1.1.',
  'Write the fields out, or use `defaults`.',
);

function missingField(root: Node, path: readonly PropertyKey[], parent: Node): Finding {
  const field = String(path.at(-1));
  const isOfRule = field === 'name' && path.at(-3) === 'rules';
  const usual = parent === root && field === 'metadata' ? 'Write `metadata: {name: NAME}`.' : wanted[field];
  const hint = isOfRule ? 'Begin it with `- name: NAME`; each rule of a set has a name of its own.' : usual;
  const summary = isOfRule ? 'This rule has no `name`.' : `The field \`${field}\` is missing.`;
  const offset = parent === root ? root.start : keyStart(root, path.slice(0, -1));
  return { problem: makeError('missing-field', summary, hint ?? 'Add it.'), offset, missing: field };
}

function wrongValue({ path, values, types }: Violation, node: Node): Finding['problem'] {
  const name = fieldOf(path);
  if (values.length === 0 || node.type !== 'scalar' || isSecretField(name)) {
    const forText = node.type === 'scalar' ? hintAtText(name, node) : findOwn(otherValues, name)?.['both'];
    const usual = findOwn(isItem(path) ? wantedItem : wanted, name) ?? typeHint(node, types);
    return wrongForm(path, isSecretField(name) ? usual : (forText ?? usual), node);
  }
  const strange = findStrangeSpace(node.text);
  const other = findOwn(findOwn(otherValues, name) ?? {}, node.text.toLowerCase());
  const hint = didYouMean(node.text, values, wanted[name] ?? `Write one of: ${values.join(', ')}.`);
  const summary = `\`${node.text.slice(0, 80)}\` is not a value of \`${name}\`.`;
  const { summary: said, hint: toType } = strange ?? { summary, hint: other ?? hint };
  return { code: 'invalid-value', severity: 'error', summary: said, hint: toType };
}

function fieldOf(path: readonly PropertyKey[]): string {
  return String(path.findLast((step) => typeof step === 'string') ?? 'value');
}

function isItem(path: readonly PropertyKey[]): boolean {
  return typeof path.at(-1) === 'number';
}

function wrongForm(path: readonly PropertyKey[], hint: string, node: Node): Finding['problem'] {
  const what = node.type === 'seq' ? 'a list' : 'a mapping';
  const field = `\`${fieldOf(path)}\``;
  const [one, all] = isItem(path) ? ['an item', `An item of ${field}`] : ['a value', field];
  const summary = node.type === 'scalar' ? `This is not ${one} of ${field}.` : `${all} cannot be ${what}.`;
  return { code: 'wrong-type', severity: 'error', summary, hint };
}

function typeHint(node: Node, types: readonly string[]): string {
  const words = [...new Set(types)];
  if (words.length === 0) return 'See the reference of this kind: `reconcile schema KIND`.';
  const quoted = node.type === 'scalar' && !node.plain && !words.includes('a text');
  return `Write ${words.join(' or ')}${quoted ? ', without quotes' : ''}.`;
}

/** Where the key at the end of a path stands; for an item of a list, where the item stands. */
function keyStart(root: Node, path: readonly PropertyKey[]): number {
  const parent = findNode(root, path.slice(0, -1)).node;
  const last = path.at(-1);
  return findEntry(parent, String(last))?.keyStart ?? findNode(root, path).node.start;
}
