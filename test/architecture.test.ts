import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', 'src');

interface Import {
  readonly from: string;
  /** A file relative to src/, or the name of a package. */
  readonly to: string;
  readonly isPackage: boolean;
  readonly typeOnly: boolean;
  /** `import()`: loaded when it is needed, so that it closes no cycle. */
  readonly lazy: boolean;
}

function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort();
}

const files = filesBelow(root);
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

/** Comments and the contents of strings must not look like imports. */
function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');
}

function importsOf(file: string): readonly Import[] {
  const text = withoutComments(texts.get(file) ?? '');
  const found: Import[] = [];
  const add = (specifier: string, { typeOnly = false, lazy = false }): void => {
    const isPackage = !specifier.startsWith('.');
    const to = isPackage ? specifier : normalize(join(dirname(file), specifier));
    found.push({ from: file, to, isPackage, typeOnly, lazy });
  };
  for (const match of text.matchAll(/^(?:import|export)\s+(type\s+)?(?:[^'"]*?\sfrom\s+)?'([^']+)'/gm)) {
    add(match[2] ?? '', { typeOnly: match[1] !== undefined });
  }
  for (const match of text.matchAll(/import\('([^']+)'\)/g)) add(match[1] ?? '', { lazy: true });
  return found;
}

const imports = files.flatMap(importsOf);
const folderOf = (file: string): string => (file.includes('/') ? (file.split('/')[0] ?? '') : '(root)');
const show = ({ from, to }: Import): string => `${from} → ${to}`;
const packageOf = (specifier: string): string =>
  specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : (specifier.split('/')[0] ?? '');

/** The stages in the order in which data flows; a stage sees itself and what stands before it. */
const stages = ['model', 'manifest', 'desired', 'live', 'policy', 'enforcement', 'plan', 'apply', 'report'];
const pure = ['model', 'manifest', 'desired', 'live', 'policy', 'plan', 'report', 'enforcement'];
/** Node modules without I/O, time or chance. */
const harmlessNode = ['node:crypto', 'node:util', 'node:path', 'node:net', 'node:buffer'];
/** Files beside the folders that only hold types or what every stage may use. */
const sharedRootFiles = ['ports.ts', 'version.ts'];

describe('the scanner itself', () => {
  it('sees every source file and a plausible number of imports', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(imports.length).toBeGreaterThan(files.length * 2);
  });

  it('resolves every relative import to a file that exists', () => {
    const missing = imports.filter(({ to, isPackage }) => !isPackage && !files.includes(to));
    expect(missing.map(show)).toEqual([]);
  });
});

describe('rules of direction', () => {
  it('model imports nothing but itself', () => {
    const wrong = imports.filter(
      ({ from, to, isPackage }) => folderOf(from) === 'model' && !isPackage && folderOf(to) !== 'model',
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('a stage imports itself and earlier stages, never a later one', () => {
    const wrong = imports.filter(({ from, to, isPackage }) => {
      const stage = stages.indexOf(folderOf(from));
      if (isPackage || stage < 0 || sharedRootFiles.includes(to)) return false;
      const target = stages.indexOf(folderOf(to));
      return target < 0 || target > stage;
    });
    expect(wrong.map(show)).toEqual([]);
  });

  it('only the manifest folder knows YAML', () => {
    const wrong = imports.filter(
      ({ from, to, isPackage }) => isPackage && packageOf(to) === 'yaml' && folderOf(from) !== 'manifest',
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('zod stands only where bytes from outside become values', () => {
    const allowed = (file: string): boolean =>
      ['manifest', 'live', 'adapters', 'simulator'].includes(folderOf(file)) ||
      /^cli\/settings-(schema|file)\.ts$/.test(file);
    const wrong = imports.filter(({ from, to, isPackage }) => isPackage && packageOf(to) === 'zod' && !allowed(from));
    expect(wrong.map(show)).toEqual([]);
  });

  it('pure folders import no Node module that does I/O', () => {
    const wrong = imports.filter(
      ({ from, to, isPackage }) =>
        isPackage &&
        pure.includes(folderOf(from)) &&
        (to.startsWith('node:') || builtinModules.includes(to)) &&
        !harmlessNode.includes(to),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('pure folders know no time, chance, process, network or console', () => {
    const forbidden =
      /\b(Date\.now|new Date\(\)|Math\.random|performance\.|process\.|fetch\(|console\.|setTimeout|setInterval)/;
    const wrong = files.filter(
      (file) => pure.includes(folderOf(file)) && forbidden.test(withoutComments(texts.get(file) ?? '')),
    );
    expect(wrong).toEqual([]);
  });

  it('apply, controller and the pass see ports, never adapters', () => {
    const guarded = (file: string): boolean =>
      ['apply', 'controller'].includes(folderOf(file)) || /^(reconcile|pass[^/]*)\.ts$/.test(file);
    const wrong = imports.filter(
      ({ from, to, isPackage }) => !isPackage && guarded(from) && ['adapters', 'cli'].includes(folderOf(to)),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('adapters import no command line, and of the controller only the ports that they implement', () => {
    const ports = [
      'controller/enforcement-view.ts',
      'controller/lease.ts',
      'controller/observer.ts',
      'controller/record.ts',
      'controller/status.ts',
    ];
    const wrong = imports.filter(
      ({ from, to, isPackage }) =>
        !isPackage &&
        folderOf(from) === 'adapters' &&
        ['cli', 'controller'].includes(folderOf(to)) &&
        !ports.includes(to),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('only the command line builds adapters', () => {
    const wrong = imports.filter(
      ({ from, to, isPackage, typeOnly }) =>
        !isPackage && !typeOnly && folderOf(to) === 'adapters' && !['adapters', 'cli'].includes(folderOf(from)),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('the simulator shares no judgement with what it tests', () => {
    const forbidden = (to: string): boolean =>
      [
        'policy',
        'plan',
        'apply',
        'live',
        'desired',
        'manifest',
        'report',
        'controller',
        'adapters',
        'cli',
        'enforcement',
      ].includes(folderOf(to)) || folderOf(to) === 'model';
    const wrong = imports.filter(
      ({ from, to, isPackage }) => !isPackage && folderOf(from) === 'simulator' && forbidden(to),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('nothing but the command line imports the simulator', () => {
    const wrong = imports.filter(
      ({ from, to, isPackage }) =>
        !isPackage && folderOf(to) === 'simulator' && !['simulator', 'cli'].includes(folderOf(from)),
    );
    expect(wrong.map(show)).toEqual([]);
  });

  it('there are no import cycles', () => {
    expect(findCycle()).toBeNull();
  });

  it('there are no barrel files', () => {
    const barrels = files.filter((file) => {
      const text = withoutComments(texts.get(file) ?? '').trim();
      const lines = text.split('\n').filter((line) => line.trim() !== '');
      return /(^|\/)index\.ts$/.test(file) && file !== 'index.ts' && lines.every((line) => line.startsWith('export'));
    });
    expect(barrels).toEqual([]);
  });

  it('only request bodies, fingerprints and checks of shape reveal a secret', () => {
    const allowed =
      /^(adapters\/api\/|adapters\/sealed-manifests\.ts|model\/secret\.ts|desired\/|manifest\/format\.ts|enforcement\/|live\/)/;
    const wrong = files.filter(
      (file) => /\breveal\(/.test(withoutComments(texts.get(file) ?? '')) && !allowed.test(file),
    );
    expect(wrong).toEqual([]);
  });
});

/** A cycle among imports, types included and lazy ones not, as a chain of files; null without one. */
function findCycle(): readonly string[] | null {
  const targets = new Map<string, string[]>();
  for (const { from, to, isPackage, lazy } of imports)
    if (!isPackage && !lazy) targets.set(from, [...(targets.get(from) ?? []), to]);
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): readonly string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return null;
    done.add(file);
    for (const next of targets.get(file) ?? []) {
      const cycle = visit(next, [...path, file]);
      if (cycle !== null) return cycle;
    }
    return null;
  };
  for (const file of files) {
    const cycle = visit(file, []);
    if (cycle !== null) return cycle;
  }
  return null;
}
