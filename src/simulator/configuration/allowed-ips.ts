import { type Cast, castStrings, invalidMessage } from '../cast.ts';
import type { JsonTerm } from '../http/json.ts';
import { castInet, formatInet, type Inet, storeInet } from '../rules/inet.ts';

/** The networks that clients route through the tunnel; null members are taken and kept. */
export type AllowedIps = readonly (Inet | null)[] | null;

export function castAllowedIps(term: JsonTerm): Cast<AllowedIps> {
  const cast = castStrings(term);
  if ('message' in cast || cast.value === null) return cast as Cast<AllowedIps>;
  const inets: (Inet | null)[] = [];
  for (const item of cast.value) {
    const inet = item === null ? null : castInet(item);
    if (inet === undefined) return invalidMessage;
    inets.push(inet);
  }
  return { value: inets };
}

export const formatAllowedIps = (ips: AllowedIps): (string | null)[] | null =>
  ips?.map((inet) => (inet === null ? null : formatInet(inet))) ?? null;

export const storeAllowedIps = (ips: AllowedIps): AllowedIps =>
  ips?.map((inet) => (inet === null ? null : storeInet(inet))) ?? null;

/** Members are compared as they are now: `10.0.0.1` and `10.0.0.1/32` pass, and are equal once they are stored. */
export function checkAllowedIps(ips: AllowedIps): string[] {
  const texts = formatAllowedIps(ips) ?? [];
  return new Set(texts).size === texts.length ? [] : ['should not contain duplicates'];
}
