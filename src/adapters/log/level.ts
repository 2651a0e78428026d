/** The least severe message that is written. */
export type LogLevel = 'debug' | 'info' | 'warn';
