import { mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/adapters/clock.ts';
import { holdLockFile, type LockFileSettings, lookAtLockFile } from '../../../src/adapters/lease/lock-file.ts';
import type { Lease } from '../../../src/controller/lease.ts';
import { until } from '../../controller/support/sidecar.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'lock-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const durationMs = 2000;

function lease(
  identity: string,
  file = path.join(folder, 'lock'),
  warnings: unknown[] = [],
  ownMs = durationMs,
): Lease {
  return holdLockFile(settingsOf(identity, { path: file, durationMs: ownMs }, warnings));
}

function settingsOf(
  identity: string,
  given: Partial<LockFileSettings> = {},
  warnings: unknown[] = [],
): LockFileSettings {
  return {
    path: path.join(folder, 'lock'),
    identity,
    durationMs,
    clock: systemClock,
    logger: {
      debug: () => undefined,
      info: () => undefined,
      warn: (message, fields) => void warnings.push([message, fields?.['code']]),
      error: () => undefined,
    },
    onChange: () => undefined,
    onOverlap: () => undefined,
    ...given,
  };
}

describe('a lock file', () => {
  it('fault 38: left behind by a dead process and dated in the future, is taken once nobody renewed it for its duration (long)', async () => {
    const file = path.join(folder, 'lock');
    mkdirSync(`${file}.lock`);
    writeFileSync(`${file}.owner`, 'dead');
    const future = Date.now() / 1000 + 7200;
    utimesSync(`${file}.lock`, future, future);
    const from = performance.now();
    const only = lease('one', file);
    await until(() => only.mayStart());
    expect(performance.now() - from).toBeGreaterThanOrEqual(durationMs);
    expect(only.holder()).toBe('one');
    await only.release();
  });

  it('that cannot be used is named once', async () => {
    const warnings: unknown[] = [];
    const only = lease('one', path.join(folder, 'missing/lock'), warnings);
    await until(() => warnings.length > 0);
    mkdirSync(path.join(folder, 'missing'));
    await until(() => only.mayStart());
    expect(warnings).toEqual([['The lease could not be renewed', 'ENOENT']]);
    await only.release();
  });

  it('that somebody removed is not taken before its holder must have noticed, and its record is for its owner alone', async () => {
    const file = path.join(folder, 'lock');
    const first = lease('one', file);
    await until(() => first.mayStart());
    expect(await first.record?.write('mine')).toBe(true);
    expect(statSync(`${file}.record`).mode & 0o777).toBe(0o600);
    const second = lease('two', file);
    await until(() => second.holder() === 'one');
    expect(await second.record?.write('stolen')).toBe(false);
    rmSync(`${file}.lock`, { recursive: true });
    let both = false;
    await until(() => {
      both ||= first.mayWrite() && second.mayWrite();
      return second.mayStart() || first.mayStart() === false;
    });
    expect(both).toBe(false);
    await first.release();
    await until(() => second.mayStart());
    expect(await second.record?.read()).toBe('mine');
    await second.release();
  });

  it('is held for its holder’s duration, also in the eyes of replicas and people with a shorter one', async () => {
    const file = path.join(folder, 'lock');
    const first = lease('one', file, [], 120_000);
    await until(() => first.mayStart());
    const old = Date.now() / 1000 - 10;
    utimesSync(`${file}.lock`, old, old);
    const second = lease('two', file);
    await until(() => second.election().problem === null);
    expect([second.holder(), second.mayStart()]).toEqual(['one', false]);
    expect(await lookAtLockFile(settingsOf('nobody'))).toEqual({ name: 'one', suspended: false });
    await second.release();
    expect(await first.record?.write('still mine')).toBe(true);
    await first.release();
  });

  it('counts an overlap where another’s name stands in a lock that its holder did not renew', async () => {
    const file = path.join(folder, 'lock');
    const overlaps: string[] = [];
    const only = holdLockFile(settingsOf('one', { durationMs: 24_000, onOverlap: () => void overlaps.push('one') }));
    await until(() => only.mayStart());
    const now = Date.now() / 1000 - 1;
    writeFileSync(`${file}.owner`, 'two 24000');
    utimesSync(`${file}.lock`, now, now);
    await until(() => !only.mayWrite());
    expect(overlaps).toEqual(['one']);
    await only.release();
  });

  it.each([
    ['', 'an unnamed process'],
    ['some words', 'some words'],
  ])('whose file somebody overwrote with "%s" is not free, and its holder takes it again', async (words, name) => {
    const file = path.join(folder, 'lock');
    const first = lease('one', file);
    await until(() => first.mayStart());
    const held = first.signal();
    writeFileSync(`${file}.owner`, words);
    expect(await lookAtLockFile(settingsOf('nobody'))).toEqual({ name, suspended: false });
    await until(() => held.aborted);
    await until(() => first.mayStart());
    expect(first.holder()).toBe('one');
    await first.release();
    expect(await lookAtLockFile(settingsOf('nobody'))).toBeNull();
  });
});
