import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { addNamespace, deleteNamespaces, pathOf, run, runIn } from './namespace.ts';

/** A client's side, the server that filters, and the side of the destinations: three namespaces in a row. */
export interface TestNetwork {
  readonly client: string;
  readonly server: string;
  readonly target: string;
  readonly close: () => void;
}

/** One packet to send; `other` is an ICMP packet. */
export interface Probe {
  readonly protocol: 'tcp' | 'udp' | 'other';
  readonly source: string;
  readonly destination: string;
  readonly port: number;
}

/** Lays the network: the server's interface to the clients is named as the real server's WireGuard interface is. */
export function layNetwork(sources: readonly string[], destinations: readonly string[]): TestNetwork {
  const [client, server, target] = [addNamespace(), addNamespace(), addNamespace()];
  for (const netns of [client, server, target]) setKernel(netns, 'ipv6/conf/default/accept_dad', 0);
  run('ip', 'link', 'add', 'up0', 'netns', client, 'type', 'veth', 'peer', 'name', 'wg-firezone', 'netns', server);
  run('ip', 'link', 'add', 'out0', 'netns', server, 'type', 'veth', 'peer', 'name', 'in0', 'netns', target);
  address(server, 'wg-firezone', ['10.66.0.1/24', 'fd66::1/64']);
  address(server, 'out0', ['192.0.2.254/24', '2001:db8:f::ffff/64']);
  address(client, 'up0', sources.map(withMask));
  address(target, 'in0', destinations.map(withMask));
  for (const [netns, v4, v6] of [
    [client, '10.66.0.1', 'fd66::1'],
    [target, '192.0.2.254', '2001:db8:f::ffff'],
  ] as const) {
    runIn(netns, 'ip', 'route', 'add', 'default', 'via', v4);
    runIn(netns, 'ip', '-6', 'route', 'add', 'default', 'via', v6);
    setKernel(netns, 'ipv4/icmp_ratelimit', 0);
    setKernel(netns, 'ipv6/icmp/ratelimit', 0);
  }
  setKernel(server, 'ipv4/ip_forward', 1);
  setKernel(server, 'ipv6/conf/all/forwarding', 1);
  return { client, server, target, close: () => deleteNamespaces(client, server, target) };
}

function withMask(text: string): string {
  return `${text}/${text.includes(':') ? 64 : 24}`;
}

function address(netns: string, device: string, addresses: readonly string[]): void {
  runIn(netns, 'ip', 'link', 'set', device, 'up');
  for (const text of addresses) {
    runIn(netns, 'ip', 'address', 'add', text, 'dev', device, ...(text.includes(':') ? ['nodad'] : []));
  }
}

function setKernel(netns: string, name: string, value: number): void {
  runIn(netns, 'sh', '-c', `echo ${value} > /proc/sys/net/${name}`);
}

/**
 * Sends all packets at once and says of each whether it passed the server. An ICMP packet is made by the client's kernel:
 * the target sends to a closed port of the client, and sees the "port unreachable" or does not.
 */
export async function sendAll(network: TestNetwork, probes: readonly Probe[]): Promise<readonly boolean[]> {
  const closedPort = 40_000;
  const icmp = probes.map((probe, index) =>
    probe.protocol === 'other'
      ? { ...probe, source: probe.destination, destination: probe.source, port: closedPort + index }
      : null,
  );
  const [fromClient, fromTarget] = await Promise.all([
    probeFrom(
      network.client,
      probes.filter((_, index) => icmp[index] === null),
    ),
    probeFrom(
      network.target,
      icmp.filter((probe) => probe !== null),
    ),
  ]);
  const [clientResults, targetResults] = [[...fromClient], [...fromTarget]];
  return icmp.map((probe) => {
    const result = probe === null ? clientResults.shift() : targetResults.shift();
    if (typeof result !== 'boolean') throw new Error(`a packet could not be sent: ${String(result)}`);
    return result;
  });
}

async function probeFrom(netns: string, probes: readonly Probe[]): Promise<readonly unknown[]> {
  const script = fileURLToPath(new URL('probe.mjs', import.meta.url));
  const child = spawn('nsenter', [`--net=${pathOf(netns)}`, '--', process.execPath, script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(probes));
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return JSON.parse(output) as readonly unknown[];
}
