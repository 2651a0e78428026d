import { systemClock } from '../../adapters/clock.ts';
import { type Listening, listen, parseListen } from '../../adapters/web/listen.ts';
import { readSecret } from '../../adapters/web/secret.ts';
import { createWebhookApp, defaultWebhook } from '../../adapters/web/webhook-app.ts';
import type { Logger } from '../../ports.ts';
import { makeFailure } from '../failure.ts';
import type { Settings } from '../settings.ts';

/** What the webhook server is told to do. */
export interface WebhookContext {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly wake: () => void;
  readonly onResult: (result: string) => void;
}

/** Serves webhooks on an address of their own; throws a `Failure` when it cannot, or when there is no secret. */
export async function serveWebhooks(
  webhookListen: string,
  { settings, logger, wake, onResult }: WebhookContext,
): Promise<Listening> {
  const { webhookSecretFile } = settings;
  const where = parseListen(webhookListen);
  if (!where.ok) throw makeFailure('bad-setting', where.error);
  if (webhookSecretFile === null)
    throw makeFailure('bad-setting', 'webhooks need a secret', 'give --webhook-secret-file');
  if (readSecret(webhookSecretFile) === '') {
    throw makeFailure(
      'bad-setting',
      `the file ${webhookSecretFile} (--webhook-secret-file) is empty or cannot be read`,
    );
  }
  const app = createWebhookApp({
    ...defaultWebhook,
    secret: () => readSecret(webhookSecretFile),
    wake,
    clock: systemClock,
    onResult,
  });
  const server = await listen(app, where.value);
  if (!server.ok) throw makeFailure('listen', server.error);
  logger.info('Serving webhooks', { address: server.value.url });
  return server.value;
}
