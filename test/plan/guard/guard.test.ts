import { describe, expect, it } from 'vitest';
import { formatRuleKey } from '../../../src/model/rule.ts';
import { Secret } from '../../../src/model/secret.ts';
import { findClosedWindow, parseSchedule } from '../../../src/plan/guard/windows.ts';
import type { PlanInput } from '../../../src/plan/input.ts';
import { makePlan } from '../../../src/plan/make-plan.ts';
import type { Refusal } from '../../../src/plan/plan.ts';
import { desiredRules, type InputParts, liveRules, planInput, rule, user } from '../support.ts';

function refusals(parts: InputParts, more: Partial<PlanInput> = {}): readonly Refusal[] {
  return makePlan(planInput(parts, more)).refusals;
}

function codes(parts: InputParts, more: Partial<PlanInput> = {}): readonly string[] {
  return refusals(parts, more).map(({ code }) => code);
}

/** `count` rules that have nothing to do with each other. */
function many(count: number): readonly string[] {
  return Array.from({ length: count }, (_, n) => `drop 10.${n}.0.0/16`);
}

const guarded = { allowEmpty: false, maxDeletes: { share: 0.3 } } as const;

describe('the guard on changes', () => {
  const limited = { allowEmpty: false, maxDeletes: { share: 0.3 }, maxChanges: { share: 0.5 } } as const;
  const live = liveRules(...many(10));
  /** The rules with the first `count` turned from drop to accept, and the next `gone` left out. */
  const turned = (count: number, gone = 0) =>
    desiredRules(
      ...many(10)
        .map((text, n) => (n < count ? text.replace('drop', 'accept') : text))
        .slice(0, 10 - gone),
    );

  it('refuses all rules turned from drop to accept, with its numbers and the ways out', () => {
    expect(refusals({ desired: turned(10), live, options: limited })).toContainEqual({
      code: 'too-many-changes',
      summary: '10 of 10 live rules in scope (100%) would be deleted or get another content; the limit is 50%.',
      hint: 'Check the changes; `--max-changes 10`, or `--approve` with the digest of this plan, allows them.',
    });
  });
  it('counts deletes and other contents together, from 10 live rules on', () => {
    const seen = (count: number, gone: number) => codes({ desired: turned(count, gone), live, options: limited });
    expect(seen(5, 0)).toEqual([]);
    expect(seen(3, 2)).toEqual([]);
    expect(seen(4, 2)).toEqual(['too-many-changes']);
    const few = many(9);
    const other = desiredRules(...few.map((text) => text.replace('drop', 'accept')));
    expect(
      codes({ desired: other, live: liveRules(...few), options: { ...limited, maxDeletes: { share: 1 } } }),
    ).toEqual([]);
    expect(codes({ desired: turned(1), live, options: { maxChanges: { count: 0 } } })).toEqual(['too-many-changes']);
  });
  it('counts no create, no new name and no rule that was modified in place', () => {
    const more = desiredRules(...many(30).map((text) => text));
    expect(codes({ desired: more, live, options: limited })).toEqual([]);
    const renamed = desiredRules(...many(10)).map((one) => ({ ...one, name: `new-${one.name}` }));
    expect(codes({ desired: renamed, live, options: limited })).toEqual([]);
    const modified = live.map((one) => ({ ...one, updatedAt: '2031-01-01T00:00:00.000000Z' }));
    const parts = {
      desired: desiredRules(...many(10)),
      live: modified,
      options: { ...limited, replaceModified: true },
    };
    expect(makePlan(planInput(parts)).steps.length).toBeGreaterThan(9);
    expect(codes(parts)).toEqual([]);
  });
  it('counts no correction of drift towards a base that was applied in full, and does where it is only a Git ref', () => {
    const desired = desiredRules(...many(10));
    const drifted = liveRules(...many(10).map((text) => text.replace('drop', 'accept')));
    const options = { ...limited, maxDeletes: { share: 1 } };
    const base = planInput({ desired }).desired;
    expect(codes({ desired, live: drifted, options }, { base, baseApplied: true })).toEqual([]);
    expect(codes({ desired, live: drifted, options }, { base })).toEqual(['too-many-changes']);
  });
});

