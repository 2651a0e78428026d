import { createHash } from 'node:crypto';
import { addExcerpts } from '../manifest/excerpt.ts';
import { type FileManifests, isManifestPath, type Manifest, type PolicyCaseTemplate } from '../manifest/manifest.ts';
import { applySuppressions } from '../manifest/suppressions.ts';
import { keepFirst } from '../model/group-by.ts';
import type { KnownUsers } from '../model/known-users.ts';
import { joinSome } from '../model/printable.ts';
import type { Place, Problem } from '../model/problem.ts';
import { compareProblems, compareText, hasErrors, makeError, makeWarning, relateTo } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { compareRules, type DesiredRule, formatRuleKey, hasTimes, selectRulesAt } from '../model/rule.ts';
import { concerns, type DesiredState, isInScope, type PolicyCase } from '../model/state.ts';
import { buildConfiguration } from './build-configuration.ts';
import type { Desired, DesiredContext } from './context.ts';
import { expand } from './expand.ts';
import { findCollisionsAgain, findEndings } from './in-force.ts';
import { applyLayers, type Layered } from './layers.ts';
import { findReservedNames, Names, noteUnresolved } from './names.ts';
import type { ParsedFiles } from './parse-files.ts';

/**
 * Turns parsed manifests into the one canonical desired state, and collects every problem on the way. The state is null exactly
 * when a problem is an error. Without `users` a rule's user may be an e-mail address instead of a UUID (each has a note): such
 * a state can be checked and displayed, and must not be planned from (`emails` tells).
 */
export function assemble(parsed: ParsedFiles, users: KnownUsers | null, context: DesiredContext): Desired {
  const { now: _, ...settings } = context;
  const given = [users, ...Object.entries(settings).flat()];
  const last = assembled.get(parsed);
  if (last?.given.length === given.length && last.given.every((one, at) => one === given[at])) return last.desired;
  const desired = assembleAnew(parsed, users, context);
  const { state } = desired;
  // Times, and the secrets of a Configuration, which lie elsewhere, may make it another state the next time.
  if (state?.at === undefined && state?.configuration === null) assembled.set(parsed, { given, desired });
  return desired;
}

/** An idle sidecar assembles the same files in each pass: `createManifestParser` gives them as the same object. */
const assembled = new WeakMap<ParsedFiles, { readonly given: readonly unknown[]; readonly desired: Desired }>();

function assembleAnew({ files, manifests }: ParsedFiles, users: KnownUsers | null, context: DesiredContext): Desired {
  const { layered, names, rules, problems } = expandManifests(manifests, users, context);
  const others = files.filter(({ path }) => !isManifestPath(path));
  const attachments = new Map(others.map(({ path, bytes }) => [path, bytes]));
  const written = layered.manifests.find((one) => one.kind === 'Configuration');
  const configuration = written === undefined ? null : buildConfiguration(written, { context, problems, attachments });
  const tests = layered.manifests.flatMap((manifest) =>
    manifest.kind === 'PolicyTest' ? manifest.cases.flatMap((one) => policyCase(one, names, rules) ?? []) : [],
  );
  // Added one by one: a call takes some 100,000 arguments at most, and a hostile file has more problems.
  const add = (found: readonly Problem[]): void => {
    for (const problem of found) problems.push(problem);
  };
  add(names.problems);
  add(findReservedNames(layered.manifests));
  if (users === null && context.profile.listsUsers) add(noteUnresolved(names.emails));
  add(findCollisionsAgain(rules, context));
  if (rules.some(hasTimes)) add(findEndings(rules, context));
  add(findOutside({ rules, configuration, manifests: layered.manifests }, context));
  add(missingNotes(rules, problems, context));
  add(saidProblems({ ...layered, problems }, context));
  const suppressions = layered.files.flatMap((file) => file.suppressions);
  const texts = (file: string): string | undefined => {
    const source = files.find(({ path }) => path === file);
    return source === undefined ? undefined : new TextDecoder().decode(source.bytes);
  };
  const shown = addExcerpts([...applySuppressions(problems, suppressions)].sort(compareProblems), texts);
  const { userNames, userIds, groups } = names;
  const state = makeState(rules, context.now, { configuration, userNames, userIds, groups, tests });
  return {
    state: hasErrors(shown) ? null : state,
    problems: shown,
    emails: [...names.emails.keys()].sort(),
    suppressions,
    manifests: layered.manifests,
  };
}

