import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Agent, request } from 'undici';
import { until } from '../controller/support/sidecar.ts';

const script = path.resolve(import.meta.dirname, '../../scripts/kube-apiserver.sh');

/** Whether these tests were asked for: `npm run test:kubernetes`. They build a real API server, which takes minutes once. */
export const isAsked = process.env['RECONCILE_TEST_KUBERNETES'] === '1';

/** An answer of the API server. */
interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** A real API server with RBAC over a real etcd. There are no nodes, so that no pod runs. */
export interface Cluster {
  readonly folder: string;
  readonly server: string;
  /** The authority that signed the server's certificate; `rotate` puts another one into the same file. */
  readonly caFile: string;
  /** As the administrator, or with another token. */
  call(method: string, path: string, body?: unknown, token?: string): Promise<Answer>;
  /** `kubectl ARGS` as the administrator; throws what it wrote to stderr when it fails. */
  kubectl(args: readonly string[], input?: string): string;
  /** A token of a service account, by TokenRequest. */
  token(namespace: string, account: string, seconds?: number): Promise<string>;
  /** Ends the API server at once; the data stay. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it again at the same address. */
  restart(): Promise<void>;
  /** A new authority and a new certificate signed by it, and a restart. */
  rotate(): Promise<void>;
  close(): Promise<void>;
}

/** Starts etcd and the API server; resolves when it is ready. */
export async function startCluster(): Promise<Cluster> {
  const binary = path.join(execFileSync(script, { encoding: 'utf8' }).trim(), 'kube-apiserver');
  const folder = mkdtempSync(path.join(tmpdir(), 'cluster-'));
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const adminToken = randomBytes(16).toString('hex');
  const file = (name: string): string => path.join(folder, name);
  writeFileSync(file('tokens.csv'), `${adminToken},admin,admin,system:masters\n`);
  openssl(['genrsa', '-out', file('accounts.key'), '2048']);
  issueCertificate(folder);
  const etcd = start(folder, 'etcd', 'etcd', etcdArguments(file('etcd-data'), etcdPort, peerPort));
  const startServer = (): ChildProcess =>
    start(folder, 'kube-apiserver', binary, serverArguments(folder, etcdPort, port));
  let child = startServer();
  const server = `https://127.0.0.1:${port}`;
  const call = (method: string, where: string, body?: unknown, token = adminToken): Promise<Answer> =>
    callServer(file('ca.pem'), `${server}${where}`, method, body, token);
  const isReady = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`kube-apiserver ended:\n${tail(file('kube-apiserver.log'))}`);
    return (await call('GET', '/readyz').catch(() => null))?.status === 200;
  };
  writeFileSync(file('kubeconfig'), JSON.stringify(kubeconfig(server, file('ca.pem'), adminToken)));
  await until(isReady, 120_000);
  const cluster: Cluster = {
    folder,
    server,
    caFile: file('ca.pem'),
    call,
    kubectl(args, input) {
      const result = spawnSync('kubectl', ['--kubeconfig', file('kubeconfig'), ...args], {
        encoding: 'utf8',
        input: input ?? '',
      });
      if (result.status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${result.error?.message ?? result.stderr}`);
      return `${result.stdout}${result.stderr}`;
    },
    async token(namespace, account, seconds = 3600) {
      const body = {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: seconds },
      };
      const answer = await call('POST', `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`, body);
      if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
      return (answer.body['status'] as { readonly token: string }).token;
    },
    kill: (signal = 'SIGKILL') => end(child, signal),
    async restart() {
      await end(child, 'SIGKILL');
      child = startServer();
      await until(isReady, 120_000);
    },
    async rotate() {
      issueCertificate(folder);
      await cluster.restart();
    },
    async close() {
      await end(child, 'SIGKILL');
      await end(etcd, 'SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return cluster;
}

function etcdArguments(data: string, port: number, peerPort: number): readonly string[] {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  return [
    ...[`--data-dir=${data}`, `--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
    ...[`--listen-peer-urls=${peer}`, `--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`],
  ];
}

function serverArguments(folder: string, etcdPort: number, port: number): readonly string[] {
  const file = (name: string): string => path.join(folder, name);
  return [
    ...[`--etcd-servers=http://127.0.0.1:${etcdPort}`, '--bind-address=127.0.0.1', `--secure-port=${port}`],
    ...[`--tls-cert-file=${file('server.pem')}`, `--tls-private-key-file=${file('server.key')}`],
    ...['--authorization-mode=RBAC', `--token-auth-file=${file('tokens.csv')}`],
    ...[
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${file('accounts.key')}`,
    ],
    ...[`--service-account-signing-key-file=${file('accounts.key')}`, '--service-cluster-ip-range=10.0.0.0/24'],
  ];
}

/** Writes `ca.pem`, and `server.pem` and `server.key` signed by it, for this machine's loopback address. */
function issueCertificate(folder: string): void {
  const file = (name: string): string => path.join(folder, name);
  const subject = `/CN=test authority ${randomBytes(4).toString('hex')}`;
  const newKey = ['-newkey', 'rsa:2048', '-nodes'];
  openssl([
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    file('ca.key'),
    '-out',
    file('ca.new'),
    '-days',
    '2',
    '-subj',
    subject,
  ]);
  openssl(['req', ...newKey, '-keyout', file('server.key'), '-out', file('server.csr'), '-subj', '/CN=kube-apiserver']);
  writeFileSync(file('names'), 'subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc\n');
  openssl([
    ...['x509', '-req', '-in', file('server.csr'), '-CA', file('ca.new'), '-CAkey', file('ca.key'), '-CAcreateserial'],
    ...['-days', '2', '-extfile', file('names'), '-out', file('server.pem')],
  ]);
  writeFileSync(file('ca.pem'), readFileSync(file('ca.new')));
}

function openssl(args: readonly string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function start(folder: string, name: string, command: string, args: readonly string[]): ChildProcess {
  const log = path.join(folder, `${name}.log`);
  mkdirSync(folder, { recursive: true });
  return spawn('/bin/sh', ['-c', 'log=$1; shift; exec "$@" >>"$log" 2>&1', 'sh', log, command, ...args], {
    stdio: 'ignore',
  });
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill(signal);
  });
}

async function callServer(caFile: string, url: string, method: string, body: unknown, token: string): Promise<Answer> {
  const agent = new Agent({ connect: { ca: readFileSync(caFile) } });
  try {
    const response = await request(url, {
      method,
      dispatcher: agent,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.body.text();
    return { status: response.statusCode, body: text.startsWith('{') ? JSON.parse(text) : { text } };
  } finally {
    await agent.close();
  }
}

function kubeconfig(server: string, caFile: string, token: string): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority': caFile } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    'current-context': 'test',
  };
}

/** A port that was free a moment ago. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

function tail(file: string): string {
  return readFileSync(file, 'utf8').slice(-3000);
}
