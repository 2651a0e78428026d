import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from './lines.ts';
import { cutLike, makeSteady, readSession } from './session.ts';
import { drifted, inWorld, sharedTemplate } from './world.ts';

const template = sharedTemplate();

/** Pages whose sessions show outputs. */
const pages = ['docs/how-to/two-environments.md', 'docs/how-to/find-out-why.md'];

describe.each(pages)('%s prints what it shows', (page) => {
  const session = readSession(page).filter(({ output }) => output !== '');

  it('has outputs to compare', () => expect(session.length).toBeGreaterThan(1));

  it.each(session.map(({ command, output }) => [command, output] as const))('%s', (command, output) =>
    inWorld(template(), drifted, async (world) => {
      const run = await world.cli(command.split(' ').slice(1));
      const given = [
        [world.simulator.url, 'https://vpn.example.com'],
        [`${world.folder}/`, ''],
      ] as const;
      const shown = makeSteady(output, given);
      expect(`$ ${command}\n${cutLike(shown, makeSteady(run.out + run.err, given))}`).toBe(`$ ${command}\n${shown}`);
    }),
  );
});

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
