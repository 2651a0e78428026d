import { systemClock } from '../../adapters/clock.ts';
import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import { isLoopback, type Listening, listen, parseListen, readTlsFiles } from '../../adapters/web/listen.ts';
import { readSecret } from '../../adapters/web/secret.ts';
import { createStatusApp, type StatusAppSettings } from '../../adapters/web/status-app.ts';
import { createWebhookApp } from '../../adapters/web/webhook-app.ts';
import type { Logger } from '../../ports.ts';
import { makeFailure, mustHave, type Settings } from '../command.ts';
import { formatFlag } from '../options.ts';

/** Called with the settings that say where a process serves its page and webhooks, before they are used. */
export type Serve = (settings: Settings) => Promise<void>;

/** What a process that watches runs and shows, what a webhook does, and how it reads its settings again. */
export interface WatchProcess {
  readonly metrics: ControllerMetrics;
  /** Loaded on demand. */
  pages(): Promise<Pick<StatusAppSettings, 'view' | 'below'>>;
  alive(): boolean;
  ready(): boolean;
  wake(): void | Promise<void>;
  hangUp(): Promise<void>;
  run(serve: Serve): Promise<number>;
}

/** Serves the status page; null: no address is named. Throws a `Failure` when that cannot work. */
export async function servePage(settings: Settings, view: WatchProcess, logger: Logger): Promise<Listening | null> {
  const { listen: address, listenHost, listenTokenFile } = settings;
  if (address === null) return null;
  const where = mustHave(parseListen(address), 'bad-setting');
  if (listenTokenFile === null && !isLoopback(where.host)) {
    const hint = 'give --listen-token-file, or listen on 127.0.0.1';
    throw makeFailure('bad-setting', `--listen ${address} can be reached from elsewhere`, hint);
  }
  const token = listenTokenFile === null ? () => null : readNow(listenTokenFile, 'listenTokenFile');
  const tls = readTls(settings);
  const app = createStatusApp({
    ...(await view.pages()),
    alive: () => view.alive(),
    ready: () => view.ready(),
    metrics: () => view.metrics.text(),
    host: where.host,
    hosts: listenHost.map((host) => host.toLowerCase()),
    token,
    isSecure: tls !== null,
    clock: systemClock,
  });
  const server = mustHave(await listen(app, where, tls), 'listen');
  logger.info('Serving the status', { address: server.url });
  return server;
}

/** Serves webhooks on an address of their own; null: none is named. Throws a `Failure` when it cannot, or without a secret. */
export async function serveWebhooks(settings: Settings, view: WatchProcess, logger: Logger): Promise<Listening | null> {
  const { webhookListen, webhookSecretFile } = settings;
  if (webhookListen === null) return null;
  const where = mustHave(parseListen(webhookListen), 'bad-setting');
  if (webhookSecretFile === null)
    throw makeFailure('bad-setting', 'webhooks need a secret', 'give --webhook-secret-file');
  const app = createWebhookApp({
    secret: readNow(webhookSecretFile, 'webhookSecretFile'),
    wake: () => void view.wake(),
    clock: systemClock,
    onResult: view.metrics.webhook,
  });
  const server = mustHave(await listen(app, where, null), 'listen');
  logger.info('Serving webhooks', { address: server.url });
  return server;
}

/** Reads a secret anew for each call. */
function readNow(file: string, name: 'listenTokenFile' | 'webhookSecretFile'): () => string {
  if (readSecret(file) === '')
    throw makeFailure('bad-setting', `the file ${file} (${formatFlag(name)}) is empty or cannot be read`);
  return () => readSecret(file);
}

function readTls({ listenTlsCert: cert, listenTlsKey: key }: Settings) {
  if (cert === null && key === null) return null;
  if (cert === null || key === null)
    throw makeFailure('bad-setting', '--listen-tls-cert and --listen-tls-key go together', 'name both files');
  mustHave(readTlsFiles({ cert, key }), 'bad-setting', 'check --listen-tls-cert and --listen-tls-key');
  return { cert, key };
}
