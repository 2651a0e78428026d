import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openRecordText, storeRecord, storeRecordIn } from '../../src/adapters/record-store.ts';
import { closeToOthers, openState } from '../../src/adapters/state-folder.ts';
import { emptyRecord, lostRecord, type RecordStore } from '../../src/controller/record.ts';
import { sealText } from '../../src/model/secret.ts';

let folder: string;
let warnings: string[];
const logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message: string) => void warnings.push(message),
  error: () => undefined,
};

const store = (at: string): RecordStore => storeRecordIn(at, logger);
/** As it lies with a lease, which others may write. */
const shared = (token = 'token'): RecordStore =>
  storeRecord(openRecordText(path.join(folder, 'record.json')), logger, (text) => sealText(token, text));

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'record-'));
  warnings = [];
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the record', () => {
  it('comes back as it was saved', async () => {
    const record = {
      isSealed: true,
      appliedRevision: 'a'.repeat(40),
      appliedAt: 5,
      inForceRevision: 'c'.repeat(40),
      confirmedRevision: 'd'.repeat(40),
      pendingRevision: 'c'.repeat(40),
      pendingUntil: 9,
      givenUp: ['f'.repeat(40), 'e'.repeat(40)],
      appliedDesired: 'b'.repeat(64),
      failed: ['e'.repeat(40)],
      stuckRevision: 'c'.repeat(40),
      graceGiven: true,
      openUntil: 0,
      passedOver: ['7'.repeat(40)],
      isPartly: true,
      isLost: true,
      agreedAt: 6,
      toldUntil: 8,
      knownRules: 7,
      suspended: true,
      drift: 4,
      firstSeen: { ['c'.repeat(40)]: 17 },
      sentSecrets: [{ name: 'RECONCILE_SECRET_G', provider: 'g', host: 'idp.example' }],
    };
    await store(folder).save(record);
    expect(await store(folder).load()).toEqual(record);
    expect(warnings).toEqual([]);
  });

  it('is read though an earlier version wrote it, without the digest and what is in force', async () => {
    const text = { format_version: 1, appliedRevision: 'a'.repeat(40), appliedAt: 5, knownRules: 7 };
    writeFileSync(path.join(folder, 'record.json'), JSON.stringify(text), { mode: 0o600 });
    expect(await store(folder).load()).toEqual({
      ...emptyRecord,
      appliedRevision: text.appliedRevision,
      appliedAt: 5,
      inForceRevision: text.appliedRevision,
      knownRules: 7,
    });
  });

  it('fault 39: lost or corrupt it counts as a first run', async () => {
    expect(await store(folder).load()).toEqual(emptyRecord);
    expect(warnings).toEqual([]);
    const bad = [
      '',
      '{',
      '[]',
      'null',
      '{"format_version":2}',
      '{"format_version":1,"appliedRevision":"--x","appliedAt":1,"knownRules":1}',
      '{"format_version":1,"appliedRevision":null,"appliedAt":null,"knownRules":-1}',
      `{"format_version":1,"appliedRevision":null,"appliedAt":null,"knownRules":1,"drift":{"steps":[],"more":"x"}}`,
      '{"format_version":1,"appliedRevision":null,"appliedAt":1e300,"knownRules":1}',
      '{"format_version":1,"appliedRevision":null,"appliedAt":8640000000000001,"knownRules":1}',
      '{"format_version":1,"appliedRevision":null,"appliedAt":-1,"knownRules":1}',
      '{"format_version":1,"appliedRevision":null,"appliedAt":1,"knownRules":1e300}',
      '{"format_version":1,"appliedRevision":null,"appliedAt":1,"knownRules":1,"agreedAt":1e300}',
      `{"format_version":1,"appliedRevision":null,"appliedAt":1,"knownRules":1,"firstSeen":{"${'c'.repeat(40)}":1e300}}`,
      `{"format_version":1,"appliedRevision":null,"appliedAt":1,"knownRules":1,"drift":{"steps":["${'x'.repeat(501)}"],"more":0}}`,
      `{"format_version":1,"appliedRevision":null,"appliedAt":null,"knownRules":1}${' '.repeat(65_536)}`,
    ];
    for (const text of bad) {
      writeFileSync(path.join(folder, 'record.json'), text, { mode: 0o600 });
      expect(await store(folder).load()).toEqual(lostRecord);
    }
    expect(warnings.length).toBe(bad.length);
  });

  it('threat 41: of a lease counts for secrets and times only with a seal of the same token, and says so of revisions', async () => {
    const sentSecrets = [{ name: 'RECONCILE_SECRET_G', provider: 'g', host: 'idp.example' }];
    const [file, inForceRevision] = [path.join(folder, 'record.json'), 'a'.repeat(40)];
    await shared().save({ ...emptyRecord, inForceRevision, agreedAt: 5, sentSecrets });
    const sealed = readFileSync(file, 'utf8');
    expect(await shared().load()).toEqual({ ...emptyRecord, inForceRevision, agreedAt: 5, sentSecrets });
    const unsealed = { ...emptyRecord, isSealed: false, inForceRevision };
    expect(await shared('another').load()).toEqual(unsealed);
    for (const forged of [
      sealed.replace('idp.example', 'evil.example'),
      sealed.replace('"agreedAt":5', '"agreedAt":6'),
      sealed.replace(/,"seal":"[^"]*"/, ''),
      sealed.replace(/"seal":"[^"]*"/, '"seal":""'),
    ]) {
      expect(forged).not.toBe(sealed);
      writeFileSync(file, forged);
      expect(await shared().load()).toEqual(unsealed);
      await shared().save(await shared().load());
      expect(await shared().load()).toEqual(unsealed);
    }
  });

  it('threat 41: of a lease names failed revisions only under the seal, and reads the seal of a record before there were any', async () => {
    const [file, one, other] = [path.join(folder, 'record.json'), 'a'.repeat(40), 'b'.repeat(40)];
    const earlier = { ...emptyRecord, appliedRevision: one, inForceRevision: one, agreedAt: 5 };
    const seal = sealText('token', `record ${JSON.stringify([one, one, null, null, 5, []])}`);
    const { failed: _none, isSealed: _sealed, ...written } = earlier;
    const old = JSON.stringify({ format_version: 1, ...written, seal });
    writeFileSync(file, old);
    expect(await shared().load()).toEqual(earlier);
    writeFileSync(file, old.replace('"agreedAt"', `"failed":["${other}"],"agreedAt"`));
    expect(await shared().load()).toEqual({ ...earlier, isSealed: false, agreedAt: null });

    await shared().save({ ...earlier, failed: [other] });
    expect((await shared().load()).failed).toEqual([other]);
    const sealed = readFileSync(file, 'utf8');
    for (const forged of ['[]', `["${one}"]`, `["${other}","${one}"]`]) {
      writeFileSync(file, sealed.replace(`["${other}"]`, forged));
      expect(await shared().load()).toEqual({ ...earlier, isSealed: false, agreedAt: null });
    }
  });

  it('threat 41: of a lease says which revisions are taken back with the one that waits only under the seal', async () => {
    const [file, one, other] = [path.join(folder, 'record.json'), 'a'.repeat(40), 'b'.repeat(40)];
    const tried = { ...emptyRecord, pendingRevision: one };
    for (const passedOver of [[], [other]]) {
      await shared().save({ ...tried, passedOver });
      expect(await shared().load()).toEqual({ ...tried, passedOver });
      const sealed = readFileSync(file, 'utf8');
      writeFileSync(file, sealed.replace(JSON.stringify({ passedOver }).slice(1, -1), `"passedOver":["${one}"]`));
      expect(await shared().load()).toEqual({ ...tried, isSealed: false });
    }
  });

  it('of a lease that is gone is lost where this process held one, and not for a first leader', async () => {
    const [led, found, never] = [shared(), shared(), shared()];
    expect(await led.load()).toEqual(emptyRecord);
    await led.save(emptyRecord);
    expect(await found.load()).toEqual(emptyRecord);
    rmSync(path.join(folder, 'record.json'));
    for (const one of [led, found]) expect(await one.load()).toEqual(lostRecord);
    expect(warnings.length).toBe(2);
    expect(await never.load()).toEqual(emptyRecord);
    expect(warnings.length).toBe(2);
  });

  it('fault 24: a record that cannot be written is said and ends nothing', async () => {
    expect(await store(path.join(folder, 'missing')).save(emptyRecord)).toBe(true);
    expect(warnings.length).toBe(1);
  });

  it('fault 24: nothing is applied on trial where the next process would take it for confirmed', async () => {
    const [one, two, three] = ['1', '2', '3'].map((digit) => digit.repeat(40)) as [string, string, string];
    const [own, away] = [path.join(folder, 'own'), path.join(folder, 'away')];
    mkdirSync(own);
    const alone = store(own);
    const confirmed = { ...emptyRecord, inForceRevision: one, confirmedRevision: one };
    const tried = { ...confirmed, inForceRevision: two, pendingRevision: two };
    expect(await alone.save(confirmed)).toBe(true);
    renameSync(own, away);
    expect(await alone.save(tried)).toBe(false);
    // What is confirmed is enforced on, and so is all where nothing has to be confirmed.
    expect(await alone.save({ ...confirmed, drift: 3 })).toBe(true);
    expect(await alone.save({ ...emptyRecord, inForceRevision: two })).toBe(true);
    renameSync(away, own);
    expect(await alone.save(tried)).toBe(true);
    const next = store(own);
    await next.load();
    renameSync(own, away);
    // It is known to wait, also to the next process: it is enforced, taken back and confirmed, and no other is tried.
    for (const known of [alone, next]) {
      expect(await known.save({ ...tried, drift: 3 })).toBe(true);
      expect(await known.save({ ...tried, givenUp: [two], inForceRevision: one })).toBe(true);
      expect(await known.save({ ...tried, confirmedRevision: two, pendingRevision: null })).toBe(true);
      expect(await known.save({ ...tried, pendingRevision: three })).toBe(false);
    }
    // Also where nobody knows what waited: it goes back all the same.
    expect(await store(own).save({ ...tried, givenUp: [two] })).toBe(true);
  });
});

