import { parseAddress, printAddress } from '../rules/address.ts';

/** Host names as the server checks them: letters, digits, dot, underscore and hyphen in any order, maybe a port. */
function hostProblems(text: string, allowPort: boolean): string[] {
  const { host, port } = splitPort(text);
  const problems = /^[a-zA-Z0-9._-]+$/.test(host) ? [] : [`${host} is not a valid FQDN`];
  if (port === null) return problems;
  if (!allowPort) return [...problems, 'setting port is not allowed'];
  return isPort(port) ? problems : [...problems, 'port is not a number between 0 and 65535'];
}

const isPort = (port: bigint): boolean => port > 0n && port <= 65_535n;

function splitPort(text: string): { host: string; port: bigint | null } {
  const colon = text.indexOf(':');
  const port = parseInteger(text.slice(colon + 1));
  return colon < 0 || port === null ? { host: text, port: null } : { host: text.slice(0, colon), port };
}

function parseInteger(text: string): bigint | null {
  return /^[+-]?[0-9]+$/.test(text) ? BigInt(text.replace('+', '')) : null;
}

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
  const match = /^(?:\[([^\]]*)\]|([^:]*)):([^:]*)$/.exec(text);
  const port = parseInteger(match?.[3] ?? '');
  return port !== null && isPort(port) && parseAddress(match?.[1] ?? match?.[2] ?? '') !== undefined;
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
