import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Problem } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import { runTool } from './git-process.ts';
import type { GitRepository, SignatureStatus } from './git-repository.ts';

/** Whose signatures count. A commit must be signed by one of these; both may be given. */
export interface SignatureKeys {
  /** OpenPGP public keys (armoured or binary). */
  readonly openpgpFile?: string;
  /** SSH allowed signers, in ssh-keygen's format. */
  readonly sshFile?: string;
}

const meaning: Readonly<Record<SignatureStatus, string>> = {
  G: 'good',
  N: 'it is not signed',
  B: 'its signature is bad',
  U: 'its key is not among the allowed ones',
  X: 'its signature has expired',
  Y: 'its key has expired',
  R: 'its key has been revoked',
  E: 'its signature cannot be checked: the key is not among the allowed ones, or gpg or ssh-keygen is missing',
};

/**
 * Checks a commit's signature; null when it is good. The keyring holds the operator's keys and nothing else, and a signature
 * by any other key never counts, whatever trust it carries.
 */
export async function checkSignature(
  repository: GitRepository,
  commit: string,
  keys: SignatureKeys,
  home: string,
): Promise<Problem | null> {
  const env: Record<string, string> = {};
  const config = ['gpg.minTrustLevel=fully'];
  if (keys.sshFile !== undefined) config.push(`gpg.ssh.allowedSignersFile=${path.resolve(keys.sshFile)}`);
  env['GNUPGHOME'] = path.join(home, 'gnupg');
  const failure = await keyring(env['GNUPGHOME'], keys.openpgpFile);
  if (failure !== null) return problem('git-signature-keys', failure, 'check --git-verify-openpgp');
  const status = await repository.signature(commit, config, env);
  if (status === 'G') return null;
  return problem(
    'git-signature',
    `commit ${commit.slice(0, 12)} is refused: ${meaning[status]}`,
    'sign it with an allowed key and push again; the last good revision stays in force',
  );
}

async function keyring(folder: string, keysFile: string | undefined): Promise<string | null> {
  let keys: Buffer | null = null;
  try {
    keys = keysFile === undefined ? null : await readFile(keysFile);
  } catch {
    return 'the file with the OpenPGP keys cannot be read';
  }
  const mark = createHash('sha256')
    .update(keys ?? '')
    .digest('hex');
  const marker = path.join(folder, 'made-from');
  if ((await readFile(marker, 'utf8').catch(() => '')) === mark) return null;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Every key in this keyring was put there by the operator: each one is trusted.
  await writeFile(path.join(folder, 'gpg.conf'), 'trust-model always\nno-auto-key-retrieve\nno-autostart\n');
  if (keys !== null) {
    const run = await runTool('gpg', ['--batch', '--quiet', '--import'], { GNUPGHOME: folder, LC_ALL: 'C' }, keys);
    if (run.end === 'not-started') return 'gpg is not installed, and OpenPGP signatures are to be checked';
    if (run.code !== 0) return `the file with the OpenPGP keys was not accepted (gpg: ${run.stderr.slice(0, 200)})`;
  }
  await writeFile(marker, mark);
  return null;
}

function problem(code: ProblemCode, summary: string, hint: string): Problem {
  return { code, severity: 'error', summary, hint };
}
