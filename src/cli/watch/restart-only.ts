import { compareText } from '../../model/problem.ts';
import type { OptionName } from '../options.ts';
import type { Settings } from '../settings.ts';

/** What is opened once, when the process starts: connections, addresses, the source, the state. */
const startOptions: readonly OptionName[] = [
  ...(['baseUrl', 'tokenFile', 'caFile', 'allowHttp', 'timeout'] as const),
  ...([
    'gitUrl',
    'gitRef',
    'gitPath',
    'gitTokenFile',
    'gitUsername',
    'gitSshKey',
    'gitKnownHosts',
    'gitCaFile',
  ] as const),
  ...(['gitAllow', 'gitTimeout', 'gitVerifyOpenpgp', 'gitVerifySsh', 'rescan', 'stateDir', 'journal'] as const),
  ...(['listen', 'listenHost', 'listenTokenFile', 'webhookListen', 'webhookSecretFile'] as const),
  ...(['lease', 'leaseDuration', 'logFormat', 'verbose'] as const),
];
const startSections = ['notify', 'kubernetes', 'limits'] as const;

/** Names of settings that differ and take effect only when the process starts anew. */
export function waitForRestart(running: Settings, read: Settings): readonly string[] {
  const differ = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);
  return [
    ...startOptions.filter((name) => differ(running[name], read[name])),
    ...startSections.filter((name) => differ(running.file?.nested[name], read.file?.nested[name])),
  ].sort(compareText);
}
