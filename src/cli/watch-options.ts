/** The options of `reconcile --watch`; part of the table in options.ts, where their kinds are explained. */
export const watchOptions = {
  once: { kind: 'switch', help: 'end after the first pass' },

  gitUrl: { kind: 'text', value: 'URL', help: 'read manifests from Git: https://host/path or ssh://user@host/path' },
  gitRef: { kind: 'text', value: 'REF', default: 'HEAD', help: 'branch, tag or full commit id' },
  gitPath: { kind: 'text', value: 'PATH', default: '.', help: 'directory inside the repository' },
  gitTokenFile: { kind: 'path', help: 'file with the token for https' },
  gitUsername: { kind: 'text', value: 'NAME', default: 'x-access-token', help: 'user name beside that token' },
  gitSshKey: { kind: 'path', help: 'private key for ssh' },
  gitKnownHosts: { kind: 'path', help: 'known_hosts file; required for ssh' },
  gitCaFile: { kind: 'path', help: 'PEM file with the authorities to trust for https' },
  gitAllow: { kind: 'list', value: 'PROTOCOL', choices: ['http', 'file'], help: 'allow http or file, not encrypted' },
  gitTimeout: { kind: 'duration', default: 60_000, help: 'deadline of one call to the Git remote' },
  gitVerifyOpenpgp: { kind: 'path', help: 'OpenPGP public keys: commits must be signed by one' },
  gitVerifySsh: { kind: 'path', help: 'SSH allowed signers: commits must be signed by one' },
  allowRewind: { kind: 'switch', help: 'accept a revision that does not descend from the applied one' },

  interval: { kind: 'duration', default: 60_000, help: 'time between passes while nothing happens' },
  rescan: { kind: 'duration', default: 10_000, help: 'how often the directory is read again' },
  quiet: { kind: 'duration', default: 500, help: 'how long files must not change before they count' },
  deleteQuiet: { kind: 'duration', default: 5000, help: 'the same, when rules would be deleted' },
  onDrift: { kind: 'choice', choices: ['correct', 'report'], default: 'correct', help: 'what to do about drift' },

  listen: { kind: 'text', value: 'HOST:PORT', help: 'serve the page, /healthz, /readyz, /metrics and /api' },
  listenHost: { kind: 'list', value: 'NAME', help: 'further Host names it is addressed by' },
  listenTokenFile: { kind: 'path', help: 'token for the page, /metrics and /api; required beyond loopback' },
  listenTlsCert: { kind: 'path', help: 'certificate chain (PEM) for --listen' },
  listenTlsKey: { kind: 'path', help: 'its private key (PEM)' },
  webhookListen: { kind: 'text', value: 'HOST:PORT', help: 'serve POST /webhook, which starts a pass' },
  webhookSecretFile: { kind: 'path', help: 'secret that webhooks are signed with' },
  lease: { kind: 'text', value: 'WHERE', default: 'none', help: 'one writer: file:PATH, kubernetes:[NAMESPACE/]NAME' },
  leaseDuration: { kind: 'duration', default: 60_000, help: 'how long until a silent writer is replaced' },
} as const;

/** Of every command that works on a fleet. */
export const fleetOptions = {
  fleet: { kind: 'path', help: 'work on every target of this file' },
  target: { kind: 'list', value: 'NAME', help: 'only this target of the fleet' },
  label: { kind: 'list', value: 'KEY=VALUE', help: 'only targets of the fleet with this label' },
} as const;
