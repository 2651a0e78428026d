/** The least severe message that is written. */
export type LogLevel = 'debug' | 'info' | 'warn';

/** Log formats: lines for people, or one JSON object a line. */
export type LogFormat = 'text' | 'json';