/** The state at a time, of rules of any time. */
export function makeState(
  rules: readonly DesiredRule[],
  now: number,
  rest: Pick<DesiredState, 'configuration' | 'userNames' | 'userIds' | 'groups' | 'tests'>,
): DesiredState {
  const inForce = selectRulesAt(rules, now).toSorted(
    (a, b) => compareRules(a.rule, b.rule) || compareText(a.name, b.name),
  );
  const timed = rules.filter(hasTimes);
  const ended = timed.filter(({ expires = Number.POSITIVE_INFINITY }) => expires <= now);
  const expired = ended.sort((a, b) => (a.expires ?? 0) - (b.expires ?? 0));
  const upcoming = timed.filter(({ notBefore = now }) => notBefore > now);
  return {
    ...rest,
    rules: inForce,
    ...(timed.length === 0 ? {} : { at: now, expired, upcoming }),
    digest: digestOf({ ...rest, rules: inForce }),
  };
}

/** The rules alone, whatever their times, and whom they name: all that a history asks for. E-mail addresses stay unresolved. */
export function assembleRules(
  { manifests }: ParsedFiles,
  context: DesiredContext,
): Result<Pick<DesiredState, 'rules' | 'userNames' | 'groups'>, Problem> {
  const { layered, names, rules, problems } = expandManifests(manifests, null, context);
  const all = [
    ...problems,
    ...names.problems,
    ...findCollisionsAgain(rules, context),
    ...findOutside({ rules, configuration: null, manifests: layered.manifests }, context),
  ];
  const fault = all.find(({ severity }) => severity === 'error');
  return fault === undefined ? ok({ rules, userNames: names.userNames, groups: names.groups }) : fail(fault);
}

/** What the rules of manifests come to, before times and guards count. */
function expandManifests(files: readonly FileManifests[], users: KnownUsers | null, context: DesiredContext) {
  const layered = applyLayers(files, context.overlay ?? null);
  const names = new Names(layered.manifests, context.profile, users);
  const problems: Problem[] = [...layered.files.flatMap((file) => file.problems), ...layered.problems];
  const rules = linkTimes(expandAll(layered.manifests, names, context.now), context.now);
  keepFirst(
    rules,
    ({ name }) => name,
    ({ name, place }, first) => {
      const summary = `Two rules would be named \`${name}\`.`;
      names.problems.push(relateTo(makeError('duplicate-name', summary, 'Rename one of the two.', place), first.place));
    },
  );
  return { layered, names, problems, rules };
}

function expandAll(manifests: readonly Manifest[], names: Names, now: number): DesiredRule[] {
  const rules: DesiredRule[] = [];
  for (const manifest of manifests) {
    if (manifest.kind !== 'Rule' && manifest.kind !== 'RuleSet') continue;
    for (const template of manifest.rules) {
      const before = names.problems.length;
      names.isOver = template.expires !== undefined && template.expires <= now;
      const expanded = expand(template, names, rules.length);
      if (!expanded.ok) {
        names.problems.push(expanded.error);
        return rules;
      }
      if (expanded.value.length === 0 && names.problems.length === before) {
        const summary = `\`${template.name}\` makes no rule: a list, group or network that it names is empty.`;
        const hint = 'Remove it, or fill the list.';
        names.problems.push(makeWarning('expands-to-nothing', summary, hint, template.place));
      }
      for (const rule of expanded.value) rules.push(rule);
    }
  }
  names.isOver = false;
  return rules;
}

/** The rules; those that others with the same content follow know until when it stays. */
function linkTimes(rules: readonly DesiredRule[], now: number): readonly DesiredRule[] {
  const following = new Map<string, DesiredRule>();
  const linked = new Map<DesiredRule, DesiredRule>();
  // What has ended is followed by nothing.
  const timed = rules.filter((one) => hasTimes(one) && (one.expires === undefined || one.expires > now));
  for (const one of timed.sort((a, b) => (b.notBefore ?? 0) - (a.notBefore ?? 0))) {
    const key = formatRuleKey(one.rule);
    const { notBefore: begins, expires = Number.POSITIVE_INFINITY, staysUntil = expires } = following.get(key) ?? {};
    const isFollowed = begins !== undefined && one.expires !== undefined && begins <= one.expires;
    linked.set(one, isFollowed ? { ...one, staysUntil: Math.max(one.expires, staysUntil) } : one);
    following.set(key, linked.get(one) ?? one);
  }
  return rules.map((one) => linked.get(one) ?? one);
}

function policyCase(
  { user, at, ...rest }: PolicyCaseTemplate,
  names: Names,
  rules: readonly DesiredRule[],
): PolicyCase | null {
  const fixed = { ...rest, ...(at === undefined ? {} : { at: { time: at, rules } }) };
  if (user === null || user === 'any') return { ...fixed, user };
  const resolved = names.user(user);
  return resolved === null ? null : { ...fixed, user: resolved.id };
}

