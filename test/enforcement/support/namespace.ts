import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';

const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/** Runs a program of iproute2 or nftables; throws with what it said when it fails. */
export function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, [...args], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs a program in a namespace. */
export function runIn(netns: string, command: string, ...args: readonly string[]): string {
  return run('nsenter', `--net=${pathOf(netns)}`, '--', command, ...args);
}

/** The path of a namespace made by `ip netns add`. */
export function pathOf(netns: string): string {
  return `/run/netns/${netns}`;
}

/** A new network namespace of a random name. */
export function addNamespace(): string {
  const name = `rec-${randomBytes(4).toString('hex')}`;
  run('ip', 'netns', 'add', name);
  runIn(name, 'ip', 'link', 'set', 'lo', 'up');
  return name;
}

/** Removes namespaces. */
export function deleteNamespaces(...names: readonly string[]): void {
  for (const name of names) spawnSync('ip', ['netns', 'delete', name], { env });
}

/** Why tests with a kernel cannot run here; null when they can. */
export const kernelUnavailable: string | null = whyNot();

function whyNot(): string | null {
  for (const [command, name] of [
    ['ip', 'iproute2'],
    ['nft', 'nftables'],
    ['nsenter', 'util-linux'],
  ] as const) {
    if (spawnSync(command, ['-V'], { env }).error !== undefined) return `${name} is not installed`;
  }
  try {
    const name = addNamespace();
    try {
      runIn(name, 'nft', 'add table inet probe');
      return null;
    } finally {
      deleteNamespaces(name);
    }
  } catch (error) {
    return `network namespaces are not permitted here (${String(error).split('\n')[1] ?? String(error)})`;
  }
}
