// How often src breaks a rule of test/architecture.test.ts today. These numbers only fall: lower the one that you mended.

/** Functions of more than 60 lines. */
export const longFunctions = 2;

/** Functions with a complexity above 15. */
export const complexFunctions = 20;

/** Lines of more than 140 characters. */
export const longLines = 43;

/** Lists spread into the arguments of a call. */
export const spreads = 7;

/** `as` casts. */
export const casts = 235;

/** Names that more than one file exports. */
export const sharedNames = 9;

/** Files whose imports may close a cycle. */
export const cycles: readonly string[] = ['cli/commands.ts'];
