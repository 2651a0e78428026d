/** The options of `reconcile --watch`; part of the table in options.ts, where their kinds are explained. */
export const watchOptions = {
  once: { kind: 'switch', help: 'end after the first pass', only: 'flag' },

  gitUrl: {
    kind: 'text',
    value: 'URL',
    help: 'read manifests from Git: https://host/path or ssh://user@host/path',
    restart: true,
  },
  gitRef: { kind: 'text', value: 'REF', default: 'HEAD', help: 'branch, tag or full commit id', restart: true },
  gitPath: { kind: 'text', value: 'PATH', default: '.', help: 'directory inside the repository', restart: true },
  gitTokenFile: {
    kind: 'path',
    value: 'FILE',
    help: 'file with the token for https; read for each request',
    restart: true,
  },
  gitUsername: {
    kind: 'text',
    value: 'NAME',
    default: 'x-access-token',
    help: 'user name beside that token',
    restart: true,
  },
  gitSshKey: { kind: 'path', value: 'FILE', help: 'private key for ssh', restart: true },
  gitKnownHosts: { kind: 'path', value: 'FILE', help: 'known_hosts file; required for ssh', restart: true },
  gitCaFile: { kind: 'path', value: 'FILE', help: 'PEM file with the authorities to trust for https', restart: true },
  gitAllow: { kind: 'list', value: 'PROTOCOL', help: 'allow http or file, which are not encrypted', restart: true },
  gitTimeout: {
    kind: 'duration',
    value: 'TIME',
    default: 60_000,
    help: 'deadline of one call to the Git remote',
    restart: true,
  },
  gitVerifyOpenpgp: {
    kind: 'path',
    value: 'FILE',
    help: 'OpenPGP public keys: commits must be signed by one',
    restart: true,
  },
  gitVerifySsh: {
    kind: 'path',
    value: 'FILE',
    help: 'SSH allowed signers: commits must be signed by one',
    restart: true,
  },
  allowRewind: { kind: 'switch', help: 'accept a revision that does not descend from the applied one' },

  interval: { kind: 'duration', value: 'TIME', default: 60_000, help: 'time between passes while nothing happens' },
  rescan: {
    kind: 'duration',
    value: 'TIME',
    default: 10_000,
    help: 'how often the directory is read again, events or not',
    restart: true,
  },
  quiet: { kind: 'duration', value: 'TIME', default: 500, help: 'how long files must not change before they count' },
  deleteQuiet: { kind: 'duration', value: 'TIME', default: 5000, help: 'the same, when rules would be deleted' },
  onDrift: {
    kind: 'choice',
    choices: ['correct', 'report'],
    default: 'correct',
    help: 'what to do when others change the server',
  },

  listen: {
    kind: 'text',
    value: 'HOST:PORT',
    help: 'serve the page, /healthz, /readyz, /metrics and /api',
    restart: true,
  },
  listenHost: {
    kind: 'list',
    value: 'NAME',
    help: 'further Host names under which it may be addressed',
    restart: true,
  },
  listenTokenFile: {
    kind: 'path',
    value: 'FILE',
    help: 'token to sign in to the page, and for /metrics and /api; required beyond loopback',
    restart: true,
  },
  listenTlsCert: {
    kind: 'path',
    value: 'FILE',
    help: 'certificate chain (PEM) for --listen; a new file is taken at once',
    restart: true,
  },
  listenTlsKey: { kind: 'path', value: 'FILE', help: 'its private key (PEM)', restart: true },
  webhookListen: { kind: 'text', value: 'HOST:PORT', help: 'serve POST /webhook, which starts a pass', restart: true },
  webhookSecretFile: { kind: 'path', value: 'FILE', help: 'secret that webhooks are signed with', restart: true },
  lease: {
    kind: 'text',
    value: 'WHERE',
    default: 'none',
    help: 'one writer of several replicas: file:PATH, or kubernetes:[NAMESPACE/]NAME',
    restart: true,
  },
  leaseDuration: {
    kind: 'duration',
    value: 'TIME',
    default: 60_000,
    help: 'how long until a silent writer is replaced',
    restart: true,
  },
} as const;

/** Of every command that works on a fleet. */
export const fleetOptions = {
  fleet: {
    kind: 'path',
    value: 'FILE',
    help: 'work on every target of this file, instead of one server',
    only: 'flag',
  },
  target: { kind: 'list', value: 'NAME', help: 'only this target of the fleet', only: 'flag' },
  label: { kind: 'list', value: 'KEY=VALUE', help: 'only targets of the fleet with this label', only: 'flag' },
} as const;
