import { isList, type OneOrList, type RuleTemplate, type TemplatePorts } from '../manifest/manifest.ts';
import { formatPortRange, type Ports } from '../model/port-range.ts';
import { formatCount } from '../model/printable.ts';
import { makeError, makeNote, type Place, type Problem, relateTo } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { type DesiredRule, pickNotes } from '../model/rule.ts';
import { mostMembers, type Names } from './names.ts';

/** Most rules that manifests may expand to: the shipped memory plans them (memory.test.ts). The server starts with some 70,000 at most. */
const mostRules = 150_000;

/** The rules that a written one stands for (user × destination × ports), each once, beside so many others. */
export function expand(template: RuleTemplate, names: Names, others: number): Result<readonly DesiredRule[], Problem> {
  const destinations = names.networks(toList(template.destinations));
  const ports = template.ports === null ? [null] : mergePorts(template.ports, names);
  const users = template.users === null ? [null] : names.users(toList(template.users));
  if (names.named > mostMembers) {
    const summary = `The groups and networks that rules name have more than ${formatCount(mostMembers)} members in all.`;
    const hint = 'Remove rules that have an empty list, and groups and networks inside others that a rule names too.';
    return fail(makeError('too-expensive', summary, hint, template.place));
  }
  if (others + destinations.length * ports.length * users.length > mostRules) {
    const summary = `The manifests stand for more than ${formatCount(mostRules)} rules.`;
    const hint = 'Use wider networks or fewer combinations of users, destinations and ports.';
    return fail(makeError('too-many-rules', summary, hint, template.place));
  }
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
  return ok(rules);
}

function toList<T>(written: OneOrList<T>): readonly T[] {
  return isList(written) ? written : [written];
}

function mergePorts({ type, ranges }: TemplatePorts, names: Names): readonly Ports[] {
  const sorted = [...toList(ranges)].sort((a, b) => a.value.low - b.value.low || b.value.high - a.value.high);
  const merged: { value: Ports; place: Place }[] = [];
  for (const { value, place } of sorted) {
    const last = merged.at(-1);
    if (last === undefined || value.low > last.value.high) merged.push({ value: { type, ...value }, place });
    else {
      const high = Math.max(last.value.high, value.high);
      last.value = { type, low: last.value.low, high };
      const { value: joined, place: first } = last;
      names.note(place, () => {
        const whole = `they are joined to \`${formatPortRange(joined)}\`.`;
        const summary = `The ports \`${formatPortRange(value)}\` overlap with others of this list; ${whole}`;
        const note = makeNote('overlapping-ports', summary, 'Nothing is lost; write the joined range.', place);
        return relateTo(note, first, 'joined with this one');
      });
    }
  }
  return merged.map((one) => one.value);
}
