import type { ScalarValue } from './node.ts';

/** Types a plain scalar as the YAML 1.2 core schema does; needed again after a value was substituted into it. */
export function typedScalar(text: string): ScalarValue {
  if (/^(?:~|null|Null|NULL)?$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  if (/^[-+]?[0-9]+$/.test(text)) return Number(text);
  if (/^0o[0-7]+$/.test(text) || /^0x[0-9a-fA-F]+$/.test(text)) return Number(text);
  if (/^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/.test(text)) return Number(text);
  return text;
}

/** A text after substitution, and the first name that has no value. */
export interface Substituted {
  readonly text: string;
  readonly missing: string | null;
  readonly changed: boolean;
}

/**
 * Replaces `${name}` by its value, once (a value is never searched again); `$${` writes `${`. Whatever else follows a
 * dollar sign stays as it is.
 */
export function substitute(text: string, values: ReadonlyMap<string, string>): Substituted {
  if (!text.includes('${')) return { text, missing: null, changed: false };
  let missing: string | null = null;
  const replaced = text.replace(/\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}/g, (match, name: string | undefined) => {
    if (name === undefined) return '${';
    const value = values.get(name);
    if (value === undefined) missing ??= name;
    return value ?? match;
  });
  return { text: replaced, missing, changed: true };
}
