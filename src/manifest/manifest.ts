import type { Network } from '../model/address.ts';
import type { ConfigurationFields, ConfigurationPlaces } from '../model/configuration.ts';
import type { PortRange, PortType } from '../model/port-range.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { Action, RuleNotes } from '../model/rule.ts';
import type { PolicyCase } from '../model/state.ts';

/** Every kind of manifest, in the order of every output. */
export const kinds = [
  'Overlay',
  'Configuration',
  'Users',
  'Group',
  'Network',
  'Rule',
  'RuleSet',
  'PolicyTest',
] as const;

export type Kind = (typeof kinds)[number];

export const apiVersion = 'firezone/v0';

/** Whether a file of a source, by its path from the root, is a manifest, and not something that manifests refer to. */
export function isManifestPath(path: string): boolean {
  return /\.ya?ml$/i.test(path) && !/(?:^|\/)\./.test(path);
}

export interface Written<T> {
  readonly value: T;
  readonly place: Place;
}

/** Who a rule is for, as written. An e-mail address is in lower case. A group stands for its members. */
export type UserReference =
  | { readonly by: 'id'; readonly id: string; readonly place: Place }
  | { readonly by: 'name' | 'email' | 'group'; readonly name: string; readonly place: Place };

/** Where a rule leads, as written: a network, or the name of a `kind: Network`. */
export type DestinationReference =
  | { readonly network: Network; readonly place: Place }
  | { readonly networkName: string; readonly place: Place };

/** What is written by itself, or several in a list. */
export type OneOrList<T> = T | readonly T[];

export function isList<T>(written: OneOrList<T>): written is readonly T[] {
  return Array.isArray(written);
}

/** The ports of a template: ranges in written order, all of one type. */
export interface TemplatePorts {
  readonly type: PortType;
  readonly ranges: OneOrList<Written<PortRange>>;
}

/**
 * What one Rule, or one rule of a RuleSet, asks for, before it is expanded. A group or a network is a list: members of lists,
 * and only those, become part of an expanded rule's name, so that a name depends on what is written for it and never on its
 * neighbours. What is no list is half as large, and there may be 100,000.
 */
export interface RuleTemplate extends RuleNotes {
  /** `web` for a Rule, `contractors/web` for a rule of a set. */
  readonly name: string;
  readonly place: Place;
  readonly action: Action;
  readonly destinations: OneOrList<DestinationReference>;
  readonly ports: TemplatePorts | null;
  /** null: a global rule. */
  readonly users: OneOrList<UserReference> | null;
}

interface Named<K extends Kind> {
  readonly kind: K;
  readonly name: string;
  /** Where the name is written. */
  readonly place: Place;
}

/** A name for a user, by a UUID. */
type User = Readonly<Record<'name' | 'id', string>> & { readonly place: Place };

export interface GroupManifest extends Named<'Group'> {
  readonly members: readonly UserReference[];
}

export interface PolicyCaseTemplate extends Omit<PolicyCase, 'user' | 'at'> {
  readonly user: UserReference | 'any' | null;
  /** The rules of then are meant, ms since 1970. */
  readonly at?: number;
}

export interface OverlayManifest extends Named<'Overlay'> {
  /** Directories relative to the manifest root, with `/`; `.` is the root. */
  readonly bases: readonly Written<string>[];
  /** `Kind/name` of manifests of the bases that do not count here. */
  readonly remove: readonly Written<string>[];
}

/** A literal secret is as `Secret.toKey` gives it: files are parsed in threads. */
export type SecretSource =
  | { readonly from: 'env' | 'file'; readonly name: string; readonly place: Place }
  | { readonly from: 'literal'; readonly key: object | null; readonly place: Place };

/** Fields in canonical form, secrets not yet resolved. */
export type ConfigurationTemplate = Partial<ConfigurationFields<SecretSource>>;

export interface ConfigurationManifest extends Named<'Configuration'> {
  readonly fields: ConfigurationTemplate;
  readonly places: ConfigurationPlaces;
}

/** One validated document of a known kind and version. */
export type Manifest =
  | (Named<'Rule' | 'RuleSet'> & { readonly rules: readonly RuleTemplate[] })
  | (Named<'Users'> & { readonly users: readonly User[] })
  | GroupManifest
  | (Named<'Network'> & { readonly networks: readonly Written<Network>[] })
  | (Named<'PolicyTest'> & { readonly cases: readonly PolicyCaseTemplate[] })
  | OverlayManifest
  | ConfigurationManifest;

/** `# reconcile-ignore: CODE reason` at a line, or `# reconcile-ignore-file: CODE reason`. */
export interface Suppression {
  readonly code: string;
  readonly reason: string;
  readonly file: string;
  /** The line it covers: its own, or the next one with content when the comment stands alone; null: the whole file. */
  readonly line: number | null;
}

/** All that one file says. A function of its path, its bytes, the values and the profile; kept under their hash. */
export interface FileManifests {
  readonly path: string;
  readonly manifests: readonly Manifest[];
  readonly problems: readonly Problem[];
  readonly suppressions: readonly Suppression[];
  /** What reading the file cost: a number of units, the same on every machine. */
  readonly work: number;
}

/** A file of which nothing is read but what is wrong with it. */
export function refuseFile(path: string, problems: readonly Problem[]): FileManifests {
  return { path, manifests: [], suppressions: [], problems, work: 0 };
}
