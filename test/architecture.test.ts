import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize, relative } from 'node:path';
import { parseSync, Visitor } from 'oxc-parser';
import { describe, expect, it } from 'vitest';
import * as exceptions from './architecture-exceptions.ts';

const root = join(import.meta.dirname, '..', 'src');

interface Import {
  readonly from: string;
  /** A file relative to src/, or the name of a package. */
  readonly to: string;
  readonly isPackage: boolean;
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
  const add = (specifier: string): void => {
    const isPackage = !specifier.startsWith('.');
    const to = isPackage ? specifier : normalize(join(dirname(file), specifier));
    found.push({ from: file, to, isPackage });
  };
  for (const match of text.matchAll(/^(?:import|export)\s+(?:type\s+)?(?:[^'"]*?\sfrom\s+)?'([^']+)'/gm)) {
    add(match[1] ?? '');
  }
  for (const match of text.matchAll(/import\('([^']+)'\)/g)) add(match[1] ?? '');
  return found;
}

const imports = files.flatMap(importsOf);
const folderOf = (file: string): string => (file.includes('/') ? (file.split('/')[0] ?? '') : '(root)');
const show = ({ from, to }: Import): string => `${from} → ${to}`;
const packageOf = (specifier: string): string =>
  specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : (specifier.split('/')[0] ?? '');

const pure = ['model', 'manifest', 'desired', 'live', 'policy', 'plan', 'report', 'enforcement'];
/** Node modules without I/O, time or chance. */
const harmlessNode = ['node:crypto', 'node:util', 'node:path', 'node:net', 'node:buffer'];

/** The room of a file: its folder, or for a file directly below src/ its name; `pass*.ts` are one room. */
const roomOf = (file: string): string => file.replace(/\/.*|\.ts$/g, '').replace(/^pass-.*/, 'pass');

/** The last column of the table in docs/architecture.md: for each room the rooms and single files that it may import. */
function readDirections(): ReadonlyMap<string, readonly string[]> {
  const table = readFileSync(join(root, '../docs/architecture.md'), 'utf8').matchAll(/^\| (`src.*) \|.*\| (.*) \|$/gm);
  return new Map(
    [...table].flatMap(([, rooms = '', allowed = '']) => {
      const targets =
        allowed === 'everything' ? ['*'] : [...allowed.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
      return [...rooms.matchAll(/`src\/([^`]+?)(?:\.ts)?`/g)].map(([, room = '']) => [room, targets] as const);
    }),
  );
}

const directions = readDirections();

/** Whether the table allows it; `ports.ts` hides nothing: what it imports counts as imported by whoever imports it. */
function isAllowed({ from, to }: Pick<Import, 'from' | 'to'>): boolean {
  const allowed = directions.get(roomOf(from)) ?? [];
  if (roomOf(from) === roomOf(to) || to === 'version.ts' || allowed.includes('*')) return true;
  if (!allowed.includes(roomOf(to)) && !allowed.includes(to)) return false;
  return to !== 'ports.ts' || portImports.every((target) => isAllowed({ from, to: target }));
}

const portImports = imports.filter(({ from, isPackage }) => from === 'ports.ts' && !isPackage).map(({ to }) => to);

interface Break {
  readonly rule: string;
  /** What an exception names: the file, and the file with the function. */
  readonly keys: readonly string[];
  readonly text: string;
}

/** What oxlint finds with the sizes of test/sizes.json. */
function sizeBreaks(): readonly Break[] {
  const run = spawnSync('node_modules/.bin/oxlint', ['-c', 'test/sizes.json', '--format', 'json', 'src'], {
    cwd: join(root, '..'),
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  const { diagnostics } = JSON.parse(run.stdout) as {
    diagnostics: { code: string; message: string; filename: string; labels: { span: { line: number } }[] }[];
  };
  return diagnostics.map(({ code, message, filename, labels }) => {
    const file = relative('src', filename);
    return {
      rule: /\((.+)\)/.exec(code)?.[1] ?? code,
      keys: [file, `${file} ${/`(.+?)`/.exec(message)?.[1]}`],
      text: `${file}:${labels[0]?.span.line} ${message}`,
    };
  });
}

/** Casts, lists spread into arguments, long lines, and comments that switch a rule off. */
function textBreaks(file: string): readonly Break[] {
  const text = texts.get(file) ?? '';
  const found: Break[] = [];
  const add = (rule: string, offset: number): void => {
    found.push({ rule, keys: [file], text: `${file}:${text.slice(0, offset).split('\n').length} ${rule}` });
  };
  for (const { index } of text.matchAll(/^.{141,}$/gm)) add('long line', index);
  for (const { index } of text.matchAll(/(eslint|oxlint)-disable/g)) add('switched off', index);
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) add('unreadable', 0);
  new Visitor({
    TSAsExpression({ typeAnnotation: type, start }) {
      const isConst =
        type.type === 'TSTypeReference' && type.typeName.type === 'Identifier' && type.typeName.name === 'const';
      if (!isConst) add('cast', start);
    },
    CallExpression({ callee, arguments: given, start }) {
      if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return;
      // A long list here is "Maximum call stack size exceeded": loop, concatenate or reduce.
      if (!/^(push|unshift|splice|min|max)$/.test(callee.property.name)) return;
      if (given.some(({ type }) => type === 'SpreadElement')) add('spread', start);
    },
  }).visit(program);
  return found;
}

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
  it('every room imports what the table in docs/architecture.md allows, and nothing else', () => {
    const unlisted = new Set(files.map(roomOf).filter((room) => room !== 'version' && !directions.has(room)));
    expect([...unlisted]).toEqual([]);
    expect(imports.filter((one) => !one.isPackage && !isAllowed(one)).map(show)).toEqual([]);
  });

  it('programs run in one way', () => {
    const runs = imports.filter(
      ({ from, to, isPackage }) =>
        isPackage && /^(node:)?child_process$|^simple-git$/.test(to) && folderOf(from) !== 'simulator',
    );
    expect(runs.map(show).sort()).toEqual([
      'adapters/run-process.ts → node:child_process',
      'adapters/source/git-process.ts → simple-git',
    ]);
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
      ['cli/settings-schema.ts', 'cli/settings-file.ts', 'controller/record.ts'].includes(file);
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
    const allowed = /^(adapters\/api\/|model\/secret\.ts|desired\/|manifest\/format\.ts|enforcement\/|live\/)/;
    const wrong = files.filter(
      (file) => /\breveal\(|\.export\(/.test(withoutComments(texts.get(file) ?? '')) && !allowed.test(file),
    );
    expect(wrong).toEqual([]);
  });
});

describe('sizes and counts', () => {
  const found = [...sizeBreaks(), ...files.flatMap(textBreaks)];

  it.each<[string, string, Readonly<Record<string, string>>]>([
    ['a function has at most 60 lines', 'max-lines-per-function', exceptions.longFunctions],
    ['a function has a complexity of at most 15', 'complexity', exceptions.complexFunctions],
    ['a file has at most 300 lines', 'max-lines', {}],
    ['no list of unknown length is spread into arguments', 'spread', exceptions.spreads],
    ['every file can be read', 'unreadable', {}],
    ['no comment switches a rule off', 'switched off', {}],
  ])('%s, but for those listed, of which each still needs to be', (_, rule, excepted) => {
    const breaks = found.filter((one) => one.rule === rule);
    expect(breaks.filter(({ keys }) => !keys.some((key) => key in excepted)).map(({ text }) => text)).toEqual([]);
    expect(Object.keys(excepted).filter((key) => !breaks.some(({ keys }) => keys.includes(key)))).toEqual([]);
  });

  it.each([
    ['lines of more than 140 characters', 'long line', exceptions.longLines],
    ['`as` casts', 'cast', exceptions.casts],
  ])('%s only fall in number', (_, rule, most) => {
    const breaks = found.filter((one) => one.rule === rule).map(({ text }) => text);
    expect(breaks.length > most ? breaks : []).toEqual([]);
  });

  it('an exported name has one owner', () => {
    const owners = new Map<string, Set<string>>();
    const add = (name: string, file: string): void => void owners.set(name, (owners.get(name) ?? new Set()).add(file));
    const exported =
      /^export (?:abstract |async |declare )*(?:function\*?|const|let|class|interface|type|enum) (\w+)/gm;
    for (const file of files) for (const [, name = ''] of (texts.get(file) ?? '').matchAll(exported)) add(name, file);
    // Each command is a module with one function `run` (src/cli/commands.ts).
    const allowed = ['run', ...exceptions.sharedNames];
    const shared = [...owners].filter(([name, { size }]) => size > 1 && !allowed.includes(name));
    expect(shared.map(([name, where]) => `${name}: ${[...where].join(', ')}`)).toEqual([]);
  });

  it('every dependency has an importer', () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, '../package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const imported = new Set(imports.filter(({ isPackage }) => isPackage).map(({ to }) => packageOf(to)));
    expect(Object.keys(dependencies).filter((name) => !imported.has(name))).toEqual([]);
    const given = ['chokidar', 'pino', 'simple-git', 'undici', 'yaml', 'zod']; // chosen for the project, not up for removal
    expect(given.filter((name) => !(name in dependencies))).toEqual([]);
  });

  it('the lockfile has the integrity of every package, those for other systems among them', () => {
    const { packages } = JSON.parse(readFileSync(join(root, '../package-lock.json'), 'utf8')) as {
      packages: Record<string, { integrity?: string; optionalDependencies?: Record<string, string> }>;
    };
    const entries = Object.entries(packages).filter(([path]) => path !== '');
    expect(entries.filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? '')).map(([path]) => path)).toEqual([]);
    const optional = entries.flatMap(([, one]) => Object.keys(one.optionalDependencies ?? {}));
    expect(optional.filter((name) => !(`node_modules/${name}` in packages))).toEqual([]);
  });
});

/** A cycle among imports, those of types and lazy ones included, as a chain of files; null without one. */
function findCycle(): readonly string[] | null {
  const targets = new Map<string, string[]>();
  for (const one of imports)
    if (!one.isPackage && !exceptions.cycles.includes(one.from))
      targets.set(one.from, [...(targets.get(one.from) ?? []), one.to]);
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
