import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Cast, castBoolean, castInteger, castString, castStrings, invalidMessage, trim } from '../cast.ts';
import { isMap, type JsonTerm, ServerCrash } from '../http/json.ts';
import { parseAddress, printAddress } from '../rules/address.ts';
import { castInet, storeInet } from '../rules/inet.ts';

/** A field of the configuration, from the sent term to the column. */
export interface Field {
  readonly cast: (term: JsonTerm, stored: unknown) => Casting | Promise<Casting>;
  /** Messages for a value, sent or stored: every update looks at the whole row. */
  readonly problems: (value: unknown) => readonly string[];
  /** Whether what is stored is invalid, beside its problems: the configuration's loader looks at each changed field, and raises. */
  readonly isBroken?: (stored: unknown) => Promise<boolean>;
  /** What the column holds; raises ServerCrash for what it cannot hold. */
  readonly store: (value: unknown) => unknown;
}

/** What a sent term becomes, or what is wrong with it; and whether the field counts as changed. */
interface Casting {
  readonly value?: unknown;
  readonly errors?: unknown;
  readonly changes: boolean;
}

/** What holds for a field that says nothing else. */
export const usual = { problems: (): readonly string[] => [], store: (value: unknown): unknown => value };

/** Casts to a plain value; `empty` is what an empty text becomes. */
function castWith(cast: (term: JsonTerm) => Cast<unknown>, empty: unknown = null): Field['cast'] {
  return (term, stored) => {
    const result = term === '' ? { value: empty } : cast(term);
    if ('message' in result) return { errors: [result.message], changes: false };
    return { value: result.value, changes: !isDeepStrictEqual(stored, result.value) };
  };
}

const boolean: Field = { ...usual, cast: castWith(castBoolean) };

