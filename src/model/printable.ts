/** Text that is safe in a terminal, a log line and a table: what controls or hides text becomes `\u{…}`, the bracket of `##[` too. */
export function escapeControls(text: string): string {
  // The runner of GitHub takes `##[` for a command wherever it stands in a line.
  const safe = text.replaceAll('##[', '##\\u{5b}');
  return safe.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code === 10) return '\\n';
    if (code === 13) return '\\r';
    if (code === 9) return '\\t';
    return `\\u{${code.toString(16)}}`;
  });
}

/** At most so many characters; what is cut shows. */
export function shortenText(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** A whole number with commas between its thousands. `toLocaleString` loads the tables of ICU: 15 ms of each start. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** The first texts, and how many are left out: `a, b and 3 more`. */
export function joinSome(texts: readonly string[], most: number): string {
  const left = texts.length - most;
  return left <= 0 ? texts.join(', ') : `${texts.slice(0, most).join(', ')} and ${left} more`;
}
