import { escapeControls, joinSome } from '../../model/printable.ts';
import { compareText } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import { collectNamedUsers } from '../../plan/guard/guard-traffic.ts';
import type { Plan } from '../../plan/plan.ts';
import type { RunReport } from '../run-report.ts';

export interface People {
  /** Names by UUID. */
  readonly names: ReadonlyMap<string, string>;
  /** Members (UUIDs) of each group that the manifests define. */
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  /** Everybody with a rule of their own, before or after. */
  readonly withRules: ReadonlySet<string>;
  /** How many a line names before it counts the rest. */
  readonly most?: number;
  /** For all that is described for them together; without one, each has its own. */
  readonly budget?: Budget;
}

/** What may still be spent: `networks` to read, and `looks` at spans and ranges of ports to compare sources. */
export type Budget = Record<'networks' | 'looks', number>;

export const makeBudget = (networks = 100_000): Budget => ({ networks, looks: 5_000_000 });

const mostNamed = 6;

export function collectPeople(plan: Plan | null, report: Pick<RunReport, 'userNames' | 'groups'>): People {
  const withRules = collectNamedUsers(plan?.changes ?? []);
  const users = [...withRules, ...(plan?.later?.[0]?.users ?? [])];
  return { ...makePeople(users, report), withRules, budget: makeBudget() };
}

/** People with rules of their own: names from the manifests, else as many characters of the UUID as tell two of them apart. */
export function makePeople(users: Iterable<string>, { userNames, groups }: Pick<DesiredState, 'userNames' | 'groups'>) {
  const withRules = new Set(users);
  const unnamed = [...withRules].filter((user) => !userNames.has(user));
  let length = 8;
  while (length < 36 && new Set(unnamed.map((user) => user.slice(0, length))).size < unnamed.length) length++;
  const names = unnamed.map((user) => [user, `user ${user.slice(0, length)}`] as const);
  return { names: new Map([...userNames, ...names]), groups: groups ?? new Map(), withRules };
}

/** Who a set of sources is: `everyone but alice`, `group developers and bob`. `null` stands for all without rules of their own. */
export function formatPeople(users: ReadonlySet<string | null>, people: People): string {
  const { most = mostNamed, withRules } = people;
  const isRest = users.has(null);
  const told = new Set([...(isRest ? withRules : users)].filter((user) => user !== null && users.has(user) !== isRest));
  if (isRest && told.size === 0) return 'everyone';
  const names = listPeople(told as ReadonlySet<string>, people);
  const isShort = names.length <= most + 1;
  if (!isShort && [...withRules].every((user) => told.has(user)))
    return `everyone with${isRest ? 'out' : ''} rules of their own`;
  return (
    (isRest ? 'everyone but ' : '') + (isShort ? joinWords(names) : `${told.size} people (${joinSome(names, most)})`)
  );
}

/** Groups of which all are in the set, the largest first, then the others by name. */
function listPeople(users: ReadonlySet<string>, { groups: all, names }: People): readonly string[] {
  const groups = [...all]
    .filter(([, { size }]) => size > 1 && size <= users.size)
    .filter(([, members]) => [...members].every((member) => users.has(member)))
    .sort(([a, membersA], [b, membersB]) => membersB.size - membersA.size || compareText(a, b));
  const left = new Set(users);
  const texts: string[] = [];
  for (const [group, members] of groups) {
    if (![...members].some((member) => left.has(member))) continue;
    for (const member of members) left.delete(member);
    texts.push(`group ${escapeControls(group)}`);
  }
  return [...texts, ...[...left].map((user) => escapeControls(names.get(user) ?? user)).sort(compareText)];
}

/** `a`, `a and b`, `a, b and c`. */
export function joinWords(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}
