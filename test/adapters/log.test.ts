import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import { createJsonLogger } from '../../src/adapters/log/json.ts';
import { createTextLogger } from '../../src/adapters/log/text.ts';

describe('the log for people', () => {
  it('writes what is severe enough, one line each, with its fields', () => {
    let text = '';
    const log = createTextLogger('info', (line) => {
      text += line;
    });
    log.debug('not this');
    log.info('a pass ended', { revision: 'abc', rules: 3, names: ['x', 'y z'], nothing: null });
    log.error('it failed');
    expect(text).toBe('info: a pass ended revision=abc rules=3 names=x,y z nothing=null\nerror: it failed\n');
  });

  it('begins each line with the time, for a log that is read later', () => {
    const lines: string[] = [];
    createTextLogger(
      'info',
      (line) => void lines.push(line),
      () => 1_700_000_000_000,
    ).info('a pass ended');
    expect(lines).toEqual(['2023-11-14T22:13:20.000Z info: a pass ended\n']);
  });

  it('says on each line whose it is, in both forms', () => {
    const lines: string[] = [];
    const take = (line: string): void => void lines.push(line);
    const labels = { target: 'eu' };
    createTextLogger('info', take, undefined, labels).info('a pass ended', { rules: 3 });
    createTextLogger('info', take, undefined, labels).info('stopped');
    createJsonLogger('info', take, labels).info('stopped');
    expect(lines.slice(0, 2)).toEqual(['info: a pass ended target=eu rules=3\n', 'info: stopped target=eu\n']);
    expect(JSON.parse(lines[2] ?? '')).toMatchObject({ msg: 'stopped', target: 'eu' });
  });

  it('threat 22: a field cannot start a line or command a terminal', () => {
    let text = '';
    createTextLogger('debug', (line) => {
      text += line;
    }).warn('looks odd', { name: 'a\nerror: forged \u001b[31m' });
    expect(text.split('\n')).toHaveLength(2);
    expect(text).not.toContain('\u001b');
  });
});

describe('the log for machines', () => {
  it('writes one JSON object a line with level, time, message and fields', () => {
    const lines: string[] = [];
    const log = createJsonLogger('info', (line) => lines.push(line));
    log.debug('not this');
    log.warn('looks odd', { name: 'a\nb\u202e', count: 2 });
    expect(lines).toHaveLength(1);
    const entry = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
    expect(entry).toMatchObject({ level: 'warn', msg: 'looks odd', name: 'a\\nb\\u{202e}', count: 2 });
    expect(new Date(String(entry['time'])).getTime()).toBeGreaterThan(0);
  });
});

describe('the clock', () => {
  it('wakes at once from a sleep when told to stop, and does not fall asleep after that', async () => {
    const started = systemClock.now();
    const stop = new AbortController();
    const sleeping = systemClock.sleep(60_000, stop.signal);
    stop.abort();
    await sleeping;
    await systemClock.sleep(60_000, stop.signal);
    expect(systemClock.now() - started).toBeLessThan(30_000);
  });

  it('does not wake at once from a sleep that is longer than a timer can hold', async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning.name);
    process.on('warning', onWarning);
    const stop = new AbortController();
    const sleeping = systemClock.sleep(2 ** 31, stop.signal);
    // Node warns with the next tick of a timer that it cuts to 1 ms.
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    stop.abort();
    await sleeping;
  });
});
