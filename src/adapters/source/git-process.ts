import { spawn } from 'node:child_process';
import type { GitRemote } from './git-address.ts';

/** Everything about the operator's access to the remote; files are read by git, ssh and the askpass script themselves. */
export interface GitAccess {
  /** Holds the token for https; read anew for every request that asks for it. */
  readonly tokenFile?: string;
  /** User name beside the token; GitHub, GitLab and Gitea accept any that is not empty. Default `x-access-token`. */
  readonly username?: string;
  readonly sshKeyFile?: string;
  readonly knownHostsFile?: string;
  /** Certificates to trust for https instead of the system's. */
  readonly caFile?: string;
}

/** Where the private files of the Git source lie: an empty home and the askpass script. */
export interface GitHome {
  readonly home: string;
  readonly askpass: string;
}

/** One run of git in a process group of its own. */
export interface GitCommand {
  /** Another program than git; it gets no configuration. */
  readonly program?: string;
  readonly cwd: string;
  readonly config: readonly string[];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  readonly timeoutMs: number;
  /** More output than this ends the run. */
  readonly maxOutput: number;
  readonly signal: AbortSignal;
}

export interface GitRun {
  /** `exit`: see `code`. Otherwise the process group was killed for that reason. */
  readonly end: 'exit' | 'timeout' | 'aborted' | 'too-much-output' | 'not-started';
  readonly code: number | null;
  readonly stdout: Buffer;
  /** Cleaned of control characters, for people; at most 4,000 characters. */
  readonly stderr: string;
}

const inherited = [
  'PATH',
  'TMPDIR',
  'HTTPS_PROXY',
  'https_proxy',
  'HTTP_PROXY',
  'http_proxy',
  'NO_PROXY',
  'no_proxy',
  'ALL_PROXY',
  'all_proxy',
] as const;

/** Configuration for every run of git: nothing on disk is believed, no program beside git's own is started. */
export const lockedDown: readonly string[] = [
  'core.fsmonitor=',
  'core.hooksPath=/dev/null',
  'core.askPass=',
  'credential.helper=',
  'protocol.allow=never',
  'gc.auto=0',
  'maintenance.auto=false',
  'submodule.recurse=false',
  'core.symlinks=false',
  'advice.detachedHead=false',
];

/** Git's environment, built from empty: an allow-list of what is inherited, and what keeps git from asking or looking around. */
export function gitEnvironment(
  home: GitHome,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of inherited) {
    const value = environment[name];
    if (value !== undefined) env[name] = value;
  }
  return {
    ...env,
    HOME: home.home,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_TEMPLATE_DIR: '',
  };
}

/** What a run that talks to the remote needs on top: credentials by askpass or key file, only the remote's own protocol. */
export function remoteAccess(
  remote: GitRemote,
  access: GitAccess,
  home: GitHome,
): { readonly env: Record<string, string>; readonly config: readonly string[] } {
  const config = [
    `protocol.${remote.protocol}.allow=always`,
    'protocol.version=2',
    'http.followRedirects=false',
    'http.lowSpeedLimit=100',
    'http.lowSpeedTime=30',
    ...(access.caFile === undefined ? [] : [`http.sslCAInfo=${access.caFile}`]),
  ];
  if (remote.protocol === 'ssh') {
    return { env: { GIT_SSH_COMMAND: sshCommand(access), GIT_SSH_VARIANT: 'ssh' }, config };
  }
  if (access.tokenFile === undefined) return { env: {}, config };
  const env = {
    GIT_ASKPASS: home.askpass,
    RECONCILE_GIT_TOKEN_FILE: access.tokenFile,
    RECONCILE_GIT_USERNAME: access.username ?? 'x-access-token',
  };
  return { env, config };
}

/** The askpass script: prints the user name or the token file's content, so that no token is in an argument or in this process. */
export const askpassScript = `#!/bin/sh
case "$1" in
  Username*) printf '%s\\n' "$RECONCILE_GIT_USERNAME" ;;
  Password*) exec cat -- "$RECONCILE_GIT_TOKEN_FILE" ;;
  *) exit 1 ;;
esac
`;

