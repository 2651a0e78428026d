import { didYouMean } from '../manifest/suggest.ts';
import { defaultPlanOptions } from '../plan/input.ts';

/** What all functions of the library take. */
const policyFields = ['manifests', 'profile', 'ruleUpdates', 'overlay', 'at', 'values', 'scope', 'resolveSecret'];

/** Members of a request that say what to plan, beside the policy. */
export const planningFields = ['base', 'options', 'approvals'];

/** Checks the argument of one call; throws a `TypeError` that says what to write. `more` are the call's own members. */
export function checkRequest(call: string, request: unknown, more: readonly string[] = []): void {
  const example = `${call}({manifests: [{path: 'rules.yaml', text: '…'}]${more.map((name) => `, ${name}`).join('')}})`;
  const given = checkMembers(call, request, { allowed: [...policyFields, ...more], example });
  const manifests = given['manifests'];
  if (!Array.isArray(manifests)) throw new TypeError(`${call}: \`manifests\` is missing. Write ${example}`);
  checkFiles(call, 'manifests', manifests);
  if (Array.isArray(given['base'])) checkFiles(call, 'base', given['base']);
  const { profile = 'firezone-0.7', ruleUpdates = 'replace', options = {}, scope = {} } = given;
  checkWord(`${call}: \`profile\``, profile, ['firezone-0.7', 'generic']);
  checkWord(`${call}: \`ruleUpdates\``, ruleUpdates, ['replace', 'patch']);
  checkMembers(`${call}: \`options\``, options, { allowed: optionFields, example: '{maxDeletes: {count: 5}}' });
  const scopeFields = ['rules', 'configuration', 'users', 'networks'];
  checkMembers(`${call}: \`scope\``, scope, { allowed: scopeFields, example: "{networks: ['10.0.0.0/8']}" });
}

const optionFields = Object.keys(defaultPlanOptions).filter((name) => name !== 'protect' && name !== 'fingerprintKey');

/** Checks that `value` is an object with these members only. */
export function checkMembers(
  what: string,
  value: unknown,
  { allowed, example }: { readonly allowed: readonly string[]; readonly example: string },
): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError(`${what} takes one object: ${example}`);
  }
  const unknown = Object.keys(value).find((key) => !allowed.includes(key));
  if (unknown === undefined) return { ...value };
  const hint = didYouMean(unknown, allowed, `It knows ${allowed.join(', ')}.`);
  throw new TypeError(`${what} does not know \`${unknown}\`. ${hint}`);
}

function checkFiles(call: string, name: string, files: readonly unknown[]): void {
  for (const [index, file] of files.entries()) {
    const { path, text } = checkMembers(`${call}: \`${name}[${index}]\``, file, {
      allowed: ['path', 'text'],
      example: "{path: 'rules.yaml', text: '…'}",
    });
    if (typeof path === 'string' && typeof text === 'string') continue;
    throw new TypeError(`${call}: \`${name}[${index}]\` needs a path and a text, both strings`);
  }
}

function checkWord(what: string, value: unknown, words: readonly string[]): void {
  if (!words.some((word) => word === value)) throw new TypeError(`${what} must be one of ${words.join(', ')}`);
}
