import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import { readOperatorFile } from '../../adapters/source/regular-file.ts';
import { isLoopback, type Listening, listen, parseListen } from '../../adapters/web/listen.ts';
import type { Status } from '../../controller/status.ts';
import { makeFailure } from '../failure.ts';

export interface StatusServerSettings {
  readonly listen: string;
  readonly hosts: readonly string[];
  readonly tokenFile: string | null;
}

/** What it shows; may change while it serves. */
export interface StatusServerView {
  readonly status: () => Status;
  readonly alive: () => boolean;
  readonly ready: () => boolean;
  readonly metrics: ControllerMetrics;
}

/** Serves the status; throws a `Failure` when that cannot work. */
export async function serveStatus(settings: StatusServerSettings, view: StatusServerView): Promise<Listening> {
  const where = parseListen(settings.listen);
  if (!where.ok) throw makeFailure('bad-setting', where.error);
  const { tokenFile } = settings;
  if (tokenFile === null && !isLoopback(where.value.host)) {
    throw makeFailure(
      'bad-setting',
      `--listen ${settings.listen} can be reached from elsewhere`,
      'give --listen-token-file, or listen on 127.0.0.1',
    );
  }
  const token = tokenFile === null ? () => null : () => readSecret(tokenFile);
  if (tokenFile !== null && token() === '')
    throw makeFailure('bad-setting', `the file ${tokenFile} (--listen-token-file) is empty or cannot be read`);
  const { createStatusApp } = await import('../../adapters/web/status-app.ts');
  const app = createStatusApp({
    status: view.status,
    alive: view.alive,
    ready: view.ready,
    metrics: () => view.metrics.text(),
    host: where.value.host,
    hosts: settings.hosts.map((host) => host.toLowerCase()),
    token,
  });
  const server = await listen(app, where.value);
  if (!server.ok) throw makeFailure('listen', server.error);
  return server.value;
}

/** A secret's file, read anew each time; empty when it cannot be read, which lets nobody in. */
export function readSecret(file: string): string {
  try {
    return readOperatorFile(file, 65_536).toString('utf8').trim();
  } catch {
    return '';
  }
}
