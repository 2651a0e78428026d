import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { alice, startWorld, token, type World } from '../cli/harness.ts';
import { ensureBuilt } from '../controller/support/sidecar.ts';
import { root } from './lines.ts';

/** What the pages presuppose: a policy in a Git repository, a server that differs from it, a token in a file. */
export interface DocsWorld extends World {
  /** Serves the same over TLS; `ca.pem` in the folder vouches for it. */
  readonly tlsUrl: () => Promise<string>;
  /** The environment that the README sets up. */
  readonly env: Readonly<Record<string, string>>;
  /** Further things to close with the world. */
  readonly onClose: (close: () => Promise<unknown> | unknown) => void;
}

/** The folder that every world is a copy of, and the certificate of its servers. */
export interface Template {
  readonly folder: string;
  readonly remove: () => void;
}

const office = /```yaml\n([\s\S]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1] ?? '';
const people = `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {alice: ${alice}}\n`;
const metadata = (destination: string): string =>
  `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: metadata}\nspec: {action: drop, destination: ${destination}}\n`;
/** The rule `metadata` ends, late. */
export function giveEnd(world: DocsWorld): void {
  world.write('policy/metadata.yaml', metadata('169.254.0.0/16, expires: 2099-01-01'));
}

const test = `apiVersion: firezone/v0
kind: PolicyTest
metadata: {name: office}
spec:
  cases:
    - {name: web, destination: 10.1.2.3, protocol: tcp, port: 443, expect: accept}
    - {name: closed, destination: 10.2.0.0/16, expect: drop}
`;

/** Whether a program is there; tests that need one that is not are skipped, and say so. */
export function has(program: string, argument = '--version'): boolean {
  return spawnSync(program, [argument]).error === undefined;
}

export const hasOpenssl = has('openssl', 'version');

/** A template for all tests of a file, with the command built; it is removed when no process of theirs runs any more. */
export function sharedTemplate(): () => Template {
  let template: Template | null = null;
  beforeAll(() => {
    ensureBuilt();
    template = makeTemplate();
  });
  afterAll(async () => {
    await settled();
    template?.remove();
  });
  return () => {
    if (template === null) throw new Error('the template is made before the tests, not before that');
    return template;
  };
}

/** Makes the template: files of the README and of the pages, committed as they were applied, then changed. */
function makeTemplate(): Template {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-docs-'));
  const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);
  const git = (...args: readonly string[]): void =>
    void execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], { cwd: folder });
  for (const path of ['policy', 'manifests', 'secrets']) execFileSync('mkdir', [join(folder, path)]);
  write('policy/office.yaml', office);
  write('policy/people.yaml', people);
  write('policy/tests.yaml', test);
  write('policy/metadata.yaml', metadata('169.254.169.254'));
  write('manifests/office.yaml', office);
  const overlay = 'overlay: production\nvalues: examples/environments/values-production.yaml\n';
  write('settings-production.yaml', overlay);
  cpSync(join(root, 'examples/environments'), join(folder, 'examples/environments'), { recursive: true });
  write('token', `${token}\n`);
  chmodSync(join(folder, 'token'), 0o600);
  write('secrets/token', `${token}\n`);
  git('init', '-q', '-b', 'main', '--template=');
  git('init', '-q', '-b', 'main', '--template=', 'fresh'); // a forge reads workflows at a repository's top alone
  git('add', 'policy');
  git('commit', '-q', '-m', 'As it was applied');
  rmSync(join(folder, '.git/logs'), { recursive: true });
  write('policy/metadata.yaml', metadata('169.254.0.0/16'));
  if (hasOpenssl) makeCertificate(folder);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** `ca.pem` and `key.pem`: a certificate for 127.0.0.1 that vouches for itself. */
function makeCertificate(folder: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'key.pem'];
  const names = ['-subj', '/CN=test', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', ...key, '-out', 'ca.pem', '-days', '1', ...names], {
    cwd: folder,
    stdio: 'ignore',
  });
}

/** What is live: `closed` as the policy wants it, `metadata` narrower, and a rule that nobody asks for. */
export const drifted = [
  { action: 'drop', destination: '10.0.0.0/8' },
  { action: 'drop', destination: '169.254.169.254' },
  { action: 'accept', destination: '203.0.113.7' },
] as const;

/** What is live when only something is to be created. */
export const untouched = [{ action: 'drop', destination: '10.0.0.0/8' }] as const;

/** Destinations that the policy asks for, sorted. */
export const wanted = ['10.0.0.0/8', '10.1.0.0/16', '169.254.0.0/16'];

/** A fresh copy of the template beside a fresh server. */
async function startDocsWorld(template: Template, live: Parameters<World['simulator']['seed']>[0]) {
  const world = await startWorld();
  cpSync(template.folder, world.folder, { recursive: true });
  world.simulator.seed(live);
  const closing: (() => Promise<unknown> | unknown)[] = [];
  const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: '', RECONCILE_TOKEN_FILE: 'token' };
  const docs: DocsWorld = {
    ...world,
    tlsUrl: () => serveTls(template, world.simulator.url, (close) => closing.push(close)),
    env,
    onClose: (close) => void closing.push(close),
    cli: (args, options = {}) => world.cli(args, { ...options, env: { ...env, ...options.env } }),
    async close() {
      for (const close of closing) await close();
      await world.close();
    },
  };
  return docs;
}

/** Runs with a world; it is closed meanwhile, and `settled` waits for all of them. */
export async function inWorld(
  template: Template,
  live: Parameters<World['simulator']['seed']>[0],
  use: (world: DocsWorld) => Promise<unknown>,
): Promise<void> {
  const world = await startDocsWorld(template, live);
  try {
    await use(world);
  } finally {
    closing.push(world.close());
  }
}

const closing: Promise<void>[] = [];
const settled = (): Promise<unknown> => Promise.all(closing);

/** Destinations of the live rules, sorted. */
export function liveDestinations({ simulator }: World): readonly string[] {
  return simulator
    .rules()
    .map(({ destination }) => destination)
    .sort();
}

/** Serves over TLS what `target` serves without; gives the URL. */
export async function serveTls(
  { folder }: Template,
  target: string,
  onClose: (close: () => Promise<unknown>) => void,
): Promise<string> {
  const [key, cert] = ['key.pem', 'ca.pem'].map((name) => readFileSync(join(folder, name)));
  const server: Server = createServer({ ...(key && cert ? { key, cert } : {}) }, (incoming, outgoing) => {
    const { method, url = '/', headers } = incoming;
    const onward = plainRequest(new URL(url, target), { ...(method ? { method } : {}), headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onClose(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
