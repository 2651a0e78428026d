import type * as z from 'zod';
import type { Problem } from '../model/problem.ts';
import type { Kind } from './manifest.ts';
import { findEntry, findNode, type Node, type Plain } from './node.ts';
import { listFields, schemas } from './schema.ts';
import { didYouMean, suggest } from './suggest.ts';

/** A problem whose place is still an offset. */
export interface Finding {
  readonly problem: Omit<Problem, 'place' | 'excerpt'>;
  readonly offset: number;
}

/** Most findings reported for one document. */
const mostFindings = 50;

/** What a field wants, for the hint; by field name. */
const wanted: Readonly<Record<string, string>> = {
  name: 'Use up to 127 letters, digits and `. _ @ + -` inside; put it in quotes if YAML reads it as something else.',
  action: 'Write `accept` or `drop`.',
  destination: 'Write an IP address or a network in CIDR notation, such as `10.0.0.0/8`.',
  destinations: 'Write a list, such as `[10.0.0.0/8, network: staging]`.',
  port_range: 'Write a port or a range, such as `443` or `8000-8010`.',
  port_type: 'Write `tcp` or `udp`.',
  user_id: "Write the user's UUID, or `null` for a rule for everybody.",
  user: 'Write a name from a `kind: Users`, an e-mail address, or a UUID.',
  users: 'Write a list, such as `[alice, group: contractors]`.',
  group: 'Write the name of a `kind: Group`.',
  rules: 'Write a list of rules; `[]` says that there are none.',
  members: 'Write a list of names of users; `[]` says that there are none. Groups do not nest.',
  cidrs: 'Write a list of addresses and networks.',
  cases: 'Write a list of cases.',
  expect: 'Write `accept` or `drop`.',
  protocol: 'Write `tcp`, `udp` or `other` (ICMP and all the rest).',
  client_secret: 'Write a reference: `{env: RECONCILE_SECRET_…}` or `{file: path}`.',
  metadata: 'Write `metadata: {name: …}`; for a SAML provider a reference, `{file: path}`.',
  spec: 'Write `spec:` with the fields of this kind below it.',
  bases: 'Write a list of directories, such as `[../base]`.',
  logo: 'Write `{url: …}`, or `null` for no logo.',
};

/** Checks the shape of a document against its kind's schema. No finding quotes a value, only names of fields. */
export function checkShape(kind: Kind, root: Node, plain: Plain): readonly Finding[] {
  const parsed = schemas[kind].safeParse(plain);
  if (parsed.success) return [];
  const findings = parsed.error.issues.slice(0, mostFindings).flatMap((issue) => describe(kind, root, issue));
  // A field that is only misspelt is not missing as well.
  const misspelt = findings.flatMap(({ problem }) => (problem.code === 'unknown-field' ? [problem.hint] : []));
  return findings.filter(
    ({ problem }) =>
      problem.code !== 'missing-field' ||
      !misspelt.some((hint) => problem.summary.includes(hint?.replace('Did you mean ', '').replace('?', '') ?? '\n')),
  );
}

function describe(kind: Kind, root: Node, issue: z.core.$ZodIssue): readonly Finding[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, mostFindings).map((key) => unknownField({ kind, root, path: issue.path, key }));
  }
  const { node, depth } = findNode(root, issue.path);
  if (depth < issue.path.length) return [missingField(root, issue.path, node)];
  if (issue.code === 'invalid_key') return [badName(root, issue.path)];
  const ofKind = wantedOfKind(kind, issue.path, node);
  if (ofKind !== null) return [{ problem: wrongForm(fieldOf(issue.path), ofKind), offset: node.start }];
  if (issue.code === 'invalid_union') return union(kind, root, issue);
  const values = issue.code === 'invalid_value' ? issue.values : null;
  return [wrongValue({ path: issue.path, node, values, types: typesOf(issue) })];
}

/** Where a kind wants something else than others in a field of that name, or in a field that people name. */
function wantedOfKind(kind: Kind, path: readonly PropertyKey[], node: Node): string | null {
  const field = fieldOf(path);
  if (kind === 'Users' && path.length === 2 && path[0] === 'spec') return "Write the user's UUID.";
  if (kind !== 'Rule' || node.type === 'scalar' || (field !== 'destination' && field !== 'port_range')) return null;
  return 'A Rule has one, as a text; several, or a `network`, stand in a `kind: RuleSet`.';
}

/** What zod's types are to a person. */
const typeWords: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a whole number',
  int: 'a whole number',
  boolean: '`true` or `false`',
  null: '`null`',
  array: 'a list',
  object: 'a mapping',
  record: 'a mapping',
};

/** The types that a value may have, in words; empty when its type is right and something else is wrong with it. */
function typesOf(issue: z.core.$ZodIssue): readonly string[] {
  if (issue.code === 'invalid_union') {
    return issue.errors.flatMap((branch) => branch.filter(({ path }) => path.length === 0).flatMap(typesOf));
  }
  if (issue.code !== 'invalid_type') return [];
  const words = typeWords[issue.expected];
  return words === undefined ? [] : [words];
}

