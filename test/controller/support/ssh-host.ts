import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import path from 'node:path';

/** An SSH server on loopback for the current user, with keys of its own. */
export interface SshHost {
  readonly port: number;
  readonly user: string;
  readonly keyFile: string;
  readonly knownHosts: string;
  close(): Promise<void>;
}

export const sshd = ['/usr/sbin/sshd', '/usr/local/sbin/sshd'].find((file) => existsSync(file)) ?? null;

/**
 * Debian's openssh-server in `folder`; it ends with the test. We listen, at a port of the system's choice, which sshd cannot
 * do, and give each connection to an sshd of its own, as inetd does.
 */
export async function startSsh(folder: string): Promise<SshHost> {
  const daemon = sshd;
  if (daemon === null) throw new Error('openssh-server is not installed');
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
  const file = (name: string): string => path.join(folder, name);
  for (const name of ['host', 'client', 'other']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file(name)]);
  }
  writeFileSync(file('authorized'), readFileSync(file('client.pub')), { mode: 0o600 });
  writeFileSync(
    file('config'),
    [
      `HostKey ${file('host')}`,
      `AuthorizedKeysFile ${file('authorized')}`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'AllowUsers *',
      'PermitRootLogin prohibit-password',
      'LogLevel ERROR',
      '',
    ].join('\n'),
  );
  if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true });
  const running = new Set<ChildProcess>();
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    const child = spawn(daemon, ['-i', '-e', '-f', file('config')], { stdio: [socket, socket, 'ignore'] });
    running.add(child);
    child.once('close', () => running.delete(child));
    child.once('spawn', () => socket.destroy()); // only our copy of it
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const { port } = server.address() as AddressInfo;
  writeFileSync(file('known_hosts'), `[127.0.0.1]:${port} ${readFileSync(file('host.pub'), 'utf8')}`);
  return {
    port,
    user: userInfo().username,
    keyFile: file('client'),
    knownHosts: file('known_hosts'),
    async close() {
      await new Promise<void>((resolve) => server.close(() => resolve()));
      const ended = [...running].map((child) => new Promise((resolve) => child.once('close', resolve)));
      for (const child of running) child.kill();
      await Promise.all(ended);
    },
  };
}
