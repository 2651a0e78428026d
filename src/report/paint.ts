import { styleText } from 'node:util';

/** What a piece of text is; its colour follows. */
export type Tone =
  | 'create'
  | 'update'
  | 'delete'
  | 'replace'
  | 'error'
  | 'warning'
  | 'note'
  | 'strong'
  | 'faint'
  | 'good';

/** Colours a piece of text, or leaves it as it is. */
export type Paint = (tone: Tone, text: string) => string;

const styles = {
  create: 'green',
  update: 'yellow',
  delete: 'red',
  replace: 'yellow',
  error: 'red',
  warning: 'yellow',
  note: 'cyan',
  strong: 'bold',
  faint: 'dim',
  good: 'green',
} as const satisfies Readonly<Record<Tone, string>>;

/** A painter; without colour it returns its text. Whether to colour is decided where the terminal is known. */
export function painter(color: boolean): Paint {
  if (!color) return (_tone, text) => text;
  return (tone, text) => styleText(styles[tone], text, { validateStream: false });
}
