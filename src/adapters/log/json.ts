import { pino } from 'pino';
import { escapeControls } from '../../model/printable.ts';
import type { LogFields, Logger } from '../../ports.ts';
import type { LogLevel } from './text.ts';

/** A log for machines: one JSON object a line with `level`, `time` (ISO 8601), `labels`, the fields and `msg`. */
export function createJsonLogger(level: LogLevel, write: (line: string) => void, labels?: LogFields): Logger {
  const log = pino(
    {
      level,
      base: labels ?? null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write },
  );
  return {
    debug: (message, fields) => log.debug(cleaned(fields), message),
    info: (message, fields) => log.info(cleaned(fields), message),
    warn: (message, fields) => log.warn(cleaned(fields), message),
    error: (message, fields) => log.error(cleaned(fields), message),
  };
}

/** JSON escapes control characters, but not those that change the direction of text in a viewer. */
function cleaned(fields: LogFields | undefined): LogFields {
  if (fields === undefined) return {};
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, typeof value === 'string' ? escapeControls(value) : value]),
  );
}
