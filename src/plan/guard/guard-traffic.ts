import { formatPortRange } from '../../model/port-range.ts';
import type { Protocol } from '../../model/state.ts';
import { findPacketInBoth, type Selection } from '../../policy/selection.ts';
import type { Effect } from '../../policy/traffic.ts';
import { describePacket } from '../../policy/words.ts';
import type { PlanInput, Protected } from '../input.ts';
import type { Change, Exposure, Refusal } from '../plan.ts';

interface GuardedTraffic {
  readonly input: PlanInput;
  readonly changes: readonly Change[];
  readonly effect: Effect;
  readonly exposure: readonly Exposure[];
}

/** Protected traffic that the plan opens or cuts off, for good or on the way: one refusal for each kind and protection. */
export function protectRefusals({ input, changes, effect, exposure }: GuardedTraffic): readonly Refusal[] {
  if (input.options.protect.length === 0) return [];
  const users = collectNamedUsers(changes);
  const exposed = (direction: Exposure['direction']) =>
    exposure.filter((item) => item.direction === direction).flatMap(({ traffic }) => traffic);
  const kinds = [
    { verb: 'would be opened', traffic: effect.opens },
    { verb: 'would be closed', traffic: effect.closes },
    { verb: 'would be opened for a while', traffic: exposed('opened') },
    { verb: 'would be cut off for a while', traffic: exposed('cut_off') },
  ];
  return input.options.protect.flatMap((protection) =>
    kinds.flatMap(({ verb, traffic }) => {
      const packet = findPacketInBoth({ traffic, users }, selectionOf(protection));
      return packet === null ? [] : [refuse(protection, verb, describePacket(packet, input.desired.userNames))];
    }),
  );
}

/** Ports are a matter of tcp and udp: a protection with ports says nothing about other protocols. */
function selectionOf({ destination, protocol, ports, user }: Protected): Selection {
  const protocols = protocol !== null ? [protocol] : ports === null ? everyProtocol : everyProtocol.slice(0, 2);
  return { user: user === undefined ? 'any' : user, destination, protocols, ports: ports ?? { low: 0, high: 65_535 } };
}

const everyProtocol: readonly Protocol[] = ['tcp', 'udp', 'other'];

function refuse(protection: Protected, verb: string, packet: string): Refusal {
  return {
    code: 'protected-traffic',
    summary: `Protected traffic to ${describe(protection)} ${verb}, for example ${packet}.`,
    hint: 'Change the manifests so that this traffic keeps its verdict, or take the protection out of the settings (`protect`).',
  };
}

function describe({ destination, protocol, ports }: Protected): string {
  return [destination.text, protocol ?? '', ports === null ? '' : formatPortRange(ports)].filter(Boolean).join(' ');
}

/** Every user whom a rule names before the plan or after it: those whom its effect and exposure tell apart from nobody. */
export function collectNamedUsers(changes: readonly Change[]): ReadonlySet<string> {
  const users = new Set<string>();
  for (const change of changes) {
    if (change.kind !== 'Rule') continue;
    for (const item of [change.live, change.action === 'skip' ? null : change.desired]) {
      if (item !== null && item.rule.userId !== null) users.add(item.rule.userId);
    }
  }
  return users;
}