function integer(low: bigint, high: bigint, nullable = true): Field {
  return {
    cast: castWith(castInteger),
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

function fits(text: string): string {
  if ([...text].length > 255) throw new ServerCrash('the column holds 255 characters');
  return text;
}

const endpoint: Field = {
  cast: castWith((term) => {
    const cast = castString(term);
    return 'value' in cast && cast.value !== null ? { value: trim(cast.value) } : cast;
  }),
  problems: (value) => (typeof value === 'string' && value !== '' ? checkEndpoint(value) : []),
  store: (value) => (typeof value === 'string' ? fits(value) : value),
};

const nameServers: Field = {
  cast: castWith((term) => {
    const cast = castStrings(term);
    if ('message' in cast || cast.value === null) return cast;
    if (cast.value.includes(null)) throw new ServerCrash('null cannot be trimmed');
    return { value: cast.value.map((item) => trim(item ?? '')) };
  }, []),
  problems: (value) => (Array.isArray(value) ? nameServerProblems(value as string[]) : []),
  store: (value) => (Array.isArray(value) ? (value as string[]).map(fits) : value),
};

/** The networks that clients route through the tunnel; null members are taken and kept. */
const allowedIps: Field = {
  cast: castWith((term) => {
    const cast = castStrings(term);
    if ('message' in cast || cast.value === null) return cast;
    const texts = cast.value.map((item) => (item === null ? null : castInet(item)));
    return texts.includes(undefined) ? invalidMessage : { value: texts };
  }, []),
  // Compared as they are now: `10.0.0.1` and `10.0.0.1/32` pass, and are equal once they are stored.
  problems: (value) =>
    Array.isArray(value) && new Set(value).size < value.length ? ['should not contain duplicates'] : [],
  store: (value) =>
    Array.isArray(value) ? value.map((item: string | null) => (item === null ? null : storeInet(item))) : value,
};

/** Every field but the provider arrays and the logo. */
export const plainFields: Readonly<Record<string, Field>> = {
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

/** Host names as the server checks them: letters, digits, dot, underscore and hyphen in any order, maybe a port. */
function hostProblems(text: string, allowPort: boolean): string[] {
  const [, host = text, port] = /^([^:]*):([+-]?[0-9]+)$/.exec(text) ?? [];
  const problems = /^[a-zA-Z0-9._-]+$/.test(host) ? [] : [`${host} is not a valid FQDN`];
  if (port === undefined) return problems;
  if (!allowPort) return [...problems, 'setting port is not allowed'];
  return isPort(port) ? problems : [...problems, 'port is not a number between 0 and 65535'];
}

const isPort = (port: string): boolean => Number(port) > 0 && Number(port) <= 65_535;

/** Messages for an endpoint that is neither an address (with a port or without) nor a host name. */
export function checkEndpoint(text: string): string[] {
  const problems = isAddressAndPort(text) ? [] : hostProblems(text, true);
  return shown([mismatch(problems, 'IPPort')]);
}

/** A value that fits none of its types: that comes first, and what is wrong with it as a name after, last thing first. */
function mismatch(problems: readonly string[], type: string): string[] {
  return problems.length === 0 ? [] : [`must be one of: Elixir.FzHttp.Types.${type}, string`, ...problems.toReversed()];
}

/** The server collects messages from the last member to the first, drops repeated ones, and shows the list backwards. */
function shown(members: readonly (readonly string[])[]): string[] {
  return [...new Set(members.toReversed().flat())].reverse();
}

function isAddressAndPort(text: string): boolean {
  if (parseAddress(text) !== undefined) return true;
  const [, bracketed, bare = '', port = ''] = /^(?:\[([^\]]*)\]|([^:]*)):([+-]?[0-9]+)$/.exec(text) ?? [];
  return isPort(port) && parseAddress(bracketed ?? bare) !== undefined;
}

/** Messages for a list of name servers: addresses or host names, each only once (addresses compared as numbers). */
export function nameServerProblems(items: readonly string[]): string[] {
  const seen = new Set<string>();
  const members = items.map((item) => {
    const address = parseAddress(item);
    const problems = mismatch(address === undefined && item !== '' ? hostProblems(item, false) : [], 'IP');
    if (problems.length > 0) return problems;
    const key = address === undefined ? item : `ip ${printAddress(address)}`;
    if (seen.has(key)) return ['should not contain duplicates'];
    seen.add(key);
    return [];
  });
  return shown(members);
}

/** The logo: null takes it away, and none is shown as `{}`. */
export const logoField: Field = {
  ...usual,
  cast: (term, stored) => {
    const cast = castLogo(term);
    return cast.changes
      ? { ...cast, changes: !isDeepStrictEqual(cast.value, {}) || !isDeepStrictEqual(stored, {}) }
      : cast;
  },
};

function castLogo(term: JsonTerm): Casting {
  if (term === null) return { value: {}, changes: true };
  if (Array.isArray(term) && term.length === 0) return { value: { data: null, type: null, url: null }, changes: true };
  if (!isMap(term)) return { errors: ['is invalid'], changes: false };
  const logo: Record<string, string | null> = {};
  const errors: Record<string, string[]> = {};
  for (const name of ['data', 'file', 'type', 'url']) {
    const sent = term.get(name);
    const cast = sent === undefined || sent === '' ? { value: null } : castString(sent);
    if ('message' in cast) errors[name] = [cast.message];
    else logo[name] = cast.value;
  }
  const { file, ...shown } = logo;
  if (typeof file === 'string') Object.assign(errors, checkFile(file));
  return Object.keys(errors).length > 0 ? { errors, changes: false } : { value: shown, changes: true };
}

const logoExtensions = ['.jpg', '.jpeg', '.png', '.gif', '.webp', '.avif', '.svg', '.tiff'];

/** The server copies the file, which raises when it is not there. */
function checkFile(file: string): Record<string, string[]> {
  if (!existsSync(file)) throw new ServerCrash('no such file');
  const extension = extname(file);
  if (logoExtensions.includes(extension)) return {};
  const expected = logoExtensions.map((name) => `"${name}"`).join(', ');
  return { file: [`file extension is not supported, got ${extension}, expected one of [${expected}]`] };
}
