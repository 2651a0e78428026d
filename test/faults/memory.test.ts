import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const command = fileURLToPath(new URL('../../dist/reconcile.js', import.meta.url));
const unit = readFileSync(new URL('../../deploy/systemd/firezone-reconcile.service', import.meta.url), 'utf8');
/** MB, as shipped. */
const limitMb = Number(/^MemoryMax=(\d+)M$/m.exec(unit)?.[1]);

/** A new memory cgroup with the shipped limit; null where none can be made. */
function makeGroup(): string | null {
  const isV2 = existsSync('/sys/fs/cgroup/cgroup.controllers');
  const group = join(isV2 ? '/sys/fs/cgroup' : '/sys/fs/cgroup/memory', `reconcile-test-${process.pid}`);
  try {
    mkdirSync(group);
    writeFileSync(join(group, isV2 ? 'memory.max' : 'memory.limit_in_bytes'), String(limitMb * 1_048_576));
    execFileSync('sh', ['-c', `echo $$ > ${group}/cgroup.procs`]);
    return group;
  } catch {
    return null;
  }
}

const group = makeGroup();

describe('in the memory of the shipped containers', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'reconcile-memory-'));
  });
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
    if (group !== null) rmdirSync(group);
  });

  const addresses = (count: number, end: string): string =>
    Array.from({ length: count }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}${end}`).join('');
  const id = '5f6c2f5e-6a8e-4d0c-9b7e-';
  const users = Array.from({ length: 120_000 }, (_, i) => `  user${i}: ${id}${String(i).padStart(12, '0')}\n`);
  const start = (kind: string): string => `apiVersion: firezone/v0\nkind: ${kind}\nmetadata: {name: a}\nspec:`;

  /** 3,000 destinations, written once, for each of so many users. */
  const aliased = (count: number): string =>
    Array.from({ length: count }, (_, i) => {
      const destinations = i === 0 ? `&d [${addresses(3000, ',')}]` : '*d';
      return `    - {name: x${i}, action: drop, destinations: ${destinations}, user_id: ${id}${String(i).padStart(12, '0')}}\n`;
    }).join('');

  const cases: readonly (readonly [string, () => Readonly<Record<string, string>>, string | null])[] = [
    ['users of 7 MB', () => ({ 'a.yaml': `${start('Users')}\n${users.join('')}` }), null],
    ['few lines for 147,000 rules', () => ({ 'a.yaml': `${start('RuleSet')}\n  rules:\n${aliased(49)}` }), null],
    [
      'few lines for 498,000 rules',
      () => ({ 'a.yaml': `${start('RuleSet')}\n  rules:\n${aliased(166)}` }),
      'too-many-rules',
    ],
    [
      'a list of 8 MB of addresses',
      () => ({ 'a.yaml': `${start('Network')} {cidrs: [${addresses(750_000, ',')}]}\n` }),
      'too-expensive',
    ],
    [
      'twelve files of 4 MB of comments',
      () => Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`${i}.yaml`, '#\n'.repeat(2_000_000)])),
      'too-expensive',
    ],
  ];

  it.skipIf(group === null).each(cases)(
    'reads %s, or says at the file why not, and lives, where there are memory cgroups (long)',
    (name, files, code) => {
      const root = join(folder, name.replaceAll(' ', '-'));
      mkdirSync(root);
      for (const [path, text] of Object.entries(files())) writeFileSync(join(root, path), text);
      const run = spawnSync(
        'sh',
        ['-c', `echo $$ > ${group}/cgroup.procs && exec "$0" "$@"`, process.execPath, command, 'validate', root],
        { encoding: 'utf8', env: { PATH: process.env['PATH'] } },
      );
      expect([run.signal, run.status], run.stderr.slice(-500)).toEqual([null, code === null ? 0 : 4]);
      if (code !== null) expect(run.stderr + run.stdout).toContain(code);
    },
    120_000,
  );
});
