import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OidcProvider } from '../../src/model/configuration.ts';
import { type FingerprintKey, Secret } from '../../src/model/secret.ts';
import { digestPlan, type PlanDigest } from '../../src/plan/digest.ts';
import type { PlanInput } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { desiredRules, liveRules, planInput } from './support.ts';

const key = new Uint8Array([1, 2, 3]) as FingerprintKey;
const otherKey = new Uint8Array([4, 5, 6]) as FingerprintKey;

function digestOf(input: PlanInput, under: FingerprintKey | null = key): PlanDigest {
  return digestPlan(makePlan(input), { desired: input.desired, live: input.live, key: under });
}

/** The names of the parts in which two digests differ. */
function moved(a: PlanDigest, b: PlanDigest): readonly string[] {
  return Object.keys(a).filter((part) => a[part as keyof PlanDigest] !== b[part as keyof PlanDigest]);
}

function provider(secret: Secret): OidcProvider {
  return {
    id: 'sso',
    label: 'SSO',
    scope: 'openid email profile',
    response_type: 'code',
    client_id: 'id',
    client_secret: secret,
    discovery_document_uri: 'https://sso.example/.well-known/openid-configuration',
    redirect_uri: null,
    auto_create_users: true,
  };
}

const desired = desiredRules('accept 10.0.0.0/8', 'drop 10.0.0.0/16 tcp/22 @alice', 'drop 192.168.0.0/16');
const live = liveRules('drop 10.0.0.0/24 tcp/22 @alice', 'drop 192.168.1.0/24', 'accept 172.16.0.0/12');
const input = planInput({ desired, live });

describe('the digest of a plan', () => {
  it('does not depend on timestamps or the order of the list', () => {
    const expected = digestOf(input);
    fc.assert(
      fc.property(fc.shuffledSubarray([...live], { minLength: live.length }), (shuffled) => {
        const rules = shuffled.map((rule, n) => ({ ...rule, insertedAt: `t${n}`, updatedAt: `t${n}` }));
        expect(digestOf({ ...input, live: { ...input.live, rules } })).toEqual(expected);
      }),
    );
  });

  it('moves with the live state when another rule appeared, or one was modified in place', () => {
    const more = { ...input, live: { ...input.live, rules: [...live, ...liveRules('*drop 8.8.8.8')] } };
    expect(moved(digestOf(input), digestOf(more))).toEqual(['plan', 'live', 'steps']);
    const modified = live.map((rule) => ({ ...rule, updatedAt: 'later' }));
    expect(moved(digestOf(input), digestOf({ ...input, live: { ...input.live, rules: modified } }))).toContain('live');
  });

  it('is the same for a list that was digested before as for a copy of it', () => {
    const again = { ...input, live: { ...input.live, rules: [...input.live.rules] } };
    for (const one of [input, { ...input, base: null }]) expect(digestOf(one)).toEqual(digestOf(again));
    expect(digestOf(planInput({ desired })).live).toBe('44136fa355b3678a1146ad16f7e8649e');
  });

  it('moves with the manifests alone when only they changed', () => {
    const edited = { ...input, desired: { ...input.desired, digest: 'other' } };
    expect(moved(digestOf(input), digestOf(edited))).toEqual(['plan', 'manifests']);
  });

  it('tells another API token from anything else', () => {
    expect(moved(digestOf(input), digestOf(input, otherKey))).toEqual(['key']);
    expect(digestOf(input, null).key).toBeNull();
  });

  it('moves when a secret behind a reference changed, and holds none', () => {
    const before = planInput({ fields: { openid_connect_providers: [provider(Secret.of('canary-one'))] } });
    const after = planInput({ fields: { openid_connect_providers: [provider(Secret.of('canary-two'))] } });
    expect(moved(digestOf(before), digestOf(after))).toEqual(['plan', 'manifests']);
    expect(JSON.stringify(digestOf(before))).not.toContain('canary');
  });

  it('says when a secret is not available here', () => {
    const unknown = planInput({ fields: { openid_connect_providers: [provider(Secret.unknown())] } });
    expect(digestOf(unknown).unknownSecrets).toBe(true);
    expect(digestOf(input).unknownSecrets).toBe(false);
  });
});
