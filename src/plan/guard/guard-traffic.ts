import { intersects } from '../../model/address.ts';
import { formatPortRange } from '../../model/port-range.ts';
import { formatCount, joinSome } from '../../model/printable.ts';
import { everyPort, protocols } from '../../model/state.ts';
import { findPacketInBoth, type Selection } from '../../policy/selection.ts';
import { checkLasting, runPolicyTests, tellUnchecked } from '../../policy/tests.ts';
import type { Effect, FoundEffect } from '../../policy/traffic.ts';
import { describeCase, describeFailure, describePacket, formatRule } from '../../policy/words.ts';
import type { ConfigurationDecision } from '../decide-configuration.ts';
import type { PlanInput, Protected } from '../input.ts';
import type { Change, Exposure, LaterEffect, Plan, Refusal, RuleChange } from '../plan.ts';

/** What guards judge. */
export interface Guarded extends Pick<Plan, 'changes' | 'steps' | 'exposure'> {
  readonly input: PlanInput;
  readonly configuration: ConfigurationDecision | null;
  readonly effect: FoundEffect;
  readonly later: readonly LaterEffect[];
}

/** Protected traffic that the plan opens or cuts off, for good or on the way: one refusal for each kind and protection. */
export function protectRefusals({ input, changes, effect, later, exposure }: Guarded): readonly Refusal[] {
  if (input.options.protect.length === 0) return [];
  const users = collectNamedUsers(changes);
  const differs = (way: keyof Effect) =>
    [{ effect, users }, ...later].map((one) => ({ traffic: one.effect[way], users: one.users }));
  const exposed = (direction: Exposure['direction']) =>
    exposure.filter((item) => item.direction === direction).map(({ traffic }) => ({ traffic, users }));
  const kinds = [
    { verb: 'would be opened', told: differs('opens') },
    { verb: 'would be closed', told: differs('closes') },
    { verb: 'would be opened for a while', told: exposed('opened') },
    { verb: 'would be cut off for a while', told: exposed('cut_off') },
  ];
  return input.options.protect.flatMap((protection) =>
    kinds.flatMap(({ verb, told }) => {
      const [packet] = told.flatMap((one) => findPacketInBoth(one, selectionOf(protection)) ?? []);
      const said = packet && `${verb}, for example ${describePacket(packet, input.desired.userNames)}`;
      return said === undefined ? [] : [refuse(protection, said, changes)];
    }),
  );
}

/** Ports are a matter of tcp and udp: a protection with ports says nothing about other protocols. */
function selectionOf({ destination, protocol, ports, user }: Protected): Selection {
  const asked = protocol !== null ? [protocol] : ports === null ? protocols : protocols.slice(0, 2);
  return { user: user === undefined ? 'any' : user, destination, protocols: asked, ports: ports ?? everyPort };
}

/** No plan takes back what others did to protected traffic: they may have had to. */
function refuse({ destination, protocol, ports }: Protected, said: string, changes: readonly Change[]): Refusal {
  const what = [destination.text, protocol ?? '', ports === null ? '' : formatPortRange(ports)].filter(Boolean);
  const theirs = changes.flatMap(({ kind, origin, live }) =>
    kind === 'Rule' && origin === 'drift' && live && intersects(live.rule.destination, destination) ? live.rule : [],
  );
  const made = theirs.map((rule) => formatRule(rule, new Map()));
  const byHand = `Others made ${joinSome(made, 3)}. To take it back, approve this plan, or do it by hand on the server.`;
  const hint = 'Change the manifests so that this traffic keeps its verdict, or `protect` in the settings.';
  const summary = `Protected traffic to ${what.join(' ')} ${said}.`;
  return { code: 'protected-traffic', summary, hint: made.length > 0 ? byHand : hint };
}

/** Policy tests that the rules after the plan do not pass, and those that must always hold and do not on the way. */
export function refuseFailedTests({ input, changes, exposure }: Guarded): readonly Refusal[] {
  const { tests, userNames: names, at = Number.POSITIVE_INFINITY } = input.desired;
  if (tests.length === 0) return [];
  const standing = changes.flatMap((change) => ruleAfter(change, at));
  // Where only times turn, what others made is not left for good.
  const isStaying = ({ live, reason }: Change) =>
    live !== null && (reason === 'out-of-scope' || (reason === 'prune-off' && input.options.prune === 'none'));
  const staying = standing.filter(({ change }) => isStaying(change));
  const ended = runPolicyTests(tests, standing, input.profile.ports, { staying });
  const after = ended.flatMap(({ case: one, failure }): Refusal[] => {
    if (failure === null) return [];
    const { rule } = failure;
    const related = [{ place: one.place, note: `the case \`${one.name}\`` }];
    const decider = rule === null ? null : 'change' in rule ? rule.change : { ...rule, id: null, source: rule.place };
    if (decider?.source) related.push({ place: decider.source, note: `${labelOf(decider)} decides` });
    const summary = `Policy test: ${describeFailure(one, failure, { names, rule: decider && labelOf(decider) })}`;
    const hint = 'Change the rules, or the test if the policy has changed (`reconcile test`).';
    return [{ code: 'policy-test-failed', summary, hint, related }];
  });
  const lasting = tests.filter(({ always, at: time }) => always && time === undefined);
  const checked = checkLasting(lasting, exposure, collectNamedUsers(changes));
  const between = checked.flatMap(({ case: one, packet, verdict }): Refusal[] => {
    if (packet === null) return [];
    const summary = `Policy test: \`${one.name}\` must always hold (${one.expect} for ${describeCase(one, names)}); while this plan is applied, ${describePacket(packet, names)} gets ${verdict} for a moment.`;
    const hint = 'Make the change in two steps that never expose this traffic, or take `always: true` off the case.';
    const related = [{ place: one.place, note: `the case \`${one.name}\`` }];
    return [{ code: 'policy-test-failed-on-the-way', summary, hint, related }];
  });
  const unchecked = [...tellUnchecked(ended, tests), ...tellUnchecked(checked, lasting)];
  return [...listFirst(after), ...unchecked.slice(0, 1), ...listFirst(between)];
}

/** Refusals of failed cases that are listed, at most. */
const mostCases = 100;

function listFirst(refusals: readonly Refusal[]): readonly Refusal[] {
  const summary = `Policy tests: ${formatCount(refusals.length - mostCases)} more cases fail likewise.`;
  const more = refusals.slice(mostCases, mostCases + 1).map(({ code, hint }) => ({ code, summary, hint }));
  return [...refusals.slice(0, mostCases), ...more];
}

/** The rule that stands after the plan, with its change; none where it begins later. */
function ruleAfter(change: Change, at: number) {
  if (change.kind !== 'Rule' || change.action === 'delete' || (change.desired?.notBefore ?? at) > at) return [];
  const rule = (change.desired ?? change.live)?.rule;
  return rule === undefined ? [] : [{ rule, change }];
}

function labelOf({ name, id }: Pick<RuleChange, 'name' | 'id'>): string {
  return name === null ? `the live rule ${id}` : `\`${name}\``;
}

/** Every user whom a rule names before the plan or after it: those whom its effect and exposure tell apart from nobody. */
export function collectNamedUsers(changes: readonly Change[]): ReadonlySet<string> {
  const rules = changes.filter((change) => change.kind === 'Rule');
  const sides = rules.flatMap(({ action, live, desired }) => [live, action === 'skip' ? null : desired]);
  return new Set(sides.flatMap((side) => side?.rule.userId ?? []));
}
