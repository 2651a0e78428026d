import { compareText } from '../../model/problem.ts';
import { startOptions } from '../options.ts';
import type { Settings } from '../settings.ts';

/** Sections of the settings file that are read once, when the process starts. */
const startSections = ['notify', 'kubernetes', 'limits'] as const;

/** Names of settings that differ and take effect only when the process starts anew. */
export function waitForRestart(running: Settings, read: Settings): readonly string[] {
  const differ = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);
  return [
    ...startOptions.filter((name) => differ(running[name], read[name])),
    ...startSections.filter((name) => differ(running.file?.nested[name], read.file?.nested[name])),
  ].sort(compareText);
}
