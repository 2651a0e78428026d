import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { root } from './lines.ts';
import { cutLike, makeSteady, readSession } from './session.ts';
import { type DocsWorld, drifted, inWorld, sharedTemplate } from './world.ts';

const template = sharedTemplate();

/** Pages whose sessions show outputs, how many each has, and whether the policy of the README was applied before. */
const pages = [
  ['docs/how-to/two-environments.md', 4, 'drifted'],
  ['docs/how-to/find-out-why.md', 3, 'drifted'],
  ['docs/how-to/nothing-on-fridays.md', 2, 'drifted'],
  ['docs/how-to/give-access-for-a-week.md', 3, 'applied'],
  ['docs/how-to/put-it-back.md', 3, 'applied'],
  ['docs/how-to/review-access.md', 3, 'drifted'],
] as const;

const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

/** Writes the files of a page (blocks that begin with the name of a file) and runs its commands. */
async function printsWhatItShows(
  world: DocsWorld,
  {
    page,
    count,
    env,
  }: { readonly page: string; readonly count: number; readonly env: Readonly<Record<string, string>> },
): Promise<void> {
  for (const [file, text] of filesOf(page)) world.write(file, text);
  const session = readSession(page).filter(({ output }) => output !== '');
  expect(session).toHaveLength(count);
  for (const { command, output } of session) {
    // In the order in which a person at a terminal sees it.
    const printed: string[] = [];
    const print = (text: string): void => void printed.push(text);
    await world.cli(command.split(' ').slice(1), { env, onStdout: print, onStderr: print });
    const given = [
      [world.simulator.url, 'https://vpn.example.com'],
      [`${world.folder}/`, ''],
    ] as const;
    const shown = makeSteady(output, given);
    expect(`$ ${command}\n${cutLike(shown, makeSteady(printed.join(''), given))}`).toBe(`$ ${command}\n${shown}`);
  }
}

function filesOf(page: string): readonly (readonly [string, string])[] {
  const blocks = textOf(page).matchAll(/^( *)```yaml\n( *# (\S+\.yaml)\n[\s\S]*?)^ *```$/gm);
  // With the comment, as it is copied: it counts in the numbers of lines.
  return [...blocks].map(([, indent = '', text = '', file = '']) => [
    file,
    text.replaceAll(`\n${indent}`, '\n').slice(indent.length),
  ]);
}

describe('pages print what they show, one command after the other', () => {
  // A Friday.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-11-27T10:00:00Z') }));
  afterEach(() => void vi.useRealTimers());

  it.each(pages)('%s', (page, count, state) =>
    inWorld(template(), drifted, async (world) => {
      const env = { RECONCILE_STATE_DIR: join(world.folder, 'state'), USER: 'carol' };
      if (state === 'applied') expect((await world.cli(['apply', 'policy', '--yes'], { env })).code).toBe(0);
      await printsWhatItShows(world, { page, count, env });
    }),
  );

  it('docs/how-to/who-opened-this-port.md', () =>
    inWorld(template(), drifted, async (world) => {
      const page = 'docs/how-to/who-opened-this-port.md';
      rmSync(join(world.folder, '.git'), { recursive: true });
      const git = (args: readonly string[], [name, date] = ['Alice Example', '2026-09-01T08:00:00Z']): void =>
        void execFileSync('git', ['-c', `user.name=${name}`, '-c', 'user.email=t@example.com', ...args], {
          cwd: world.folder,
          env: { ...process.env, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date },
        });
      const [[file, text] = ['', '']] = filesOf(page);
      world.write(file, text.replace(/.*name: web.*\n/, ''));
      for (const args of [
        ['init', '-q', '--template='],
        ['add', 'policy'],
        ['commit', '-qm', 'Close the office'],
      ])
        git(args);
      world.write(file, text);
      git(['commit', '-qam', 'Open the web servers'], ['Carol Example', '2026-10-02T14:11:00Z']);
      await printsWhatItShows(world, { page, count: 2, env: {} });
    }));
});

it('docs/how-to/change-the-firewall-you-are-connected-through.md: what is asked, and what is said when nobody answers', () =>
  inWorld(template(), drifted, async (world) => {
    const shown = [
      ...textOf('docs/how-to/change-the-firewall-you-are-connected-through.md').matchAll(
        /^( *)```text\n([\s\S]*?)^ *```$/gm,
      ),
    ];
    const lines = shown.flatMap(([, , text = '']) => text.split('\n').map((line) => line.trim()));
    expect(lines.length).toBeGreaterThan(8);
    const run = await world.cli(['apply', 'policy', '--confirm-within', '1s'], {
      env: { RECONCILE_STATE_DIR: join(world.folder, 'state') },
      answer: (question) => (question.startsWith('Still there?') ? new Promise<string>(() => undefined) : 'y'),
    });
    expect(run.code).toBe(3);
    const steady = (text: string): string =>
      makeSteady(text, [[world.simulator.url, 'https://vpn.example.com']]).replace(
        /going back in \d:\d\d/g,
        'going back',
      );
    const said = steady(run.out.concat('\n', run.err));
    for (const line of lines.filter((one) => one !== '…')) expect(said).toContain(steady(line));
  }));

it('docs/how-to/rotate-the-token.md: the token from the terminal replaces the old one in one step, for its owner alone', () =>
  inWorld(template(), drifted, async ({ folder, read }) => {
    const sh =
      /```sh\n([\s\S]*?)```/.exec(readFileSync(join(root, 'docs/how-to/rotate-the-token.md'), 'utf8'))?.[1] ?? '';
    const steps = ['install -m 0600 /dev/null token.new', 'cat > token.new', 'mv token.new token'];
    expect(sh.trim().split(/\n\s*/)).toEqual(steps);
    execFileSync('sh', ['-euc', steps.join('\n')], { cwd: folder, input: 'the-new-token\n' });
    expect(read('token')).toBe('the-new-token\n');
    expect(statSync(join(folder, 'token')).mode & 0o777).toBe(0o600);
  }));
