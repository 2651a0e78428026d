import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiToken, makeWorld, rules } from '../controller/support/sidecar.ts';

const root = path.resolve(import.meta.dirname, '../..');
const canRun = process.platform === 'linux' && process.getuid?.() === 0;

describe.skipIf(!canRun)(
  `the single executable${canRun ? '' : ' (skipped: needs Linux and root)'}, in an empty root`,
  () => {
    let jail: string;

    beforeAll(() => {
      const file = execFileSync(process.execPath, ['scripts/executable.mjs'], { cwd: root, encoding: 'utf8' })
        .trim()
        .split('\n')
        .at(-1);
      jail = mkdtempSync(path.join(tmpdir(), 'jail-'));
      mkdirSync(path.join(jail, 'tmp'));
      copyFileSync(file ?? '', path.join(jail, 'reconcile'));
      cpSync(path.join(root, 'examples/minimal'), path.join(jail, 'minimal'), { recursive: true });
      const libraries = [...execFileSync('ldd', [file ?? ''], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g)].map(
        ([, name = '']) => name,
      );
      for (const name of libraries) {
        expect(path.basename(name)).toMatch(/^(ld-linux-.*|lib(c|m|dl|pthread|stdc\+\+|gcc_s))\.so/);
        mkdirSync(path.join(jail, path.dirname(name)), { recursive: true });
        copyFileSync(name, path.join(jail, name));
      }
    }, 120_000);

    afterAll(() => rmSync(jail, { recursive: true, force: true }));

    function run(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
      const { status, stdout, stderr } = spawnSync('chroot', [jail, '/reconcile', ...args], {
        encoding: 'utf8',
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      });
      return { status, output: stdout + stderr };
    }

    it('says its version and validates manifests (long)', () => {
      const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
      expect(run('--version')).toEqual({ status: 0, output: `${version}\n` });
      expect(run('validate', '/minimal')).toEqual({ status: 0, output: expect.stringContaining('no problems') });
    });

    it('reads a large manifest, which takes a thread whose code it carries (long)', () => {
      const destinations = Array.from({ length: 12_000 }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
      mkdirSync(path.join(jail, 'large'));
      const file = path.join(jail, 'large/rules.yaml');
      writeFileSync(file, rules(...destinations));
      expect(statSync(file).size).toBeGreaterThan(1_000_000);
      expect(run('validate', '/large')).toEqual({ status: 0, output: expect.stringContaining('12000 rules') });
    });

    it('applies to a server, and the next plan is empty (long)', async () => {
      const world = await makeWorld();
      try {
        mkdirSync(path.join(jail, 'live'));
        writeFileSync(path.join(jail, 'live/rules.yaml'), rules('10.1.0.0/16', '10.2.0.0/16'));
        writeFileSync(path.join(jail, 'token'), apiToken);
        // The simulator runs in this process, which must not wait for the child.
        const call = (...args: readonly string[]): Promise<number | null> =>
          new Promise((resolve) =>
            spawn(
              'chroot',
              [jail, '/reconcile', ...args, '--base-url', world.sim.url, '--token-file', '/token', '/live'],
              {
                env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
                stdio: 'ignore',
              },
            ).on('close', resolve),
          );
        expect(await call('--yes')).toBe(0);
        expect(world.live()).toEqual(['10.1.0.0/16', '10.2.0.0/16']);
        expect(await call('--plan', '--detailed-exitcode')).toBe(0);
      } finally {
        await world.close();
      }
    });
  },
);
