import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Composer, LineCounter, Parser } from 'yaml';
import { defaultLimits } from '../src/desired/context.ts';
import { assemble } from '../src/desired/desired.ts';
import { type ParsedFiles, parseFiles } from '../src/desired/parse-files.ts';
import { findProfile } from '../src/model/profile.ts';
import { ok } from '../src/model/result.ts';
import { Secret } from '../src/model/secret.ts';
import { wholeScope } from '../src/model/state.ts';
import type { SourceFile } from '../src/ports.ts';
import { bareMemory, type Costs, costOf, type FigureBench, linesOf } from './figure.ts';

/** Rules in files of their own documents (`Rule`), or of one set a file (`RuleSet`). */
function sources(count: number, files: number, kind: 'Rule' | 'RuleSet'): readonly SourceFile[] {
  const perFile = count / files;
  return Array.from({ length: files }, (_, file) => {
    const head = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata:\n  name: set-${file}\nspec:\n  defaults:\n    action: accept\n  rules:\n`;
    const items = Array.from({ length: perFile }, (__, index) => {
      const n = file * perFile + index;
      const destination = `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
      const ports = `port_type: tcp\nX  port_range: ${1 + (n % 60_000)}\n`;
      const fields = `destination: ${destination}\nX  ${ports}`;
      return kind === 'Rule'
        ? `---\napiVersion: firezone/v0\nkind: Rule\nmetadata:\n  name: rule-${n}\nspec:\n  action: accept\n  ${fields.replaceAll('X', '')}`
        : `    - name: r${n}\n      ${fields.replaceAll('X', '    ')}`;
    });
    const bytes = new TextEncoder().encode((kind === 'Rule' ? '' : head) + items.join(''));
    return { path: `${file}.yaml`, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
  });
}

/** The floor: the parser's own time, documents dropped as they come. */
function parseOnly(files: readonly SourceFile[]): void {
  for (const { bytes } of files) {
    const lines = new LineCounter();
    const tokens = new Parser(lines.addNewLine).parse(new TextDecoder().decode(bytes));
    for (const document of new Composer({ uniqueKeys: false }).compose(tokens))
      if (document.errors.length > 0) throw new Error('invalid YAML');
  }
}

const profile = findProfile('firezone-0.7');

function parseAll(files: readonly SourceFile[]): ParsedFiles {
  return parseFiles(files, { profile, values: null, limits: defaultLimits });
}

function build(parsed: ParsedFiles): void {
  const context = { profile, scope: wholeScope, now: 0, resolveSecret: () => ok(Secret.unknown()) };
  if (assemble(parsed, null, context).state === null) throw new Error('invalid manifests');
}

function besideParser(files: readonly SourceFile[], times: number): Costs {
  return { floor: costOf(() => parseOnly(files), times), ours: costOf(() => build(parseAll(files)), times) };
}

/** To build again when nothing changed; at least, the same rules are read as JSON. */
function unchanged(files: readonly SourceFile[]): Costs {
  const parsed = parseAll(files);
  const text = JSON.stringify(parsed.manifests);
  return { floor: costOf(() => JSON.parse(text), 3), ours: costOf(() => build(parsed), 3) };
}

const atExit = "process.on('exit', () => process.stderr.write('peak ' + process.resourceUsage().maxRSS))";

/** The most memory that a built command ever holds, in MB, with 100,000 rules of a hundred people in 200 sets. */
function peakOf(command: 'build' | 'validate'): number {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const aliases = Array.from(
    { length: 100 },
    (_, n) => `  u${n}: 00000000-0000-4000-8000-${String(n).padStart(12, '0')}\n`,
  );
  writeFileSync(
    join(folder, 'users.yaml'),
    `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec:\n${aliases.join('')}`,
  );
  for (const { path, bytes } of sources(100_000, 200, 'RuleSet')) {
    const text = new TextDecoder().decode(bytes);
    writeFileSync(
      join(folder, path),
      text.replace(/- name: r(\d+)\n/g, (line, n) => `${line}      user: u${Number(n) % 100}\n`),
    );
  }
  const main = new URL('../dist/reconcile.js', import.meta.url.replace('/dist/', '/bench/')).pathname;
  const run = spawnSync(process.execPath, ['--import', `data:text/javascript,${atExit}`, main, command, folder], {
    encoding: 'utf8',
    maxBuffer: 1e9,
  });
  rmSync(folder, { recursive: true });
  const peak = /peak ([0-9]+)$/.exec(run.stderr)?.[1];
  if (run.status !== 0 || peak === undefined) throw new Error(`${command}: ${run.status}\n${run.stderr}`);
  return Number(peak) / 1024;
}

export const benches: readonly FigureBench[] = [
  ...linesOf(
    {
      name: '100,000 rules in 200 files, sets: parse, validate, expand, against the parser alone',
      counts: 'ratio',
      limit: 1.3,
    },
    () => besideParser(sources(100_000, 200, 'RuleSet'), 1),
  ),
  ...linesOf({ name: '10,000 rules in 10 files, against the parser alone', counts: 'ratio', limit: 1.3 }, () =>
    besideParser(sources(10_000, 10, 'Rule'), 3),
  ),
  ...linesOf({ name: '10,000 rules again, nothing changed', counts: 'ours', limit: 150 }, () =>
    unchanged(sources(10_000, 10, 'Rule')),
  ),
  ...(['validate', 'build'] as const).map((command) => ({
    name: `${command}, 100,000 rules of a hundred people in 200 sets: peak memory of the process`,
    unit: 'MB' as const,
    counts: 'ours' as const,
    limit: 300,
    measure: () => ({ ours: peakOf(command), floor: bareMemory() }),
  })),
];