describe('the guard on deletes', () => {
  it('refuses more than 30% of 10 or more live rules, with its numbers and the way out', () => {
    const found = refusals({ desired: desiredRules(...many(6)), live: liveRules(...many(10)), options: guarded });
    expect(found).toMatchObject([
      {
        code: 'too-many-deletes',
        summary: '4 of 10 live rules in scope (40%) would be deleted; the limit is 30%.',
        hint: 'Check the deletes; `--max-deletes 4` allows them.',
      },
    ]);
  });
  it('accepts exactly 30%, and any share of fewer than 10 rules', () => {
    expect(codes({ desired: desiredRules(...many(7)), live: liveRules(...many(10)), options: guarded })).toEqual([]);
    expect(codes({ desired: desiredRules(...many(2)), live: liveRules(...many(9)), options: guarded })).toEqual([]);
  });
  it('accepts exactly each share in whole percent, and refuses one rule more', () => {
    const live = liveRules(...many(100));
    const wrong = Array.from({ length: 70 }, (_, n) => n + 1).filter((percent) => {
      const desired = (left: number) => desiredRules(...many(left));
      const limits = { maxDeletes: { share: percent / 100 }, maxChanges: { share: percent / 100 } };
      const options = { allowEmpty: false, ...limits };
      const more = codes({ desired: desired(99 - percent), live, options });
      return codes({ desired: desired(100 - percent), live, options }).length > 0 || more.length !== 2;
    });
    expect(wrong).toEqual([]);
  });
  it('counts by number where a number is given, and takes 0% to mean none', () => {
    const parts = { desired: desiredRules(...many(7)), live: liveRules(...many(9)) };
    expect(codes({ ...parts, options: { maxDeletes: { count: 1 } } })).toEqual(['too-many-deletes']);
    expect(codes({ ...parts, options: { maxDeletes: { count: 2 } } })).toEqual([]);
    expect(codes({ ...parts, options: { maxDeletes: { share: 0 } } })).toEqual(['too-many-deletes']);
  });
  it('does not count a replaced rule', () => {
    const desired = desiredRules(...many(10).map((text) => text.replace('drop', 'accept')));
    expect(codes({ desired, live: liveRules(...many(10)), options: guarded })).toEqual([]);
  });
  it('counts live rules in scope only', () => {
    const live = liveRules(...many(10), 'drop 172.16.0.0/12 @alice');
    const scope = { rules: true, configuration: true, users: new Set([user('alice')]) };
    expect(codes({ live, options: { ...guarded, allowEmpty: true } }, { scope })).toEqual([]);
  });
  it('refuses to delete everything, one rule or many, without an explicit word', () => {
    expect(codes({ live: liveRules('drop 10.0.0.0/8'), options: guarded })).toEqual(['deletes-everything']);
    expect(codes({ live: liveRules('drop 10.0.0.0/8'), options: { ...guarded, allowEmpty: true } })).toEqual([]);
    const all = { live: liveRules(...many(50)), options: { ...guarded, maxDeletes: { share: 1 } } };
    expect(codes(all)).toEqual(['deletes-everything']);
    expect(codes({ ...all, desired: desiredRules('drop 8.8.8.8') })).toEqual(['deletes-everything']);
  });
  it('lets unrelated rules take the place of a few', () => {
    const parts = { desired: desiredRules('drop 8.8.8.8'), live: liveRules('drop 10.0.0.0/8'), options: guarded };
    expect(codes(parts)).toEqual([]);
  });
});

