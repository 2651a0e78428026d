import type { Traffic } from '../policy/traffic.ts';
import { formatShortPorts } from './rule-text.ts';

/** Traffic with its ports as texts (`443`, `8000-8010`). */
export function makeTrafficDocument({
  user,
  destinations,
  protocol,
  ports,
}: Traffic): Readonly<Record<string, unknown>> {
  return { user, destinations, protocol, ports: ports === null ? null : ports.map(formatShortPorts) };
}
