import { spawn } from 'node:child_process';
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

/** The table `inet firezone` in a real kernel, one nft process a change (observed: recordings/packet_filter_sets, nft_table). */
export class NftTable {
  readonly #options: NftTableOptions;
  readonly #known = new Set<string>();

  constructor(options: NftTableOptions) {
    this.#options = options;
  }

  /** Deletes the table and makes it anew, empty, with a chain for each user. */
  async reset(userIds: readonly string[]): Done {
    await this.#run('table inet firezone\ndelete table inet firezone\n');
    this.#known.clear();
    const chain = 'forward { type filter hook forward priority 0; policy accept;';
    const made = await this.#run(tableOf('', [], chain));
    if (!made) throw new Error(`nft could not make the table inet firezone in ${this.#options.netns}`);
    for (const userId of userIds) await this.addUser(userId);
    return true;
  }

  async addUser(userId: string): Done {
    if (this.#known.has(userId)) return true;
    this.#known.add(userId);
    return await this.#run(this.#userScript(userId));
  }

  /** Removes a user's jumps, chain and sets: what the real server does before it hears of the user's rules. */
  async deleteUser(userId: string): Done {
    if (!this.#known.delete(userId)) return true;
    const others = [...this.#known];
    const sets = [...setNames(`user${userId}_`), ...deviceSets(userId)];
    const jumps = others.flatMap(jumpsTo).map((jump) => `add rule inet firezone forward ${jump}`);
    return await this.#run(
      [
        'flush chain inet firezone forward',
        ...jumps,
        ...verdictsOf('').map((verdict) => `add rule inet firezone forward ${verdict}`),
        `flush chain inet firezone user${userId}`,
        `delete chain inet firezone user${userId}`,
        ...sets.map((name) => `delete set inet firezone ${name}`),
      ].join('\n'),
    );
  }

  add(element: RuleRow): Done {
    return this.#run(`add element inet firezone ${setOf(element)} { ${textOf(element)} }`);
  }

  delete(element: RuleRow): Done {
    return this.#run(`delete element inet firezone ${setOf(element)} { ${textOf(element)} }`);
  }

  #userScript(userId: string): string {
    const user = `user${userId}`;
    const devices = this.#options.devices?.get(userId) ?? [];
    const sets = [4, 6].map((family) => {
      const found = devices.filter((address) => isIP(address) === family);
      const elements = found.length === 0 ? '' : `elements = { ${found.join(', ')} };`;
      return `set ${user}_ip${family === 4 ? '' : 6}_devices { type ipv${family}_addr; flags interval; ${elements} }`;
    });
    const jumps = jumpsTo(userId).map((jump) => `insert rule inet firezone forward ${jump}\n`);
    return tableOf(`${user}_`, sets, `${user} {`) + jumps.toReversed().join('');
  }

  #run(script: string): Done {
    return runIn(this.#options.netns, script);
  }
}

/** The sets of everybody or of one user, and a chain of what they decide. */
function tableOf(prefix: string, sets: readonly string[], chain: string): string {
  const lines = ['table inet firezone {', ...setDeclarations(prefix), ...sets, `chain ${chain}`, ...verdictsOf(prefix)];
  return `${lines.join('\n')}\n}\n}\n`;
}

function jumpsTo(userId: string): readonly string[] {
  return ['ip6', 'ip'].map((family) => `${family} saddr @user${userId}_${family}_devices jump user${userId}`);
}

/** Ports before none, accept before drop, IPv6 before IPv4. */
function verdictsOf(prefix: string): readonly string[] {
  const incoming = 'iifname "wg-firezone"';
  return ['_layer4', ''].flatMap((suffix) =>
    ['ip6', 'ip'].flatMap((family) =>
      ['accept', 'drop'].map((action) => {
        const key = suffix === '' ? `${family} daddr` : `${family} daddr . meta l4proto . th dport`;
        return `${key} @${prefix}${family}_${action}${suffix} ${incoming} ${action}`;
      }),
    ),
  );
}

function setNames(prefix: string): readonly string[] {
  return ['', '_layer4'].flatMap((suffix) =>
    ['ip', 'ip6'].flatMap((family) => ['drop', 'accept'].map((action) => `${prefix}${family}_${action}${suffix}`)),
  );
}

function deviceSets(userId: string): readonly string[] {
  return ['ip', 'ip6'].map((family) => `user${userId}_${family}_devices`);
}

function setDeclarations(prefix: string): readonly string[] {
  return setNames(prefix).map((name) => {
    const address = name.includes('ip6_') ? 'ipv6_addr' : 'ipv4_addr';
    const type = name.endsWith('_layer4') ? `${address} . inet_proto . inet_service` : address;
    return `set ${name} { type ${type}; flags interval; }`;
  });
}

function setOf({ userId, network, action, ports }: RuleRow): string {
  const scope = userId === null ? '' : `user${userId}_`;
  return `${scope}${network.family === 4 ? 'ip' : 'ip6'}_${action}${ports === null ? '' : '_layer4'}`;
}

function textOf({ network, ports }: RuleRow): string {
  const address = formatNetwork(network);
  return ports === null ? address : `${address} . ${ports.type} . ${ports.range.low}-${ports.range.high}`;
}

/** Feeds a script to nft in a namespace; rejects only when nft cannot be started at all. */
function runIn(netns: string, script: string): Done {
  return new Promise((resolve, reject) => {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
    const child = spawn('nsenter', [`--net=${netns}`, '--', 'nft', '-f', '-'], {
      env,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    child.on('error', reject);
    child.stdin.on('error', () => {});
    child.stdin.end(script);
    child.on('close', (code) => {
      if (code === 0 || !said.startsWith('nsenter:')) resolve(code === 0);
      else reject(new Error(`the network namespace ${netns} cannot be used: ${said.trim()}`));
    });
  });
}