function sshCommand(access: GitAccess): string {
  const options = [
    '-F',
    '/dev/null',
    ...['BatchMode=yes', 'StrictHostKeyChecking=yes', 'UpdateHostKeys=no', 'GlobalKnownHostsFile=/dev/null'].flatMap(
      option,
    ),
    ...option(`UserKnownHostsFile=${access.knownHostsFile ?? '/dev/null'}`),
    ...['IdentitiesOnly=yes', 'PasswordAuthentication=no', 'KbdInteractiveAuthentication=no'].flatMap(option),
    ...['ForwardAgent=no', 'PermitLocalCommand=no', 'ClearAllForwardings=yes'].flatMap(option),
    ...['ConnectTimeout=20', 'ServerAliveInterval=10', 'ServerAliveCountMax=3'].flatMap(option),
    ...(access.sshKeyFile === undefined ? [] : ['-i', access.sshKeyFile]),
  ];
  return ['ssh', ...options].map(quoteForShell).join(' ');
}

function option(text: string): readonly string[] {
  return ['-o', text];
}

function quoteForShell(text: string): string {
  return /^[A-Za-z0-9_/.=-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * Runs git in a process group of its own and ends the whole group on the deadline, on abort and on too much output: git's
 * helpers (git-remote-https, ssh) do not die with their parent. Resolves when the group's pipes are closed; never rejects.
 */
export function runGit(command: GitCommand): Promise<GitRun> {
  return new Promise((resolve) => {
    if (command.signal.aborted) return resolve(ended('aborted'));
    const child = spawn(command.program ?? 'git', argumentsOf(command), {
      cwd: command.cwd,
      env: command.env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const output: Buffer[] = [];
    const errors: Buffer[] = [];
    let size = 0;
    let end: GitRun['end'] = 'exit';
    let last: NodeJS.Timeout | undefined;
    const kill = (reason: GitRun['end']): void => {
      if (end === 'exit') end = reason;
      // First politely, so that git removes its locks and half-written packs.
      signalGroup(child.pid, 'SIGTERM');
      last ??= setTimeout(() => signalGroup(child.pid, 'SIGKILL'), 1000);
    };
    const onAbort = (): void => kill('aborted');
    const timer = setTimeout(() => kill('timeout'), command.timeoutMs);
    command.signal.addEventListener('abort', onAbort, { once: true });
    child.stdout.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > command.maxOutput) kill('too-much-output');
      else output.push(chunk);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      if (errors.length < 64) errors.push(chunk);
    });
    const settle = (run: GitRun): void => {
      clearTimeout(timer);
      clearTimeout(last);
      command.signal.removeEventListener('abort', onAbort);
      resolve(run);
    };
    child.on('error', (error) => settle({ ...ended('not-started'), stderr: readable(error.message) }));
    child.on('close', (code) => {
      // Helpers that outlive git (a proxy command of ssh, say) would otherwise stay.
      signalGroup(child.pid, 'SIGKILL');
      settle({ end, code, stdout: Buffer.concat(output), stderr: readable(Buffer.concat(errors).toString('utf8')) });
    });
    child.stdin.on('error', () => undefined); // git that ends early closes its input; the exit code tells why
    child.stdin.end(command.stdin ?? '');
  });
}

/** Runs another small program (gpg) under the same care: 30 s, 1 MB, an environment of its own beside PATH. */
export function runTool(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  stdin: Uint8Array,
): Promise<GitRun> {
  const limits = { timeoutMs: 30_000, maxOutput: 1_000_000, signal: new AbortController().signal };
  const path = process.env['PATH'] ?? '/usr/bin:/bin';
  return runGit({ program, cwd: '/', config: [], args, env: { PATH: path, ...env }, stdin, ...limits });
}

function argumentsOf(command: GitCommand): readonly string[] {
  if (command.program !== undefined) return command.args;
  return [...[...lockedDown, ...command.config].flatMap((entry) => ['-c', entry]), ...command.args];
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // the group is gone already
  }
}

function ended(end: GitRun['end']): GitRun {
  return { end, code: null, stdout: Buffer.alloc(0), stderr: '' };
}

/** Remote text for people: one line, no control or direction characters, no user information of a URL, bounded. */
export function readable(text: string): string {
  return text
    .replace(/\/\/[^/@\s]*@/g, '//')
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029\s]+/gu, ' ')
    .trim()
    .slice(0, 4000);
}
