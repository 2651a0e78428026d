import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

const env = {
  PATH: process.env['PATH'] ?? '/usr/bin:/bin',
  HOME: '/nonexistent',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@example.org',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@example.org',
};

/** A bare repository as a remote, and a work tree that pushes to it. */
export interface Upstream {
  readonly root: string;
  readonly bare: string;
  readonly work: string;
  /** Runs git in the work tree. */
  git(...args: string[]): string;
  gitWith(extra: Record<string, string>, ...args: string[]): string;
  /** Writes files (null removes one; {link} makes a link), commits, pushes; gives the commit id. */
  commit(files: Record<string, string | null | { readonly link: string }>, message?: string): string;
  remove(): void;
}

/** Makes an upstream with an empty bare repository in a temporary directory. */
export function makeUpstream(options: { readonly filter?: boolean; readonly anyId?: boolean } = {}): Upstream {
  const root = mkdtempSync(path.join(tmpdir(), 'upstream-'));
  const bare = path.join(root, 'repo.git');
  const work = path.join(root, 'work');
  const gitWith = (extra: Record<string, string>, ...args: string[]): string =>
    execFileSync('git', ['-C', work, ...args], {
      env: { ...env, ...extra },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    }).trim();
  execFileSync('git', ['init', '-q', '--bare', '-b', 'main', bare], { env });
  execFileSync('git', ['-C', bare, 'config', 'receive.denyDeleteCurrent', 'ignore'], { env });
  execFileSync('git', ['-C', bare, 'config', 'uploadpack.allowFilter', String(options.filter ?? true)], { env });
  execFileSync('git', ['-C', bare, 'config', 'uploadpack.allowAnySHA1InWant', String(options.anyId ?? true)], { env });
  execFileSync('git', ['init', '-q', '-b', 'main', work], { env });
  gitWith({}, 'remote', 'add', 'origin', bare);
  return {
    root,
    bare,
    work,
    git: (...args) => gitWith({}, ...args),
    gitWith,
    commit(files, message = 'change') {
      for (const [name, content] of Object.entries(files)) {
        const file = path.join(work, name);
        rmSync(file, { force: true });
        if (content === null) continue;
        mkdirSync(path.dirname(file), { recursive: true });
        if (typeof content === 'string') writeFileSync(file, content);
        else symlinkSync(content.link, file);
      }
      gitWith({}, 'add', '-A');
      gitWith({}, 'commit', '-q', '--allow-empty', '-m', message);
      gitWith({}, 'push', '-q', '--force', 'origin', 'HEAD:main');
      return gitWith({}, 'rev-parse', 'HEAD');
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** How the host answers: as a Git server, never, or very slowly. */
export type HostMode = 'serve' | 'black-hole' | 'trickle' | 'redirect';

export interface GitHost {
  readonly url: string;
  mode: HostMode;
  /** Basic password that is required; null: open. */
  password: string | null;
  /** Method and path of every request. */
  readonly requests: string[];
  /** The Authorization headers that were sent. */
  readonly credentials: string[];
  close(): Promise<void>;
}

/** Serves an upstream over HTTP with git http-backend. */
export async function serveGit(upstream: Upstream): Promise<GitHost> {
  const server = createServer((request, response) => {
    host.requests.push(`${request.method} ${request.url}`);
    if (request.headers.authorization !== undefined) host.credentials.push(request.headers.authorization);
    if (host.mode === 'black-hole') return;
    if (host.mode === 'redirect') {
      response.writeHead(302, { location: `${host.url}/elsewhere${request.url}` }).end();
      return;
    }
    if (host.mode === 'trickle') {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' });
      const timer = setInterval(() => response.write('0'), 50);
      response.on('close', () => clearInterval(timer));
      return;
    }
    const given = Buffer.from((request.headers.authorization ?? '').replace(/^Basic /, ''), 'base64').toString();
    if (host.password !== null && given.split(':')[1] !== host.password) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    backend(upstream, request, response);
  });
  const host: GitHost = {
    url: '',
    mode: 'serve',
    password: null,
    requests: [],
    credentials: [],
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const port = (server.address() as AddressInfo).port;
  return Object.assign(host, { url: `http://127.0.0.1:${port}` });
}

function backend(upstream: Upstream, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://localhost');
  const child = spawn('git', ['http-backend'], {
    env: {
      ...env,
      GIT_PROJECT_ROOT: upstream.root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      REMOTE_ADDR: '127.0.0.1',
      ...(request.headers['content-encoding'] === undefined
        ? {}
        : { HTTP_CONTENT_ENCODING: request.headers['content-encoding'] }),
      ...(request.headers['git-protocol'] === undefined
        ? {}
        : { GIT_PROTOCOL: String(request.headers['git-protocol']) }),
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
    },
  });
  request.pipe(child.stdin);
  child.stdin.on('error', () => undefined);
  let head = Buffer.alloc(0);
  let started = false;
  child.stdout.on('data', (chunk: Buffer) => {
    if (started) return void response.write(chunk);
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    started = true;
    let status = 200;
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(': ');
      if (name === 'Status') status = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.writeHead(status);
    response.write(head.subarray(end + 4));
  });
  child.on('close', () => response.end());
  response.on('close', () => child.kill());
}
