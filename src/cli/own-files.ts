import { resolve } from 'node:path';
import type { Settings } from './command.ts';
import type { NestedSettings } from './settings-schema.ts';

/** Where Kubernetes mounts the credentials of the process's own service account. */
export const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Files of the program's own that no manifest may name as a secret: whoever writes manifests could publish them. */
export function listOwnFiles(settings: Settings): readonly string[] {
  const { file } = settings;
  const own = [
    settings.tokenFile,
    settings.caFile,
    settings.journal,
    settings.gitTokenFile,
    settings.gitSshKey,
    settings.listenTokenFile,
    settings.listenTlsKey,
    settings.webhookSecretFile,
  ].filter((path) => path !== null);
  const nested = file === null ? [] : nestedFiles(file.nested).map((path) => resolve(file.folder, path));
  return [...own, ...(file === null ? [] : [file.path]), ...nested, `${serviceAccount}/token`];
}

function nestedFiles({ kubernetes, notify = [] }: NestedSettings): readonly string[] {
  const files = notify.flatMap((target) => {
    if (target.type === 'github-status') return [target.tokenFile];
    return [target.urlFile, target.type === 'generic' ? target.secretFile : undefined];
  });
  return [kubernetes?.tokenFile, ...files].filter((path) => path !== undefined);
}
