import { describe, expect, it } from 'vitest';
import { joinRuns, judge, type PassRun, type Verdict } from '../../src/controller/pass-ending.ts';
import type { OidcProvider } from '../../src/model/configuration.ts';
import { Secret } from '../../src/model/secret.ts';
import type { PassResult } from '../../src/pass/pass.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { planInput } from '../plan/support.ts';

const provider = {
  id: 'sso',
  label: 'SSO',
  scope: 'openid email profile',
  response_type: 'code',
  client_id: 'client',
  discovery_document_uri: 'https://sso.example/.well-known/openid-configuration',
  redirect_uri: null,
  auto_create_users: false,
};

function inSync(secret: Secret, live: readonly OidcProvider[] = []): PassResult {
  const liveFields = { openid_connect_providers: live };
  const fields = { openid_connect_providers: [{ ...provider, client_secret: secret }] };
  const plan = makePlan(planInput({ fields, liveFields }));
  return { end: 'in-sync', plan, problems: plan.problems } as unknown as PassResult;
}

describe('the verdict on a pass', () => {
  it('is not good when a field is known to differ and waits for a secret, and names the field', () => {
    expect(judge(inSync(Secret.unknown()), null)).toMatchObject({
      kind: 'terminal',
      reason: 'SecretMissing',
      message: expect.stringContaining('`openid_connect_providers` differs'),
    });
    const { plan } = inSync(Secret.of('known'));
    expect(plan?.steps).toHaveLength(1);
  });

  it('is good when all that is not known is whether a secret differs: unknown is no difference', () => {
    const result = inSync(Secret.unknown(), [{ ...provider, client_secret: Secret.of('whatever is live') }]);
    expect(result.plan?.changes[0]?.reason).toBe('unknown-secret');
    expect(judge(result, null)).toMatchObject({ kind: 'good', reason: 'InSync' });
  });
});

describe('the verdict on two passes, one over each part', () => {
  const run = (verdict: Verdict): PassRun => ({ result: null, verdict, outcomes: [], isDrift: false });
  const join = (rules: Verdict, configuration: Verdict) => joinRuns(run(rules), run(configuration), 'r1').verdict;
  const lacks = { kind: 'terminal', reason: 'SecretMissing', message: '`sso` differs, and is not sent.' } as const;
  const refused = { kind: 'terminal', reason: 'Refused', message: 'too many' } as const;

  it('says what the part lacks that is in effect', () => {
    const clock = { kind: 'held', reason: 'ClockDiffers', message: 'the clocks differ; set them' } as const;
    expect(join(refused, lacks).message).toBe(
      'the Configuration of r1 is in effect, but for this: `sso` differs, and is not sent; its rules are not: too many',
    );
    expect(join(clock, refused).message).toBe(
      'the rules of r1 are in effect, but for this: the clocks differ; set them; its Configuration is not: too many',
    );
  });

  it('says why the other part is not in effect, also where that is tried again', () => {
    const failed = { kind: 'transient', reason: 'ApplyFailed', message: 'the server answered 502' } as const;
    expect(join(failed, lacks)).toMatchObject({
      reason: 'SecretMissing',
      message: expect.stringMatching(/but for this: .*; its rules are not: the server answered 502$/),
    });
  });

  it('adds nothing where both parts are in effect', () => {
    expect(join({ kind: 'good', reason: 'InSync', message: 'agrees' }, lacks).message).toBe(lacks.message);
  });
});
