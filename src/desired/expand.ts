import { isList, type OneOrList, type RuleTemplate, type TemplatePorts, type Written } from '../manifest/manifest.ts';
import { didYouMean } from '../manifest/suggest.ts';
import { compareNetworks, contains, type Network } from '../model/address.ts';
import { keepFirst } from '../model/group-by.ts';
import { formatPortRange, type Ports } from '../model/port-range.ts';
import { makeError, makeNote, type Place, type Problem, relateTo } from '../model/problem.ts';
import { type DesiredRule, pickNotes } from '../model/rule.ts';
import type { Names, ResolvedUser } from './names.ts';

/** Most rules that manifests may expand to: the shipped memory plans them (memory.test.ts). The server starts with some 70,000 at most. */
export const mostRules = 150_000;

/** The rules that a written one stands for (user × destination × ports), each once; null when there would be more than `room`. */
export function expand(template: RuleTemplate, names: Names, room: number): readonly DesiredRule[] | null {
  const named = networksOf(template, names);
  const destinations = named.length < 2 ? named : withoutNested(named, names.problems);
  const ports = template.ports === null ? [null] : mergePorts(template.ports, names.problems);
  const users = template.users === null ? [null] : distinctUsers(names.users(toList(template.users)), names.problems);
  if (destinations.length * ports.length * users.length > room) return null;
  const rules: DesiredRule[] = [];
  const notes = pickNotes(template);
  for (const user of users) {
    const forUser = user !== null && isList(template.users) ? `${template.name}/${user.label}` : template.name;
    for (const { value: destination, place } of destinations) {
      const there = isList(template.destinations) ? `${forUser}/${destination.text.replace('/', '-')}` : forUser;
      for (const range of ports) {
        const name =
          range !== null && isList(template.ports?.ranges)
            ? `${there}/${range.type}-${formatPortRange(range).replaceAll(' ', '')}`
            : there;
        const userId = user === null ? null : user.id;
        rules.push({ ...notes, name, place, rule: { action: template.action, destination, ports: range, userId } });
      }
    }
  }
  return rules;
}

function toList<T>(written: OneOrList<T>): readonly T[] {
  return isList(written) ? written : [written];
}

function networksOf({ destinations }: RuleTemplate, { networks, problems }: Names): readonly Written<Network>[] {
  return toList(destinations).flatMap((reference) => {
    const { place } = reference;
    if ('network' in reference) return [{ value: reference.network, place }];
    const { networkName: name } = reference;
    const manifest = networks.get(name);
    if (manifest !== undefined) return manifest.networks.map(({ value }) => ({ value, place }));
    const hint = didYouMean(name, networks.keys(), 'Add a `kind: Network` manifest of that name.');
    problems.push(makeError('unknown-network', `There is no network \`${name}\`.`, hint, place));
    return [];
  });
}

/** Leaves out each network that lies inside another one; the server would refuse the two side by side. */
function withoutNested(networks: readonly Written<Network>[], problems: Problem[]): readonly Written<Network>[] {
  const sorted = [...networks].sort((a, b) => compareNetworks(a.value, b.value));
  const kept: Written<Network>[] = [];
  for (const network of sorted) {
    const outer = kept.at(-1);
    if (outer === undefined || !contains(outer.value, network.value)) kept.push(network);
    else {
      const [inner, wider] = [network.value.text, outer.value.text];
      const summary =
        wider === inner
          ? `\`${inner}\` is reached twice here.`
          : `\`${inner}\` lies inside \`${wider}\`, which is here too; one rule does for both.`;
      const hint = 'Nothing is lost; leave it out, or narrow the wider one.';
      const note = makeNote('nested-destination', summary, hint, network.place);
      problems.push(relateTo(note, outer.place, 'covered by this one'));
    }
  }
  return kept;
}

function mergePorts({ type, ranges }: TemplatePorts, problems: Problem[]): readonly Ports[] {
  const sorted = [...toList(ranges)].sort((a, b) => a.value.low - b.value.low || b.value.high - a.value.high);
  const merged: { value: Ports; place: Place }[] = [];
  for (const { value, place } of sorted) {
    const last = merged.at(-1);
    if (last === undefined || value.low > last.value.high) merged.push({ value: { type, ...value }, place });
    else {
      const high = Math.max(last.value.high, value.high);
      last.value = { type, low: last.value.low, high };
      const joined = `they are joined to \`${formatPortRange(last.value)}\`.`;
      const summary = `The ports \`${formatPortRange(value)}\` overlap with others of this list; ${joined}`;
      const note = makeNote('overlapping-ports', summary, 'Nothing is lost; write the joined range.', place);
      problems.push(relateTo(note, last.place, 'joined with this one'));
    }
  }
  return merged.map((one) => one.value);
}

function distinctUsers(users: readonly ResolvedUser[], problems: Problem[]): readonly ResolvedUser[] {
  return keepFirst(
    users,
    ({ id }) => id,
    ({ label, place }, first) => {
      const summary = `The user \`${label}\` is reached twice here.`;
      const note = makeNote('user-twice', summary, 'Nothing is lost; one rule does.', place);
      problems.push(relateTo(note, first.place, 'first reached by this one'));
    },
  );
}
