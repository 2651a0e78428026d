import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ensureBuilt, until } from '../controller/support/sidecar.ts';
import { root } from '../docs/lines.ts';
import { type CliRun, ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
let env: Readonly<Record<string, string>>;

beforeAll(ensureBuilt);
beforeEach(async () => {
  world = await startWorld();
  env = { RECONCILE_STATE_DIR: join(world.folder, 'state'), USER: 'carol' };
});
afterEach(() => world.close());

const run = (...args: readonly string[]): Promise<CliRun> => world.cli(args, { env });
const live = (): readonly string[] =>
  world.simulator
    .rules()
    .map(({ action, destination }) => `${action} ${destination}`)
    .sort();

const before = ['accept 10.2.0.0/16', 'drop 10.1.0.0/16'];
const after = ['accept 10.3.0.0/16', 'drop 10.0.0.0/8'];

function write(lines: readonly string[], mtu: number): void {
  const rules = lines.map((line, n) => rule(`r${n}`, `action: ${line.replace(' ', ', destination: ')}`)).join('');
  const head = 'apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:';
  world.write('m/rules.yaml', `${rules}${head} {default_client_mtu: ${mtu}}\n`);
}

/** Applies `before`, then `after`; gives the number of the second apply. */
async function prepare(): Promise<string> {
  for (const [lines, mtu] of [
    [before, 1300],
    [after, 1400],
  ] as const) {
    write(lines, mtu);
    expect((await run('m')).code).toBe(0);
  }
  return await newest();
}

async function newest(): Promise<string> {
  const { applies } = (await run('history', '--output', 'json')).json() as unknown as { applies: { number: number }[] };
  return String(applies[0]?.number);
}

const isBefore = (): void => {
  expect(live()).toEqual(before);
  expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
};

/** A real process, which a signal can be sent to. */
function start(...args: readonly string[]) {
  const given = {
    ...env,
    RECONCILE_BASE_URL: world.simulator.url,
    RECONCILE_TOKEN: token,
    PATH: process.env['PATH'] ?? '',
  };
  const child = spawnReconcile([...args, '--concurrency', '1'], { cwd: world.folder, env: given });
  return { child, end: ended(child) };
}

/** Sends a signal at the nth write from now on. */
function signalAtWrite(child: ReturnType<typeof start>['child'], nth: number, signal: NodeJS.Signals): () => void {
  let writes = 0;
  return world.simulator.onCall(({ method }) => {
    if (method !== 'GET' && ++writes === nth) child.kill(signal);
  });
}

/** Settings under which no plan that opens may be written, or nothing at all. */
const closed = {
  windows: 'windows:\n  - {kind: deny, schedule: "* * * * *", duration: 1h}\n',
  suspend: 'suspend: true\n',
};

describe('undo', () => {
  it('undo × a window that is closed: it is refused, and --override-window lets it pass', async () => {
    await prepare();
    world.write('closed.yaml', closed.windows);
    const refused = await run('undo', '--config', join(world.folder, 'closed.yaml'));
    expect([refused.code, refused.err, live()]).toEqual([3, expect.stringContaining('--override-window'), after]);
    const passed = await run('undo', '--config', join(world.folder, 'closed.yaml'), '--override-window', 'incident 7');
    expect([passed.code, passed.err]).toEqual([0, expect.stringContaining('incident 7')]);
    isBefore();
  });

  it('undo × --suspend: it is refused, and --no-suspend lifts that of a shared settings file', async () => {
    await prepare();
    world.write('shared.yaml', closed.suspend);
    const refused = await run('undo', '--config', join(world.folder, 'shared.yaml'));
    expect([refused.code, refused.err, live()]).toEqual([3, expect.stringContaining('[suspended]'), after]);
    expect((await run('undo', '--config', join(world.folder, 'shared.yaml'), '--no-suspend')).code).toBe(0);
    isBefore();
  });

  it.each([[['apply', '--yes', 'm']], [['validate', 'm']], [['undo']]])(
    '%s × SIGTERM before anything was read: nothing is written, and it is called no mistake of ours',
    async (line) => {
      world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
      const before = world.simulator.requests().length;
      const { code, err } = await world.cli(line, { stop: AbortSignal.abort(new Error('SIGTERM')) });
      expect([code, err]).toEqual([1, expect.not.stringContaining('mistake')]);
      expect(world.simulator.requests().slice(before)).toEqual([]);
    },
  );

  it('undo × SIGTERM: it ends after the step in flight, exit 5, and the same undo again puts back the rest', async () => {
    const number = await prepare();
    const { child, end } = start('undo', number, '--yes');
    const off = signalAtWrite(child, 2, 'SIGTERM');
    const stopped = await end;
    off();
    expect(stopped.code, stopped.err).toBe(5);
    expect(live()).not.toEqual(before);
    expect((await run('undo', number)).code).toBe(0);
    isBefore();
  });

  it('undo × kill -9 at any step: the same undo again ends in the state before (long)', async () => {
    await prepare();
    for (let boundary = 1; ; boundary++) {
      const number = await newest();
      const { child, end } = start('undo', number, '--yes');
      const off = signalAtWrite(child, boundary, 'SIGKILL');
      const { code } = await end;
      off();
      if (code === null) expect([boundary, (await run('undo', number)).code]).toEqual([boundary, 0]);
      isBefore();
      if (code !== null) {
        expect([code, boundary]).toEqual([0, expect.any(Number)]);
        expect(boundary).toBeGreaterThan(4);
        break;
      }
      expect((await run('m')).code).toBe(0);
      expect(live()).toEqual(after);
    }
  });

  it('undo × an apply that waits to be confirmed: it is refused, names confirm, and a dry run of it takes nothing back', async () => {
    const number = await prepare();
    write([...after, 'drop 172.16.0.0/12'], 1400);
    const { child, end } = start('apply', '--yes', '--confirm-with', 'false', 'm');
    const pending = join(world.folder, 'state/reconcile/oneshot/pending.json');
    await until(() => existsSync(pending) && JSON.parse(readFileSync(pending, 'utf8')).until !== null);
    const refused = await run('undo', number);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('reconcile confirm')]);
    child.kill('SIGKILL');
    await end;
    const waiting = live();
    const pendingText = readFileSync(pending, 'utf8');
    writeFileSync(pending, pendingText.replace(/"until":\d+/, '"until":1'));
    expect([(await run('undo', number, '--dry-run')).code, live()]).toEqual([0, waiting]);
    expect([(await run('undo', number)).code, live()]).toEqual([3, after]);
    expect((await run('undo', number)).code).toBe(0);
    isBefore();
  });
});

