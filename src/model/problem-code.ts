import type { AddressFault } from './address.ts';
import type { PortFault } from './port-range.ts';

/** Every code of the lint with its severity; docs/reference/lint.md has a section for each. */
export const lintSeverities = {
  'never-decides': 'warning',
  'drop-under-accept': 'warning',
  'changes-nothing': 'warning',
  'nothing-dropped': 'warning',
  'ipv6-left-open': 'warning',
  'ipv4-left-open': 'warning',
  'ipv4-mapped': 'warning',
  'icmp-left-open': 'note',
  'transport-left-open': 'note',
  'user-exempt': 'note',
  'unlisted-user': 'note',
  'unknown-user-id': 'error',
  'no-sign-in': 'warning',
  'unrouted-destination': 'warning',
  'dns-server-closed': 'warning',
  'dns-server-unrouted': 'warning',
} as const;
export type LintCode = keyof typeof lintSeverities;

/**
 * How the kernel can differ from the live rules, the structure first: chains and their rules, without which elements decide nothing;
 * `missing`: a live rule that the kernel does not hold, or not all of it; `stale`: what a rule changed in place left behind;
 * `extra`: an element that no live rule explains; `unknown`: something this program has no meaning for.
 */
export const findingKinds = [
  'table-missing',
  'user-chain-missing',
  'jump-missing',
  'verdict-missing',
  'missing',
  'stale',
  'extra',
  'unknown',
] as const;
export type FindingKind = (typeof findingKinds)[number];

/** The code of every problem: closed, since people search for them. `api-` stands before why the server could not be read. */
export type ProblemCode =
  | `address-${AddressFault}`
  | `port-${PortFault}`
  | `api-${string}`
  | `kernel-${FindingKind | 'unreadable'}`
  | LintCode
  | 'answer-differs'
  | 'approves-another'
  | 'bad-setting'
  | 'bad-values'
  | 'base'
  | 'base-invalid'
  | 'blank-field'
  | 'boot-hazard'
  | 'certificate-expires'
  | 'changed-since'
  | 'clock'
  | 'clock-differs'
  | 'collision'
  | 'commit-skipped'
  | 'conflicting-fields'
  | 'deadline'
  | 'discovery'
  | 'drift'
  | 'drifted-field'
  | 'duplicate-key'
  | 'duplicate-member'
  | 'duplicate-name'
  | 'duplicate-provider'
  | 'duplicate-rule'
  | 'email-not-supported'
  | 'empty-base'
  | 'empty-field'
  | 'empty-ports'
  | 'expands-to-nothing'
  | 'field-pinned'
  | 'forbidden-key'
  | 'git-aborted'
  | 'git-attributes'
  | 'git-auth'
  | 'git-broken'
  | 'git-disk-full'
  | 'git-failed'
  | 'git-host-key'
  | 'git-lfs'
  | 'git-not-started'
  | 'git-path-missing'
  | 'git-proxy-auth'
  | 'git-redirect'
  | 'git-ref-ambiguous'
  | 'git-ref-missing'
  | 'git-repository-missing'
  | 'git-revision'
  | 'git-signature'
  | 'git-signature-keys'
  | 'git-state'
  | 'git-timeout'
  | 'git-tls'
  | 'git-unreachable'
  | 'host-bits'
  | 'ignore-without-reason'
  | 'internal-error'
  | 'invalid-endpoint'
  | 'invalid-resolver'
  | 'invalid-response-type'
  | 'invalid-saml-metadata'
  | 'invalid-scope'
  | 'invalid-url'
  | 'invalid-value'
  | 'invalid-values'
  | 'invalid-yaml'
  | 'journal'
  | 'json-not-read'
  | 'listen'
  | 'literal-secret'
  | 'live-duplicates'
  | 'live-unreadable'
  | 'locks-out'
  | 'missing-field'
  | 'modified-in-place'
  | 'moved-name'
  | 'nested-destination'
  | 'no-base-url'
  | 'no-manifests'
  | 'no-path'
  | 'no-rules'
  | 'note-missing'
  | 'expired'
  | 'expires-first'
  | 'expires-soon'
  | 'expires-too-late'
  | 'expiry-opens'
  | 'not-a-time'
  | 'too-many-cases'
  | 'too-many-times'
  | 'too-much-traffic'
  | 'no-source'
  | 'no-terminal'
  | 'no-token'
  | 'not-a-manifest'
  | 'not-a-regular-file'
  | 'not-exported'
  | 'not-formatted'
  | 'not-gone-back'
  | 'not-utf8'
  | 'not-verified'
  | 'nothing-to-remove'
  | 'open-files'
  | 'other-manifests'
  | 'out-of-bounds'
  | 'output'
  | 'outside-root'
  | 'outside-scope'
  | 'outside-window'
  | 'overlapping-ports'
  | 'overlay-cycle'
  | 'overlay-not-chosen'
  | 'pinned-unknown'
  | 'poisoned-configuration'
  | 'policy-test-failed'
  | 'policy-test-fails-later'
  | 'port-range-missing'
  | 'port-rules-unknown'
  | 'port-type-missing'
  | 'port-without-protocol'
  | 'ports-dropped'
  | 'reader-died'
  | 'replan-refused'
  | 'changed-meanwhile'
  | 'reserved-id'
  | 'reserved-name'
  | 'saved-plan'
  | 'same-values'
  | 'secret-not-allowed'
  | 'server-restarted'
  | 'snapshot'
  | 'source-error'
  | 'source-too-large'
  | 'source-unstable'
  | 'stale-plan'
  | 'suspended'
  | 'state'
  | 'step-failed'
  | 'step-forbidden'
  | 'step-rejected'
  | 'step-unknown'
  | 'stopped'
  | 'stored-value-unfit'
  | 'tests-not-run'
  | 'token-expired'
  | 'token-expires'
  | 'too-deep'
  | 'too-expensive'
  | 'too-many-documents'
  | 'too-many-problems'
  | 'too-many-rules'
  | 'unauthorized'
  | 'undefined-value'
  | 'undone-by-other'
  | 'undone-not-in-git'
  | 'unknown-field'
  | 'unknown-group'
  | 'unknown-kind'
  | 'unknown-live-fields'
  | 'unknown-live-rules'
  | 'unknown-names'
  | 'unknown-network'
  | 'unknown-overlay'
  | 'unknown-rule'
  | 'unknown-secret'
  | 'unknown-tag'
  | 'unknown-user'
  | 'unknown-version'
  | 'unreadable-file'
  | 'unbound-secret'
  | 'unresolved-email'
  | 'unsafe-file-name'
  | 'unsafe-integer'
  | 'unsent-field'
  | 'usage'
  | 'user-twice'
  | 'waits-for-secret'
  | 'went-back'
  | 'window-overridden'
  | 'would-overwrite'
  | 'wrong-type'
  | 'yaml-version';
