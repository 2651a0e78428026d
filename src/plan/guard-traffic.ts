import { intersects, parseNetwork } from '../model/address.ts';
import { formatPortRange, type PortRange } from '../model/port-range.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import type { PlanInput, Protected } from './input.ts';
import type { Exposure, Refusal } from './plan.ts';

interface GuardedTraffic {
  readonly input: PlanInput;
  readonly effect: Effect;
  readonly exposure: readonly Exposure[];
}

/** Protected traffic that the plan opens or cuts off, for good or on the way: one refusal for each kind and protection. */
export function protectRefusals({ input, effect, exposure }: GuardedTraffic): readonly Refusal[] {
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
      const hit = traffic.find((piece) => touches(piece, protection));
      return hit === undefined ? [] : [refuse(protection, verb, hit)];
    }),
  );
}

function touches(traffic: Traffic, { destination, protocol, ports, user }: Protected): boolean {
  if (user !== undefined && user !== traffic.user) return false;
  if (protocol !== null && protocol !== traffic.protocol) return false;
  if (ports !== null && (traffic.ports === null || !traffic.ports.some((range) => overlap(range, ports)))) return false;
  return traffic.destinations.some((text) => {
    const parsed = parseNetwork(text);
    return parsed.ok && intersects(parsed.value.network, destination);
  });
}

function overlap(a: PortRange, b: PortRange): boolean {
  return a.low <= b.high && b.low <= a.high;
}

function refuse(protection: Protected, verb: string, hit: Traffic): Refusal {
  const user = hit.user === null ? 'devices of nobody' : `devices of user ${hit.user}`;
  const shown = hit.destinations.slice(0, 3).join(', ');
  const more = hit.destinations.length > 3 ? ` and ${hit.destinations.length - 3} more` : '';
  const ports = hit.ports === null ? '' : ` ports ${hit.ports.map(formatPortRange).join(', ')}`;
  return {
    code: 'protected-traffic',
    summary: `Protected traffic to ${describe(protection)} ${verb}: ${hit.protocol}${ports} from ${user} to ${shown}${more}.`,
    hint: 'Change the manifests so that this traffic keeps its verdict, or take the protection out of the settings (`protect`).',
  };
}

function describe({ destination, protocol, ports }: Protected): string {
  return [destination.text, protocol ?? '', ports === null ? '' : formatPortRange(ports)].filter(Boolean).join(' ');
}
