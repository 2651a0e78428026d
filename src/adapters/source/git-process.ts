import { Readable } from 'node:stream';
import {
  cleanText,
  type ProcessCommand,
  type ProcessRun,
  pickVariables,
  proxyVariables,
  runProcess,
} from '../run-process.ts';
import type { GitProtocol } from './git-address.ts';

/** What a run of git that talks to a remote may use beyond one that reads. */
export interface GitConnection {
  /** The transports that git may use. */
  readonly protocol: GitProtocol | 'https:file';
  readonly env: Readonly<Record<string, string>>;
  readonly config: readonly string[];
}

export interface GitCommand extends Omit<ProcessCommand, 'program' | 'cwd' | 'env'> {
  /** The repository. Git never looks for one: what a pull request commits could be taken for it. Null: outside of any. */
  readonly gitDir: string | null;
  /** The environment of this process; git gets little of it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Git's home; without it a folder that is not there. */
  readonly home?: string;
  /** Absent: no transport is allowed, whatever the repository's configuration says. */
  readonly connection?: GitConnection;
  readonly config?: readonly string[];
}

const inherited = ['PATH', 'TMPDIR', ...proxyVariables, 'ALL_PROXY', 'all_proxy'];

/** Over the configuration of any repository: nothing that is written there starts a program. */
const lockedDown: readonly string[] = [
  'safe.bareRepository=explicit',
  'core.fsmonitor=false',
  'core.hooksPath=/dev/null',
  'core.askPass=',
  'core.pager=cat',
  'credential.helper=',
  'gpg.program=gpg',
  'gpg.ssh.program=ssh-keygen',
  'gc.auto=0',
  'maintenance.auto=false',
  'submodule.recurse=false',
  // Little memory, also for what is large: a blob is streamed, and every fetch is one file.
  'core.bigFileThreshold=1m',
  'core.packedGitWindowSize=16m',
  'core.packedGitLimit=64m',
  'core.deltaBaseCacheLimit=16m',
  'pack.threads=1',
  'fetch.unpackLimit=1',
];

/**
 * The one way in which this program runs git: in an environment built from empty, outside of every work tree, on a repository
 * that is named, with the transports that the caller names. Only commands that neither compare nor show: they call no external
 * diff, no textconv and no filter. Never rejects.
 */
export function runGit(command: GitCommand): Promise<ProcessRun> {
  const options = configOf(command).flatMap((entry) => ['-c', entry]);
  const args = [...options, ...command.args];
  return runProcess({ ...command, program: 'git', args, cwd: '/', env: environmentOf(command) });
}

/** Whether git ended because it came to its caps. */
export function isCapped({ stderr }: ProcessRun): boolean {
  return /file too large|out of memory|cannot allocate memory|memory exhausted/i.test(stderr);
}

/** `runGit` for short local commands without input, carried by simple-git under the same configuration and bounds. */
export async function runShortGit(command: GitCommand): Promise<ProcessRun> {
  const { GitPluginError, simpleGit } = await import('simple-git');
  const env = environmentOf(command);
  let [end, code, stderr, size]: [ProcessRun['end'], number, string, number] = ['exit', 0, '', 0];
  const git = simpleGit({
    baseDir: '/',
    config: [...configOf(command)],
    allowEnvironment: Object.keys(env),
    unsafe: constantsOnly,
    abort: command.signal,
    timeout: { block: command.timeoutMs, stdOut: false, stdErr: false },
    // Its own errors may repeat arguments. Undefined: the output is the answer, and the code tells how it ended.
    errors: (error, result) => {
      code = result.exitCode;
      stderr = Buffer.concat(result.stdErr).toString('utf8');
      if (error instanceof GitPluginError) end = error.plugin === 'timeout' ? 'timeout' : 'aborted';
      return undefined;
    },
  })
    .env(env)
    .outputHandler((_, stdout) => {
      stdout.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > command.maxOutput && stdout instanceof Readable) stdout.destroy();
      });
    });
  const stdout = await git.raw(...command.args).catch(() => '');
  if (size > command.maxOutput) end = 'too-much-output';
  if (stderr.includes('spawn git ENOENT')) end = 'not-started';
  return { end, code: end === 'exit' ? code : null, stdout: Buffer.from(stdout), stderr: cleanText(stderr) };
}

const constantsOnly = {
  allowUnsafeFsMonitor: true,
  allowUnsafeHooksPath: true,
  allowUnsafeProtocolOverride: true,
  allowUnsafeCredentialHelper: true,
  allowUnsafeAskPass: true,
  allowUnsafeTemplateDir: true,
  allowUnsafeConfigPaths: true,
  allowUnsafeGpgProgram: true,
  allowUnsafePager: true,
} as const; // all of them are set to constants of this program, never to text from outside

function configOf({ gitDir, connection, config }: GitCommand): readonly string[] {
  const owner = gitDir === null ? [] : [`safe.directory=${gitDir}`];
  return [...lockedDown, ...owner, ...(connection?.config ?? []), ...(config ?? [])];
}

function environmentOf({ gitDir, environment, home, connection }: GitCommand): Record<string, string> {
  return {
    ...pickVariables(environment, inherited),
    ...connection?.env,
    // A directory without a repository, rather than none: git would look for one above the working directory.
    GIT_DIR: gitDir ?? '/dev/null',
    GIT_ALLOW_PROTOCOL: connection?.protocol ?? 'none',
    GIT_NO_LAZY_FETCH: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_TEMPLATE_DIR: '',
    HOME: home ?? '/nonexistent',
    LC_ALL: 'C',
  };
}
