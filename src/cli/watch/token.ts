import { systemClock } from '../../adapters/clock.ts';
import type { Triggers } from '../../controller/trigger.ts';
import { attempt } from '../../model/result.ts';
import type { Logger } from '../../ports.ts';
import { Failure } from '../command.ts';
import { readClaims, type TokenSource } from '../token.ts';

const tokenPollMs = 5000;
const warnDays = [14, 7, 3, 1, 0] as const;
const dayMs = 86_400_000;

/** Looks at the token now and then: a new one wakes the loop, one that expires soon is told. `renew` gets printed secrets again. */
export function watchToken(
  token: TokenSource,
  triggers: Triggers,
  logger: Logger,
  { everyMs, renew }: { readonly everyMs: () => number; readonly renew: () => Promise<void> },
) {
  let known: string | null = null;
  let expires: number | null = null;
  let warned: number | null = null;
  const look = (): void => {
    const text = attempt(() => token.read(), null);
    if (text === null) return; // the pass says what is wrong with it
    if (known !== null && known !== text) {
      logger.info('The API token was renewed');
      triggers.wake('token');
    }
    if (known !== text) expires = readClaims(text)?.expiresAt ?? null;
    known = text;
    const leftMs = (expires ?? Number.POSITIVE_INFINITY) - systemClock.wallTime();
    const due = warnDays.filter((days) => leftMs <= days * dayMs).at(-1) ?? null;
    if (due !== null && due !== warned) {
      logger.warn('The API token expires soon and nothing can renew it: make a new one and replace its file', {
        expires: new Date(expires ?? 0).toISOString(),
        withinDays: due,
      });
    }
    warned = due;
  };
  look();
  let renewedAt = systemClock.now();
  let renewing: Promise<void> | null = null;
  const timer = setInterval(() => {
    if (renewing !== null || systemClock.now() - renewedAt < everyMs()) return look();
    renewing = renew()
      .catch((error: unknown) => {
        const detail = error instanceof Failure ? error.message : 'an internal error';
        logger.warn('The secrets could not be renewed; the old ones stay', { detail });
      })
      .then(() => {
        renewedAt = systemClock.now();
        renewing = null;
        look();
      });
  }, tokenPollMs);
  return {
    expiresAt: () => expires,
    close: async (): Promise<void> => {
      clearInterval(timer);
      await renewing;
    },
  };
}