describe('the guard on collisions with what may not be deleted', () => {
  it('names both when pruning is off', () => {
    const parts = { desired: desiredRules('drop 10.1.0.0/16'), live: liveRules('drop 10.0.0.0/8') };
    const [refusal] = refusals({ ...parts, options: { prune: 'none' } });
    expect(refusal?.code).toBe('collides-with-kept');
    expect(refusal?.summary).toContain('`r1` (drop 10.1.0.0/16 *)');
    expect(refusal?.summary).toContain('l1 (drop 10.0.0.0/8 *)');
    expect(refusal?.related?.[0]?.place.line).toBe(1);
    expect(codes(parts)).toEqual([]);
  });
  it('names both when the live rule is out of scope', () => {
    const networks = [rule('drop 10.1.0.0/16').destination];
    const scope = { rules: true, configuration: true, networks };
    const parts = { desired: desiredRules('drop 10.1.0.0/16'), live: liveRules('drop 10.0.0.0/8') };
    expect(codes(parts, { scope })).toEqual(['collides-out-of-scope']);
  });
  it('names two desired rules that the server would not hold together', () => {
    expect(codes({ desired: desiredRules('drop 10.0.0.0/8', 'drop 10.1.0.0/16') })).toEqual(['desired-rules-collide']);
    const live = liveRules('drop 10.0.0.0/8');
    expect(codes({ desired: desiredRules('drop 10.0.0.0/8', 'drop 10.1.0.0/16'), live })).toEqual([
      'desired-rules-collide',
    ]);
  });
});

describe('the guard on sign-in', () => {
  const provider = {
    id: 'sso',
    label: 'SSO',
    base_url: null,
    metadata: Secret.of('<xml/>'),
    sign_requests: true,
    sign_metadata: true,
    signed_assertion_in_resp: true,
    signed_envelopes_in_resp: true,
    auto_create_users: true,
  };

  it('refuses a configuration that results in no way to sign in', () => {
    const fields = { local_auth_enabled: false };
    expect(codes({ fields })).toEqual(['locks-out']);
    expect(codes({ fields, options: { allowLockout: true } })).toEqual([]);
    expect(codes({ fields, liveFields: { saml_identity_providers: [provider] } })).toEqual([]);
    expect(codes({ fields: { ...fields, saml_identity_providers: [provider] } })).toEqual(['locks-out']);
  });
  it('judges fields that are not written by their live values', () => {
    const liveFields = { local_auth_enabled: false, saml_identity_providers: [provider] };
    expect(codes({ fields: { saml_identity_providers: [] }, liveFields })).toEqual(['locks-out']);
  });
  const entity = (id: string) => Secret.of(`<EntityDescriptor entityID="https://${id}.example"/>`);
  const saml = { ...provider, metadata: entity('idp') };
  const oidc = {
    id: 'g',
    label: 'G',
    scope: 'openid email',
    response_type: 'code',
    client_id: 'c',
    client_secret: Secret.of('s'),
    discovery_document_uri: 'https://idp.example/d',
    redirect_uri: null,
    auto_create_users: false,
  };
  it.each([
    [
      'an OIDC provider with another label and secret',
      { openid_connect_providers: [{ ...oidc, label: 'H', client_secret: Secret.of('t') }] },
      [],
    ],
    [
      'an OIDC provider with another client',
      { openid_connect_providers: [{ ...oidc, client_id: 'd' }] },
      ['locks-out'],
    ],
    [
      'an OIDC provider elsewhere',
      { openid_connect_providers: [{ ...oidc, discovery_document_uri: 'https://x.example/d' }] },
      ['locks-out'],
    ],
    ['an OIDC provider of another id', { openid_connect_providers: [{ ...oidc, id: 'h' }] }, ['locks-out']],
    ['the same beside a new one', { openid_connect_providers: [{ ...oidc, id: 'h' }, oidc] }, []],
    ['local sign-in instead', { openid_connect_providers: [], local_auth_enabled: true }, ['locks-out']],
  ])('refuses where no live way in stays as it is: %s', (_, fields, expected) => {
    const liveFields = { local_auth_enabled: false, openid_connect_providers: [oidc] };
    expect(codes({ fields, liveFields })).toEqual(expected);
  });
  it('knows a SAML provider by its id and entityID', () => {
    const liveFields = { local_auth_enabled: false, saml_identity_providers: [saml] };
    const judge = (metadata: Secret) =>
      codes({ fields: { saml_identity_providers: [{ ...saml, metadata }] }, liveFields });
    expect(
      judge(Secret.of('<x:EntityDescriptor a="b" entityID = \'https://idp.example\'></x:EntityDescriptor>')),
    ).toEqual([]);
    expect(judge(entity('evil'))).toEqual(['locks-out']);
  });
  it('refuses sessions of a few minutes where users may not manage their devices', () => {
    const off = { allow_unprivileged_device_management: false };
    const judge = (seconds: number, liveFields: object = off) =>
      codes({ fields: { vpn_session_duration: seconds }, liveFields });
    expect([1, 299].map((seconds) => judge(seconds))).toEqual([['locks-out'], ['locks-out']]);
    expect([0, 300].map((seconds) => judge(seconds))).toEqual([[], []]);
    expect(judge(60, { allow_unprivileged_device_management: true })).toEqual([]);
    expect(judge(60, { ...off, vpn_session_duration: 120 })).toEqual([]);
    expect(
      codes({ fields: off, liveFields: { vpn_session_duration: 60, allow_unprivileged_device_management: true } }),
    ).toEqual(['locks-out']);
  });
  it('does not stand in the way of other fields when nobody could sign in before', () => {
    expect(codes({ fields: { vpn_session_duration: 5 }, liveFields: { local_auth_enabled: false } })).toEqual([]);
  });
});

