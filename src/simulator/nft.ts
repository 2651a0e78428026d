import { execFile } from 'node:child_process';
import { isIP } from 'node:net';
import { formatNetwork } from './rules/inet.ts';
import type { RuleRow } from './rules/rule.ts';

/** Where the simulator keeps a real packet filter, as the real server does. */
export interface NftTableOptions {
  /** Path of the network namespace that stands for the server's, such as `/run/netns/NAME`. */
  readonly netns: string;
  /** Addresses of devices, by user id. */
  readonly devices?: ReadonlyMap<string, readonly string[]>;
}

/** Whether nft did it. False: it answered with an error, on which the real server's packet filter crashes. */
type Done = Promise<boolean>;

export type NftTable = ReturnType<typeof createNftTable>;

/** The table `inet firezone` in a real kernel, one nft process a change (observed: recordings/packet_filter_sets, nft_table). */
export function createNftTable({ netns, devices }: NftTableOptions) {
  const known = new Set<string>();
  const run = (script: string): Done => runNft(netns, script);
  const addUser = async (userId: string): Done => {
    if (known.has(userId)) return true;
    known.add(userId);
    return await run(userScript(userId, devices?.get(userId) ?? []));
  };
  return {
    addUser,
    add: (element: RuleRow): Done => run(`add element inet firezone ${setOf(element)} { ${textOf(element)} }`),
    delete: (element: RuleRow): Done => run(`delete element inet firezone ${setOf(element)} { ${textOf(element)} }`),
    /** Deletes the table and makes it anew, empty, with a chain for each user. */
    async reset(userIds: readonly string[]): Done {
      await run('table inet firezone\ndelete table inet firezone\n');
      known.clear();
      const chain = 'forward { type filter hook forward priority 0; policy accept;';
      const made = await run(tableOf('', [], chain));
      if (!made) throw new Error(`nft could not make the table inet firezone in ${netns}`);
      for (const userId of userIds) await addUser(userId);
      return true;
    },
    /** Removes a user's jumps, chain and sets: what the real server does before it hears of the user's rules. */
    async deleteUser(userId: string): Done {
      if (!known.delete(userId)) return true;
      const own = sets.map((set) => nameOf(`user${userId}_`, set));
      const names = [...own, ...families.map((ip) => devicesOf(userId, ip))];
      const jumps = [...known].flatMap(jumpsTo).map((jump) => `add rule inet firezone forward ${jump}`);
      return await run(
        [
          'flush chain inet firezone forward',
          ...jumps,
          ...verdictsOf('').map((verdict) => `add rule inet firezone forward ${verdict}`),
          `flush chain inet firezone user${userId}`,
          `delete chain inet firezone user${userId}`,
          ...names.map((name) => `delete set inet firezone ${name}`),
        ].join('\n'),
      );
    },
  };
}

function userScript(userId: string, devices: readonly string[]): string {
  const own = families.map((family) => {
    const found = devices.filter((address) => isIP(address) === (family === 'ip' ? 4 : 6));
    const elements = found.length === 0 ? '' : `elements = { ${found.join(', ')} };`;
    return `set ${devicesOf(userId, family)} { type ${addressTypes[family]}; flags interval; ${elements} }`;
  });
  const jumps = jumpsTo(userId).map((jump) => `insert rule inet firezone forward ${jump}\n`);
  return tableOf(`user${userId}_`, own, `user${userId} {`) + jumps.toReversed().join('');
}

/** Feeds a script to nft in the namespace; rejects only when nft cannot be started at all. */
function runNft(netns: string, script: string): Done {
  return new Promise((resolve, reject) => {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
    const child = execFile('nsenter', [`--net=${netns}`, '--', 'nft', '-f', '-'], { env }, (error, _, said) => {
      if (error === null || (typeof error.code === 'number' && !said.startsWith('nsenter:'))) resolve(error === null);
      else reject(new Error(`the network namespace ${netns} cannot be used: ${said.trim() || error.message}`));
    });
    child.stdin?.on('error', () => {}).end(script);
  });
}

/** The sets of everybody or of one user, and a chain of what they decide. */
function tableOf(prefix: string, more: readonly string[], chain: string): string {
  const declared = sets.map((set) => {
    const ports = set.suffix === '' ? '' : ' . inet_proto . inet_service';
    return `set ${nameOf(prefix, set)} { type ${addressTypes[set.family]}${ports}; flags interval; }`;
  });
  const lines = ['table inet firezone {', ...declared, ...more, `chain ${chain}`, ...verdictsOf(prefix)];
  return `${lines.join('\n')}\n}\n}\n`;
}

const families = ['ip6', 'ip'] as const;
const addressTypes = { ip6: 'ipv6_addr', ip: 'ipv4_addr' };

/** The sets of everybody, and of each user, as the chain asks them: ports before none, IPv6 before IPv4, accept before drop. */
const sets = ['_layer4', ''].flatMap((suffix) =>
  families.flatMap((family) => ['accept', 'drop'].map((action) => ({ suffix, family, action }))),
);

function nameOf(prefix: string, { family, action, suffix }: (typeof sets)[number]): string {
  return `${prefix}${family}_${action}${suffix}`;
}

function devicesOf(userId: string, family: string): string {
  return `user${userId}_${family}_devices`;
}

function jumpsTo(userId: string): readonly string[] {
  return families.map((family) => `${family} saddr @${devicesOf(userId, family)} jump user${userId}`);
}

function verdictsOf(prefix: string): readonly string[] {
  return sets.map((set) => {
    const key = `${set.family} daddr${set.suffix === '' ? '' : ' . meta l4proto . th dport'}`;
    return `${key} @${nameOf(prefix, set)} iifname "wg-firezone" ${set.action}`;
  });
}

function setOf({ userId, network, action, ports }: RuleRow): string {
  const set = { family: network.family === 4 ? 'ip' : 'ip6', action, suffix: ports === null ? '' : '_layer4' } as const;
  return nameOf(userId === null ? '' : `user${userId}_`, set);
}

function textOf({ network, ports }: RuleRow): string {
  const address = formatNetwork(network);
  return ports === null ? address : `${address} . ${ports.type} . ${ports.range.low}-${ports.range.high}`;
}
