import { type Cast, castBoolean, castInteger, castString, castStrings, invalidMessage, trim } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import type { JsonTerm } from '../http/json.ts';
import { castInet, storeInet } from '../rules/inet.ts';
import { checkEndpoint, nameServerProblems } from './host.ts';

/** A plain field of the configuration, from the sent term to the column. */
export interface ScalarField {
  /** What an empty text becomes. */
  readonly empty: unknown;
  readonly cast: (term: JsonTerm) => Cast<unknown>;
  /** Messages for a value, sent or stored: every update looks at the whole row. */
  readonly problems: (value: unknown) => readonly string[];
  /** What the column holds; raises ServerCrash for what it cannot hold. */
  readonly store: (value: unknown) => unknown;
}

const same = (value: unknown): unknown => value;
const none = (): readonly string[] => [];

/** What holds for a field that says nothing else. */
const usual = { empty: null, problems: none, store: same };

const boolean: ScalarField = { ...usual, cast: castBoolean };

function integer(low: bigint, high: bigint, nullable = true): ScalarField {
  return {
    ...usual,
    cast: castInteger,
    problems: (value) => {
      if (typeof value !== 'number' && typeof value !== 'bigint') return [];
      if (BigInt(value) < low) return [`must be greater than or equal to ${low}`];
      return BigInt(value) > high ? [`must be less than or equal to ${high}`] : [];
    },
    store: (value) => {
      if (value === null && !nullable) throw new ServerCrash('the column is not null');
      return value;
    },
  };
}

const longestText = 255;

function fits(text: string): string {
  if ([...text].length > longestText) throw new ServerCrash('the column holds 255 characters');
  return text;
}

const endpoint: ScalarField = {
  ...usual,
  cast: (term) => {
    const cast = castString(term);
    return 'value' in cast && cast.value !== null ? { value: trim(cast.value) } : cast;
  },
  problems: (value) => (typeof value === 'string' && value !== '' ? checkEndpoint(value) : []),
  store: (value) => (typeof value === 'string' ? fits(value) : value),
};

const nameServers: ScalarField = {
  ...usual,
  empty: [],
  cast: (term) => {
    const cast = castStrings(term);
    if ('message' in cast || cast.value === null) return cast;
    if (cast.value.includes(null)) throw new ServerCrash('null cannot be trimmed');
    return { value: cast.value.map((item) => trim(item ?? '')) };
  },
  problems: (value) => (Array.isArray(value) ? nameServerProblems(value as string[]) : []),
  store: (value) => (Array.isArray(value) ? (value as string[]).map(fits) : value),
};

/** The networks that clients route through the tunnel; null members are taken and kept. */
const allowedIps: ScalarField = {
  empty: [],
  cast: (term) => {
    const cast = castStrings(term);
    if ('message' in cast || cast.value === null) return cast;
    const texts = cast.value.map((item) => (item === null ? null : castInet(item)));
    return texts.includes(undefined) ? invalidMessage : { value: texts };
  },
  // Compared as they are now: `10.0.0.1` and `10.0.0.1/32` pass, and are equal once they are stored.
  problems: (value) =>
    Array.isArray(value) && new Set(value).size < value.length ? ['should not contain duplicates'] : [],
  store: (value) =>
    Array.isArray(value) ? value.map((item: string | null) => (item === null ? null : storeInet(item))) : value,
};

/** Every plain field; the provider arrays and the logo are apart. */
export const scalarFields: Readonly<Record<string, ScalarField>> = {
  allow_unprivileged_device_configuration: boolean,
  allow_unprivileged_device_management: boolean,
  default_client_allowed_ips: allowedIps,
  default_client_dns: nameServers,
  default_client_endpoint: endpoint,
  default_client_mtu: integer(576n, 1500n),
  default_client_persistent_keepalive: integer(0n, 120n),
  disable_vpn_on_oidc_error: boolean,
  local_auth_enabled: boolean,
  vpn_session_duration: integer(0n, 2_147_483_647n, false),
};

/** Equal as shown: what counts as "no change". */
export function isSameValue(left: unknown, right: unknown): boolean {
  return printed(left) === printed(right);
}

const printed = (value: unknown): string =>
  JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? `${item}n` : item));
