import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseArguments } from '../src/cli/arguments.ts';
import { Failure } from '../src/cli/failure.ts';

const root = new URL('../', import.meta.url).pathname;
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`),
];
const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

/** The fenced blocks of a language, in order. */
function blocks(page: string, language: string): readonly string[] {
  return [...textOf(page).matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    ([, text]) => text ?? '',
  );
}

/** Every command line of a page: in code spans, in `sh` blocks, and after `$ ` in `console` blocks. */
function commandLines(page: string): readonly string[] {
  const spans = [...textOf(page).matchAll(/`(reconcile(?: [^`]*)?)`/g)].map(([, line]) => line ?? '');
  const fenced = [...blocks(page, 'sh'), ...blocks(page, 'console').map((text) => text.replace(/^\$ /gm, ''))];
  const lines = fenced.flatMap((text) => text.replace(/\\\n\s*/g, ' ').split('\n'));
  return [...spans, ...lines.filter((line) => line.startsWith('reconcile '))];
}

/** Words as a shell makes them; placeholders of a synopsis lose their brackets. */
function words(line: string): readonly string[] {
  const bare = line.replace(/\s+#.*$/, '').replace(/[[\]…]|\.\.\./g, '');
  return bare
    .split(/\s+/)
    .filter((word) => word !== '')
    .slice(1);
}

describe('every command line in the README and the docs', () => {
  const found = pages.flatMap((page) => commandLines(page).map((line) => [page, line] as const));

  it('is found in a plausible number', () => {
    expect(found.length).toBeGreaterThan(50);
  });

  it.each([...new Map(found.map((entry) => [entry.join(' '), entry])).values()])(
    '%s: %s is one that the command takes',
    (_, line) => {
      try {
        expect(parseArguments(words(line)).kind).toMatch(/run|text/);
      } catch (error) {
        throw error instanceof Failure ? new Error(error.message) : error;
      }
    },
  );
});

describe('links', () => {
  const links = (page: string): readonly string[] =>
    [...textOf(page).matchAll(/\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)/g)].map(([, target]) =>
      normalize(join(dirname(page), target ?? '')),
    );

  it('lead to files that exist', () => {
    const broken = pages.flatMap((page) =>
      links(page)
        .filter((target) => !existsSync(join(root, target)))
        .map((target) => `${page} → ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it('reach every page within two clicks from the README', () => {
    const first = links('README.md');
    const second = first.filter((page) => page.endsWith('.md') && existsSync(join(root, page))).flatMap(links);
    const reached = new Set(['README.md', ...first, ...second].map((page) => page.replace(/\/$/, '')));
    const folders = (page: string): boolean => reached.has(dirname(page));
    expect(pages.filter((page) => !reached.has(page) && !folders(page))).toEqual([]);
  });

  it('anchors inside the project exist', () => {
    const slug = (heading: string): string =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replace(/\s/g, '-');
    const anchors = new Map(
      pages.map((page) => [
        page,
        new Set([...textOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => slug(heading ?? ''))),
      ]),
    );
    const broken = pages.flatMap((page) =>
      [...textOf(page).matchAll(/\]\(([^)\s#]*)#([^)]+)\)/g)].flatMap(([, target = '', anchor = '']) => {
        const file = target === '' ? page : relative('.', normalize(join(dirname(page), target)));
        return /^https?:/.test(target) || anchors.get(file)?.has(anchor) !== false
          ? []
          : [`${page} → ${target}#${anchor}`];
      }),
    );
    expect(broken).toEqual([]);
  });
});

describe('the README’s quick start, run as it stands', () => {
  let folder: string;
  let server: ReturnType<typeof spawn> | null = null;
  let url = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'reconcile-readme-'));
    mkdirSync(join(folder, 'bin'));
    writeFileSync(
      join(folder, 'bin/reconcile'),
      `#!/bin/sh\nexec "${process.execPath}" "${root}dist/reconcile.js" "$@"\n`,
    );
    chmodSync(join(folder, 'bin/reconcile'), 0o755);
    const simulate = blocks('README.md', 'sh').find((text) => text.includes('reconcile simulate'));
    expect(simulate).toContain('reconcile simulate --port 8080 --token-file token');
    // The README's port may be taken on this machine; any other serves as well.
    server = spawn(join(folder, 'bin/reconcile'), ['simulate', '--port', '0', '--token-file', 'token'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    url = await new Promise<string>((resolve, reject) => {
      let text = '';
      server?.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        const match = /^listening (\S+)\n/.exec(text);
        if (match !== null) resolve(match[1] ?? '');
      });
      server?.once('exit', () => reject(new Error('the simulator ended')));
    });
    mkdirSync(join(folder, 'policy'));
    writeFileSync(join(folder, 'policy/office.yaml'), blocks('README.md', 'yaml')[0] ?? '');
  });

  afterAll(() => {
    server?.kill('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  });

  const shell = (script: string): { readonly status: number | null; readonly out: string } => {
    const env = {
      PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`,
      RECONCILE_BASE_URL: url,
      RECONCILE_TOKEN_FILE: 'token',
    };
    const run = spawnSync('sh', ['-euc', script], { cwd: folder, env, encoding: 'utf8' });
    return { status: run.status, out: run.stdout + run.stderr };
  };

  it('validates, plans and applies', () => {
    const block = blocks('README.md', 'sh').find((text) => text.includes('reconcile --plan policy')) ?? '';
    expect(block).toContain('http://127.0.0.1:8080');
    const run = shell(block.replace('http://127.0.0.1:8080', url));
    expect(run.out).toContain('2 to create');
    expect([run.status, run.out]).toEqual([0, expect.stringContaining('a fresh read of the server agrees')]);
  });

  it('each concrete command of the three ways runs too', () => {
    const lines = [
      'reconcile --plan policy --output markdown=plan.md --fail-on opens',
      'reconcile snapshot',
      'reconcile policy',
      'reconcile export --out policy',
    ];
    for (const line of lines) expect(commandLines('README.md')).toContain(line);
    const run = shell(
      `${lines.slice(0, 3).join('\n')}\nreconcile --plan policy --save plan.json\nreconcile apply plan.json policy\nreconcile export --out exported\nreconcile --plan exported --detailed-exitcode`,
    );
    expect([run.status, run.out]).toEqual([0, expect.stringContaining('In sync')]);
    expect(existsSync(join(folder, 'plan.md'))).toBe(true);
  });

  it('names npm scripts that exist', () => {
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
    const named = pages.flatMap((page) =>
      [...textOf(page).matchAll(/npm run ([a-z:-]+)/g)].map(([, name]) => name ?? ''),
    );
    expect([...new Set(named)].filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});