describe('guards on traffic', () => {
  const widened = { desired: desiredRules('drop 10.0.0.0/16'), live: liveRules('drop 10.0.0.0/24') };

  it('refuse a plan that opens traffic on the way, when asked to', () => {
    expect(codes(widened)).toEqual([]);
    const [refusal] = refusals({ ...widened, options: { maxExposure: 'none' } });
    expect(refusal?.code).toBe('opens-on-the-way');
    expect(refusal?.summary).toContain('up to about 26 ms');
  });
  it.each([
    ['ends access', '*accept 11.0.0.0/8', [], []],
    ['ends access, beside another that is deleted', '*accept 11.0.0.0/8', ['accept 12.0.0.0/8'], []],
    ['ends access, beside one that is not to end', '*accept 11.0.0.0/8', ['*accept 12.0.0.0/8'], ['opens-on-the-way']],
    ['ends a drop rule', '*drop 11.0.0.0/8', [], ['opens-on-the-way']],
  ])('refuse no rebuild of the filter on the way for a plan that %s', (_, ended, more, expected) => {
    const kept = 'drop 10.0.0.0/8';
    const [desired, expired] = [
      desiredRules(kept),
      desiredRules(ended.slice(1)).map((one) => ({ ...one, expires: 1 })),
    ];
    const input = planInput({ desired, live: liveRules(kept, ended, ...more), options: { maxExposure: 'none' } });
    const plan = makePlan({ ...input, desired: { ...input.desired, expired, at: 2 } });
    expect(plan.exposure).toMatchObject([{ direction: 'opened', expectedMs: 3000 }]);
    expect(plan.refusals.map(({ code }) => code)).toEqual(expected);
    const window = parseSchedule('* * * * *', 'UTC');
    if (!window.ok) throw new Error(window.error);
    const never = { kind: 'deny', schedule: window.value, durationMs: 3_600_000, scope: ['rules'] } as const;
    const isHeld = expected.length > 0 || plan.effect.opens.length > 0;
    expect(findClosedWindow([never], plan, 2) !== null).toBe(isHeld);
  });
  it('refuse what --fail-on names', () => {
    const opening = { live: liveRules('drop 10.0.0.0/8') };
    expect(codes({ ...opening, options: { failOn: ['opens'] } })).toEqual(['fail-on-opens']);
    expect(codes({ ...opening, options: { failOn: ['closes'] } })).toEqual([]);
    expect(codes({ ...widened, options: { failOn: ['closes', 'any'] } })).toEqual(['fail-on-closes', 'fail-on-any']);
    expect(codes({ ...opening, base: [], options: { failOn: ['drift'] } })).toEqual(['fail-on-drift']);
    expect(codes({ ...opening, options: { failOn: ['drift'] } })).toEqual([]);
  });
  it('refuse to open or cut off what is protected, for good or for a while', () => {
    const protect = [{ destination: rule('drop 10.0.0.5').destination, protocol: 'tcp', ports: null }] as const;
    const [refusal] = refusals({ ...widened, options: { protect } });
    expect(refusal?.code).toBe('protected-traffic');
    expect(refusal?.summary).toContain('would be opened for a while');
    expect(codes({ live: liveRules('drop 10.0.0.0/8'), options: { protect } })).toEqual(['protected-traffic']);
    expect(codes({ live: liveRules('drop 10.0.0.0/8 udp/80'), options: { protect } })).toEqual([]);
    expect(codes({ live: liveRules('drop 11.0.0.0/8'), options: { protect } })).toEqual([]);
  });

  it('name the rule that others made where taking it back is refused, and no other', () => {
    const protect = [{ destination: rule('drop 10.9.0.0/24').destination, protocol: null, ports: null }] as const;
    const applied = desiredRules('drop 10.0.0.0/8');
    const live = liveRules('drop 10.0.0.0/8', 'accept 10.9.0.0/24', 'accept 10.10.0.0/24');
    const drifted = { desired: applied, base: applied, live, options: { protect } };
    const [refusal] = makePlan(planInput(drifted, { baseApplied: true })).refusals;
    expect(refusal?.summary).toContain('would be closed');
    expect(refusal?.hint).toContain(
      'Others made accept 10.9.0.0/24. To take it back, approve this plan, or do it by hand on the server',
    );
    const [own] = refusals({ ...drifted, base: desiredRules('drop 10.0.0.0/8', 'accept 10.9.0.0/24') });
    expect(own?.hint).toContain('Change the manifests');
  });

  it('protect the traffic of a user whom no rule names', () => {
    const user = 'c1520c4b-adc3-4574-932a-94461cf85c07';
    const protect = [{ destination: rule('drop 10.0.0.5').destination, protocol: null, ports: null, user }] as const;
    const [refusal] = refusals({ live: liveRules('drop 10.0.0.0/8'), options: { protect } });
    expect(refusal?.code).toBe('protected-traffic');
    expect(refusal?.summary).toContain(user);
  });
});

