// What breaks a rule of test/architecture.test.ts, by name, and why. The lists only get shorter and the numbers only fall.

/** `FILE FUNCTION` of more than 60 lines. */
export const longFunctions: Readonly<Record<string, string>> = {};

/** `FILE FUNCTION` with a complexity above 15. */
export const complexFunctions: Readonly<Record<string, string>> = {
  'adapters/source/directory.ts visit': 'each kind of entry of a folder ends in another problem',
  'apply/restore.ts restore': 'one step back, with each of its outcomes',
  'cli/pass-run.ts exitCode': 'the table of exit codes',
  'desired/build-configuration.ts scan': 'a scanner of markup, one branch for each kind',
  'live/live-rules.ts decodeOne': 'each field of a live rule is checked',
  'model/problem.ts compareProblems': 'one comparison after the other',
  'report/json.ts makeDocument': 'fields of a document that are there or not',
};

/** `FILE` that spreads a list into arguments. */
export const spreads: Readonly<Record<string, string>> = {
  'model/instant.ts': 'two candidates',
  'plan/order/sharing.ts': 'the members of one circle',
  'plan/order/search.ts': 'a window of at most eight steps',
  'report/markdown.ts': 'runs of backticks in a text cut at 400 characters',
};

/** Names that more than one file exports. */
export const sharedNames: readonly string[] = ['Entry', 'Finding', 'Node', 'Paint', 'parseFile'];

/** Lines of more than 140 characters. */
export const longLines = 40;

/** `as` casts. */
export const casts = 235;

/** Files whose imports may close a cycle. */
export const cycles: readonly string[] = ['cli/commands.ts'];
