import { styleText } from 'node:util';

/** What a piece of text is; its colour follows. */
export type Tone = 'risk' | 'plain' | 'error' | 'warning' | 'note' | 'strong' | 'faint' | 'good';

/** Colours a piece of text, or leaves it as it is. */
export type Paint = (tone: Tone, text: string) => string;

const styles = {
  // Traffic that opens is what must not be missed, on light and on dark terminals; what closes is calm.
  risk: ['bold', 'red'],
  plain: [],
  error: ['red'],
  warning: ['yellow'],
  note: ['cyan'],
  strong: ['bold'],
  faint: ['dim'],
  good: ['green'],
} as const satisfies Readonly<Record<Tone, readonly string[]>>;

/** A painter; without colour it returns its text. Whether to colour is decided where the terminal is known. */
export function createPaint(color: boolean): Paint {
  if (!color) return (_tone, text) => text;
  return (tone, text) => (tone === 'plain' ? text : styleText([...styles[tone]], text, { validateStream: false }));
}
