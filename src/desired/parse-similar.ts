import type { FileManifests, WrittenRule } from '../manifest/manifest.ts';
import { decodeText } from '../manifest/read-manifests.ts';
import type { SourceFile } from '../ports.ts';
import { type ParseOptions, parseFile } from './parse-files.ts';

/** The text of a RuleSet, cut into what stands before its rules, and each rule with its comments. */
interface Cut {
  readonly head: string;
  readonly items: readonly { readonly text: string; readonly lines: number; readonly key: string }[];
}

/** A set that was read without a finding: its rules by the line and the text of each. */
interface Known {
  readonly head: string;
  readonly rules: ReadonlyMap<string, WrittenRule>;
  readonly file: FileManifests;
}

/**
 * Parses versions of files one after another: of a RuleSet only the rules that the version before did not have at that line. The result is
 * that of `parseFile`; wherever that is not certain, the whole file is parsed.
 */
export function makeSimilarParser(options: ParseOptions): (file: SourceFile) => FileManifests {
  const latest = new Map<string, Known>();
  return (file) => {
    const cut = options.values === null ? cutRules(file.bytes) : null;
    const before = latest.get(file.path);
    const isSimilar = cut !== null && before?.head === cut.head;
    const parsed = (isSimilar ? parseChanged(cut, { before, file, options }) : null) ?? parseFile(file, options);
    const rules = cut === null ? null : rulesOf(parsed, cut.items.length);
    if (cut === null || rules === null) latest.delete(file.path);
    else latest.set(file.path, { head: cut.head, rules: byKey(cut, rules), file: parsed });
    return parsed;
  };
}

function byKey({ items }: Cut, rules: readonly WrittenRule[]): Known['rules'] {
  return new Map(rules.map((rule, index) => [items[index]?.key ?? '', rule]));
}

/** Parses the text without the rules that are known, the others at their lines; null where that does not show what all of it means. */
function parseChanged(
  { head, items }: Cut,
  { before, file, options }: { readonly before: Known; readonly file: SourceFile; readonly options: ParseOptions },
): FileManifests | null {
  // The first is always parsed: a set without rules would be something else.
  const known = items.map(({ key }, index) => (index === 0 ? undefined : before.rules.get(key)));
  const texts = items.map(({ text, lines }, index) => {
    if (known[index] === undefined) return text;
    // A comment ends the text of a block, which empty lines would lengthen.
    return `${known[index - 1] === undefined ? '#' : ''}${'\n'.repeat(lines)}`;
  });
  const bytes = new TextEncoder().encode(head + texts.join(''));
  const parsed = parseFile({ ...file, bytes }, options);
  const fresh = rulesOf(parsed, known.filter((rule) => rule === undefined).length)?.values();
  const [manifest] = parsed.manifests;
  if (fresh === undefined || manifest?.kind !== 'RuleSet') return null;
  const rules = known.flatMap((rule) => rule ?? fresh.next().value ?? []);
  if (new Set(rules.map(({ name }) => name)).size < rules.length) return null;
  return { ...parsed, manifests: [{ ...manifest, rules }], work: Math.max(parsed.work, before.file.work) };
}

/** The rules of a file that is one RuleSet of so many rules, without any finding. */
function rulesOf(parsed: FileManifests, count: number): readonly WrittenRule[] | null {
  const [manifest, ...others] = parsed.manifests;
  if (manifest?.kind !== 'RuleSet' || others.length > 0 || manifest.rules.length !== count) return null;
  return parsed.problems.length > 0 || parsed.namesAsAddresses !== undefined ? null : manifest.rules;
}

/**
 * Cuts where a line begins an item of the list of rules, which must end the file. An item of a set without a finding cannot hold such a
 * line: what continues a value lies deeper. Null where a rule may depend on another (anchors), or a comment counts.
 */
function cutRules(bytes: Uint8Array): Cut | null {
  const text = decodeText(bytes);
  if (text === null || text.includes('&') || text.includes('reconcile-ignore')) return null;
  const lines = text.split(/(?<=\n)/);
  const first = lines.findIndex((line) => /^ +rules:[ \r]*\n/.test(line)) + 1;
  const [indent] = /^ *(?=- )/.exec(lines[first] ?? '') ?? [];
  if (first === 0 || indent === undefined) return null;
  const items: { text: string; lines: number; key: string }[] = [];
  for (const [index, line] of lines.entries()) {
    if (index < first) continue;
    const isItem = line.startsWith(`${indent}- `);
    const isInside = line.startsWith(`${indent} `) || /^ *(?:#|\r?\n?$)/.test(line);
    if (!isItem && !isInside) return null;
    const item = items.at(-1);
    if (isItem || item === undefined) items.push({ text: line, lines: 1, key: `${index}` });
    else Object.assign(item, { text: item.text + line, lines: item.lines + 1 });
  }
  const head = lines.slice(0, first).join('');
  return { head, items: items.map((item) => ({ ...item, key: `${item.key} ${item.text}` })) };
}
