import { systemClock } from '../../adapters/clock.ts';
import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import {
  isLoopback,
  type Listening,
  listen,
  parseListen,
  readTlsFiles,
  type TlsFiles,
} from '../../adapters/web/listen.ts';
import { readSecret } from '../../adapters/web/secret.ts';
import { createStatusApp, type StatusAppSettings } from '../../adapters/web/status-app.ts';
import { makeFailure } from '../failure.ts';

export interface StatusServerSettings {
  readonly listen: string;
  readonly hosts: readonly string[];
  readonly tokenFile: string | null;
  readonly tlsCert: string | null;
  readonly tlsKey: string | null;
}

/** What it shows; may change while it serves. */
export interface StatusServerView {
  /** Loaded on demand. */
  readonly pages: () => Promise<Pick<StatusAppSettings, 'view' | 'below'>>;
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
  const tls = tlsFilesOf(settings);
  const app = createStatusApp({
    ...(await view.pages()),
    alive: view.alive,
    ready: view.ready,
    metrics: () => view.metrics.text(),
    host: where.value.host,
    hosts: settings.hosts.map((host) => host.toLowerCase()),
    token,
    isSecure: tls !== null,
    clock: systemClock,
  });
  const server = await listen(app, where.value, tls);
  if (!server.ok) throw makeFailure('listen', server.error);
  return server.value;
}

function tlsFilesOf({ tlsCert: cert, tlsKey: key }: StatusServerSettings): TlsFiles | null {
  if (cert === null && key === null) return null;
  if (cert === null || key === null)
    throw makeFailure('bad-setting', '--listen-tls-cert and --listen-tls-key go together', 'name both files');
  const read = readTlsFiles({ cert, key });
  if (!read.ok) throw makeFailure('bad-setting', read.error, 'check --listen-tls-cert and --listen-tls-key');
  return { cert, key };
}
