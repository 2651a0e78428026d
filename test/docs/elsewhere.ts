/** A command line of the pages that `executed.test.ts` does not execute itself. */
export interface Elsewhere {
  readonly line: string;
  /** Why not there. */
  readonly reason: string;
  /** The file that executes the same, where one does, and what stands in it. */
  readonly test?: string;
  readonly evidence?: string;
}

const installs = 'installs into the node_modules that these tests run from; the script of CI begins with it';
const docker = 'needs a Docker daemon; the same stages are built and run by a script, with buildah on a local base';
const cluster = 'needs a cluster; what it would apply is built with kustomize and checked against the schemas';
const systemd = 'needs systemd as process 1; the unit itself is checked';
const long = 'takes minutes, and rebuilds dist/, which these tests run from; its script is linted';
const programs = 'is about a running server or a folder of its own: a test executes the whole block';
const started = 'is a step of the page, which a test follows from its first line to its last';

/** Lines of programs other than `reconcile`: each is executed by a named test, or says why it cannot be. */
export const elsewhere: readonly Elsewhere[] = [
  { line: 'npm ci && npm test', reason: installs, test: '.ci/run', evidence: 'stage install npm ci' },
  { line: 'npm test', reason: 'is what runs this test', test: '.ci/run', evidence: 'stage test npm test' },
  { line: 'npm ci', reason: installs, test: '.ci/run', evidence: 'stage install npm ci' },
  {
    line: 'npm ci && npm run build && npm install --global .',
    reason: installs,
    test: 'test/docs/programs.test.ts',
    evidence: "'--global', '--prefix'",
  },
  {
    line: 'npm ci && npm run demo',
    reason: installs,
    test: 'test/docs/programs.test.ts',
    evidence: 'scripts/demo.mjs',
  },
  { line: 'npm run demo', reason: long, test: 'test/docs/programs.test.ts', evidence: 'scripts/demo.mjs' },
  {
    line: 'sops encrypt --input-type dotenv --output-type dotenv secrets.env > secrets.enc.env',
    reason: 'needs sops, which is built from its source; `npm run test:tools` does',
    test: 'test/ship/tools.test.ts',
    evidence: "'encrypt',",
  },
  {
    line: "sops exec-env secrets.enc.env 'reconcile plan policy'",
    reason: 'needs sops, which is built from its source; `npm run test:tools` does',
    test: 'test/ship/tools.test.ts',
    evidence: "'exec-env', 'secrets.enc.env'",
  },
  ...['install -m 0600 /dev/null token.new', 'cat > token.new', 'mv token.new token'].map((line) => ({
    line,
    reason: 'reads a token from the terminal; a test gives it one',
    test: 'test/docs/outputs.test.ts',
    evidence: line,
  })),
  { line: 'npm run bench', reason: long },
  { line: 'git diff --exit-code access.csv', reason: 'is about a file that the reader has committed before' },
  {
    line: 'git fetch --unshallow',
    reason: 'is about a clone of the reader; a test shows the message that names it',
    test: 'test/cli/blame.test.ts',
    evidence: 'git fetch --unshallow',
  },
  { line: 'npm run soak', reason: long },
  { line: 'npm run chaos', reason: long },
  {
    line: 'npm run sbom',
    reason: 'belongs to the package, which has a test of its own',
    test: 'test/ship/package.test.ts',
    evidence: "['run', '--silent', 'sbom']",
  },
  {
    line: 'npm run schemas',
    reason: 'writes into the repository; that it would change nothing is what a test checks',
    test: 'test/cli/reference.test.ts',
    evidence: 'npm run schemas',
  },
  {
    line: 'npm install --global git+https://HOST/OWNER/firezone-reconcile.git#v0.2.0',
    reason: 'names your copy of the repository; a test installs from one on disk',
    test: 'test/ship/package.test.ts',
    evidence: 'git+file://',
  },
  {
    line: 'npx --yes git+https://HOST/OWNER/firezone-reconcile.git#v0.2.0 --version',
    reason: 'names your copy of the repository; a test runs it from one on disk',
    test: 'test/ship/package.test.ts',
    evidence: "['--yes', from",
  },
  {
    line: 'npm install --global ./firezone-reconcile-0.2.0.tgz',
    reason: installs,
    test: 'test/ship/package.test.ts',
    evidence: "npm(['install', tarball]",
  },
  {
    line: 'npm run release-tree',
    reason: long,
    test: 'test/ship/package.test.ts',
    evidence: 'scripts/release-tree.mjs',
  },
  {
    line: 'npm pack ./build/release',
    reason: installs,
    test: 'test/ship/package.test.ts',
    evidence: "npm(['pack'",
  },
  {
    line: 'npm ci && npm run executable',
    reason: installs,
    test: 'test/ship/executable.test.ts',
    evidence: 'scripts/executable.mjs',
  },
  {
    line: 'npm run executable -- linux-arm64=PATH',
    reason: 'needs the node binary of another system',
  },
  {
    line: "npx vitest run -t 'threat 19'",
    reason: 'runs some of these tests; what it selects is there',
    test: 'test/adapters/web/webhook-app.test.ts',
    evidence: 'threat 19',
  },
  { line: 'git init --quiet policy', reason: started, test: 'test/getting-started.test.ts', evidence: '/^git init/' },
  {
    line: 'git -C policy add --all',
    reason: started,
    test: 'test/getting-started.test.ts',
    evidence: '/^git -C policy commit/',
  },
  {
    line: 'git -C policy commit --quiet --message "The server as it is"',
    reason: started,
    test: 'test/getting-started.test.ts',
    evidence: '/^git -C policy commit/',
  },
  {
    line: 'export RECONCILE_BASE_URL=https://vpn.example.com',
    reason: 'names a server that is not there; the page is followed with another',
    test: 'test/getting-started.test.ts',
    evidence: 'RECONCILE_BASE_URL: simulator.url',
  },
  {
    line: 'export RECONCILE_TOKEN_FILE=$HOME/.firezone-token',
    reason: 'names a file of the reader; the page is followed with another',
    test: 'test/getting-started.test.ts',
    evidence: 'RECONCILE_TOKEN_FILE: path.join(folder',
  },
  {
    line: 'export RECONCILE_BASE_URL=http://127.0.0.1:8080 RECONCILE_TOKEN_FILE=token',
    reason: 'is the first line of the quick start, which a test runs as it stands',
    test: 'test/docs/quick-start.test.ts',
    evidence: "replaceAll(url, 'http://127.0.0.1:8080')",
  },
  {
    line: 'docker build -t firezone-reconcile .',
    reason: docker,
    test: 'test/ship/image.test.ts',
    evidence: 'image.sh',
  },
  {
    line: 'docker build -t firezone-reconcile:enforcement --target enforcement .',
    reason: docker,
    test: 'test/ship/image.test.ts',
    evidence: 'enforcement',
  },
  {
    line: 'scripts/image.sh build runtime',
    reason: 'takes minutes and root; a test runs it where RECONCILE_TEST_IMAGE=1 asks for it',
    test: 'test/ship/image.test.ts',
    evidence: 'RECONCILE_TEST_IMAGE',
  },
  {
    line: 'scripts/image.sh run runtime …',
    reason: 'takes minutes and root; a test runs it where RECONCILE_TEST_IMAGE=1 asks for it',
    test: 'test/ship/image.test.ts',
    evidence: 'RECONCILE_TEST_IMAGE',
  },
  { line: 'kubectl apply -f deploy/kubernetes/base/namespace.yaml', reason: cluster, ...kustomize('Namespace') },
  {
    line: 'kubectl -n firezone-reconcile create secret generic firezone-reconcile --from-file=token --from-file=git-token --from-file=listen-token',
    reason: cluster,
    ...kustomize('take each from a Secret that is made elsewhere'),
  },
  {
    line: 'npm run test:tools',
    reason: 'needs package registries; it runs these tests',
    test: 'test/ship/tools.test.ts',
    evidence: 'isAsked',
  },
  {
    line: 'npm run test:kubernetes',
    reason: 'builds an API server, which takes minutes; it runs these tests',
    test: 'test/kubernetes/manifests.test.ts',
    evidence: 'isAsked',
  },
  {
    line: 'kubectl -n firezone-reconcile delete configmap firezone-reconcile',
    reason: 'clears away what 0.1 left in a cluster',
  },
  { line: 'kubectl apply -k deploy/kubernetes/base', reason: cluster, ...kustomize("'kustomize'") },
  {
    line: 'cp -r dist /opt/reconcile && ln -s /opt/reconcile/reconcile.js /usr/local/bin/reconcile',
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "linesOf('docs/how-to/deploy.md')",
  },
  {
    line: 'install -m 0644 deploy/systemd/firezone-reconcile.service /etc/systemd/system/',
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "linesOf('docs/how-to/deploy.md')",
  },
  {
    line: 'install -d -m 0755 /etc/firezone-reconcile',
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "linesOf('docs/how-to/deploy.md')",
  },
  {
    line: 'install -m 0600 token /etc/firezone-reconcile/token',
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "linesOf('docs/how-to/deploy.md')",
  },
  {
    line: 'git check-attr -a FILE',
    reason: 'asks git alone; what it lists is refused, as a test of the first step in CI shows',
    test: 'test/ship/review.test.ts',
    evidence: 'p_1/.gitattributes',
  },
  {
    line: 'npm ci && npm run build',
    reason: installs,
    test: '.ci/run',
    evidence: 'stage install npm ci',
  },
  { line: 'systemctl restart', reason: systemd, test: 'test/ship/compose.test.ts', evidence: 'systemd-analyze' },
  {
    line: 'systemctl enable --now firezone-reconcile',
    reason: systemd,
    test: 'test/ship/compose.test.ts',
    evidence: 'systemd-analyze',
  },
  { line: 'systemctl reload', reason: systemd, test: 'test/ship/compose.test.ts', evidence: 'systemd-analyze' },
  ...[
    'curl "$url/admin/verdict?destination=10.0.0.1&protocol=tcp&port=443&user=alice"',
    'curl "$url/admin/filter"',
    `curl -d '{"match":{"method":"POST","path":"/v0/rules","times":1},"fault":{"kind":"reset-after"}}' "$url/admin/faults"`,
    `curl -d '{"match":{"probability":0.1},"fault":{"kind":"status","status":429,"headers":{"retry-after":"1"}}}' "$url/admin/faults"`,
    'curl "$url/admin/faults"',
    'curl -X DELETE "$url/admin/faults/1"',
  ].map((line) => ({
    line,
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "'docs/how-to/simulator.md'",
  })),
  ...['ip netns add firezone', 'nsenter --net=/run/netns/firezone nft list table inet firezone'].map((line) => ({
    line,
    reason: programs,
    test: 'test/docs/programs.test.ts',
    evidence: "'docs/how-to/enforcement.md'",
  })),
];

function kustomize(evidence: string) {
  return { test: 'test/ship/kubernetes.test.ts', evidence };
}

/** Flags on the pages that belong to other programs. */
export const foreignFlags: ReadonlySet<string> = new Set([
  '--exit-code', // git
  '--target', // docker
  '--build-arg', // docker
  '--init', // docker
  '--from-file', // kubectl
  '--now', // systemctl
  '--net', // nsenter
  '--global', // npm
  '--use-openssl-ca', // node
  '--all', // git
  '--message', // git
  '--quiet', // git
  '--all-files', // pre-commit
  '--unshallow', // git
  '--input-type', // sops
  '--output-type', // sops
  '--decrypt', // age
  '--identity', // age
  '--batch', // git
  '--end-of-options', // git
]);
