import { fail, ok, type Result } from '../../model/result.ts';

/** How a remote is spoken to; `http` and `file` only where the operator allows them (tests, air-gapped use). */
export type GitProtocol = 'https' | 'ssh' | 'http' | 'file';

/** A remote that passed the checks; `url` is safe to hand to git as an argument and holds no credential. */
export interface GitRemote {
  readonly url: string;
  readonly protocol: GitProtocol;
}

/** Refs to look for on the remote, in order of precedence, or a commit. */
export type GitTarget =
  | { readonly kind: 'commit'; readonly id: string }
  | { readonly kind: 'refs'; readonly names: readonly string[] };

const host = String.raw`(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])`;
const path = '[A-Za-z0-9._~%/+@,=-]+';
const web = new RegExp(String.raw`^(https?)://${host}(?::\d{1,5})?/${path}$`);
const ssh = new RegExp(String.raw`^ssh://(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?${host}(?::\d{1,5})?/${path}$`);
const scp = new RegExp(`^[A-Za-z0-9_][A-Za-z0-9._-]*@${host}:(?!-|//|/$)${path}$`);
const file = new RegExp(`^file:///${path}$`);

/**
 * Checks the operator's remote. Accepted: `https://host/path`, `ssh://user@host/path`, `user@host:path`; `http` and `file`
 * when listed in `insecure`. Refused: user information in a web URL (a token there ends in logs and in `.git/config`),
 * queries, helper protocols (`ext::`), leading dashes, control characters.
 */
export function parseRemote(text: string, insecure: readonly ('http' | 'file')[] = []): Result<GitRemote, string> {
  if (/^https?:\/\/[^/]*@/i.test(text)) {
    return fail('the Git URL holds user information: leave it out and name a file with the token (--git-token-file)');
  }
  if (/[?#]/.test(text)) return fail('the Git URL holds a query or fragment: write only host and path');
  const protocol = protocolOf(text);
  if (protocol === null) {
    return fail('the Git URL must be https://host/path, ssh://user@host/path or user@host:path');
  }
  if ((protocol === 'http' || protocol === 'file') && !insecure.includes(protocol)) {
    return fail(`the Git URL uses ${protocol}, which nothing protects: use https or ssh, or --git-allow ${protocol}`);
  }
  return ok({ url: text, protocol });
}

function protocolOf(text: string): GitProtocol | null {
  const found = web.exec(text);
  if (found !== null) return found[1] === 'https' ? 'https' : 'http';
  if (ssh.test(text) || scp.test(text)) return 'ssh';
  return file.test(text) ? 'file' : null;
}

/** Checks a ref: `HEAD`, a branch or tag, or a full commit id; narrower than Git: no option, range or pattern passes. */
export function parseRef(text: string): Result<GitTarget, string> {
  if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text)) return ok({ kind: 'commit', id: text });
  if (text === 'HEAD') return ok({ kind: 'refs', names: ['HEAD'] });
  const clean =
    text.length <= 250 &&
    /^[A-Za-z0-9_][A-Za-z0-9._/+@-]*$/.test(text) &&
    !/\.\.|@\{|\/\/|\/\.|\.\/|\.lock(?:\/|$)|[/.]$|^@$/.test(text);
  if (!clean)
    return fail('the Git ref must be a branch, a tag or a full commit id, of letters, digits and . _ / + @ -');
  if (/^refs\/(?:heads|tags)\/./.test(text)) return ok({ kind: 'refs', names: [text] });
  if (text.startsWith('refs/')) return fail('the Git ref must lie below refs/heads/ or refs/tags/');
  return ok({ kind: 'refs', names: [`refs/heads/${text}`, `refs/tags/${text}`] });
}

/** Splits a path inside the repository into its components; `.`, the empty path: the root. `..` and absolute paths are refused. */
export function parseGitPath(text: string): Result<readonly string[], string> {
  if (text.startsWith('/')) return fail('the path inside the repository must be relative');
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  const bad = parts.some((part) => part === '..' || part.toLowerCase() === '.git' || control.test(part));
  return bad ? fail('the path inside the repository must not hold `..`, `.git` or control characters') : ok(parts);
}

/** A control character: C0, DEL, C1. */
export const control = /\p{Cc}/u;
