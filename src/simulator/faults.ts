import { validateHeaderName, validateHeaderValue } from 'node:http';
import * as z from 'zod';

const positive = z.int().min(1);

/** Which requests a fault meets; a condition that is left out holds for all of them. */
const match = z
  .strictObject({
    method: z.string(),
    /** The path, query excluded: equal to this text, or, when it ends in `*`, beginning with it. */
    path: z.string(),
    /** Only from the nth matching request on (1 is the next one). */
    nth: positive,
    /** At most so many times; without it until `clear`. */
    times: positive,
    /** Only this share of the matching requests. */
    probability: z.number().min(0).max(1),
  })
  .partial();

/**
 * What goes wrong:
 * - `status`: this status instead of the real answer, nothing is done (`commit: true`: after the real work was done)
 * - `delay`: the request waits before it is looked at
 * - `wrong-date`: the answer's Date is so many milliseconds ahead (below 0: behind)
 * - `reset-before`, `reset-after`: the connection is reset before, or after, the request took effect
 * - `torn`: the request takes effect, half of the answer's body arrives, then the connection closes
 * - `lost-answer`: the request takes effect, no answer ever comes
 * - `stale-list`: `GET /v0/rules` answers with the list as it was when the fault was set
 */
const fault = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('status'),
    status: z.int().min(200).max(599),
    body: z.string().optional(),
    headers: z.record(z.string(), z.string()).refine(areHeaders, 'HTTP has no such headers').optional(),
    commit: z.boolean().optional(),
  }),
  z.strictObject({ kind: z.literal('delay'), milliseconds: z.number().min(0) }),
  z.strictObject({ kind: z.literal('wrong-date'), milliseconds: z.number() }),
  z.strictObject({ kind: z.enum(['reset-before', 'reset-after', 'torn', 'lost-answer', 'stale-list']) }),
]);

function areHeaders(headers: Readonly<Record<string, string>>): boolean {
  try {
    for (const [name, value] of Object.entries(headers)) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
    return true;
  } catch {
    return false;
  }
}

export const faultSetting = z.strictObject({ match: match.optional(), fault });
export type Fault = z.infer<typeof fault>;
type FaultSetting = z.infer<typeof faultSetting>;

/** A fault that is set, with the list as it was then, and how often its match held (`seen`) and how often it applied. */
export interface ChosenFault extends FaultSetting {
  readonly number: number;
  readonly staleList: Buffer;
  seen: number;
  applied: number;
}

export type Faults = ReturnType<typeof createFaults>;

/** The faults that are set, in order. */
export function createFaults(random: () => number, listBody: () => Buffer) {
  let entries: ChosenFault[] = [];
  let count = 0;
  const meets = (entry: ChosenFault, method: string, path: string): boolean => {
    const { match = {}, fault } = entry;
    if (match.method !== undefined && match.method !== method) return false;
    if (match.path !== undefined && !pathMatches(match.path, path)) return false;
    if (fault.kind === 'stale-list' && (method !== 'GET' || path !== '/v0/rules')) return false;
    entry.seen++;
    if (entry.seen < (match.nth ?? 1) || entry.applied >= (match.times ?? Number.POSITIVE_INFINITY)) return false;
    if (match.probability !== undefined && random() >= match.probability) return false;
    entry.applied++;
    return true;
  };
  return {
    /** Sets a fault; several may be set, the first that matches a request applies. Returns its number. */
    inject(setting: FaultSetting): number {
      const number = ++count;
      entries.push({ ...setting, number, seen: 0, applied: 0, staleList: listBody() });
      return number;
    },
    /** Takes one fault away, or all. */
    clear(number?: number): void {
      entries = number === undefined ? [] : entries.filter((entry) => entry.number !== number);
    },
    list: () => entries.map(({ staleList: _, ...entry }) => entry),
    /** The fault that meets this request, if any. */
    choose: (method: string, path: string) => entries.find((entry) => meets(entry, method, path)),
  };
}

function pathMatches(pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}
