import { expect, test } from 'vitest';
import { judgeSettled, type Settled } from '../../src/apply/outcome.ts';

const failed = (status: number | null): Settled => ({ outcome: 'failed', status });

/** Each row is what the recordings show, or what HTTP says of the status (RFC 9110, 6585). */
test.each<readonly [Settled, Omit<ReturnType<typeof judgeSettled>, 'mayLand'>]>([
  [
    { outcome: 'done', status: 201 },
    { mayBeDone: true, again: 'never' },
  ],
  [
    { outcome: 'skipped', status: 422 },
    { mayBeDone: false, again: 'never' },
  ], // recordings/rule_overlap
  [
    { outcome: 'done', status: 404, byOther: true },
    { mayBeDone: false, again: 'never' },
  ], // recordings/concurrency
  [
    { outcome: 'dropped', status: null },
    { mayBeDone: false, again: 'replanned' },
  ],
  [
    { ...failed(null), surprise: true },
    { mayBeDone: false, again: 'replanned' },
  ],
  // The look before it had no answer, or one that says nothing of the request.
  [
    { ...failed(null), noAnswer: 'timeout', surprise: true },
    { mayBeDone: false, again: 'soon' },
  ],
  [
    { ...failed(403), noAnswer: 'forbidden', surprise: true },
    { mayBeDone: false, again: 'soon' },
  ],
  [
    { ...failed(null), noAnswer: 'refused' },
    { mayBeDone: false, again: 'soon' },
  ],
  [failed(401), { mayBeDone: false, again: 'soon' }], // recordings/auth
  [failed(429), { mayBeDone: false, again: 'soon' }],
  [failed(422), { mayBeDone: false, again: 'never' }], // recordings/configuration_fields
  [
    { ...failed(422), noAnswer: 'provider' },
    { mayBeDone: false, again: 'soon' },
  ], // recordings/configuration_oidc
  [failed(403), { mayBeDone: true, again: 'never' }],
  [failed(408), { mayBeDone: true, again: 'soon' }],
  [failed(500), { mayBeDone: true, again: 'soon' }], // recordings/operations_db_outage
  [
    { outcome: 'unknown', status: 504 },
    { mayBeDone: true, again: 'soon' },
  ],
  [
    { outcome: 'unknown', status: null, noAnswer: 'reset' },
    { mayBeDone: true, again: 'soon' },
  ],
  // A success that could not be read, and an overlap where the list could not be.
  [
    { outcome: 'unknown', status: 200 },
    { mayBeDone: true, again: 'soon' },
  ],
  [
    { outcome: 'unknown', status: 422 },
    { mayBeDone: true, again: 'soon' },
  ],
  [failed(200), { mayBeDone: true, again: 'perhaps' }],
  [failed(404), { mayBeDone: true, again: 'perhaps' }],
  [failed(409), { mayBeDone: true, again: 'perhaps' }],
])('a request that ended with %j is judged as %j', (settled, expected) => {
  const { mayLand, ...judged } = judgeSettled(settled);
  expect([judged, mayLand]).toEqual([expected, settled.outcome === 'unknown']);
});

/** A request that was sent before, and had no answer, may be carried out however its repetition ended. */
test.each<Settled>([
  { outcome: 'done', status: 201, mayLand: true },
  { outcome: 'unknown', status: 422, mayLand: true },
  { outcome: 'failed', status: 201, restored: true, mayLand: true },
])('%j may be carried out yet', (settled) => {
  expect(judgeSettled(settled)).toMatchObject({ mayBeDone: true, mayLand: true });
});
