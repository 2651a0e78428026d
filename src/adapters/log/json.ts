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
  const line =
    (severity: keyof Logger) =>
    (message: string, fields?: LogFields): void =>
      log[severity](cleaned(fields), message);
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

/** JSON escapes control characters, but not those that change the direction of text in a viewer. */
function cleaned(fields: LogFields = {}): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, typeof value === 'string' ? escapeControls(value) : value]),
  );
}
