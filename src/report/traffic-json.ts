import type { Effect, Traffic } from '../policy/traffic.ts';
import { formatShortPorts } from '../policy/words.ts';

/** Traffic with its ports as texts (`443`, `8000-8010`). */
export function makeTrafficDocument({ ports, ...traffic }: Traffic): Readonly<Record<string, unknown>> {
  const { user, destinations, protocol } = traffic;
  return { user, destinations, protocol, ports: ports === null ? null : ports.map(formatShortPorts) };
}

export function makeEffectDocument({ opens, closes }: Effect): Readonly<Record<string, unknown>> {
  return { opens: opens.map(makeTrafficDocument), closes: closes.map(makeTrafficDocument) };
}
