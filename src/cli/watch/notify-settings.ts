import path from 'node:path';
import { type MakeDelivery, notifyGithub, notifySlack, notifyWebhook } from '../../adapters/notify/message.ts';
import type { NotifierSettings } from '../../adapters/notify/notifier.ts';
import { readOperatorFile } from '../../adapters/source/regular-file.ts';
import { attempt } from '../../model/result.ts';
import { makeFailure } from '../command.ts';
import type { SettingsFile } from '../settings-schema.ts';

type Notify = NonNullable<SettingsFile['nested']['notify']>[number];

/** Whom to tell, from the settings file; throws a `Failure` when a file it names cannot be read or an address is not safe. */
export function readNotifyTargets(file: SettingsFile | null): NotifierSettings['targets'] {
  if (file === null) return [];
  return (file.nested.notify ?? []).map((entry, index) => {
    const { name = `${entry.type}-${index + 1}` } = entry;
    return { name, deliver: readDelivery(entry, name, file.folder) };
  });
}

function readDelivery(entry: Notify, name: string, folder: string): MakeDelivery {
  const fromFile = (file: string): (() => string) => {
    const absolute = path.resolve(folder, file);
    const read = (): string => readOperatorFile(absolute, 65_536).toString('utf8').trim();
    if (attempt(read, null) !== null) return read;
    throw makeFailure('bad-setting', `notify ${name}: the file ${absolute} cannot be read`);
  };
  const address = (url: string | undefined, file: string | undefined): (() => string) => {
    const read = file === undefined ? () => url ?? '' : fromFile(file);
    if (!isSafeAddress(read()))
      throw makeFailure('bad-setting', `notify ${name}: the address must be https (http only to this machine)`);
    return read;
  };
  switch (entry.type) {
    case 'generic': {
      const secret = entry.secretFile === undefined ? null : fromFile(entry.secretFile);
      return notifyWebhook(address(entry.url, entry.urlFile), secret);
    }
    case 'slack':
      return notifySlack(address(entry.url, entry.urlFile));
    case 'github-status': {
      const { repository, tokenFile, api = 'https://api.github.com', context = 'reconcile' } = entry;
      if (!isSafeAddress(api)) throw makeFailure('bad-setting', `notify ${name}: api must be https`);
      return notifyGithub({ api: api.replace(/\/+$/, ''), repository, context }, fromFile(tokenFile));
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
