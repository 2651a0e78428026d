import { createHash } from 'node:crypto';
import { mapSecrets } from '../model/configuration.ts';
import type { KnownUsers } from '../model/known-users.ts';
import { compareText } from '../model/problem.ts';
import { attempt, fail, isObject, ok, type Result } from '../model/result.ts';
import { compareRules, toWire } from '../model/rule.ts';
import { Secret } from '../model/secret.ts';
import type { LiveState } from '../model/state.ts';
import { decodeLiveConfiguration } from './live-configuration.ts';
import { decodeLiveRules, type LiveUser } from './live-rules.ts';

export const snapshotVersion = '1.0';

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/;

/** A live state as a file holds it: canonical, sorted, without any secret. */
export interface Snapshot {
  readonly takenAt: string;
  /** What the API would have answered, its secrets of unknown value, so that none of them causes a write. */
  readonly bodies: { readonly rules: unknown; readonly configuration: unknown };
  /** The same, read. */
  readonly live: LiveState;
  readonly users: KnownUsers;
}

/** The snapshot as a JSON value. The same live state gives the same value, whatever the order of the list. */
export function encodeSnapshot(live: LiveState, users: readonly LiveUser[], takenAt: string): unknown {
  const { configuration } = live;
  const rules = [...live.rules].sort((a, b) => compareRules(a.rule, b.rule) || compareText(a.id, b.id));
  const byEmail = users.map(({ email, id }) => [hashEmail(email), id] as const).sort(([a], [b]) => compareText(a, b));
  return {
    format_version: snapshotVersion,
    kind: 'snapshot',
    taken_at: takenAt,
    rules: rules.map(({ id, rule, destinationText: destination, insertedAt: inserted_at, updatedAt: updated_at }) => {
      return { id, ...toWire(rule), destination, inserted_at, updated_at };
    }),
    configuration: configuration && { id: configuration.id, ...mapSecrets(configuration.fields, () => undefined) },
    users: Object.fromEntries(byEmail),
  };
}

/** Reads a snapshot; the error is a sentence. */
export function decodeSnapshot(value: unknown): Result<Snapshot, string> {
  if (!isObject(value) || value['kind'] !== 'snapshot')
    return fail('it is not a snapshot made by `reconcile snapshot`');
  if (value['format_version'] !== snapshotVersion) return fail(`its format is not ${snapshotVersion}: take a new one`);
  const takenAt = value['taken_at'];
  // A snapshot may come from a stranger's branch, and this text is shown: `Date.parse` alone takes comments too.
  if (typeof takenAt !== 'string' || !isoTime.test(takenAt) || Number.isNaN(Date.parse(takenAt)))
    return fail('it does not say when it was taken');
  const fields = value['configuration'];
  // With a secret of unknown value for each provider. What is no configuration stays as it is, for the decoder to refuse.
  const known = isObject(fields) ? attempt(() => mapSecrets(fields, () => Secret.unknown()), fields) : fields;
  const bodies = { rules: { data: value['rules'] }, configuration: { data: known } };
  const rules = decodeLiveRules(bodies.rules);
  if (!rules.ok) return rules;
  const configuration = fields === null ? ok(null) : decodeLiveConfiguration(bodies.configuration);
  if (!configuration.ok) return configuration;
  const live = { rules: rules.value, configuration: configuration.value };
  return ok({ takenAt, bodies, live, users: hashedUsers(value['users']) });
}

/** Users by the SHA-256 of their e-mail address in lower case: enough to resolve, nothing to read. */
function hashedUsers(users: unknown): KnownUsers {
  const entries = isObject(users) ? Object.entries(users) : [];
  const byHash = new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  return { ids: new Set(byHash.values()), idOf: (email) => byHash.get(hashEmail(email)), emails: [] };
}

function hashEmail(email: string): string {
  return createHash('sha256').update(email.toLowerCase()).digest('hex');
}
