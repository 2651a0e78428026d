import type { ScalarValue } from './node.ts';

/** Types a plain scalar as the YAML 1.2 core schema does; needed again after a value was substituted into it. */
export function resolveScalar(text: string): ScalarValue {
  if (!/^[-+.0-9~nNtTfF]|^$/.test(text)) return text;
  if (/^(?:~|null|Null|NULL)?$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  if (/^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/.test(text)) return Number(text);
  if (/^0o[0-7]+$/.test(text) || /^0x[0-9a-fA-F]+$/.test(text)) return Number(text);
  return text;
}

/** An escaped brace, a reference, or a brace that begins none. */
const references = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}|\$\{[^}]{0,40}\}?/g;

/**
 * Replaces `${name}` by its value once; `$${` writes `${`. Values for which there is no `room` (characters) are left out. Tells the
 * first name that has no value, the first `${` that begins no name, and how many characters came from values, left out or not.
 */
export function substitute(text: string, values: ReadonlyMap<string, string>, room: number) {
  if (!text.includes('${')) return { text, missing: null, malformed: null, changed: false, length: 0 };
  let missing: string | null = null;
  let malformed: string | null = null;
  let length = 0;
  const replaced = text.replace(references, (match, name: string | undefined) => {
    if (match === '$${') return '${';
    if (name === undefined) malformed ??= match;
    else if (!values.has(name)) missing ??= name;
    const value = name === undefined ? match : (values.get(name) ?? match);
    length += value.length;
    return length <= room ? value : '';
  });
  return { text: replaced, missing, malformed, changed: true, length };
}
