import type { Place } from '../model/problem.ts';

/** Where a repository can be looked at, by the forms of links that its forge knows. */
export interface Forge {
  /** `https://git.example.com/team/policy`, without user information. */
  readonly url: string;
  /** Directory of the manifests inside the repository; empty: its root. */
  readonly folder: string;
}

/** `https://host:port/path`, `ssh://user@host:port/path`, `user@host:path`: the port of ssh is no port of a page. */
const remotes = [
  /^https:\/\/(?:[^@/]*@)?([A-Za-z0-9.-]+(?::\d+)?)\/([\w./~-]+)$/,
  /^ssh:\/\/(?:[^@/]*@)?([A-Za-z0-9.-]+)(?::\d+)?\/([\w./~-]+)$/,
  /^[^@/:]+@([A-Za-z0-9.-]+):\/?([\w./~-]+)$/,
];

/** The forge of a remote; null for one without pages. Names and tokens that a remote may hold are left out. */
export function findForge(remote: string, folder = ''): Forge | null {
  const found = remotes.map((one) => one.exec(remote)).find((match) => match !== null);
  if (found === undefined) return null;
  const [, host, path = ''] = found;
  const url = `https://${host}/${path.replace(/\/+$/, '').replace(/\.git$/, '')}`;
  return URL.canParse(url) ? { url, folder } : null;
}

const commitIn = /^(?:[0-9a-f]{40}|[0-9a-f]{64})/;

/** The page of a commit; null for a revision that is none. */
export function linkCommit({ url }: Forge, revision: string | null): string | null {
  const [commit] = commitIn.exec(revision ?? '') ?? [];
  return commit === undefined ? null : `${url}/${dialectOf(url).commit}/${commit}`;
}

/** The line of a file of a commit; null where there is no commit, or no file below the manifests' directory. */
export function linkPlace({ url, folder }: Forge, revision: string | null, place: Place): string | null {
  const [commit] = commitIn.exec(revision ?? '') ?? [];
  const parts = [...folder.split('/'), ...place.file.split('/')].filter((part) => part !== '' && part !== '.');
  if (commit === undefined || place.file.startsWith('/') || parts.includes('..')) return null;
  const { file, line } = dialectOf(url);
  return `${url}/${file}/${commit}/${parts.map(encodeURIComponent).join('/')}#${line}${place.line}`;
}

/** By the host's name; any other is taken for one that understands the links of GitHub, as most do. */
function dialectOf(url: string): { readonly commit: string; readonly file: string; readonly line: string } {
  const { hostname } = new URL(url);
  if (hostname.includes('gitlab')) return { commit: '-/commit', file: '-/blob', line: 'L' };
  if (hostname === 'bitbucket.org') return { commit: 'commits', file: 'src', line: 'lines-' };
  if (/codeberg|forgejo|gitea/.test(hostname)) return { commit: 'commit', file: 'src/commit', line: 'L' };
  return { commit: 'commit', file: 'blob', line: 'L' };
}
