/** The options of `reconcile --watch`; part of the table in options.ts, where their kinds are explained. */
export const watchOptions = {
  watch: { kind: 'switch', help: 'stay, watch the manifests, and keep the server in line with them', only: 'flag' },
  once: { kind: 'switch', help: 'with --watch: end after the first pass', only: 'flag' },

  gitUrl: { kind: 'text', value: 'URL', help: 'read manifests from Git: https://host/path or ssh://user@host/path' },
  gitRef: { kind: 'text', value: 'REF', default: 'HEAD', help: 'branch, tag or full commit id' },
  gitPath: { kind: 'text', value: 'PATH', default: '.', help: 'directory inside the repository' },
  gitTokenFile: { kind: 'path', value: 'FILE', help: 'file with the token for https; read for each request' },
  gitUsername: { kind: 'text', value: 'NAME', default: 'x-access-token', help: 'user name beside that token' },
  gitSshKey: { kind: 'path', value: 'FILE', help: 'private key for ssh' },
  gitKnownHosts: { kind: 'path', value: 'FILE', help: 'known_hosts file; required for ssh' },
  gitCaFile: { kind: 'path', value: 'FILE', help: 'PEM file with the authorities to trust for https' },
  gitAllow: { kind: 'list', value: 'PROTOCOL', help: 'allow http or file, which nothing protects' },
  gitTimeout: { kind: 'duration', value: 'TIME', default: 60_000, help: 'deadline of one call to the Git remote' },
  gitVerifyOpenpgp: { kind: 'path', value: 'FILE', help: 'OpenPGP public keys: commits must be signed by one' },
  gitVerifySsh: { kind: 'path', value: 'FILE', help: 'SSH allowed signers: commits must be signed by one' },
  allowRewind: { kind: 'switch', help: 'accept a revision that does not descend from the applied one' },

  interval: { kind: 'duration', value: 'TIME', default: 60_000, help: 'between passes while nothing happens' },
  rescan: { kind: 'duration', value: 'TIME', default: 10_000, help: 'between looks at the directory, events or not' },
  quiet: { kind: 'duration', value: 'TIME', default: 500, help: 'how long files must not change before they count' },
  deleteQuiet: { kind: 'duration', value: 'TIME', default: 5000, help: 'the same, when rules would be deleted' },
  onDrift: {
    kind: 'choice',
    choices: ['correct', 'report'],
    default: 'correct',
    help: 'what to do when others change the server',
  },
  suspend: { kind: 'switch', help: 'observe and report, and write nothing' },
  stateDir: {
    kind: 'path',
    value: 'DIR',
    help: 'what survives a restart: clone, record, journal (default: temporary)',
  },

  listen: { kind: 'text', value: 'HOST:PORT', help: 'serve /healthz, /readyz, /metrics and /status' },
  listenHost: { kind: 'list', value: 'NAME', help: 'further Host names under which it may be addressed' },
  listenTokenFile: { kind: 'path', value: 'FILE', help: 'token for /metrics and /status; required beyond loopback' },
  webhookListen: { kind: 'text', value: 'HOST:PORT', help: 'serve POST /webhook, which wakes the loop' },
  webhookSecretFile: { kind: 'path', value: 'FILE', help: 'secret that webhooks are signed with' },
  lease: {
    kind: 'text',
    value: 'WHERE',
    default: 'none',
    help: 'one writer of several replicas: file:PATH, or kubernetes:[NAMESPACE/]NAME',
  },
  leaseDuration: { kind: 'duration', value: 'TIME', default: 60_000, help: 'after which a silent writer is replaced' },
} as const;

/** Flags of the watching command alone. */
export const watchOptionNames = Object.keys(watchOptions) as (keyof typeof watchOptions)[];