it('refuses what opens or closes more traffic than can be listed, but neither going back nor an end as it was applied', () => {
  const open = Array.from({ length: 1000 }, (_, n) => `accept 10.1.${n >> 8}.${n & 255} tcp/${n + 1}`);
  const own = Array.from({ length: 1300 }, (_, n) => `accept 10.2.0.1 @u${n}`);
  const all = [...open, ...own];
  const [base = '', widest = ''] = ['drop 10.0.0.0/8', 'accept 10.0.0.0/8'];
  const parts = { desired: desiredRules(base, ...all), live: liveRules(...all) };
  expect(codes(parts)).toEqual(['too-much-traffic']);
  expect(codes({ ...parts, options: { goesBack: true } })).toEqual([]);
  const ended = desiredRules(widest).map((one) => ({ ...one, expires: 5 }));
  const gone = { ...parts, live: liveRules(base, ...all, widest) };
  const [state, key] = [planInput(gone).desired, formatRuleKey(rule(widest))];
  const desired = { ...state, at: 10, expired: ended };
  expect(makePlan(planInput(gone, { desired })).refusals.map(({ code }) => code)).toEqual(['too-much-traffic']);
  const appliedRules = new Map(ended.map((one) => [key, one]));
  expect(makePlan(planInput(gone, { desired, appliedRules })).refusals).toEqual([]);
  // A rule that stays beside it is no change.
  const beside = planInput({
    ...gone,
    live: [...gone.live, ...liveRules('accept 11.0.0.0/8')],
    options: { prune: 'none' },
  });
  expect(makePlan({ ...beside, desired, appliedRules }).refusals).toEqual([]);
});
