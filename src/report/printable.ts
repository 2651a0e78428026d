/**
 * Text that is safe in a terminal, a log line and a table: control characters, ANSI sequences' escapes, line separators
 * and characters that change the direction of text or have no width become `\u{…}`.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code === 10) return '\\n';
    if (code === 13) return '\\r';
    if (code === 9) return '\\t';
    return `\\u{${code.toString(16)}}`;
  });
}
