import { EventEmitter } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FSWatcher } from 'chokidar';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDirectorySource } from '../../src/adapters/source/directory.ts';
import { wakeOnChange } from '../../src/adapters/source/watch.ts';
import { defaultLimits } from '../../src/desired/context.ts';
import { rules, until } from '../controller/support/sidecar.ts';
import { buildFiles } from '../desired/helpers.ts';

const signal = new AbortController().signal;
let folder: string;
let warnings: string[];
const logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message: string) => void warnings.push(message),
  error: () => undefined,
};

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'files-'));
  warnings = [];
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string | Uint8Array): void => writeFileSync(path.join(folder, name), text);
const read = () => createDirectorySource(folder, defaultLimits).read(signal);

class FakeWatcher extends EventEmitter {
  closed = 0;
  close(): Promise<void> {
    this.closed += 1;
    return Promise.resolve();
  }
}

describe('faults of files', () => {
  it('fault 30: out of watches or file handles, changes are found by rescanning, and it says so', async () => {
    for (const code of ['ENOSPC', 'EMFILE']) {
      const opened: FakeWatcher[] = [];
      let woken = 0;
      const wake = wakeOnChange(folder, createDirectorySource(folder, defaultLimits), {
        rescanMs: 100,
        logger,
        wake: () => {
          woken += 1;
        },
        open: () => {
          const made = new FakeWatcher();
          opened.push(made);
          return made as unknown as FSWatcher;
        },
      });
      opened[0]?.emit('error', Object.assign(new Error('no more'), { code }));
      expect([wake.degraded(), opened[0]?.closed]).toEqual([true, 1]);
      await until(() => woken > 0);
      await until(() => opened.length === 2);
      expect(wake.degraded()).toBe(false);
      await wake.close();
    }
    expect(warnings.length).toBe(2);
  });

  it('fault 31: where no event comes, the rescan sees the change', async () => {
    write('a.yaml', rules('10.0.0.1'));
    let woken = 0;
    const wake = wakeOnChange(folder, createDirectorySource(folder, defaultLimits), {
      rescanMs: 20,
      logger,
      wake: () => {
        woken += 1;
      },
      open: () => new FakeWatcher() as unknown as FSWatcher,
    });
    let version = 0;
    await until(async () => {
      version += 1;
      write('a.yaml', rules('10.0.0.1', `10.0.1.${version}`));
      await new Promise((resolve) => setTimeout(resolve, 30));
      return woken > 1;
    });
    await wake.close();
  });

  it('fault 32: one unreadable file fails the whole load, by name', async (context) => {
    if (process.getuid?.() === 0) {
      // Root reads everything: a directory in a file's place is unreadable for root too.
      mkdirSync(path.join(folder, 'b.yaml'));
      symlinkSync('nowhere', path.join(folder, 'c.yaml'));
    } else {
      write('c.yaml', rules('10.0.0.2'));
      chmodSync(path.join(folder, 'c.yaml'), 0);
    }
    write('a.yaml', rules('10.0.0.1'));
    const reading = await read();
    expect(reading.content).toBeNull();
    expect(JSON.stringify(reading.problems)).toContain('c.yaml');
    void context;
  });

  it('fault 33: a loop of links, editor junk, BOM, CRLF and invalid UTF-8 each get a clear end', async () => {
    write('a.yaml', `\uFEFF${rules('10.0.0.1').replaceAll('\n', '\r\n')}`);
    for (const junk of ['.a.yaml.swp', '#a.yaml#', 'a.yaml~', '.#a.yaml', 'a.yaml.tmp', '4913'])
      write(junk, 'not: [yaml');
    const good = await read();
    expect(good.content?.files.map((file) => file.path)).toEqual(['a.yaml']);
    const built = buildFiles(good.content?.files ?? []);
    expect(built.problems.filter((problem) => problem.severity === 'error')).toEqual([]);
    expect(built.state?.rules.length).toBe(1);
    mkdirSync(path.join(folder, 'loop'));
    symlinkSync('..', path.join(folder, 'loop', 'up'));
    symlinkSync('self.yaml', path.join(folder, 'self.yaml'));
    const looped = await read();
    expect(looped.content).toBeNull();
    rmSync(path.join(folder, 'loop'), { recursive: true });
    rmSync(path.join(folder, 'self.yaml'));
    write('b.yaml', Uint8Array.of(0x61, 0x3a, 0xff, 0xfe));
    const bytes = await read();
    const invalid = buildFiles(bytes.content?.files ?? []);
    expect(invalid.state).toBeNull();
    expect(JSON.stringify(invalid.problems)).toContain('b.yaml');
  });

  it('fault 34: ten thousand events are answered with few looks', async () => {
    write('a.yaml', rules('10.0.0.1'));
    let woken = 0;
    const fake = new FakeWatcher();
    const wake = wakeOnChange(folder, createDirectorySource(folder, defaultLimits), {
      rescanMs: 60_000,
      logger,
      wake: () => {
        woken += 1;
      },
      open: () => fake as unknown as FSWatcher,
    });
    for (let index = 0; index < 10_000; index++) fake.emit('all', 'change', 'a.yaml');
    await until(() => woken > 0);
    expect(woken).toBe(1);
    await wake.close();
  });
});
