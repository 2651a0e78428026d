import path from 'node:path';
import type { NotifyTarget } from '../../adapters/notify/message.ts';
import { readOperatorFile } from '../../adapters/source/regular-file.ts';
import { makeFailure } from '../command.ts';
import type { SettingsFile } from '../settings-schema.ts';

type Notify = NonNullable<SettingsFile['nested']['notify']>[number];

/** Whom to tell, from the settings file; throws a `Failure` when a file it names cannot be read or an address is not safe. */
export function readNotifyTargets(file: SettingsFile | null): readonly NotifyTarget[] {
  if (file === null) return [];
  return (file.nested.notify ?? []).map((entry, index) => targetOf(entry, `${entry.type}-${index + 1}`, file.folder));
}

function targetOf(entry: Notify, fallback: string, folder: string): NotifyTarget {
  const name = entry.name ?? fallback;
  const fromFile = (file: string): (() => string) => {
    const absolute = path.resolve(folder, file);
    const read = (): string => readOperatorFile(absolute, 65_536).toString('utf8').trim();
    try {
      read();
    } catch {
      throw makeFailure('bad-setting', `notify ${name}: the file ${absolute} cannot be read`);
    }
    return read;
  };
  const address = (url: string | undefined, file: string | undefined): (() => string) => {
    const read = file === undefined ? () => url ?? '' : fromFile(file);
    if (!isSafeAddress(read()))
      throw makeFailure('bad-setting', `notify ${name}: the address must be https (http only to this machine)`);
    return read;
  };
  switch (entry.type) {
    case 'generic':
      return {
        type: 'generic',
        name,
        url: address(entry.url, entry.urlFile),
        secret: entry.secretFile === undefined ? null : fromFile(entry.secretFile),
      };
    case 'slack':
      return { type: 'slack', name, url: address(entry.url, entry.urlFile) };
    case 'github-status': {
      const api = entry.api ?? 'https://api.github.com';
      if (!isSafeAddress(api)) throw makeFailure('bad-setting', `notify ${name}: api must be https`);
      return {
        type: 'github-status',
        name,
        api: api.replace(/\/+$/, ''),
        repository: entry.repository,
        token: fromFile(entry.tokenFile),
        context: entry.context ?? 'reconcile',
      };
    }
  }
}

/** Whether a secret may be sent to this address: https, or http to this machine, and no user information. */
export function isSafeAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const local = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  return url.username === '' && (url.protocol === 'https:' || (url.protocol === 'http:' && local));
}