/** Objects that this repository is not responsible for. */
export function findOutside(
  { rules, configuration, manifests }: Pick<DesiredState, 'rules' | 'configuration'> & Pick<Layered, 'manifests'>,
  { scope }: DesiredContext,
): readonly Problem[] {
  const hint = 'Move it to the repository that is responsible for it, or widen `scope` in the settings.';
  const outside = (what: string, place: Place): Problem =>
    makeError('outside-scope', `${what} outside the scope of this repository.`, hint, place);
  const others = rules.filter(({ rule }) => !isInScope(rule, scope));
  // Without rules in scope none are read, and a test of none would say nothing about the server.
  const tests = scope.rules ? [] : manifests.filter(({ kind }) => kind === 'PolicyTest');
  return [
    ...others.map(({ name, place }) => outside(`The rule \`${name}\` is`, place)),
    ...(configuration === null || scope.configuration ? [] : [outside('The Configuration is', configuration.place)]),
    ...tests.map(({ name, place }) => outside(`The policy test \`${name}\` tests rules, which are`, place)),
  ];
}

/** Rules without a note that the operator's settings ask for: one finding for a written rule, whatever it stands for. */
function missingNotes(rules: readonly DesiredRule[], told: readonly Problem[], { require: all = [] }: DesiredContext) {
  const problems = new Map<string, Problem>();
  const unreadable = new Set(told.flatMap(({ code, place }) => (code === 'not-a-time' ? (place?.file ?? []) : [])));
  for (const { note, scope } of all) {
    for (const item of rules) {
      const { file, line } = item.place;
      // The end of a drop opens what it closed; a time that cannot be read may be the end.
      const isFree = note === 'expires' && (item.rule.action === 'drop' || unreadable.has(file));
      if (item[note] !== undefined || isFree || !concerns(item.rule, scope)) continue;
      const summary = `\`${item.name}\` has no \`${note}\`, which the settings ask for here.`;
      const [beside, above, too] = note === 'expires' ? ['`action`', 'spec', ', drops too'] : ['name', 'metadata', ''];
      const hint = `Write \`${note}: …\` beside the ${beside} of the rule, or under \`${above}\` for all rules of the set${too}.`;
      problems.set(`${note} ${file}:${line}`, makeError('note-missing', summary, hint, item.place));
    }
  }
  return [...problems.values()];
}

/** An empty desired state must be said, not found. */
function saidProblems({ files, manifests, problems }: Layered, { scope }: DesiredContext): readonly Problem[] {
  const hint = 'Add a manifest; `kind: RuleSet` with `rules: []` says that there are no rules.';
  if (files.every((file) => file.manifests.length === 0)) {
    if (hasErrors(problems)) return [];
    const empty = files.map(({ path }) => path);
    const which = `: ${joinSome(empty, 3)} ${files.length === 1 ? 'has' : 'have'} no content`;
    const summary = `There are no manifests here${empty.length === 0 ? '' : which}.`;
    const [file] = empty;
    return [makeError('no-manifests', summary, hint, file === undefined ? undefined : { file, line: 1, column: 1 })];
  }
  const saysRules = manifests.some((manifest) => manifest.kind === 'Rule' || manifest.kind === 'RuleSet');
  if (saysRules || !scope.rules || hasErrors(problems)) return [];
  const nothing = 'No manifest says anything about rules: every live rule counts as not desired.';
  const way = 'leave the rules alone with `scope: {rules: false}` in the settings';
  return [makeWarning('no-rules', nothing, `Say it with a \`kind: RuleSet\` with \`rules: []\`, or ${way}.`)];
}

/** SHA-256 over what the manifests ask for, without secrets: a digest of a short one could be guessed. */
function digestOf({ rules, configuration, tests }: Pick<DesiredState, 'rules' | 'configuration' | 'tests'>): string {
  const hash = createHash('sha256');
  hash.update(rules.map(({ name, rule }) => `${name}\n${formatRuleKey(rule)}\n`).join(''));
  const fields = Object.entries(configuration?.fields ?? {}).sort(([a], [b]) => compareText(a, b));
  hash.update(JSON.stringify(configuration === null ? null : fields));
  for (const { name, user, destination, protocols, ports, expect, always, at } of tests) {
    const fields = [name, user, destination.text, protocols, ports.low, ports.high, expect, always];
    hash.update(JSON.stringify(at === undefined ? fields : [...fields, at.time]));
  }
  return hash.digest('hex');
}
