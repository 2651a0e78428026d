import { statSync } from 'node:fs';
import { readOperatorFile } from '../adapters/source/regular-file.ts';
import { decodeJsonObject, getErrorCode } from '../model/result.ts';
import { deriveFingerprintKey, sealText } from '../model/secret.ts';
import type { Logger } from '../ports.ts';
import { makeFailure, type Settings, type Terminal } from './command.ts';

/** The API token: read from its file again when that may have changed. */
export type TokenSource = ReturnType<typeof createTokenSource>;

/** Largest token file; a Firezone token has about 400 bytes. */
const largest = 64 * 1024;
/** How long a token file is believed before it is read again, ms. */
const fresh = 1000;

/** The token of `--token-file`, else of `RECONCILE_TOKEN`, else of another named file; throws a `Failure` when there is none. */
export function createTokenSource(settings: Pick<Settings, 'tokenFile' | 'origins'>, env: Terminal['env']) {
  const { tokenFile, origins } = settings;
  const given = env['RECONCILE_TOKEN'] ?? '';
  if (given === '' && tokenFile === null) {
    const hint = 'name its file with --token-file or RECONCILE_TOKEN_FILE, or set RECONCILE_TOKEN';
    throw makeFailure('no-token', 'there is no API token', hint);
  }
  const path = given === '' || origins.get('tokenFile') === '--token-file' ? tokenFile : null;
  let kept = { token: '', readAt: Number.NEGATIVE_INFINITY };
  const read = (): string => {
    if (path === null) return checked(env['RECONCILE_TOKEN'] ?? '', 'RECONCILE_TOKEN');
    const now = performance.now();
    if (now - kept.readAt > fresh) kept = { token: checked(readFile(path), path), readAt: now };
    return kept.token;
  };
  return {
    /** The token now. Throws a `Failure` when the file cannot be read. */
    read,
    /** Forgets what was read, so that the next call reads the file. */
    reload(): void {
      kept = { token: '', readAt: Number.NEGATIVE_INFINITY };
    },
    /** Keys the fingerprints of secrets; changes with the token, never stored. */
    fingerprintKey: () => deriveFingerprintKey(read()),
    /** Seals a text, so that a change of it shows to whoever has this token. */
    seal: (text: string) => sealText(read(), text),
    /** Its file; null: it comes from the environment. */
    path,
  };
}

/** A mounted secret's mode is not the reader's choice, and nobody else is in its container. */
const mountedSecret = /^(\/var)?\/run\/secrets\//;

/** Says in one log line that every user of this machine can read the token. */
export function warnOfOpenToken({ path }: TokenSource, logger: Logger): void {
  // On Windows the mode says nothing about who can read a file.
  if (path === null || mountedSecret.test(path) || process.platform === 'win32') return;
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if ((mode & 0o004) !== 0) logger.warn(`Every user of this machine can read the token; run: chmod 600 ${path}`);
}

function readFile(path: string): string {
  try {
    // A pipe would be empty when it is read again.
    if (statSync(path).isFile()) return readOperatorFile(path, largest).toString('utf8');
  } catch (error) {
    const summary = `the token file ${path} cannot be read (${getErrorCode(error)})`;
    throw makeFailure('no-token', summary, 'check --token-file, RECONCILE_TOKEN_FILE or `tokenFile`');
  }
  throw makeFailure('no-token', `the token file ${path} is not a regular file`);
}

function checked(text: string, origin: string): string {
  const token = text.trim().replace(/^Bearer\s+/i, '');
  if (token === '') throw makeFailure('no-token', `${origin} holds no token: it is empty`);
  if (token.length <= largest && /^(?!["'`]|[A-Z][A-Z_]*=[^=])[\x21-\x7e]+$/.test(token)) return token;
  const hint = 'an API token is one line of printable text, without spaces, quotes, or NAME= before it';
  throw makeFailure('no-token', `${origin} does not hold a token`, hint);
}

/** What a token says about itself, unverified: its expiry (ms since 1970) and type. Null: no JWT. */
export function readClaims(token: string): { readonly expiresAt: number | null; readonly type: string | null } | null {
  const [, payload = '', signature, ...more] = token.split('.');
  const claims = decodeJsonObject(Buffer.from(payload, 'base64url').toString('utf8'));
  if (claims === null || signature === undefined || more.length > 0) return null;
  const { exp, typ } = claims;
  return { expiresAt: typeof exp === 'number' ? exp * 1000 : null, type: typeof typ === 'string' ? typ : null };
}