/** A key of a mapping of names that is no name. */
function badName(root: Node, path: readonly PropertyKey[]): Finding {
  return {
    problem: {
      code: 'wrong-type',
      severity: 'error',
      summary: `\`${String(path.at(-1)).slice(0, 80)}\` is not a name.`,
      hint: 'Use letters, digits and `. _ @ + -` inside.',
    },
    offset: keyStart(root, path),
  };
}

/** Among a union's branches, an issue deeper than the value itself says more than "none fits". */
function union(kind: Kind, root: Node, issue: z.core.$ZodIssueInvalidUnion): readonly Finding[] {
  const value = findNode(root, issue.path).node;
  const deeper = issue.errors
    .map((branch) => branch.filter((inner) => inner.path.length > 0 || inner.code === 'unrecognized_keys'))
    .filter((branch) => branch.length > 0)
    .sort((a, b) => a.length - b.length)[0];
  const values = issue.errors.flat().flatMap((inner) => (inner.code === 'invalid_value' ? inner.values : []));
  if (deeper === undefined || value.type === 'scalar') {
    return [
      wrongValue({ path: issue.path, node: value, values: values.length > 0 ? values : null, types: typesOf(issue) }),
    ];
  }
  return deeper.flatMap((inner) => describe(kind, root, { ...inner, path: [...issue.path, ...inner.path] }));
}

interface UnknownField {
  readonly kind: Kind;
  readonly root: Node;
  readonly path: readonly PropertyKey[];
  readonly key: string;
}

function unknownField({ kind, root, path, key }: UnknownField): Finding {
  const parent = findNode(root, path).node;
  const fields = listFields(kind, path);
  // Inside a provider a wrong key may be a piece of a secret: only what resembles a field is quoted.
  const quotable = !path.some((step) => String(step).endsWith('_providers')) || suggest(key, fields) !== null;
  if (key === '<<') return { problem: mergeKey, offset: findEntry(parent, key)?.keyStart ?? parent.start };
  const known = fields.length === 0 ? 'Remove it.' : `Known here: ${fields.map((field) => `\`${field}\``).join(', ')}.`;
  return {
    problem: {
      code: 'unknown-field',
      severity: 'error',
      summary: quotable ? `There is no field \`${key.slice(0, 80)}\` here.` : 'There is no such field here.',
      hint: didYouMean(key, fields, known),
    },
    offset: findEntry(parent, key)?.keyStart ?? parent.start,
  };
}

const mergeKey = {
  code: 'unknown-field',
  severity: 'error',
  summary: 'There is no field `<<` here: merge keys are YAML 1.1.',
  hint: 'Write the fields out; what rules of a set share stands under `defaults`.',
} as const;

function missingField(root: Node, path: readonly PropertyKey[], parent: Node): Finding {
  const field = String(path.at(-1));
  return {
    problem: {
      code: 'missing-field',
      severity: 'error',
      summary: `The field \`${field}\` is missing.`,
      hint: wanted[field] ?? 'Add it.',
    },
    offset: parent === root ? root.start : keyStart(root, path.slice(0, -1)),
  };
}

interface WrongValue {
  readonly path: readonly PropertyKey[];
  readonly node: Node;
  /** The values that a choice has; null where there is no choice. */
  readonly values: readonly unknown[] | null;
  /** The types that fit, in words. */
  readonly types: readonly string[];
}

function wrongValue({ path, node, values, types }: WrongValue): Finding {
  const name = fieldOf(path);
  if (values !== null && node.type === 'scalar' && !isSecretField(name)) {
    const allowed = values.map(String);
    return {
      problem: {
        code: 'invalid-value',
        severity: 'error',
        summary: `\`${node.text.slice(0, 80)}\` is not a value of \`${name}\`.`,
        hint: didYouMean(node.text, allowed, wanted[name] ?? `Write one of: ${allowed.join(', ')}.`),
      },
      offset: node.start,
    };
  }
  return { problem: wrongForm(name, wanted[name] ?? typeHint(node, types)), offset: node.start };
}

/** The innermost field of a path. */
function fieldOf(path: readonly PropertyKey[]): string {
  return String(path.findLast((step) => typeof step === 'string') ?? 'value');
}

function wrongForm(field: string, hint: string): Finding['problem'] {
  return { code: 'wrong-type', severity: 'error', summary: `The value of \`${field}\` has the wrong form.`, hint };
}

function typeHint(node: Node, types: readonly string[]): string {
  const words = [...new Set(types)];
  if (words.length === 0) return 'See the reference of this kind: `reconcile schema KIND`.';
  const quoted = node.type === 'scalar' && !node.plain && !words.includes('a text');
  return `Write ${words.join(' or ')}${quoted ? ', without quotes' : ''}.`;
}

function isSecretField(name: string): boolean {
  return name === 'client_secret' || name === 'metadata';
}

/** Where the key at the end of a path stands; for an item of a list, where the item stands. */
function keyStart(root: Node, path: readonly PropertyKey[]): number {
  const parent = findNode(root, path.slice(0, -1)).node;
  const last = path.at(-1);
  return findEntry(parent, String(last))?.keyStart ?? findNode(root, path).node.start;
}
