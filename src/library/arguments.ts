import { didYouMean } from '../manifest/suggest.ts';
import { isObject } from '../model/result.ts';

/** What all functions of the library take beside manifests. */
export const settingFields = ['profile', 'ruleUpdates', 'overlay', 'at', 'values', 'scope', 'resolveSecret'];

/** Members of a request that say what to plan, beside the policy. */
export const planningFields = ['base', 'options', 'approvals'];

/** Checks the argument of one call; throws a `TypeError` that says what to write. `more` are the call's own members. */
export function checkRequest(call: string, request: unknown, more: readonly string[] = []): void {
  const example = `${call}({manifests: [{path: 'rules.yaml', text: '…'}]${more.map((name) => `, ${name}`).join('')}})`;
  const given = checkMembers(call, request, ['manifests', ...settingFields, ...more], example);
  const manifests = given['manifests'];
  if (!Array.isArray(manifests)) throw new TypeError(`${call}: \`manifests\` is missing. Write ${example}`);
  checkFiles(call, 'manifests', manifests);
  if (Array.isArray(given['base'])) checkFiles(call, 'base', given['base']);
  const { options = {}, scope = {} } = given;
  const [known, parts] = [Object.keys(optionShapes), Object.keys(scopeShapes)];
  const chosen = checkMembers(`${call}: \`options\``, options, known, '{maxDeletes: {count: 5}}');
  const part = checkMembers(`${call}: \`scope\``, scope, parts, "{networks: ['10.0.0.0/8']}");
  checkShapes(`${call}: \``, given, requestShapes);
  checkShapes(`${call}: \`scope.`, part, scopeShapes);
  checkShapes(`${call}: \`options.`, chosen, optionShapes);
}

/** What a member must be, and how that is said. */
type Shape = readonly [fits: (value: unknown) => boolean, said: string];
type Shapes = Readonly<Record<string, Shape>>;

const isTextList = (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === 'string');
const isTextMap = (value: unknown) => isObject(value) && isTextList(Object.values(value));
/** Not NaN, with which no comparison holds. */
const isAmount = (value: unknown) => typeof value === 'number' && value >= 0;
const isLimit = (value: unknown) => isObject(value) && (isAmount(value['count']) || isAmount(value['share']));

const isOneOf = (words: readonly unknown[]): Shape => [(value) => words.includes(value), `one of ${words.join(', ')}`];
const failWords: readonly unknown[] = ['opens', 'closes', 'any', 'drift', 'not-enforced'];

const flag: Shape = [(value) => typeof value === 'boolean', 'true or false'];
const textList: Shape = [isTextList, 'a list of texts'];
const list: Shape = [Array.isArray, 'a list'];
const limit: Shape = [isLimit, '{count: 5} or {share: 0.3}'];

const requestShapes: Shapes = {
  profile: isOneOf(['firezone-0.7', 'generic']),
  ruleUpdates: isOneOf(['replace', 'patch']),
  user: [(value) => typeof value === 'string', "a user's e-mail address or id, a text"],
  overlay: [(value) => typeof value === 'string', 'the folder of an environment, a text'],
  at: [Number.isFinite, 'a time in ms since 1970, a number'],
  values: [isTextMap, "an object of texts, as in {database: '10.9.0.7'}"],
  resolveSecret: [(value) => typeof value === 'function', 'a function'],
  base: list,
  approvals: textList,
  signal: [(value) => value instanceof AbortSignal, 'an AbortSignal'],
};
const scopeShapes = { rules: flag, configuration: flag, users: textList, networks: textList };
const optionShapes: Shapes = {
  maxDeletes: limit,
  maxChanges: limit,
  allowEmpty: flag,
  allowLockout: flag,
  replaceModified: flag,
  prune: [(value) => value === 'all' || value === 'none' || value instanceof Set, 'all, none, or a Set of rules'],
  maxExposure: isOneOf(['none', 'any']),
  failOn: [
    (value) => Array.isArray(value) && value.every((one) => failWords.includes(one)),
    `a list of ${failWords.join(', ')}`,
  ],
  secretBindings: list,
};

/** Checks members that may be left out; `before` is what stands before a name in a message. */
function checkShapes(before: string, given: Readonly<Record<string, unknown>>, shapes: Shapes): void {
  for (const [name, [fits, said]] of Object.entries(shapes)) {
    if (given[name] !== undefined && !fits(given[name])) throw new TypeError(`${before}${name}\` must be ${said}`);
  }
}

/** Checks that `value` is an object with these members only. */
export function checkMembers(what: string, value: unknown, allowed: readonly string[], example: string) {
  if (!isObject(value)) throw new TypeError(`${what} takes one object: ${example}`);
  const unknown = Object.keys(value).find((key) => !allowed.includes(key));
  if (unknown === undefined) return { ...value };
  const hint = didYouMean(unknown, allowed, `It knows ${allowed.join(', ')}.`);
  throw new TypeError(`${what} does not know \`${unknown}\`. ${hint}`);
}

function checkFiles(call: string, name: string, files: readonly unknown[]): void {
  for (const [index, file] of files.entries()) {
    const what = `${call}: \`${name}[${index}]\``;
    const { path, text } = checkMembers(what, file, ['path', 'text'], "{path: 'rules.yaml', text: '…'}");
    if (typeof path === 'string' && typeof text === 'string') continue;
    throw new TypeError(`${what} needs a path and a text, both strings`);
  }
}
