import { spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ended, entry, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

const full = existsSync('/dev/full');
const why = full ? '' : ' (skipped: no /dev/full)';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
});
afterEach(() => world.close());

/** Runs the built command with a full disk behind one of its streams. */
async function onFullDisk(
  stream: 'stdout' | 'stderr',
  args: readonly string[],
): Promise<{ code: number | null; err: string }> {
  const device = openSync('/dev/full', 'w');
  const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token, RECONCILE_YES: 'true' };
  const streams = {
    stdout: stream === 'stdout' ? device : 'pipe',
    stderr: stream === 'stderr' ? device : 'pipe',
  } as const;
  return ended(spawnReconcile(args, { cwd: world.folder, env, ...streams }));
}

describe.skipIf(!full)(`a full disk${why}`, () => {
  it.each(['text', 'json', 'markdown'])(
    'behind stdout: an apply as %s is done whole, and does not end with 0',
    async (format) => {
      const run = await onFullDisk('stdout', ['--output', format, 'm']);
      expect([run.code, run.err]).toEqual([1, expect.stringContaining('stdout cannot be written (ENOSPC)')]);
      expect(run.err).not.toContain('in a way it should not');
      expect(world.simulator.rules()).toHaveLength(1);
    },
  );

  it('behind stdout: a plan with changes pending is not taken for one that was written', async () => {
    expect((await onFullDisk('stdout', ['--plan', '--detailed-exitcode', 'm'])).code).toBe(1);
  });

  it('behind one output: the others say what was done, and the run does not end with 0', async () => {
    const outputs = ['--output', 'markdown=/dev/full', '--output', 'json=done.json'];
    const run = await world.cli([...outputs, 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('/dev/full cannot be written (ENOSPC)')]);
    expect(run.out).toContain('Applied: 1 done');
    expect(JSON.parse(world.read('done.json'))).toMatchObject({ end: 'converged', outcomes: [{ outcome: 'done' }] });
  });

  it('behind the log: the sidecar does its work, and ends as it would', async () => {
    expect((await onFullDisk('stderr', ['--watch', '--once', 'm'])).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });
});

describe('an odd place to run in', () => {
  const env = (): Record<string, string> => ({ RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token });

  it('a current directory that was removed is said', async () => {
    const script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"';
    const child = spawn('sh', ['-c', script, process.execPath, entry, '--plan', 'm'], { cwd: world.folder });
    const run = await ended(child);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('the current directory is not there any more')]);
  });

  it('a sidecar without a temporary folder says which setting it needs', async () => {
    const nowhere = { ...env(), TMPDIR: `${world.folder}/gone` };
    const run = await ended(spawnReconcile(['--watch', '--once', 'm'], { cwd: world.folder, env: nowhere }));
    expect([run.code, run.err]).toEqual([
      1,
      expect.stringMatching(/no folder can be made in \S+\/gone \(ENOENT\): give --state-dir/),
    ]);
  });
});

describe('several outputs at once', () => {
  it.each([['--plan'], ['validate'], ['test'], ['drift']])(
    '%s: commands of GitHub leave a document on stdout alone',
    async (command) => {
      const run = await world.cli([command, '--output', 'json', '--output', 'github', 'm']);
      expect(run.json().format_version).toBe('1.1');
    },
  );

  it('two into one file are wrong usage: the second would take the place of the first', async () => {
    const run = await world.cli(['--plan', '--output', 'json=x', '--output', 'markdown=./x', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('two outputs into')]);
  });
});

it('an invalid pull request of a fork has its annotations at the file of the repository', async () => {
  await world.cli(['snapshot', '--out', 'live.json']);
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.300'));
  const run = await world.cli(['--plan', '--live', 'live.json', '--output', 'github', 'm']);
  expect([run.code, run.out]).toEqual([4, expect.stringMatching(/^::error file=m\/a\.yaml,line=4,/)]);
});
