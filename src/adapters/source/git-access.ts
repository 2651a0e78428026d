import type { GitRemote } from './git-address.ts';
import type { GitConnection } from './git-process.ts';

/** The operator's access to the remote, by the names of the settings; git, ssh and the askpass script read the files themselves. */
export interface GitAccess {
  /** Holds the token for https; read anew for every request that asks for it. */
  readonly gitTokenFile?: string | null;
  /** User name beside the token; GitHub, GitLab and Gitea accept any that is not empty. Default `x-access-token`. */
  readonly gitUsername?: string;
  readonly gitSshKey?: string | null;
  readonly gitKnownHosts?: string | null;
  /** Certificates to trust for https instead of the system's. */
  readonly gitCaFile?: string | null;
}

/** How to reach the remote: by its own protocol alone, with credentials from the script at `askpass` or a key file. */
export function connectTo(remote: GitRemote, access: GitAccess, askpass: string): GitConnection {
  const { protocol } = remote;
  const config = [
    'protocol.version=2',
    'http.followRedirects=false',
    'http.lowSpeedLimit=100',
    'http.lowSpeedTime=30',
    ...(access.gitCaFile == null ? [] : [`http.sslCAInfo=${access.gitCaFile}`]),
  ];
  if (protocol === 'ssh') {
    return { protocol, env: { GIT_SSH_COMMAND: writeSshCommand(access), GIT_SSH_VARIANT: 'ssh' }, config };
  }
  if (access.gitTokenFile == null) return { protocol, env: {}, config };
  const username = access.gitUsername ?? 'x-access-token';
  const [scheme, host] = readOrigin(remote).split('://');
  const env = {
    GIT_ASKPASS: askpass,
    RECONCILE_GIT_TOKEN_FILE: access.gitTokenFile,
    RECONCILE_GIT_USERNAME: username,
    RECONCILE_GIT_ASKS_USERNAME: `Username for '${scheme}://${host}': `,
    RECONCILE_GIT_ASKS_PASSWORD: `Password for '${scheme}://${encodeAsGit(username)}@${host}': `,
    // Git before 2.40.4 writes the name as it is.
    RECONCILE_GIT_ASKED_PASSWORD: `Password for '${scheme}://${username}@${host}': `,
  };
  return { protocol, env, config };
}

/** Scheme, host and port of a remote, as git writes them into the prompts for its credentials. */
export function readOrigin({ url }: GitRemote): string {
  return /^[a-z]+:\/\/[^/]*/.exec(url)?.[0] ?? url;
}

function encodeAsGit(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

/** Prints the user name or the token file, so that no argument holds the token; answers the prompts of the remote itself only. */
export const askpassScript = `#!/bin/sh
case "$1" in
  "$RECONCILE_GIT_ASKS_USERNAME") printf '%s\\n' "$RECONCILE_GIT_USERNAME" ;;
  "$RECONCILE_GIT_ASKS_PASSWORD" | "$RECONCILE_GIT_ASKED_PASSWORD") exec cat -- "$RECONCILE_GIT_TOKEN_FILE" ;;
  *) exit 1 ;;
esac
`;

function writeSshCommand(access: GitAccess): string {
  const settings = [
    ...['BatchMode=yes', 'StrictHostKeyChecking=yes', 'UpdateHostKeys=no', 'GlobalKnownHostsFile=/dev/null'],
    `UserKnownHostsFile=${access.gitKnownHosts ?? '/dev/null'}`,
    ...['IdentitiesOnly=yes', 'PasswordAuthentication=no', 'KbdInteractiveAuthentication=no'],
    ...['ForwardAgent=no', 'PermitLocalCommand=no', 'ClearAllForwardings=yes'],
    ...['ConnectTimeout=20', 'ServerAliveInterval=10', 'ServerAliveCountMax=3'],
  ];
  const key = access.gitSshKey == null ? [] : ['-i', access.gitSshKey];
  const command = ['ssh', '-F', '/dev/null', ...settings.flatMap((setting) => ['-o', setting]), ...key];
  return command.map(quoteForShell).join(' ');
}

/** A word that a shell reads as it is. */
export function quoteForShell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
