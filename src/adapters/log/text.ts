import { escapeControls } from '../../model/printable.ts';
import type { LogFields, Logger } from '../../ports.ts';

const order = { debug: 0, info: 1, warn: 2, error: 3 } as const;

/** A log for people: lines `warning: message key=value`, after the time where a clock is given; `labels` stand before the fields. */
export function createTextLogger(
  level: LogLevel,
  write: (line: string) => void,
  wallTime?: () => number,
  labels?: LogFields,
): Logger {
  const line =
    (severity: keyof typeof order, label: string = severity) =>
    (message: string, fields?: LogFields): void => {
      if (order[severity] < order[level]) return;
      const time = wallTime === undefined ? '' : `${new Date(wallTime()).toISOString()} `;
      const told = Object.entries({ ...labels, ...fields }).map(([key, value]) => ` ${key}=${valueText(value)}`);
      write(`${time}${label}: ${message}${told.join('')}\n`);
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn', 'warning'), error: line('error') };
}

function valueText(value: LogFields[string]): string {
  if (typeof value !== 'string') return Array.isArray(value) ? escapeControls(value.join(',')) : String(value);
  const clean = escapeControls(value);
  return /^[\w./:@+-]+$/.test(clean) ? clean : JSON.stringify(clean);
}

/** The least severe message that is written. */
export type LogLevel = 'debug' | 'info' | 'warn';
