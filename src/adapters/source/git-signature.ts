import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeError, type Problem } from '../../model/problem.ts';
import { attempt } from '../../model/result.ts';
import { type ProcessCommand, runProcess } from '../run-process.ts';
import { readOperatorFile } from './regular-file.ts';

/** Whose signatures count. A commit must be signed by one of these; both may be given. */
export interface SignatureKeys {
  /** OpenPGP public keys (armoured or binary). */
  readonly gitVerifyOpenpgp?: string | null;
  /** SSH allowed signers, in ssh-keygen's format. */
  readonly gitVerifySsh?: string | null;
}

export interface SignedCommit {
  readonly id: string;
  readonly bytes: Buffer;
  /** When it was first seen, ms since 1970: keys count that were valid then. Its own dates are whatever its author wrote. */
  readonly seenAt: number;
}

/** Checks a commit's signature; null when it is good. Only the operator's keys count, whatever trust. `home`: a private folder. */
export async function checkSignature(commit: SignedCommit, keys: SignatureKeys, home: string): Promise<Problem | null> {
  const folder = path.join(home, 'gnupg');
  const failure = await makeKeyring(folder, keys.gitVerifyOpenpgp);
  if (failure !== null) return makeError('git-signature-keys', failure, 'check --git-verify-openpgp');
  const refusal = await refuseSignature(commit, keys, folder);
  if (refusal === null) return null;
  const hint = 'sign it with an allowed key and push again; the last good revision stays in force';
  return makeError('git-signature', `commit ${commit.id.slice(0, 12)} is refused: ${refusal}`, hint);
}

/** What was signed, and every signature of the commit: header lines `gpgsig`, with continuation lines that begin with a space. */
function splitSigned({ bytes, id }: SignedCommit) {
  const text = bytes.toString('latin1'); // every byte is one character, and comes back as it was
  const [head = ''] = text.split('\n\n', 1);
  const wanted = id.length === 64 ? 'gpgsig-sha256 ' : 'gpgsig ';
  const headers = head.split(/\n(?! )/);
  const signatures = headers
    .filter((header) => header.startsWith(wanted))
    .map((header) => `${header.slice(wanted.length).replaceAll('\n ', '\n')}\n`);
  const kept = headers.filter((header) => !/^gpgsig(?:-sha256)? /.test(header)).join('\n');
  return { payload: Buffer.from(kept + text.slice(head.length), 'latin1'), signatures };
}

const notAllowed = 'its key is not among the allowed ones, or was not valid when the commit was first seen';

/** Why a signature does not count; null when it does. */
async function refuseSignature(commit: SignedCommit, keys: SignatureKeys, folder: string): Promise<string | null> {
  const { payload, signatures } = splitSigned(commit);
  const [signature, ...more] = signatures;
  if (signature === undefined) return 'it is not signed';
  if (more.length > 0) return 'it has more than one signature';
  const file = path.join(folder, 'signature');
  await writeFile(file, signature, { encoding: 'latin1', mode: 0o600 });
  const { seenAt } = commit;
  if (signature.startsWith('-----BEGIN SSH SIGNATURE-----')) return await refuseSsh(payload, file, keys, seenAt);
  if (signature.startsWith('-----BEGIN PGP')) return await refuseOpenpgp(payload, file, folder, seenAt);
  return notAllowed;
}

async function refuseSsh(payload: Buffer, file: string, keys: SignatureKeys, seenAt: number): Promise<string | null> {
  if (keys.gitVerifySsh == null) return notAllowed;
  const at = new Date(seenAt).toISOString().replace(/\D/g, '').slice(0, 14);
  const given = ['-f', path.resolve(keys.gitVerifySsh), '-s', file, `-Overify-time=${at}`];
  const found = await runTool('ssh-keygen', ['-Y', 'find-principals', ...given], { TZ: 'UTC' }, '');
  if (found.end === 'not-started') return 'ssh-keygen is not installed, and SSH signatures are to be checked';
  for (const principal of found.code === 0 ? found.stdout.toString('utf8').split('\n') : []) {
    if (principal === '') continue;
    const args = ['-Y', 'verify', '-n', 'git', '-I', principal, ...given];
    if ((await runTool('ssh-keygen', args, { TZ: 'UTC' }, payload)).code === 0) return null;
  }
  return found.code === 0 ? 'its signature is bad' : notAllowed;
}

const openpgpRefusals: Readonly<Record<string, string>> = {
  BADSIG: 'its signature is bad',
  ERRSIG: notAllowed,
  EXPSIG: 'its signature has expired',
  EXPKEYSIG: 'its key had expired when the commit was first seen',
  REVKEYSIG: 'its key has been revoked',
};

async function refuseOpenpgp(payload: Buffer, file: string, folder: string, seenAt: number): Promise<string | null> {
  const at = ['--faked-system-time', `${Math.floor(seenAt / 1000)}!`];
  const args = ['--batch', '--no-tty', '--status-fd=1', ...at, '--verify', file, '-'];
  const run = await runTool('gpg', args, { GNUPGHOME: folder, LC_ALL: 'C' }, payload);
  if (run.end === 'not-started') return 'gpg is not installed, and OpenPGP signatures are to be checked';
  const words = [...run.stdout.toString('latin1').matchAll(/^\[GNUPG:\] ([A-Z_]+)/gm)].map(([, word]) => word ?? '');
  const verdicts = words.filter((word) => word === 'GOODSIG' || word in openpgpRefusals);
  const [verdict = 'ERRSIG', ...more] = verdicts;
  if (more.length > 0) return 'it has more than one signature';
  if (verdict !== 'GOODSIG') return openpgpRefusals[verdict] ?? notAllowed;
  return run.code === 0 && words.includes('VALIDSIG') ? null : notAllowed;
}

async function makeKeyring(folder: string, keysFile: string | null = null): Promise<string | null> {
  const keys = keysFile === null ? Buffer.alloc(0) : attempt(() => readOperatorFile(keysFile, 10_000_000), null);
  if (keys === null) return 'the file with the OpenPGP keys cannot be read';
  const mark = createHash('sha256').update(keys).digest('hex');
  const marker = path.join(folder, 'made-from');
  if ((await readFile(marker, 'utf8').catch(() => '')) === mark) return null;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Every key in this keyring was put there by the operator: each one is trusted, and gpg says nothing of trust.
  await writeFile(path.join(folder, 'gpg.conf'), 'trust-model always\nno-auto-key-retrieve\nno-autostart\n');
  if (keysFile !== null) {
    const run = await runTool('gpg', ['--batch', '--quiet', '--import'], { GNUPGHOME: folder, LC_ALL: 'C' }, keys);
    if (run.end === 'not-started') return 'gpg is not installed, and OpenPGP signatures are to be checked';
    if (run.code !== 0) return `the file with the OpenPGP keys was not accepted (gpg: ${run.stderr.slice(0, 200)})`;
  }
  await writeFile(marker, mark);
  return null;
}

/** Runs gpg or ssh-keygen: 30 s, 1 MB, an environment of its own beside PATH. */
function runTool(program: string, args: readonly string[], env: ProcessCommand['env'], stdin: Uint8Array | string) {
  const limits = { timeoutMs: 30_000, maxOutput: 1_000_000, signal: new AbortController().signal };
  const path = process.env['PATH'] ?? '/usr/bin:/bin';
  return runProcess({ program, cwd: '/', args, env: { PATH: path, ...env }, stdin, ...limits });
}