describe('the state folder', () => {
  it('moves what 0.1 kept in the directory itself, and leaves links of others where they are', async () => {
    mkdirSync(path.join(folder, 'git'));
    writeFileSync(path.join(folder, 'journal.jsonl'), 'kept\n');
    const outside = path.join(folder, 'outside');
    writeFileSync(outside, 'of another program');
    symlinkSync(outside, path.join(folder, 'record.json'));
    const opened = await openState(folder);
    if (!opened.ok) throw new Error(opened.error);
    expect(opened.value.path).toBe(path.join(folder, 'reconcile'));
    expect(readdirSync(opened.value.path).sort()).toEqual(['git', 'journal.jsonl', 'owner']);
    expect(statSync(opened.value.path).mode & 0o777).toBe(0o700);
    await store(opened.value.path).save(emptyRecord);
    expect(readFileSync(outside, 'utf8')).toBe('of another program');
  });

  it('threat 36: writes through no link that somebody planted, and takes no folder of another user', async () => {
    const [own, outside] = [path.join(folder, 'reconcile'), path.join(folder, 'outside')];
    writeFileSync(outside, 'of another program');
    mkdirSync(own);
    chmodSync(own, 0o777);
    for (const name of ['record.json', 'owner', 'journal.jsonl']) symlinkSync(outside, path.join(own, name));
    const opened = await openState(folder);
    if (!opened.ok) throw new Error(opened.error);
    await store(opened.value.path).save(emptyRecord);
    expect(readFileSync(outside, 'utf8')).toBe('of another program');
    expect(readFileSync(path.join(own, 'record.json'), 'utf8')).toContain('appliedRevision');
    await opened.value.release();
    renameSync(own, path.join(folder, 'elsewhere'));
    symlinkSync(path.join(folder, 'elsewhere'), own);
    expect(await openState(folder)).toMatchObject({ ok: false, error: expect.stringContaining('is a link') });
    if (process.getuid?.() !== 0) return;
    rmSync(own);
    mkdirSync(own);
    chmodSync(own, 0o777);
    writeFileSync(path.join(own, 'record.json'), 'forged');
    chownSync(path.join(own, 'record.json'), 12_345, 12_345);
    await closeToOthers(own);
    expect(readdirSync(own)).toEqual([]);
    chownSync(own, 12_345, 12_345);
    expect(await openState(folder)).toMatchObject({ ok: false, error: expect.stringContaining('another user') });
  });

  it('threat 36: replaces a link in a folder that is closed to others, and leaves its target as it is', async () => {
    const [own, outside] = [path.join(folder, 'reconcile'), path.join(folder, 'outside')];
    mkdirSync(own, { mode: 0o700 });
    writeFileSync(outside, JSON.stringify({ format_version: 1, ...emptyRecord, knownRules: 7 }));
    const before = readFileSync(outside, 'utf8');
    for (const name of ['record.json', 'owner']) symlinkSync(outside, path.join(own, name));
    expect((await openState(folder)).ok).toBe(true);
    expect(await store(own).load()).toEqual(lostRecord);
    await store(own).save({ ...emptyRecord, knownRules: 8 });
    expect(readFileSync(outside, 'utf8')).toBe(before);
    for (const name of ['record.json', 'owner']) expect(lstatSync(path.join(own, name)).isFile()).toBe(true);
    expect((await store(own).load()).knownRules).toBe(8);
  });

  it('threat 36: reads no file that others can read, but one that Kubernetes opened to the group of a volume', async () => {
    const own = path.join(folder, 'reconcile');
    mkdirSync(own, { mode: 0o700 });
    await store(own).save({ ...emptyRecord, knownRules: 7 });
    for (const [mode, known] of [
      [0o644, lostRecord.knownRules],
      [0o664, lostRecord.knownRules],
      [0o640, lostRecord.knownRules],
      [0o660, 7],
      [0o600, 7],
    ] as const) {
      chmodSync(path.join(own, 'record.json'), mode);
      expect([mode, (await store(own).load()).knownRules]).toEqual([mode, known]);
    }
  });

  it('threat 36: does not wait for a named pipe in it', { timeout: 5000 }, async () => {
    const own = path.join(folder, 'reconcile');
    mkdirSync(own, { mode: 0o700 });
    const pipes = [path.join(own, 'record.json'), path.join(own, 'owner'), path.join(folder, 'owner')];
    for (const pipe of pipes) execFileSync('mkfifo', [pipe]);
    expect((await openState(folder)).ok).toBe(true);
    expect(await store(own).load()).toEqual(lostRecord);
    await store(own).save(emptyRecord);
    expect(await store(own).load()).toEqual(emptyRecord);
  });

  it('is refused while a live process holds it, and taken from a dead one at once', async () => {
    const first = await openState(folder);
    expect(first.ok).toBe(true);
    const mark = readFileSync(path.join(folder, 'reconcile/owner'), 'utf8').split(' ');
    writeFileSync(
      path.join(folder, 'reconcile/owner'),
      `1 ${readFileSync('/proc/1/stat', 'utf8').split(') ')[1]?.split(' ')[19]} ${mark[2]}`,
    );
    const second = await openState(folder);
    expect(second.ok).toBe(false);
    writeFileSync(path.join(folder, 'reconcile/owner'), `1 12345678 ${mark[2]}`);
    expect((await openState(folder)).ok).toBe(true);
  });

  it('fault 24: is taken on a full disk too, but not from a live process', async (context) => {
    const small = path.join(folder, 'small');
    mkdirSync(small);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small], { stdio: 'ignore' });
    } catch {
      return context.skip('a small file system cannot be mounted here');
    }
    const mark = path.join(small, 'reconcile/owner');
    const fill = (name: string) =>
      expect(() => writeFileSync(path.join(small, name), Buffer.alloc(100_000))).toThrow('ENOSPC');
    try {
      const first = await openState(small);
      const mine = readFileSync(mark, 'utf8');
      const [, , boot] = mine.split(' ');
      writeFileSync(mark, `1 12345678 ${boot}`);
      fill('full');
      expect((await openState(small)).ok).toBe(true);
      expect(readFileSync(mark, 'utf8')).toBe(mine);
      if (first.ok) await first.value.release();
      fill('more');
      expect((await openState(small)).ok).toBe(true);
      expect(readdirSync(path.dirname(mark))).toEqual([]);
      rmSync(path.join(small, 'full'));
      writeFileSync(mark, `1 ${readFileSync('/proc/1/stat', 'utf8').split(') ')[1]?.split(' ')[19]} ${boot}`);
      fill('full');
      expect(await openState(small)).toMatchObject({
        ok: false,
        error: expect.stringContaining('in use by process 1'),
      });
    } finally {
      execFileSync('umount', [small]);
    }
  });
});
