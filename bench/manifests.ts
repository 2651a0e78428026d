import { createHash } from 'node:crypto';
import { Composer, LineCounter, Parser } from 'yaml';
import { defaultLimits } from '../src/desired/context.ts';
import { buildDesired, createManifestCache } from '../src/desired/desired.ts';
import { profileNamed } from '../src/model/profile.ts';
import { ok } from '../src/model/result.ts';
import { Secret } from '../src/model/secret.ts';
import { wholeScope } from '../src/model/state.ts';
import type { SourceFile } from '../src/ports.ts';
import type { Bench } from './plan.ts';

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
function parseOnly(files: readonly SourceFile[]): number {
  const start = performance.now();
  for (const { bytes } of files) {
    const lines = new LineCounter();
    const tokens = new Parser(lines.addNewLine).parse(new TextDecoder().decode(bytes));
    for (const document of new Composer({ uniqueKeys: false }).compose(tokens))
      if (document.errors.length > 0) throw new Error('invalid YAML');
  }
  return performance.now() - start;
}

function buildAll(files: readonly SourceFile[], cache = createManifestCache()): number {
  const start = performance.now();
  const { state } = buildDesired(files, {
    profile: profileNamed('firezone-0.7'),
    scope: wholeScope,
    limits: defaultLimits,
    values: null,
    usersByEmail: null,
    resolveSecret: () => ok(Secret.unknown()),
    cache,
  });
  if (state === null) throw new Error('invalid manifests');
  return performance.now() - start;
}

/** Alternates floor and build, so that both meet the same machine; the median of the ratios. */
function ratio(files: readonly SourceFile[], times: number): number {
  const ratios = Array.from({ length: times }, () => {
    const floor = parseOnly(files);
    return buildAll(files) / floor;
  });
  return ratios.sort((a, b) => a - b)[Math.floor(times / 2)] ?? 0;
}

/** Time to build again when nothing changed, in ms. */
function unchanged(files: readonly SourceFile[]): number {
  const cache = createManifestCache();
  buildAll(files, cache);
  return buildAll(files, cache);
}

/** Memory is the process's peak: run this file alone. */
export const benches: readonly Bench[] = [
  {
    name: '100,000 rules in 200 files, sets: parse, validate, expand, against the parser alone',
    unit: '×',
    limit: 1.3,
    measure: () => ratio(sources(100_000, 200, 'RuleSet'), 3),
  },
  {
    name: '10,000 rules in 10 files, against the parser alone',
    unit: '×',
    limit: 1.3,
    measure: () => ratio(sources(10_000, 10, 'Rule'), 5),
  },
  {
    name: '10,000 rules again, nothing changed',
    unit: 'ms',
    limit: 150,
    measure: () => unchanged(sources(10_000, 10, 'Rule')),
  },
  { name: 'memory after all of these', unit: 'MB', limit: 300, measure: () => process.resourceUsage().maxRSS / 1024 },
];

if (process.argv.includes('--print')) {
  for (const { name, unit, limit, measure } of benches) {
    console.log(`${name}: ${measure().toFixed(unit === '×' ? 2 : 0)} ${unit} (limit ${limit})`);
  }
}
