import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureBuilt } from '../controller/support/sidecar.ts';
import { documentedLines, pages, root } from './lines.ts';

const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

/** The fenced blocks of a language, in order. */
function blocks(page: string, language: string): readonly string[] {
  return [...textOf(page).matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    ([, text]) => text ?? '',
  );
}

describe('the README’s quick start, run as it stands', () => {
  let folder: string;
  let server: ReturnType<typeof spawn> | null = null;
  let url = '';

  beforeAll(async () => {
    ensureBuilt();
    folder = mkdtempSync(join(tmpdir(), 'reconcile-readme-'));
    mkdirSync(join(folder, 'bin'));
    writeFileSync(
      join(folder, 'bin/reconcile'),
      `#!/bin/sh\nexec "${process.execPath}" "${root}dist/reconcile.js" "$@"\n`,
    );
    chmodSync(join(folder, 'bin/reconcile'), 0o755);
    const simulate = blocks('README.md', 'sh').find((text) => text.includes('reconcile simulate'));
    expect(simulate).toContain('reconcile simulate --listen 8080 --token-file token');
    // The README's port may be taken on this machine; any other serves as well.
    server = spawn(join(folder, 'bin/reconcile'), ['simulate', '--listen', '0', '--token-file', 'token'], {
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
      RECONCILE_YES: 'true', // no person answers here
    };
    const run = spawnSync('sh', ['-euc', script], { cwd: folder, env, encoding: 'utf8' });
    return { status: run.status, out: run.stdout + run.stderr };
  };

  /** What differs from run to run: the address, digests, and how long it took. */
  const steady = (text: string): string =>
    text
      .replaceAll(url, 'http://127.0.0.1:8080')
      .replace(/\b[0-9a-f]{12}\b/g, 'DIGEST')
      .replace(/in \d+\.\d s/g, 'in 0.0 s')
      .trim();

  it('prints what the README shows, from the first check to the explanation', () => {
    const session = blocks('README.md', 'console').join('\n').split(/^\$ /m).slice(1);
    expect(session.length).toBeGreaterThanOrEqual(4);
    for (const entry of session) {
      const [command = '', ...output] = entry.split('\n');
      const run = shell(command);
      const [shown, cut] = [steady(output.join('\n')), output[0] === '…'];
      const told = cut ? `…\n${steady(run.out).slice(2 - shown.length)}` : steady(run.out);
      expect([command, run.status, told]).toEqual([command, 0, shown]);
    }
  });

  it('each concrete command of the README runs too', () => {
    const lines = ['reconcile plan policy --output markdown --fail-on opens', 'reconcile apply policy --yes'];
    for (const line of lines) expect(documentedLines().map(({ text }) => text)).toContain(line);
    const run = shell(
      `${lines.join('\n')}\nreconcile plan policy --save plan.json\nreconcile apply plan.json policy\nreconcile export --out exported\nreconcile plan exported --detailed-exitcode`,
    );
    expect([run.status, run.out]).toEqual([0, expect.stringContaining('In sync')]);
    expect(run.out).toContain('<!-- reconcile-plan -->');
  });

  it('names npm scripts that exist', () => {
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
    const named = pages.flatMap((page) =>
      [...textOf(page).matchAll(/npm run ([a-z:-]+)/g)].map(([, name]) => name ?? ''),
    );
    expect([...new Set(named)].filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});
