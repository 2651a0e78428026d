import { describe, expect, it } from 'vitest';
import type { Settings } from '../../../src/cli/command.ts';
import { createLease } from '../../../src/cli/watch/lease-settings.ts';

const nothing = (): void => undefined;

describe('--lease kubernetes:NAMESPACE/NAME', () => {
  it.each([
    ['outside of a cluster', {}, 'there is no KUBERNETES_SERVICE_HOST'],
    ['in a pod without a token', { KUBERNETES_SERVICE_HOST: '10.96.0.1' }, 'serviceaccount/token is not there'],
  ])('%s is an error of usage that says what to type', async (_where, env, because) => {
    const settings = { lease: 'kubernetes:net/reconcile', leaseDuration: 60_000, timeout: 15_000, file: null };
    const logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
    const holder = { settings: settings as unknown as Settings, terminal: { env, cwd: '/' } };
    const made = createLease(holder, { logger, onChange: nothing, onOverlap: nothing });
    await expect(made).rejects.toMatchObject({
      name: 'Failure',
      problems: [
        {
          code: 'bad-setting',
          summary: expect.stringContaining(because),
          hint: expect.stringContaining('--lease file:PATH'),
        },
      ],
    });
  });
});
