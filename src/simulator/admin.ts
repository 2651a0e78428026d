import { prettifyError } from 'zod';
import { type FaultSwitchboard, faultSetting } from './faults.ts';
import type { PacketFilterView } from './filter/filter.ts';
import type { RawRequest } from './http/request.ts';
import { type HttpAnswer, json } from './http/response.ts';
import { parseAddress } from './rules/address.ts';
import { formatNetwork } from './rules/inet.ts';
import type { RuleRow } from './rules/rule.ts';
import type { StoredUser, UserStore } from './users.ts';

/** What the pages outside `/v0` show and switch; the same objects as a test has in its hands. */
export interface AdminParts {
  readonly faults: FaultSwitchboard;
  readonly filter: PacketFilterView;
  readonly users: UserStore;
}

/** Answers a request below `/admin`; undefined when the path is none of its own. */
export function answerAdmin(parts: AdminParts, request: RawRequest): HttpAnswer {
  const url = new URL(request.target, 'http://simulator');
  const [, page = '', argument] = url.pathname.split('/').filter((segment) => segment !== '');
  switch (`${request.method} ${page}`) {
    case 'GET verdict':
      return verdict(parts, url.searchParams);
    case 'GET filter':
      return json(200, { state: parts.filter.state(), elements: parts.filter.elements().map(showElement) });
    case 'GET faults':
      return json(200, parts.faults.list());
    case 'POST faults':
      return setFault(parts, request);
    case 'DELETE faults':
      parts.faults.clear(argument === undefined ? undefined : Number(argument));
      return { kind: 'empty', status: 204, typed: false };
    default:
      return json(404, { error: 'no such page: there are verdict, filter and faults' });
  }
}

function showElement({ id, userId, action, network, ports, shown }: RuleRow): Record<string, unknown> {
  const { port_range } = shown;
  const destination = formatNetwork(network);
  return { rule: id, user: userId, action, destination, port_type: ports?.type ?? null, port_range };
}

const protocols = ['tcp', 'udp', 'icmp', 'other'] as const;

function verdict(parts: AdminParts, query: URLSearchParams): HttpAnswer {
  const destination = query.get('destination') ?? '';
  const protocol = protocols.find((name) => name === (query.get('protocol') ?? 'other'));
  const port = query.get('port');
  const named = query.get('user');
  const user = named === null ? null : findUser(parts.users, named);
  if (parseAddress(destination) === undefined) return json(422, { error: 'destination must be an address' });
  if (protocol === undefined) return json(422, { error: `protocol must be one of ${protocols.join(', ')}` });
  if (port !== null && !/^[0-9]{1,5}$/.test(port)) return json(422, { error: 'port must be a number' });
  if (user === undefined) return json(422, { error: `no user ${named}` });
  const packet = { user: user?.id ?? null, destination, protocol, ...(port === null ? {} : { port: Number(port) }) };
  return json(200, { ...packet, verdict: parts.filter.verdict(packet) });
}

/** By id, by e-mail address, or by the part before its `@`. */
function findUser(users: UserStore, name: string): StoredUser | undefined {
  return (
    users.get(name.toLowerCase()) ??
    users.byEmail(name) ??
    users.all().find((user) => user.email.toLowerCase().startsWith(`${name.toLowerCase()}@`))
  );
}

function setFault(parts: AdminParts, request: RawRequest): HttpAnswer {
  const parsed = faultSetting.safeParse(bodyOf(request));
  if (!parsed.success) return json(422, { error: prettifyError(parsed.error) });
  const number = parts.faults.inject(parsed.data);
  return json(201, { number });
}

function bodyOf(request: RawRequest): unknown {
  try {
    return JSON.parse(request.body.toString('utf8'));
  } catch {
    return undefined;
  }
}