describe('going back', () => {
  it.each([
    ['a window that is closed', closed.windows, ['--override-window', 'incident 7']],
    ['--suspend', closed.suspend, ['--no-suspend']],
  ])('going back × %s: it goes back all the same', async (_, text, lifts) => {
    await prepare();
    write(before, 1300);
    world.write('closed.yaml', text);
    const args = ['apply', '--confirm-within', '5m', '--config', join(world.folder, 'closed.yaml'), 'm'];
    const answer = (question: string): string => (question.startsWith('Still there?') ? 'n' : 'y');
    expect([(await world.cli(args, { env, answer })).code, live()]).toEqual([3, after]);
    const back = await world.cli([...args, ...lifts], { env, answer });
    expect([back.code, live(), back.err]).toEqual([3, after, expect.stringContaining('[went-back]')]);
    expect(readdirSync(join(world.folder, 'state/reconcile/history'))).toHaveLength(4);
  });
});

describe('the table of pairs in docs/how-to/put-it-back.md', () => {
  it('has a test for each row, and each such test has its row', () => {
    const page = readFileSync(join(root, 'docs/how-to/put-it-back.md'), 'utf8');
    // The pairs of a sidecar, and of takeovers, have tests beside the loop.
    const [, after = ''] = page.split('\n## What');
    const [table = ''] = after.split('\nA sidecar with');
    const rows = [...table.matchAll(/^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$/gm)]
      .map(([, what = '', meets = '']) => `${what} × ${meets}`.replaceAll('`', ''))
      .filter((row) => row !== 'what × meets' && !/^---|takeover/.test(row));
    expect(rows.length).toBeGreaterThan(15);
    const texts = ['test/cli', 'test/cli/watch', 'test/controller'].flatMap((folder) =>
      readdirSync(join(root, folder)).flatMap((name) =>
        name.endsWith('.test.ts') ? [readFileSync(join(root, folder, name), 'utf8')] : [],
      ),
    );
    const named = (row: string): boolean => {
      const [what = '', meets = ''] = row.split(' × ');
      return texts.some(
        (text) => text.includes(`'${row}: `) || (text.includes(`'${what} × %s: `) && text.includes(`['${meets}', `)),
      );
    };
    expect(rows.filter((row) => !named(row))).toEqual([]);
  });
});
