import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A call that the forge got. */
export interface ForgeCall {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

/** `user` is GitHub's word, `author` is GitLab's. */
interface Comment {
  readonly id: number;
  body: string;
  readonly user?: { readonly id: number; readonly login: string; readonly type: string };
  readonly author?: { readonly id: number; readonly login: string; readonly type: string };
}

/** As much of GitHub's and GitLab's API as comments need: list, create, change. */
export interface FakeForge {
  readonly url: string;
  readonly calls: ForgeCall[];
  readonly comments: Comment[];
  /** Who `GET /user` says that the token belongs to; null: the token of a job, which may not ask. */
  me: { readonly id: number; readonly login: string; readonly type: string } | null;
  /** What it says of the request itself. */
  request: object;
  /** Answer writes with 403, as a fork's job gets it. */
  readOnly: boolean;
  /** Characters of a comment at most; a longer one is answered with 422, as GitHub does. */
  longest: number;
  close(): Promise<void>;
}

export async function startForge(): Promise<FakeForge> {
  const calls: ForgeCall[] = [];
  const comments: Comment[] = [{ id: 1, body: 'Looks good to me.' }];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const [method = '', path = ''] = [request.method, request.url];
      const body = Buffer.concat(chunks).toString();
      calls.push({ method, path, body });
      const [status, answer] = answerTo(forge, method, path, body);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const forge: FakeForge = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    comments,
    me: null,
    request: {},
    readOnly: false,
    longest: 65_536,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return forge;
}

function answerTo(forge: FakeForge, method: string, path: string, body: string): readonly [number, unknown] {
  if (path === '/user') return forge.me === null ? [403, {}] : [200, forge.me];
  if (/\/(pulls|merge_requests)\/\d+$/.test(path)) return [200, forge.request];
  if (method === 'GET') {
    const query = new URL(path, forge.url).searchParams;
    const [size, page] = [Number(query.get('per_page') ?? 30), Number(query.get('page') ?? 1)];
    return [200, forge.comments.slice((page - 1) * size, page * size)];
  }
  if (forge.readOnly) return [403, { message: 'Resource not accessible by integration' }];
  const text = (JSON.parse(body) as { body: string }).body;
  if (text.length > forge.longest) return [422, { message: 'body is too long' }];
  if (method === 'POST') {
    forge.comments.push({ id: forge.comments.length + 1, body: text });
    return [201, {}];
  }
  const comment = forge.comments.find(({ id }) => path.endsWith(`/${id}`));
  if (comment === undefined) return [404, {}];
  comment.body = text;
  return [200, {}];
}
