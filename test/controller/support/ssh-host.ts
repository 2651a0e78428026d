import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:net';
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

/** Starts Debian's openssh-server in `folder`; it ends with the test. */
export async function startSsh(folder: string): Promise<SshHost> {
  if (sshd === null) throw new Error('openssh-server is not installed');
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
  const file = (name: string): string => path.join(folder, name);
  for (const name of ['host', 'client', 'other']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file(name)]);
  }
  const port = await freePort();
  writeFileSync(file('authorized'), readFileSync(file('client.pub')), { mode: 0o600 });
  writeFileSync(
    file('config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${file('host')}`,
      `AuthorizedKeysFile ${file('authorized')}`,
      `PidFile ${file('pid')}`,
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
  writeFileSync(file('known_hosts'), `[127.0.0.1]:${port} ${readFileSync(file('host.pub'), 'utf8')}`);
  if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true });
  const child = spawn(sshd, ['-D', '-e', '-f', file('config')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += String(chunk);
  });
  await answering(port, child, () => errors);
  return {
    port,
    user: userInfo().username,
    keyFile: file('client'),
    knownHosts: file('known_hosts'),
    close: () =>
      new Promise((resolve) => {
        child.on('close', () => resolve());
        child.kill();
      }),
  };
}

async function answering(port: number, child: ChildProcess, errors: () => string): Promise<void> {
  while (child.exitCode === null) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.on('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`sshd ended: ${errors()}`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}
