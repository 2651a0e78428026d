/**
 * What is wrong with a text that is no YAML, in our own words: the parser's messages may quote the source, which may hold
 * a secret. Keyed by the parser's error code.
 */
const sentences: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'An alias cannot have an anchor or a tag.',
  BAD_ALIAS: 'An alias (`*name`) refers to an anchor that does not exist before it.',
  BAD_DIRECTIVE: 'A `%` directive is malformed.',
  BAD_DQ_ESCAPE: 'A backslash in a double-quoted text is not followed by a known escape.',
  BAD_INDENT: 'The indentation does not fit the lines around it.',
  BAD_PROP_ORDER: 'An anchor or tag stands in the wrong place.',
  BAD_SCALAR_START: 'A value starts with a character that has a meaning of its own in YAML.',
  BLOCK_AS_IMPLICIT_KEY: 'A nested mapping stands where only a simple value can stand.',
  BLOCK_IN_FLOW: 'A block collection stands inside `[…]` or `{…}`.',
  BAD_COLLECTION_TYPE: 'A tag does not fit the collection it stands on.',
  KEY_OVER_1024_CHARS: 'A key is longer than 1,024 characters.',
  MISSING_CHAR: 'A character is missing: a colon, a comma, or a closing quote or bracket.',
  MULTILINE_IMPLICIT_KEY: 'A key extends over several lines.',
  MULTIPLE_ANCHORS: 'A value has more than one anchor.',
  MULTIPLE_TAGS: 'A value has more than one tag.',
  NON_STRING_KEY: 'A key is not a simple text.',
  RESOURCE_EXHAUSTION: 'Collections are nested too deeply.',
  TAB_AS_INDENT: 'A tab is used for indentation.',
  UNEXPECTED_TOKEN: 'Something stands where YAML does not allow it.',
};

const hints: Readonly<Record<string, string>> = {
  BAD_INDENT: 'Align the line with its siblings, using spaces.',
  BAD_SCALAR_START: 'Put the value in quotes.',
  BLOCK_AS_IMPLICIT_KEY: 'Put a value that contains `: ` in quotes, or break the line after the first colon.',
  MISSING_CHAR: 'Look for an open quote or bracket at or above this line, or a missing `:` after a key.',
  TAB_AS_INDENT: 'Indent with spaces.',
  UNEXPECTED_TOKEN: 'Look for an open quote or bracket at or above this line.',
};

/** The sentence and hint for a parser's error code. */
export function describeYamlFault(code: string): { readonly summary: string; readonly hint: string } {
  return {
    summary: `This is not valid YAML. ${sentences[code] ?? 'The parser cannot read it.'}`,
    hint: hints[code] ?? 'Mend the YAML here or just above.',
  };
}
