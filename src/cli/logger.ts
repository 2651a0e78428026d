import { systemClock } from '../adapters/clock.ts';
import { createTextLogger, type LogLevel } from '../adapters/log/text.ts';
import type { Logger } from '../ports.ts';
import type { Invocation, Settings } from './command.ts';

type Logged = Pick<Invocation, 'terminal' | 'shared'> & { readonly settings: Pick<Settings, 'logFormat' | 'verbose'> };

/** The log of one run, on stderr. `--verbose` shows everything; else `level` and what is more severe. */
export async function createLogger({ settings, terminal, shared }: Logged, level: LogLevel = 'warn'): Promise<Logger> {
  const least = settings.verbose ? 'debug' : level;
  // A person at a terminal knows what time it is; who reads the log of a sidecar does not.
  const clock = level === 'info' ? systemClock.wallTime : undefined;
  if (settings.logFormat === 'text') return createTextLogger(least, terminal.stderr, clock, shared?.labels);
  const { createJsonLogger } = await import('../adapters/log/json.ts');
  return createJsonLogger(least, terminal.stderr, shared?.labels);
}
